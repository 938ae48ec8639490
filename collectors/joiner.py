"""Two leaves that make one row are joined: peak and mean, pause time and frames, marked packets and all packets.

In: halves of rows, of all profiles' targets. Out: whole rows. Halves belong together if they are of one kind, port,
queue and side, and of one time. A half whose other half the target tells too waits for it, until a later one comes or
`flush` says that it has waited for long enough; at most one half waits of each group.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectors.readings import Halves
from stream.kinds import UNKNOWN

Column = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_SLOT_BIT, _FLEET_BIT = 28, 48
_GROUPS, _SLOTS = (1 << _SLOT_BIT) - 1, (1 << (_FLEET_BIT - _SLOT_BIT)) - 1


class Joined(NamedTuple):
    """Columns of whole rows; a measure that nobody told is UNKNOWN."""

    fleet: Column
    slot: Column
    group: Column
    value: Column
    extra: Column
    span_ns: Column
    time_ns: Column
    seen_ns: Column
    quality: Column


class _Waiting(NamedTuple):
    key: Column
    both: Column
    half: Column
    alone: Column
    value: Column
    span_ns: Column
    time_ns: Column
    seen_ns: Column
    quality: Column

    def of(self, which: npt.NDArray[np.int64] | Bools) -> _Waiting:
        return _Waiting(*(column[which] for column in self))


_TYPES = (np.int64, np.bool_, np.uint8, np.bool_, np.int64, np.int64, np.int64, np.int64, np.uint8)


class Joiner:
    """Halves that wait, and what was met."""

    def __init__(self, counted: Counter[str]) -> None:
        self._counted = counted
        self._waiting = _Waiting(*(np.zeros(0, of) for of in _TYPES))
        self._added: list[_Waiting] = []

    def add(self, fleet: int, halves: Halves, both: Bools) -> None:
        """Takes halves of one fleet; `both` says whether the target tells both halves of the group."""
        key = (np.int64(fleet) << _FLEET_BIT) | (halves.slot << _SLOT_BIT) | halves.group
        self._added.append(
            _Waiting(
                key, both, halves.half, halves.alone, halves.value, halves.span_ns, halves.time_ns, halves.seen_ns,
                halves.quality,
            )
        )  # fmt: skip

    def join(self) -> Joined:
        """The rows of what was added, in its order as far as they are whole."""
        parts = [self._waiting, *self._added]
        self._added = []
        halves = _Waiting(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        if not len(halves.key):
            return _rows(halves, np.zeros(0, np.int64), np.zeros(0, np.int64))
        order = np.lexsort((halves.half, halves.time_ns, halves.key))
        key, time_ns, half = halves.key[order], halves.time_ns[order], halves.half[order]
        same = (key[1:] == key[:-1]) & (time_ns[1:] == time_ns[:-1])
        again = np.concatenate(([False], same & (half[1:] == half[:-1])))
        self._counted["rows_told_twice"] += int(again.sum())
        order = order[~again]
        key, time_ns, half = key[~again], time_ns[~again], half[~again]
        pair = np.concatenate(((key[1:] == key[:-1]) & (time_ns[1:] == time_ns[:-1]), [False]))
        second = np.concatenate(([False], pair[:-1]))
        last = np.concatenate((key[1:] != key[:-1], [True]))
        single = ~pair & ~second
        waits = single & last & halves.both[order]
        self._waiting = halves.of(order[waits])
        lone = order[single & ~waits]
        return self._emit(halves, order[pair], order[np.flatnonzero(pair) + 1], lone)

    def flush(self, before_ns: int) -> Joined:
        """The halves of before this time as rows of their own: what they wait for does not come."""
        halves = self._waiting
        old = halves.time_ns < before_ns
        self._waiting = halves.of(~old)
        none = np.zeros(0, np.int64)
        return self._emit(halves, none, none, np.flatnonzero(old))

    def forget(self, fleet: int, slot: int) -> None:
        """Drops the halves of a target."""
        mine = self._waiting.key >> _SLOT_BIT == (fleet << (_FLEET_BIT - _SLOT_BIT)) | slot
        self._waiting = self._waiting.of(~mine)

    def oldest(self) -> tuple[Ints, Ints, Ints]:
        """Fleet, slot and time of each half that waits."""
        key = self._waiting.key
        return key >> _FLEET_BIT, (key >> _SLOT_BIT) & _SLOTS, self._waiting.time_ns

    def _emit(self, halves: _Waiting, first: Ints, second: Ints, lone: Ints) -> Joined:
        no_row = ~halves.alone[lone]
        self._counted["second_measures_without_a_first"] += int((no_row & halves.both[lone]).sum())
        lone = lone[~no_row]
        of_second = halves.half[lone] == 1
        firsts = np.concatenate((first, np.where(of_second, -1, lone)))
        seconds = np.concatenate((second, np.where(of_second, lone, -1)))
        by_arrival = np.argsort(np.maximum(firsts, seconds), kind="stable")
        return _rows(halves, firsts[by_arrival], seconds[by_arrival])


def _rows(halves: _Waiting, first: Ints, second: Ints) -> Joined:
    """Rows of a first and a second half each; -1 is none."""
    if not len(halves.key):
        none = np.zeros(0, np.int64)
        return Joined(none, none, none, none, none, none, none, none, np.zeros(0, np.uint8))
    shown = np.where(first >= 0, first, second)
    other = np.where(second >= 0, second, shown)
    key = halves.key[shown]
    # An instant beside a window is a part of the window.
    span_ns = np.maximum(halves.span_ns[shown], halves.span_ns[other])
    return Joined(
        key >> _FLEET_BIT,
        (key >> _SLOT_BIT) & _SLOTS,
        key & _GROUPS,
        np.where(first >= 0, halves.value[first], UNKNOWN),
        np.where(second >= 0, halves.value[second], UNKNOWN),
        span_ns,
        halves.time_ns[shown],
        np.maximum(halves.seen_ns[shown], halves.seen_ns[other]),
        halves.quality[shown] | halves.quality[other],
    )
