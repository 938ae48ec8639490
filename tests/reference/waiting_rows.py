"""What waits for the kernel, in plain lists and a dictionary.

The slow twin of analytics.row_store and analytics.flow_places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PRIORITIES = 8


class Row(NamedTuple):
    """A row of the kernel with its flow: the columns of analytics.layout, by name."""

    time_ns: int
    type: int
    queue: int
    start_ns: int
    end_ns: int
    amount: int
    order: int
    id: int
    flow: int


def place(row: Row, port_rank: Sequence[int]) -> tuple[int, ...]:
    """By what the kernel takes rows in order."""
    rank = port_rank[row.queue // PRIORITIES] * PRIORITIES + row.queue % PRIORITIES
    return row.time_ns, row.type, rank, row.start_ns, row.order, row.amount, row.flow


def due(rows: Sequence[Row], until_ns: int, port_rank: Sequence[int]) -> list[Row]:
    """The rows from before a time, in order; of rows of one place the one that came first goes first."""
    return sorted((row for row in rows if row.time_ns < until_ns), key=lambda row: place(row, port_rank))


def left(rows: Sequence[Row], until_ns: int) -> list[Row]:
    """The other rows, as they came."""
    return [row for row in rows if row.time_ns >= until_ns]


class Places:
    """The number of each flow, in the order in which flows came."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def place(self, flow: int) -> int:
        """The number of a flow, the next one if it is new."""
        return self._known.setdefault(flow, len(self._known))

    def places(self, flows: Sequence[int]) -> list[int]:
        """The number of each flow, -1 if it has none."""
        return [self._known.get(flow, -1) for flow in flows]
