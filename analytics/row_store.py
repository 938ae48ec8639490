"""The kernel's rows that wait for their time, and the flow of each, in room that is kept: to ask for memory for each
piece of work, and to copy what waits each time, costs as much as the work.

In: rows (columns ROW_* of analytics.layout). Out: those that are due, in the order in which the kernel takes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.compiled import kernel
from analytics.layout import Bools, Ints
from analytics.order import choose, pick_in_order

Flows = npt.NDArray[np.uint64]

LINE_BYTES = 64
"""Of a processor's cache, and of a row."""


class RowStore:
    """Rows in no order of note."""

    def __init__(self) -> None:
        self._rows: Ints = np.zeros((0, layout.ROW_COLUMNS), np.int64)
        self._flows: Flows = np.zeros(0, np.uint64)
        self._count = 0
        self._taken: tuple[Ints, Flows] = (self._rows, self._flows)
        """Room for what is taken."""

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Ints:
        """The rows, to be changed in place."""
        return self._rows[: self._count]

    def room(self, count: int) -> tuple[Ints, Flows]:
        """Room for so many rows and their flows, of which `fill` then says how many there are."""
        needed = self._count + count
        if needed > len(self._rows):
            self._rows, self._flows = _grown(self._rows, self._flows, self._count, needed)
        return self._rows[self._count : needed], self._flows[self._count : needed]

    def fill(self, count: int) -> None:
        """So many rows have been written into the room."""
        self._count += count

    def add(self, rows: Ints) -> None:
        """Takes rows in that are of no flow."""
        room, flows = self.room(len(rows))
        room[:], flows[:] = rows, 0
        self.fill(len(rows))

    def take(self, until_ns: int, port_rank: Ints, due: Bools | None = None) -> tuple[Ints, Flows]:
        """The rows from before a time, or those of a mask, in order; they stand until the next call. Others stay."""
        chosen = choose(self.rows, until_ns, due)
        count = len(chosen.places)
        if count > len(self._taken[0]):
            self._taken = _grown(*self._taken, 0, count)
        rows, flows = self._taken[0][:count], self._taken[1][:count]
        pick_in_order(self._rows, self._flows, port_rank, chosen, rows, flows)
        _leave(self.rows, self._flows, chosen.places)
        self._count -= count
        return rows, flows

    def copy(self) -> RowStore:
        """A copy that changes alone."""
        twin = RowStore()
        twin.load(self.state())
        return twin

    def state(self) -> list[Any]:
        """Arrays for a snapshot."""
        return [self.rows.copy(), self._flows[: self._count].copy()]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        self._rows, self._flows = state
        self._count = len(self._rows)


def _grown(rows: Ints, flows: Flows, count: int, needed: int) -> tuple[Ints, Flows]:
    """More room with the first `count` rows in it; half as much again, so that rows are seldom moved."""
    room = needed + needed // 2
    more, more_flows = _aligned(room), np.empty(room, np.uint64)
    more[:count], more_flows[:count] = rows[:count], flows[:count]
    return more, more_flows


def _aligned(count: int) -> Ints:
    """Room for rows each of which is one line of the processor's cache, and not parts of two."""
    words = np.empty((count + 1) * layout.ROW_COLUMNS, np.int64)
    skipped = -words.ctypes.data % LINE_BYTES // words.itemsize
    return words[skipped : skipped + count * layout.ROW_COLUMNS].reshape(count, layout.ROW_COLUMNS)


@kernel
def _leave(rows: Ints, flows: Flows, gone: Ints) -> None:
    """Moves the rows whose places are not among those of `gone`, which ascend, to the front."""
    count = at = 0
    for i in range(len(rows)):
        if at < len(gone) and gone[at] == i:
            at += 1
            continue
        for column in range(layout.ROW_COLUMNS):
            rows[count, column] = rows[i, column]
        flows[count] = flows[i]
        count += 1
