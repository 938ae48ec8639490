"""Which row of a table a flow has, looked up by compiled code for whole runs of rows.

In: ids of flows, each of which gets the next row. Out: the rows of ids. A hash table with open addressing: nothing is
ever taken out.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from analytics.layout import Ints

Flows = npt.NDArray[np.uint64]

_LEAST_ROOM = 64


class FlowPlaces:
    """Rows by flow, in the order in which the flows came."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._ids = array("Q")
        self._table: Ints = np.full(_LEAST_ROOM, -1, np.int64)
        self._entered = 0
        """Flows that are in the table: they are entered when it is asked."""

    def __len__(self) -> int:
        return len(self._ids)

    def place(self, flow: int) -> int:
        """The row of a flow, a new one if it is new."""
        row = self._rows.setdefault(flow, len(self._ids))
        if row == len(self._ids):
            self._ids.append(flow)
        return row

    def places(self, flows: Flows) -> Ints:
        """The row of each flow, -1 if it has none."""
        ids = np.frombuffer(self._ids, np.int64) if self._ids else np.zeros(0, np.int64)
        if 2 * len(ids) > len(self._table):
            # A quarter full: most look-ups meet their own entry first.
            self._table, self._entered = np.full(1 << (4 * len(ids) - 1).bit_length(), -1, np.int64), 0
        _enter(ids, self._entered, self._table)
        self._entered = len(ids)
        found = np.empty(len(flows), np.int64)
        _look_up(np.ascontiguousarray(flows).view(np.int64), ids, self._table, found)
        return found


@kernel
def _first(flow: int, table: Ints) -> int:
    """Where to look first: the parts of an id multiplied by odd numbers of 31 bits, so that nothing overflows."""
    mixed = (flow & 0x7FFFFFFF) * 0x4F1BBCDD ^ (flow >> 31 & 0x7FFFFFFF) * 0x278DDE6F
    return (mixed ^ mixed >> 17 ^ mixed >> 34) & len(table) - 1


@kernel
def _enter(ids: Ints, first: int, table: Ints) -> None:
    for row in range(first, len(ids)):
        at = _first(ids[row], table)
        while table[at] >= 0:
            at = at + 1 & len(table) - 1
        table[at] = row


@kernel
def _look_up(flows: Ints, ids: Ints, table: Ints, found: Ints) -> None:
    for i in range(len(flows)):
        at = _first(flows[i], table)
        while table[at] >= 0 and ids[table[at]] != flows[i]:
            at = at + 1 & len(table) - 1
        found[i] = table[at]
