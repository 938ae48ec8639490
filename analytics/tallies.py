"""Measures of many cascades, added up by compiled code under keys of three parts, the first of which is the slot.

In: rows of (slot, first, second, measures...), and slots that join others or end. Out: of a slot, the rows of its keys
with what came together of each measure. A hash table with chains, since most rows add to a key that is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from analytics.layout import FOREVER, Ints
from stream.kinds import INT64_MAX

# What becomes of two values of a measure under one key. No sum exceeds INT64_MAX, which only absurd rows can reach.
SUM, LEAST, MOST, FIRST_KNOWN, LONGEST, OF_LONGEST = range(6)
"""The sum, the lesser, the greater, the first that is not negative; three columns in a row: when the longest pause
began (of equals the first), how long it was (OF_LONGEST), and how long the next longest (OF_LONGEST)."""
_BEFORE_ANY = {SUM: 0, LEAST: FOREVER, MOST: 0, FIRST_KNOWN: -1, LONGEST: 0, OF_LONGEST: 0}

KEY = 3
"""Columns of a key."""
UNLIMITED = FOREVER
_LEAST_ROOM = 64
_AT_ONCE = 4_096
"""Rows for which there must be room at once, as if each had a new key; most have none."""

# Columns of `chains` (the next entry in the bucket, the next of the slot or that is free) and of `slots`.
_IN_BUCKET, _IN_SLOT = range(2)
_FIRST, _SIZE, _LEFT_OUT = range(3)


class _Table(NamedTuple):
    """The arrays that kernels change: -1 is no entry, and a free entry's slot."""

    keys: Ints
    values: Ints
    chains: Ints
    buckets: Ints
    slots: Ints
    free: Ints
    """The first free entry, and how many there are."""


class Tallies:
    """One table; `measures` says what becomes of each column behind the key."""

    def __init__(self, measures: Sequence[int]) -> None:
        self._measures = np.array(measures, np.int64)
        self._before_any = np.array([_BEFORE_ANY[measure] for measure in measures], np.int64)
        self._table = _table(0, np.zeros((0, 3), np.int64), len(measures))

    @property
    def nbytes(self) -> int:
        """Memory that the table takes."""
        return sum(part.nbytes for part in self._table)

    def add(self, rows: Ints, most: int = UNLIMITED) -> None:
        """Takes rows in; of new keys beyond `most` of a slot it is only counted how many there were."""
        self._make_room(0, int(rows[:, 0].max(initial=-1)) + 1)
        for begin in range(0, len(rows), _AT_ONCE):
            part = rows[begin : begin + _AT_ONCE]
            self._make_room(len(part), 0)
            _add(self._table, part, self._measures, self._before_any, most)

    def join(self, joins: Ints) -> None:
        """Moves all of one slot to another, for each row (slot that lives, slot that ends), in order."""
        self._make_room(0, int(joins.max()) + 1)
        _join(self._table, joins, self._measures)

    def drop(self, slots: Ints) -> None:
        """Forgets some slots."""
        _drop(self._table, slots[slots < len(self._table.slots)])

    def of(self, slot: int) -> Ints:
        """The rows of a slot without the slot, in no order of note."""
        table = self._table
        if slot >= len(table.slots):
            return np.zeros((0, KEY - 1 + len(self._measures)), np.int64)
        found = np.empty((table.slots[slot, _SIZE], KEY - 1 + len(self._measures)), np.int64)
        _read(table, slot, found)
        return found

    def left_out(self, slot: int) -> int:
        """How many rows of a slot found no room."""
        return int(self._table.slots[slot, _LEFT_OUT]) if slot < len(self._table.slots) else 0

    def copy(self) -> Tallies:
        """A copy that further rows change alone."""
        twin = Tallies(self._measures.tolist())
        twin._table = _Table(*(part.copy() for part in self._table))
        return twin

    def state(self) -> list[Any]:
        """Arrays for a snapshot, in an order that does not tell in which one the rows came."""
        keys, values, _, _, slots, _ = self._table
        used = np.flatnonzero(keys[:, 0] >= 0)
        used = used[np.lexsort(keys[used].T[::-1])]
        short = np.flatnonzero(slots[:, _LEFT_OUT])
        return [np.hstack((keys[used], values[used])), short, slots[short, _LEFT_OUT]]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        rows, short, left_out = state
        self._table = _table(0, np.zeros((0, 3), np.int64), len(self._measures))
        self.add(rows)
        self._make_room(0, int(short.max(initial=-1)) + 1)
        self._table.slots[short, _LEFT_OUT] = left_out

    def _make_room(self, entries: int, slots: int) -> None:
        table = self._table
        if slots > len(table.slots):
            grown = np.zeros((max(slots, 2 * len(table.slots)) - len(table.slots), 3), np.int64)
            grown[:, _FIRST] = -1
            table = self._table = table._replace(slots=np.concatenate((table.slots, grown)))
        used = len(table.keys) - int(table.free[1])
        if used + entries > len(table.keys):
            # Twice what is used: at most half of the memory waits, and to move costs little an entry.
            self._table = _table(2 * (used + entries), table.slots, len(self._measures))
            _carry(table, self._table)


