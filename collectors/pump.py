"""A turn of the pump: raw messages of all targets become rows, and go out. It runs in a thread of its own.

In: what the inbox held. Out: rows and facts to the outlet, and by target what a turn has found. gRPC's loop goes on
meanwhile: a broker that does not answer, or a long decode, holds up no connection.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from collectors.inbox import Taken
from collectors.outlet import Announced, Outlet
from collectors.paths import PathTable
from collectors.profile import Profile
from collectors.rows import Made, RowMaker
from collectors.skew import Clocks
from collectors.wire import ERROR, MALFORMED, OK, SYNC, TOO_LARGE, Decoder
from stream.kinds import INT64_MAX

_log = logging.getLogger(__name__)

HALVES_NS = 2_000_000_000
"""Half a row waits so long for its other half."""
DOWN_AFTER_S = 3.0
"""A target that is not back by then is told to be down: nobody waits for it. A short break is none."""
EVIDENCE_MS = 3000
"""A target that says something at least so often promises no more than up to its last message."""
PATHS_RENEW_S = 300.0
NOT_DECODED, STREAM_BROKEN = 6, 7
"""Codes of LOSS_REASONS."""


class Wanted(NamedTuple):
    """A target as the pump knows it."""

    device: str
    role: str
    aliases: tuple[str, ...]


class Found(NamedTuple):
    """Of one turn: arrays by target number, as long as the highest number asks for."""

    messages: npt.NDArray[np.int64]
    updates: npt.NDArray[np.int64]
    malformed: npt.NDArray[np.int64]
    too_large: npt.NDArray[np.int64]
    errors: npt.NDArray[np.int64]
    refused: npt.NDArray[np.int64]
    """Updates left out because the table of paths is full."""
    synced: list[int]
    left_out: Mapping[tuple[int, str], int] = MappingProxyType({})
    """Updates that were left out later, by target and reason."""


class _Lost(NamedTuple):
    """Messages of a target that became no rows, and when the first and the last of them were read."""

    target: int
    messages: int
    first_ns: int
    last_ns: int


class Pump:
    """Of one process. `turn` and all else but `known` and `counters` are called by one thread."""

    def __init__(self, fabric: str, outlet: Outlet, paths: PathTable, *, down_after_s: float = DOWN_AFTER_S) -> None:
        self.paths = paths
        self.clocks = Clocks()
        self._decoder = Decoder(paths)
        self._rows = RowMaker(paths, fabric)
        self._outlet = outlet
        self._down_after_s = down_after_s
        self._wanted: dict[int, Wanted] = {}
        self._streams: dict[int, Announced] = {}
        self._silence_ms: dict[int, int] = {}
        self._up: set[int] = set()
        """Targets whose data comes."""
        self._left_s: dict[int, float] = {}
        """Targets whose connection is gone, and since when."""
        self._last_ns: dict[int, int] = {}
        """When the last message of each target came."""
        self._marks: dict[int, int] = {}
        self._until_ns = 0
        """Everything that had arrived by then has been taken in, but for that of the targets in `_waiting`."""
        self._waiting: frozenset[int] = frozenset()
        self._flush_ns = 0
        self._renewed_s = time.monotonic()
        self._refused = 0
        self._counted: Counter[str] = Counter()

    def want(self, target: int, wanted: Wanted) -> None:
        """A target is to be followed from now on."""
        self._wanted[target] = wanted
        self.clocks.forget(target)

    def profile(
        self, target: int, profile: Profile, period_ms: int, periods_ms: Mapping[str, int], silence_ms: int
    ) -> None:
        """What the target will be asked for, and how often: its counters as such, and the rows of each topic.

        Something has to come within `silence_ms`, if that is not 0.
        """
        wanted = self._wanted.get(target)
        if wanted is None:
            return
        period_ns = period_ms * 1_000_000
        topics = profile.topics()
        streams = Announced(wanted.device, topics, tuple(periods_ms[topic] * 1_000_000 for topic in topics))
        self._silence_ms[target] = silence_ms
        if target in self._streams:
            self._rows.remove_target(target)
        self._rows.add_target(target, wanted.device, profile, period_ns, role=wanted.role, aliases=wanted.aliases)
        self._streams[target] = streams

    def forget(self, target: int) -> None:
        """The target is not wanted any more; its number may be given to another one later."""
        if self._wanted.pop(target, None) is None:
            return
        if self._streams.pop(target, None) is not None:
            self._rows.remove_target(target)
        self._fall(target, "not wanted any more")
        self._left_s.pop(target, None)
        self._last_ns.pop(target, None)
        self._marks.pop(target, None)
        self.paths.release(target)

    def turn(self, taken: Taken) -> Found:
        """Takes messages in, and lets out what they made."""
        now_ns = time.time_ns()
        for target, began in taken.changes:
            if began:
                self._begin(target)
            elif target in self._wanted:
                self._left_s[target] = time.monotonic()
        found = self._take_in(self._of_wanted(taken))
        self._until_ns, self._waiting = taken.until_ns, taken.waiting
        self._fall_late()
        if now_ns - self._flush_ns >= 1_000_000_000:
            self._flush_ns = now_ns
            self._outlet.put(self._rows.flush(now_ns - HALVES_NS), self.mark_ns)
            self._renew_paths()
        self._outlet.poll(self.mark_ns)
        return found._replace(left_out=self._rows.take_left_out())

    def close(self) -> None:
        """Lets out what is held back, and ends the outlet."""
        self._outlet.put(self._rows.flush(INT64_MAX), self.mark_ns)
        self._outlet.close()

    def mark_ns(self, target: int) -> int:
        """What the target's streams may promise; it never goes back."""
        last_ns = self._last_ns.get(target)
        if last_ns is None:
            return self._marks.get(target, 0)
        silence_ms = self._silence_ms.get(target, 0)
        seen_ns = last_ns
        if target in self._up and target not in self._left_s:
            if 0 < silence_ms <= EVIDENCE_MS:
                # What was sent before the last message came before it, and what it is late has by then come too.
                until_ns = last_ns + self.clocks.lateness_ns(target)
            else:
                # Silence is normal here: what was sent has arrived, unless the connection hangs without a word.
                until_ns = last_ns + silence_ms * 1_500_000 if silence_ms else INT64_MAX
            read_ns = self._until_ns if target not in self._waiting else last_ns
            seen_ns = max(last_ns, min(read_ns, until_ns))
        mark_ns = min(self.clocks.mark_ns(target, seen_ns), self._rows.held_ns(target))
        self._marks[target] = mark_ns = max(mark_ns, self._marks.get(target, 0))
        return mark_ns

    def counters(self) -> Counter[str]:
        """Everything counted so far."""
        parts = (
            ("pump", self._counted),
            ("decoder", self._decoder.counters),
            ("rows", self._rows.counters),
            ("clocks", self.clocks.counters),
            ("outlet", self._outlet.counters),
        )
        return Counter({f"{part}_{name}": int(count) for part, told in parts for name, count in list(told.items())})

    def _begin(self, target: int) -> None:
        if target not in self._streams:
            return
        if self._left_s.pop(target, None) is not None:
            self._rows.gap(target)
            if target in self._up:
                # What it would have said meanwhile, nobody knows.
                self._outlet.lost(target, 1, STREAM_BROKEN, self._last_ns.get(target, 0), time.time_ns())
        self.clocks.began(target)
        if target not in self._up:
            self._up.add(target)
            self._outlet.up(target, self._streams[target])

    def _fall(self, target: int, reason: str) -> None:
        if target in self._up:
            self._up.discard(target)
            self._outlet.down(target, reason)

    def _fall_late(self) -> None:
        now_s = time.monotonic()
        for target, since_s in list(self._left_s.items()):
            if now_s - since_s >= self._down_after_s and target in self._up:
                self._fall(target, "connection lost")

    def _of_wanted(self, taken: Taken) -> Taken:
        """Without what is left of targets that are not wanted any more."""
        if self._wanted.keys() >= set(taken.targets):
            return taken
        which = [at for at, target in enumerate(taken.targets) if target in self._wanted]
        self._counted["messages_of_unwanted"] += len(taken.messages) - len(which)
        return _picked(taken, which)

    def _take_in(self, taken: Taken) -> Found:
        """All at once. If that fails, each target by itself, and then each message of the one that is to blame."""
        size = max(taken.targets, default=-1) + 1
        try:
            made, found, lost = self._decode(taken, size)
        except Exception:  # noqa: BLE001 - one message too odd must not cost the others
            self._counted["turns_taken_apart"] += 1
            self._rows.take_left_out()
            found = self._take_apart(taken, size)
        else:
            self._let_out(made, lost)
        return found

    def _take_apart(self, taken: Taken, size: int) -> Found:
        parts: list[Found] = []
        targets = np.array(taken.targets)
        for target in dict.fromkeys(taken.targets):
            own = _picked(taken, np.flatnonzero(targets == target).tolist())
            try:
                made, found, lost = self._decode(own, size)
            except Exception as err:  # noqa: BLE001 - as above
                _log.debug("target %d: messages that cannot be read", target, exc_info=err)
            else:
                self._let_out(made, lost)
                parts.append(found)
                continue
            for number in range(len(own.messages)):
                message = _picked(own, [number])
                try:
                    made, found, lost = self._decode(message, size)
                except Exception:  # noqa: BLE001 - this is the one
                    self._counted["messages_unreadable"] += 1
                    found = _unreadable(message, size)
                    lost = [_Lost(target, 1, message.seen_ns[0], message.seen_ns[0])]
                    self._let_out(None, lost)
                else:
                    self._let_out(made, lost)
                parts.append(found)
        return _summed(parts, size)

    def _let_out(self, made: Made | None, lost: list[_Lost]) -> None:
        for target, messages, first_ns, last_ns in lost:
            self._outlet.lost(target, messages, NOT_DECODED, first_ns, last_ns)
        if made is not None:
            self._outlet.put(made, self.mark_ns)

    def _decode(self, taken: Taken, size: int) -> tuple[Made, Found, list[_Lost]]:
        targets = np.array(taken.targets, np.int32)
        seen_ns = np.array(taken.seen_ns, np.int64)
        columns = self._decoder.decode(taken.messages, targets)
        status = np.asarray(columns.status)
        synced = [int(target) for target in targets[status == SYNC]]
        self._last_ns.update(zip(taken.targets, taken.seen_ns, strict=True))
        told = np.flatnonzero(status == OK)
        times, quality = np.array(seen_ns), np.zeros(len(targets), np.uint8)
        judged = self.clocks.take(targets[told], np.asarray(columns.time_ns)[told], seen_ns[told])
        times[told], quality[told] = judged.time_ns, judged.quality
        for target in judged.stepped:
            self._rows.gap(target)
        for target in synced:
            self.clocks.synced(target)
        lost = _lost_of(targets, status, np.asarray(columns.refused), seen_ns)
        made = self._rows.take(columns, targets, times, quality, seen_ns)
        updates = np.diff(np.asarray(columns.first_row))
        found = Found(
            np.bincount(targets, minlength=size),
            np.bincount(targets, updates, size).astype(np.int64),
            np.bincount(targets[status == MALFORMED], minlength=size),
            np.bincount(targets[status == TOO_LARGE], minlength=size),
            np.bincount(targets[status == ERROR], minlength=size),
            np.bincount(targets, np.asarray(columns.refused), size).astype(np.int64),
            synced,
        )
        return made, found, lost

    def tell_turn_lost(self, taken: Taken) -> None:
        """A turn failed: none of its messages became rows."""
        for target, messages in Counter(taken.targets).items():
            self._outlet.lost(target, messages, NOT_DECODED, min(taken.seen_ns), max(taken.seen_ns))

    def _renew_paths(self) -> None:
        """A table that has refused paths for minutes begins anew: those of a target that is gone fill it."""
        refused = int(self._decoder.counters.get("paths_refused", 0))
        if refused == self._refused:
            self._renewed_s = time.monotonic()
        elif time.monotonic() - self._renewed_s >= PATHS_RENEW_S:
            self._renewed_s, self._refused = time.monotonic(), refused
            self.paths.renew()


