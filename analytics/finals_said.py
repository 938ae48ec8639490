"""Ids that were made final, so that none is final twice: rows of an ended life may come again, with others beside them.

In: ids and when their cascades begin. Out: whether an id was final before. The youngest are remembered, whatever the
order in which they came.
"""

from __future__ import annotations

import heapq

MOST = 4_096
"""Ids remembered, some 50 bytes each in a snapshot."""


class FinalsSaid:
    """The ids of one fabric."""

    def __init__(self, entries: list[tuple[int, str]] | None = None) -> None:
        """`entries`: from `state()`."""
        self._youngest = list(entries or [])
        heapq.heapify(self._youngest)
        self._names = {name for _, name in self._youngest}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str, start_ns: int) -> None:
        """Remembers a new id, and forgets that of the oldest cascade where there are too many."""
        self._names.add(name)
        if len(self._youngest) < MOST:
            heapq.heappush(self._youngest, (start_ns, name))
        else:
            self._names.discard(heapq.heappushpop(self._youngest, (start_ns, name))[1])

    def state(self) -> list[tuple[int, str]]:
        """By their beginnings: in which order ticks made them final may differ from run to run."""
        return sorted(self._youngest)