def _table(room: int, slots: Ints, measures: int) -> _Table:
    """An empty table for so many entries; `slots` is taken over."""
    room = max(room, _LEAST_ROOM)
    chains = np.full((room, 2), -1, np.int64)
    chains[:-1, _IN_SLOT] = np.arange(1, room)
    return _Table(
        np.full((room, KEY), -1, np.int64), np.zeros((room, measures), np.int64), chains,
        np.full(1 << (room - 1).bit_length(), -1, np.int64), slots, np.array([0, room], np.int64),
    )  # fmt: skip


@kernel
def _bucket(buckets: Ints, slot: int, first: int, second: int) -> int:
    """Parts cut to 31 bits and multiplied by odd numbers of 31 bits (of the golden ratio's digits): no overflow."""
    second ^= second >> 31
    mixed = (slot & 0x7FFFFFFF) * 0x4F1BBCDD ^ (first & 0x7FFFFFFF) * 0x278DDE6F ^ (second & 0x7FFFFFFF) * 0x5F34AE05
    return (mixed ^ mixed >> 17 ^ mixed >> 34) & len(buckets) - 1


@kernel
def _find(keys: Ints, chains: Ints, entry: int, slot: int, first: int, second: int) -> int:
    """The entry of a key in the chain that begins with an entry, -1 if there is none."""
    while entry >= 0 and (keys[entry, 0] != slot or keys[entry, 1] != first or keys[entry, 2] != second):
        entry = chains[entry, _IN_BUCKET]
    return entry


@kernel
def _merge(values: Ints, entry: int, others: Ints, other: int, column: int, measures: Ints) -> None:
    """Takes the measures that begin at a column of another row into an entry's."""
    for at in range(len(measures)):
        measure, old, new = measures[at], values[entry, at], others[other, column + at]
        if measure == SUM:
            values[entry, at] = INT64_MAX if new > INT64_MAX - old else old + new
        elif measure == LEAST:
            values[entry, at] = min(old, new)
        elif measure == MOST:
            values[entry, at] = max(old, new)
        elif measure == FIRST_KNOWN:
            values[entry, at] = new if old < 0 else old
        elif measure == LONGEST:
            new_ns, old_ns = others[other, column + at + 1], values[entry, at + 1]
            second_ns = max(values[entry, at + 2], others[other, column + at + 2])
            if new_ns > old_ns or (new_ns == old_ns and new < old):
                values[entry, at], values[entry, at + 1] = new, new_ns
                new_ns = old_ns
            values[entry, at + 2] = max(second_ns, new_ns)


@kernel
def _add(table: _Table, rows: Ints, measures: Ints, before_any: Ints, most: int) -> None:
    keys, values, chains, buckets, slots, free = table
    for i in range(len(rows)):
        slot, first, second = rows[i, 0], rows[i, 1], rows[i, 2]
        bucket = _bucket(buckets, slot, first, second)
        entry = _find(keys, chains, buckets[bucket], slot, first, second)
        if entry < 0:
            if slots[slot, _SIZE] >= most:
                slots[slot, _LEFT_OUT] += 1
                continue
            entry = free[0]
            free[0] = chains[entry, _IN_SLOT]
            free[1] -= 1
            keys[entry, 0], keys[entry, 1], keys[entry, 2] = slot, first, second
            for at in range(len(measures)):
                values[entry, at] = before_any[at]
            chains[entry, _IN_BUCKET], buckets[bucket] = buckets[bucket], entry
            chains[entry, _IN_SLOT], slots[slot, _FIRST] = slots[slot, _FIRST], entry
            slots[slot, _SIZE] += 1
        _merge(values, entry, rows, i, KEY, measures)