def _picked(taken: Taken, which: list[int]) -> Taken:
    """Some of the messages, without the changes."""
    messages, targets, seen_ns = taken.messages, taken.targets, taken.seen_ns
    return Taken([messages[at] for at in which], [targets[at] for at in which], [seen_ns[at] for at in which], [])


def _unreadable(message: Taken, size: int) -> Found:
    """What was found of one message on which the reading fails: it counts as one that does not decode."""
    none, one = np.zeros(size, np.int64), np.bincount(message.targets, minlength=size)
    return Found(one, none, one, none, none, none, [])


def _summed(parts: list[Found], size: int) -> Found:
    none = np.zeros(size, np.int64)
    arrays = [np.sum([none, *column], axis=0) for column in zip(*(part[:6] for part in parts), strict=True)]
    return Found._make([*arrays, [target for part in parts for target in part.synced], {}])


def _lost_of(
    targets: npt.NDArray[np.int32],
    status: npt.NDArray[np.integer[Any]],
    refused: npt.NDArray[np.integer[Any]],
    seen_ns: npt.NDArray[np.int64],
) -> list[_Lost]:
    """Messages that do not decode, or of which updates had to be left out."""
    bad = (status == MALFORMED) | (status == TOO_LARGE) | (refused > 0)
    if not bad.any():
        return []
    lost: list[_Lost] = []
    for target in np.unique(targets[bad]).tolist():
        times = seen_ns[bad & (targets == target)]
        lost.append(_Lost(target, len(times), int(times.min()), int(times.max())))
    return lost
