"""What each path id of the decoder means under one profile, looked up once a path and then an array read a row.

In: path ids. Out: the number of a leaf (what is counted of which port and queue), or of a slow entry (a fact, a field
of an event), or nothing. A leaf gives to halves of rows; a group is the rows of one kind, port, queue and side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from collectors.below import Below
from collectors.pattern import Element, Pattern, without_module
from collectors.profile import ERROR_CODES, SIDE_CODES, Fact, Profile, Record, Row, measures
from stream.kinds import ESTIMATED, EXACT, UNKNOWN
from stream.ranges import MAX_NAME_CHARS

Int32s = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

NOT_SEEN, NOTHING, SLOW = -2, -1, -16
"""Of a path id: not looked up yet, without a meaning; from SLOW downwards the number of a slow entry."""
MAX_PORTS = 65_535
MAX_PORTS_A_DEVICE = 4096
"""So many ports' names may come from one device: what it invents must leave the others of its profile theirs."""
NO_PERIOD = -1

(COUNTER, GAUGE, PEAK_SINCE_READ, PEAK_OVER_WINDOW, SETTING, STATE, FOUND, RESTORED, STOPPED) = range(9)
SEMANTICS = {
    "counter": COUNTER, "gauge": GAUGE, "peak_since_read": PEAK_SINCE_READ, "peak_over_window": PEAK_OVER_WINDOW,
    "setting": SETTING, "state": STATE, "found": FOUND, "restored": RESTORED, "stopped": STOPPED,
}  # fmt: skip
_QUALITY = {"": 0, "EXACT": EXACT, "ESTIMATED": ESTIMATED}
NO_DIMENSION, PRIORITY, QUEUE, GROUP = range(4)
DIMENSIONS = {"priority": PRIORITY, "queue": QUEUE, "queue_name": QUEUE, "group": GROUP}

# What bounds the speed of a counter: its port's line rate in bytes, packets, pause quanta or FEC code words, time
# itself, or how often a queue can be stuck.
OF_BYTES, OF_PACKETS, OF_TIME, OF_QUANTA, OF_EVENTS, OF_STORMS = range(6)
_BOUNDS = {
    "bytes": OF_BYTES, "cells": OF_BYTES, "frames": OF_PACKETS, "packets": OF_PACKETS, "events": OF_EVENTS,
    "flag": OF_EVENTS, "quanta": OF_QUANTA, "ns": OF_TIME, "us": OF_TIME, "ms": OF_TIME, "s": OF_TIME,
}  # fmt: skip
NS_OF = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
QUANTUM_BITS = 512
"""IEEE 802.3, 31B.2: a pause quantum is 512 bit times of the port."""


class Paths(Protocol):
    """The decoder's table of paths."""

    @property
    def generation(self) -> int: ...

    def path(self, path_id: int, /) -> CanonicalPath: ...

    def __len__(self) -> int: ...


class CanonicalPath(Protocol):
    """A path of the decoder: elements with sorted keys."""

    @property
    def elems(self) -> tuple[Element, ...]: ...


class Leaves(NamedTuple):
    """Columns by leaf number. Halves of leaf i are first_half[i]:first_half[i + 1].

    `period_ns` is how often it comes: 0 = as often as the target's counters, but no more often than `least_period_ns`;
    NO_PERIOD = when it changes.
    """

    semantics: Bytes
    row: Int32s
    port: Int32s
    bound: Bytes
    bits: Bytes
    numerator: Ints
    denominator: Ints
    window_ns: Ints
    quality: Bytes
    period_ns: Ints
    least_period_ns: Ints
    first_half: Int32s


class Halves(NamedTuple):
    """Columns by half number: whose row it is a part of, which part, and whether that makes a row by itself."""

    group: Int32s
    half: Bytes
    alone: npt.NDArray[np.bool_]


class Groups(NamedTuple):
    """Columns by group number; `code` is the second measure of rows whose second measure no leaf tells."""

    kind: Bytes
    port: Int32s
    dimension: Bytes
    number: Bytes
    side: Bytes
    code: Ints