@kernel
def _unlink(keys: Ints, chains: Ints, buckets: Ints, entry: int) -> None:
    """Takes an entry out of its bucket."""
    bucket = _bucket(buckets, keys[entry, 0], keys[entry, 1], keys[entry, 2])
    after = chains[entry, _IN_BUCKET]
    if buckets[bucket] == entry:
        buckets[bucket] = after
        return
    before = buckets[bucket]
    while chains[before, _IN_BUCKET] != entry:
        before = chains[before, _IN_BUCKET]
    chains[before, _IN_BUCKET] = after


@kernel
def _free(keys: Ints, chains: Ints, free: Ints, entry: int) -> None:
    keys[entry, 0] = -1
    chains[entry, _IN_SLOT] = free[0]
    free[0] = entry
    free[1] += 1


@kernel
def _join(table: _Table, joins: Ints, measures: Ints) -> None:
    keys, values, chains, buckets, slots, free = table
    for i in range(len(joins)):
        lives, ends = joins[i, 0], joins[i, 1]
        entry = slots[ends, _FIRST]
        while entry >= 0:
            after = chains[entry, _IN_SLOT]
            _unlink(keys, chains, buckets, entry)
            first, second = keys[entry, 1], keys[entry, 2]
            bucket = _bucket(buckets, lives, first, second)
            mine = _find(keys, chains, buckets[bucket], lives, first, second)
            if mine >= 0:
                _merge(values, mine, values, entry, 0, measures)
                _free(keys, chains, free, entry)
            else:
                keys[entry, 0] = lives
                chains[entry, _IN_BUCKET], buckets[bucket] = buckets[bucket], entry
                chains[entry, _IN_SLOT], slots[lives, _FIRST] = slots[lives, _FIRST], entry
                slots[lives, _SIZE] += 1
            entry = after
        slots[lives, _LEFT_OUT] += slots[ends, _LEFT_OUT]
        slots[ends, _FIRST], slots[ends, _SIZE], slots[ends, _LEFT_OUT] = -1, 0, 0


@kernel
def _drop(table: _Table, ended: Ints) -> None:
    keys, _, chains, buckets, slots, free = table
    for i in range(len(ended)):
        entry = slots[ended[i], _FIRST]
        while entry >= 0:
            after = chains[entry, _IN_SLOT]
            _unlink(keys, chains, buckets, entry)
            _free(keys, chains, free, entry)
            entry = after
        slots[ended[i], _FIRST], slots[ended[i], _SIZE], slots[ended[i], _LEFT_OUT] = -1, 0, 0


@kernel
def _read(table: _Table, slot: int, found: Ints) -> None:
    keys, values, chains, _, slots, _ = table
    entry = slots[slot, _FIRST]
    for row in range(len(found)):
        found[row, 0], found[row, 1] = keys[entry, 1], keys[entry, 2]
        for at in range(values.shape[1]):
            found[row, KEY - 1 + at] = values[entry, at]
        entry = chains[entry, _IN_SLOT]


@kernel
def _carry(before: _Table, after: _Table) -> None:
    """Moves all entries to an empty table with more room; both have the same slots."""
    keys, values, chains, buckets, slots, free = after
    for slot in range(len(slots)):
        entry = slots[slot, _FIRST]
        slots[slot, _FIRST] = -1
        while entry >= 0:
            to = free[0]
            free[0] = chains[to, _IN_SLOT]
            free[1] -= 1
            for part in range(KEY):
                keys[to, part] = before.keys[entry, part]
            for at in range(values.shape[1]):
                values[to, at] = before.values[entry, at]
            bucket = _bucket(buckets, keys[to, 0], keys[to, 1], keys[to, 2])
            chains[to, _IN_BUCKET], buckets[bucket] = buckets[bucket], to
            chains[to, _IN_SLOT], slots[slot, _FIRST] = slots[slot, _FIRST], to
            entry = before.chains[entry, _IN_SLOT]


def sums(keys: Ints, *columns: Ints) -> tuple[Ints, ...]:
    """Rows of `keys` (n, k) without repeats, in order, and for each column the sum over the rows of a key."""
    if not len(keys):
        return (keys, *columns)
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], (keys[1:] != keys[:-1]).any(axis=1))))
    return (keys[starts], *(np.add.reduceat(_roomy(column)[order], starts) for column in columns))


def _roomy(column: Ints) -> npt.NDArray[Any]:
    """The column in Python's own integers if its sum could overflow."""
    return column.astype(object) if int(column.max(initial=0)) > INT64_MAX // len(column) else column
