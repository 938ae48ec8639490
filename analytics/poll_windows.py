"""Windows of counters that wait, and what those of one period come to: the compiled part of analytics.polls.

In: settled rows with the ports that they mean. Out: windows by table; those of pauses by queue, in order and without
what is told twice; sums and peaks of all others by port. Nothing depends on the order in which rows came.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from analytics import layout
from analytics.compiled import kernel
from analytics.layout import Bools, Floats, Ints
from analytics.topology import PRIORITIES
from stream import kinds
from stream.record import EXTRA, KIND_BIT, PRIORITY_BIT, SIDE_BIT, SMALL, SPAN, TIME, VALUE, Words

CODES = PRIORITIES + 1
"""A key is port * CODES + priority; the last code is a row of all priorities together."""
OWN, OTHER, DEPTH, SENT, RECEIVED, MARKED = range(6)
TABLES = 6
"""Pauses as the stopped end counts them, and as the other end of its link does; then counts of one measure each."""
KEY, START, END, FIRST, SECOND = range(5)
"""Columns of a window of pauses. OWN: stops and paused ns, -1 where not known. OTHER: by the key of the stopped queue,
the pause frames that the other end of its link sent. Of a window of counts KEY is key * TABLES + table, and it has no
SECOND."""
PAUSE_COLUMNS, COUNT_COLUMNS = 5, 4

_PAUSED, _FRAMES, _DEPTH, _BYTES, _MARKED = (
    kinds.PFC_PAUSED, kinds.PFC_FRAMES, kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.ECN_MARKED,
)  # fmt: skip
_TX, _RX, _NO_PRIORITY = kinds.SIDE_TX, kinds.SIDE_RX, kinds.NO_PRIORITY


CHUNK_ROWS = 16_384


@dataclass(slots=True)
class _Chunk:
    """Room, how many windows are in it, and the least and the latest end of any."""

    room: Ints
    count: int = 0
    first_ns: int = layout.FOREVER
    last_ns: int = layout.NEVER

    @property
    def rows(self) -> Ints:
        return self.room[: self.count]


class Windows:
    """Windows, int64 (n, columns), in chunks that lie by time, roughly: what is over goes without moving the rest."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        return sum(chunk.count for chunk in self._chunks)

    def room(self, count: int) -> Ints:
        """Room for so many more, of which `fill` then says how many there are."""
        if not self._chunks or self._chunks[-1].count + count > len(self._chunks[-1].room):
            self._chunks.append(_Chunk(np.empty((max(count, CHUNK_ROWS), self._columns), np.int64)))
        last = self._chunks[-1]
        return last.room[last.count : last.count + count]

    def fill(self, count: int) -> None:
        """So many windows have been written into the room."""
        if count:
            last = self._chunks[-1]
            ends = last.room[last.count : last.count + count, END]
            last.first_ns, last.last_ns = min(last.first_ns, int(ends.min())), max(last.last_ns, int(ends.max()))
            last.count += count

    def chunks(self, from_ns: int, until_ns: int) -> list[Ints]:
        """Chunks in which some windows may end after one time and up to another."""
        return [chunk.rows for chunk in self._chunks if chunk.last_ns > from_ns and chunk.first_ns <= until_ns]

    def between(self, from_ns: int, until_ns: int) -> Ints:
        """The windows that end after one time and up to another."""
        found = [rows[(rows[:, END] > from_ns) & (rows[:, END] <= until_ns)] for rows in self.chunks(from_ns, until_ns)]
        return np.concatenate(found) if found else np.zeros((0, self._columns), np.int64)

    def forget(self, before_ns: int) -> None:
        """Drops chunks in which all end up to a time."""
        self._chunks = [chunk for chunk in self._chunks if chunk.last_ns > before_ns]

    def copy(self) -> Windows:
        """A copy that further rows change alone: it writes into none of the chunks that both have."""
        twin = Windows(self._columns)
        twin._chunks = [replace(chunk, room=chunk.rows) for chunk in self._chunks]
        return twin

    def rename(self, meant: Ints, codes: int) -> None:
        """Moves all to other ports: key // `codes` is a port."""
        moved = self.between(layout.NEVER, layout.FOREVER)
        moved[:, KEY] = meant[moved[:, KEY] // codes] * codes + moved[:, KEY] % codes
        self._load(moved)

    def state(self) -> Ints:
        """An array for a snapshot, in order of time."""
        rows = self.between(layout.NEVER, layout.FOREVER)
        return rows[np.lexsort((*rows.T[FIRST:], rows[:, KEY], rows[:, START], rows[:, END]))]

    @classmethod
    def of_state(cls, state: Ints) -> Windows:
        """Continues from `state()`."""
        windows = cls(state.shape[1])
        windows._load(state)
        return windows

    def _load(self, rows: Ints) -> None:
        self._chunks = []
        for at in range(0, len(rows), CHUNK_ROWS):
            part = rows[at : at + CHUNK_ROWS]
            self.room(len(part))[:] = part
            self.fill(len(part))


class ByQueue(NamedTuple):
    """Windows of pauses, START to SECOND (n, 4), by key and time: those of keys[i] are start[i] to start[i + 1]."""

    keys: Ints
    start: Ints
    windows: Ints

    def bounds(self, keys: Ints) -> Ints:
        """Where windows of each of some keys begin and end, int64 (len(keys), 2); alike where there are none."""
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        met = self.keys[at] == keys if len(self.keys) else np.zeros(len(keys), np.bool_)
        bounds = np.zeros((len(keys), 2), np.int64)
        bounds[met, 0], bounds[met, 1] = self.start[at[met]], self.start[at[met] + 1]
        return bounds


def by_queue(table: Windows, begin_ns: int, end_ns: int, known_ns: int, most_ns: int, port_count: int) -> ByQueue:
    """Windows of pauses that end after one time and up to `known_ns` and begin before another, by queue.

    Of two that overlap, the one that ends first counts; of two of the same time, such as a device's PFC_PAUSED and
    PFC_FRAMES, the one with a duration. One longer than `most_ns` counts as if it had begun so long before its end.
    """
    near = table.between(begin_ns, known_ns)
    near[:, START] = np.maximum(near[:, START], near[:, END] - most_ns)
    near = near[near[:, START] < end_ns]
    first = np.zeros(port_count * CODES + 1 if len(near) else 0, np.int64)
    order = np.empty(len(near), np.int64)
    keys, start = np.empty(len(near), np.int64), np.empty(len(near) + 1, np.int64)
    windows = np.empty((len(near), PAUSE_COLUMNS - 1), np.int64)
    count, kept = _apart(near, first, order, keys, start, windows)
    return ByQueue(keys[:count], start[: count + 1], windows[:kept])


class Counts(NamedTuple):
    """What was counted in a period, of some priorities (the last place: of all together), float64 (priorities + 1, P).

    `before`: peaks of the period before. `seen`, bool (N,): devices of which any poll tells of the period.
    """

    sums: dict[int, Floats]
    peak: Floats
    before: Floats
    seen: Bools


def count_up(
    table: Windows, begin_ns: int, end_ns: int, known_ns: int, priorities: list[int], port_device: Ints, devices: int
) -> Counts:
    """Adds the windows of counts up that overlap a period, spread evenly, and takes the highest depths."""
    place = np.full(CODES, -1, np.int64)
    place[priorities], place[PRIORITIES] = np.arange(len(priorities)), len(priorities)
    sums = np.zeros((TABLES, len(priorities) + 1, len(port_device)))
    before, seen = np.zeros(sums.shape[1:]), np.zeros(devices, np.bool_)
    for rows in table.chunks(2 * begin_ns - end_ns, known_ns):
        _count_up(rows, begin_ns, end_ns, known_ns, place, port_device, sums, before, seen)
    return Counts({table: sums[table] for table in (SENT, RECEIVED, MARKED)}, sums[DEPTH], before, seen)


@kernel
def sort_out(
    events: Words, ports: Ints, since_ns: int, most_ns: int, port_peer: Ints, port_device: Ints, own: Ints, other: Ints,
    counts: Ints, tells_since: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Fills `own`, `other` and `counts` with the windows of rows from a time on; returns how many there are of each.

    One longer than `most_ns` counts as if it had begun so long before its end. `tells_since`, by device and table, is
    the end of the first window.
    """
    n_own = n_other = n_counts = 0
    for i in range(len(events)):
        end_ns, span_ns, value = events[i, TIME], events[i, SPAN], events[i, VALUE]
        if end_ns < since_ns:
            continue
        small = events[i, SMALL]
        kind, side, priority = small >> KIND_BIT & 0xFF, small >> SIDE_BIT & 0xFF, small >> PRIORITY_BIT & 0xFF
        table = -1
        if kind in (_PAUSED, _FRAMES):
            if span_ns > 0:
                table = OTHER if side == _TX else OWN
        elif value > 0:
            if kind == _DEPTH and side != _RX:
                table = DEPTH
            elif kind == _BYTES:
                table = SENT if side == _TX else RECEIVED
            elif kind == _MARKED and side == _TX:
                table = MARKED
        if table < 0:
            continue
        port = ports[i]
        code = PRIORITIES if priority == _NO_PRIORITY else priority % PRIORITIES
        start_ns = end_ns - min(max(span_ns, 1), most_ns)
        if table in (OWN, OTHER):
            stops = max(events[i, EXTRA] if kind == _PAUSED else value, -1)
            key = port * CODES + code
            if table == OTHER:
                peer = port_peer[port]
                if peer < 0 or stops < 0:
                    continue
                other[n_other, KEY] = peer * CODES + code
                other[n_other, START], other[n_other, END] = start_ns, end_ns
                other[n_other, FIRST] = other[n_other, SECOND] = stops
                n_other += 1
            else:
                own[n_own, KEY], own[n_own, START], own[n_own, END] = key, start_ns, end_ns
                own[n_own, FIRST] = stops
                own[n_own, SECOND] = value if kind == _PAUSED and value >= 0 else -1
                n_own += 1
        else:
            counts[n_counts, KEY] = (port * CODES + code) * TABLES + table
            counts[n_counts, START], counts[n_counts, END], counts[n_counts, FIRST] = start_ns, end_ns, value
            n_counts += 1
        device = port_device[port]
        tells_since[device, table] = min(tells_since[device, table], end_ns)
    return n_own, n_other, n_counts


@kernel
def _count_up(
    rows: Ints, begin_ns: int, end_ns: int, known_ns: int, place: Ints, port_device: Ints, sums: Floats, before: Floats,
    seen: Bools,
) -> None:  # fmt: skip
    before_ns = 2 * begin_ns - end_ns
    for i in range(len(rows)):
        start, end = rows[i, START], rows[i, END]
        if end > known_ns or start >= end_ns or end <= before_ns:
            continue
        table, key = rows[i, KEY] % TABLES, rows[i, KEY] // TABLES
        port, slot = key // CODES, place[key % CODES]
        if table == DEPTH and slot >= 0 and start < begin_ns:
            before[slot, port] = max(before[slot, port], float(rows[i, FIRST]))
        if end <= begin_ns:
            continue
        seen[port_device[port]] = True
        if slot < 0:
            continue
        if table == DEPTH:
            sums[DEPTH, slot, port] = max(sums[DEPTH, slot, port], float(rows[i, FIRST]))
        else:
            # Whole numbers, whose sums do not depend on the order in which rows came.
            overlap = min(end, end_ns) - max(start, begin_ns)
            sums[table, slot, port] += np.rint(rows[i, FIRST] * (overlap / max(end - start, 1)))


@kernel
def _apart(rows: Ints, first: Ints, order: Ints, keys: Ints, start: Ints, windows: Ints) -> tuple[int, int]:
    """Sorts windows by key and time and drops those that overlap one that ends sooner; returns how many keys and
    windows there are. `first` is room for a number by key, all 0."""
    for i in range(len(rows)):
        first[rows[i, KEY] + 1] += 1
    for key in range(1, len(first)):
        first[key] += first[key - 1]
    for i in range(len(rows)):
        order[first[rows[i, KEY]]] = i
        first[rows[i, KEY]] += 1
    count = kept = at = 0
    while at < len(rows):
        key = rows[order[at], KEY]
        last = first[key]
        for i in range(at + 1, last):
            window, place = order[i], i
            while place > at and _sooner(rows, window, order[place - 1]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = window
        keys[count], start[count] = key, kept
        count += 1
        end_ns = layout.NEVER
        for i in range(at, last):
            if rows[order[i], START] >= end_ns:
                end_ns = rows[order[i], END]
                for column in range(START, PAUSE_COLUMNS):
                    windows[kept, column - 1] = rows[order[i], column]
                kept += 1
        at = last
    start[count] = kept
    return count, kept


@kernel
def _sooner(rows: Ints, one: int, other: int) -> bool:
    """Whether a window comes before another of its queue."""
    if rows[one, END] != rows[other, END]:
        return bool(rows[one, END] < rows[other, END])
    if rows[one, START] != rows[other, START]:
        return bool(rows[one, START] < rows[other, START])
    if (rows[one, SECOND] < 0) != (rows[other, SECOND] < 0):
        return bool(rows[one, SECOND] >= 0)
    if rows[one, FIRST] != rows[other, FIRST]:
        return bool(rows[one, FIRST] < rows[other, FIRST])
    return bool(rows[one, SECOND] < rows[other, SECOND])