class Slow(NamedTuple):
    """A fact's leaf, or a field of an event: read one by one, since there are few."""

    fact: Fact | None
    record: Record | None
    field: str
    container: tuple[Element, ...]
    captured: dict[str, str]


class PathMap:
    """All paths of one profile. `counted` tells of paths that could not be given a meaning."""

    def __init__(self, profile: Profile, paths: Paths) -> None:
        self.profile = profile
        self.counted: Counter[str] = Counter()
        self.ports: list[str] = []
        self.slow: list[Slow] = []
        self.words: dict[int, dict[str, int]] = {
            number: dict(row.values) for number, row in enumerate(profile.row) if row.values
        }
        """By row of the profile, what its words mean."""
        self._paths = paths
        self._generation = paths.generation
        self._code_of: Int32s = np.zeros(0, np.int32)
        self._refused: set[tuple[int, str]] = set()
        """Paths of ports whose names a device may not bring, with that device."""
        self._port_numbers: dict[str, int] = {}
        self._ports_of: Counter[str] = Counter()
        """By device, how many names of ports it brought."""
        self._slow_numbers: dict[tuple[Element, ...], int] = {}
        self._rows = [
            (number, row, pattern) for number, row in enumerate(profile.row) for pattern in map(Pattern, row.paths)
        ]
        self._periods_ns = [_periods_ns(profile, row) for row in profile.row]
        self._facts = [(fact, pattern) for fact in profile.fact for pattern in map(Pattern, fact.paths)]
        self._records = [(record, Pattern(record.path)) for record in profile.record]
        self._queue_patterns = [re.compile(text) for text in profile.queue_names.patterns]
        self._leaf_numbers: dict[tuple[int, int, int], int] = {}
        self._group_numbers: dict[tuple[int, int, int, int, int, int], int] = {}
        self._claimed: dict[tuple[int, int], int] = {}
        self._leaf_rows: list[tuple[int, ...]] = []
        self._leaves_below = Below()
        self._slow_below = Below()
        self._half_rows: list[tuple[int, int, bool]] = []
        self._group_rows: list[tuple[int, int, int, int, int, int]] = []
        self._first_half: list[int] = [0]
        self._changed = False
        self.leaves = Leaves._make([*(np.zeros(0, of) for of in _LEAF_TYPES), np.zeros(1, np.int32)])
        self.halves = Halves(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.bool_))
        self.groups = Groups._make(np.zeros(0, of) for of in _GROUP_TYPES)

    @property
    def outdated(self) -> bool:
        """Whether the decoder's table began anew since this one did."""
        return self._generation != self._paths.generation

    def begin_anew(self, kept: Callable[[Slow], bool]) -> None:
        """Forgets what was looked up. Slow entries get other numbers, those that are `kept`, and the rest is gone."""
        self._generation = self._paths.generation
        self._code_of = np.zeros(0, np.int32)
        self._refused.clear()
        slow, self.slow = self.slow, []
        self._slow_numbers, self._slow_below = {}, Below()
        for entry in slow:
            if kept(entry):
                self._slow(entry)

    def codes(self, path_ids: Int32s, targets: Ints, devices: Callable[[int], str]) -> Int32s:
        """Of each path its leaf, or NOTHING, or SLOW minus the number of its slow entry; NOT_SEEN where its port's
        name is refused. `targets` says who told each, `devices` whose ports' names they are.
        """
        assert not self.outdated
        if (known := len(self._code_of)) < len(self._paths):
            grown = np.full(max(len(self._paths), 2 * known, 1024), NOT_SEEN, np.int32)
            grown[:known] = self._code_of
            self._code_of = grown
        codes = self._code_of[path_ids]
        unseen = codes == NOT_SEEN
        if unseen.any():
            for both in np.unique(path_ids[unseen].astype(np.int64) << 32 | targets[unseen]).tolist():
                path_id, device = both >> 32, devices(both & 0xFFFFFFFF)
                if self._code_of[path_id] != NOT_SEEN or (path_id, device) in self._refused:
                    continue
                self._code_of[path_id] = code = self._look_up(self._elements(path_id), device)
                if code == NOT_SEEN:
                    self._refused.add((path_id, device))
            self._refresh()
            codes = self._code_of[path_ids]
        return codes

    def below(self, path_id: int) -> tuple[Ints, list[int]]:
        """The leaves and the slow entries at or below a path."""
        prefix = self._elements(path_id)
        return np.array(self._leaves_below.find(prefix), np.int64), self._slow_below.find(prefix)

    def _elements(self, path_id: int) -> tuple[Element, ...]:
        elements: list[Element] = []
        for name, keys in self._paths.path(path_id).elems:
            if not name and keys and elements:
                # Junos sends a list's keys as an element of their own.
                last, last_keys = elements.pop()
                elements.append((last, (*last_keys, *keys)))
            elif self.profile.modules:
                elements.append((without_module(name), tuple((without_module(key), value) for key, value in keys)))
            else:
                elements.append((name, keys))
        return tuple(elements)

    def _look_up(self, elements: tuple[Element, ...], device: str) -> int:
        if not elements:
            return NOTHING
        leaf = elements[-1][0]
        for number, row, pattern in self._rows:
            if pattern.leaf in (leaf, None) and (captured := pattern.match(elements)) is not None:
                return self._leaf(number, row, captured, elements, device)
        for fact, pattern in self._facts:
            if pattern.leaf in (leaf, None) and (captured := pattern.match(elements)) is not None:
                return self._slow(Slow(fact, None, leaf, elements[:-1], captured))
        for record, pattern in self._records:
            if leaf in record_fields(record) and (captured := pattern.match(elements[:-1])) is not None:
                return self._slow(Slow(None, record, leaf, elements[:-1], captured))
        self.counted["paths_without_meaning"] += 1
        return NOTHING

    def _slow(self, entry: Slow) -> int:
        # Several spellings are one path.
        elements = *entry.container, (entry.field, ())
        if (number := self._slow_numbers.get(elements)) is not None:
            return SLOW - number
        self._slow_numbers[elements] = len(self.slow)
        self.slow.append(entry)
        self._slow_below.add(elements)
        return SLOW - (len(self.slow) - 1)

    def _leaf(self, number: int, row: Row, captured: dict[str, str], elements: tuple[Element, ...], device: str) -> int:
        place = self._place(captured)
        if place is None:
            return NOTHING
        port = self.port(captured.get("port") or row.port, device)
        if port is None:
            return NOT_SEEN
        dimension, index = place
        key = number, port, dimension << 8 | index
        if (leaf := self._leaf_numbers.get(key)) is not None:
            return leaf
        for measured in measures(row.into):
            code = _second_measure(row, measured.kind.name, measured.kind.extra.name)
            group = self._group((measured.kind.code, port, dimension, index, SIDE_CODES[row.side], code))
            shared = row.semantics in ("state", "found", "restored")
            if not shared and self._claimed.setdefault((group, measured.half), number) != number:
                # Two rows of the profile tell one measure of one queue: the first that the device tells counts.
                self.counted["leaves_told_twice"] += 1
                continue
            self._half_rows.append((group, measured.half, row.alone or measured.half == 0))
        numerator, denominator = row.scale
        if row.unit in NS_OF and measures(row.into)[0].kind.value.unit == "ns":
            numerator *= NS_OF[row.unit]
        self._leaf_rows.append(
            (
                SEMANTICS[row.semantics], number, port,
                OF_STORMS if row.semantics in ("found", "restored") else _BOUNDS[row.unit], row.bits,
                numerator, denominator, row.window_ms * 1_000_000, _QUALITY[row.quality], *self._periods_ns[number],
            )
        )  # fmt: skip
        self._leaves_below.add(elements)
        self._first_half.append(len(self._half_rows))
        self._changed = True
        leaf = self._leaf_numbers[key] = len(self._leaf_rows) - 1
        return leaf

    def port(self, name: str, device: str) -> int | None:
        """The number of a port's name, None for one that no record could name, or that is one too many of a device."""
        number = self._port_numbers.get(name)
        if number is not None:
            return number
        full = len(self.ports) >= MAX_PORTS or self._ports_of[device] >= MAX_PORTS_A_DEVICE
        if full or not 0 < len(name) <= MAX_NAME_CHARS or not _encodes(name):
            self.counted["ports_refused"] += 1
            return None
        self._ports_of[device] += 1
        self.ports.append(name)
        self._port_numbers[name] = len(self.ports) - 1
        return len(self.ports) - 1

    def queue_number(self, name: str) -> int | None:
        """The number of a queue by its name, None if the profile does not know the name."""
        names = self.profile.queue_names
        if name in names.numbers:
            return names.numbers[name]
        for pattern in self._queue_patterns:
            if (found := pattern.fullmatch(name)) and found[1] is not None and found[1].isdecimal():
                return int(found[1]) if len(found[1]) <= 3 else None
        return None

    def _place(self, captured: dict[str, str]) -> tuple[int, int] | None:
        """Priority, queue or group and its number."""
        for name, dimension in DIMENSIONS.items():
            if name in captured:
                number = self.queue_number(captured[name]) if name == "queue_name" else int(captured[name])
                if number is None or number > 255:
                    self.counted["queue_names_unknown"] += 1
                    return None
                return dimension, number
        return NO_DIMENSION, 0

    def _group(self, key: tuple[int, int, int, int, int, int]) -> int:
        number = self._group_numbers.get(key)
        if number is None:
            number = self._group_numbers[key] = len(self._group_rows)
            self._group_rows.append(key)
        return number

    def _refresh(self) -> None:
        if not self._changed:
            return
        self._changed = False
        columns = zip(*self._leaf_rows, strict=True)
        told = (np.array(column, of) for column, of in zip(columns, _LEAF_TYPES, strict=True))
        self.leaves = Leaves._make([*told, np.array(self._first_half, np.int32)])
        group, half, alone = zip(*self._half_rows, strict=True) if self._half_rows else ((), (), ())
        self.halves = Halves(np.array(group, np.int32), np.array(half, np.uint8), np.array(alone, np.bool_))
        if self._group_rows:
            columns = zip(*self._group_rows, strict=True)
            self.groups = Groups._make(np.array(column, of) for column, of in zip(columns, _GROUP_TYPES, strict=True))


_LEAF_TYPES = (
    np.uint8,
    np.int32,
    np.int32,
    np.uint8,
    np.uint8,
    np.int64,
    np.int64,
    np.int64,
    np.uint8,
    np.int64,
    np.int64,
)
_GROUP_TYPES = (np.uint8, np.int32, np.uint8, np.uint8, np.uint8, np.int64)


def record_fields(record: Record) -> tuple[str, ...]:
    """The leaves that an event of this sort is made of."""
    told = (record.port, record.value, record.extra, record.priority, record.queue, record.span)
    return tuple(name for name in told if name)


def _periods_ns(profile: Profile, row: Row) -> tuple[int, int]:
    """How often a row's leaf comes, and how often at most."""
    brings = profile.subscription_of(row)
    if brings is None:
        return 0, 0
    if brings.mode != "SAMPLE":
        return NO_PERIOD, 0
    return brings.interval_ms * 1_000_000, brings.min_interval_ms * 1_000_000


def _second_measure(row: Row, kind: str, extra: str) -> int:
    """What the second measure is where no leaf tells it: a code, 0 where the kind has none, else unknown."""
    if kind == "LINK_ERRORS" and row.code:
        return ERROR_CODES[row.code]
    return UNKNOWN if extra else 0


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
