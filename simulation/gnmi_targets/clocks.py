"""The clock of a fake target: the real one, or one that a test moves by hand so that a run is the same every time.

In: nothing, or steps. Out: times in ns, and waits that end when the clock has come so far.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """What a target knows of time."""

    def now_ns(self) -> int:
        """Since the Unix epoch."""
        ...

    async def sleep_until(self, at_ns: int) -> None:
        """Returns when it is so late."""
        ...


class RealClock:
    """The machine's."""

    def now_ns(self) -> int:
        """Since the Unix epoch."""
        return time.time_ns()

    async def sleep_until(self, at_ns: int) -> None:
        """Returns when it is so late."""
        await asyncio.sleep(max(at_ns - time.time_ns(), 0) * 1e-9)


class VirtualClock:
    """Stands still until `advance`; whoever waits wakes in the order of its time."""

    def __init__(self, start_ns: int) -> None:
        self._now_ns = start_ns
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_ns(self) -> int:
        """Since the Unix epoch."""
        return self._now_ns

    async def sleep_until(self, at_ns: int) -> None:
        """Returns when it has been advanced so far."""
        if at_ns <= self._now_ns:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (at_ns, next(self._order), future))
        await future

    async def advance(self, by_ns: int) -> None:
        """Moves on, stopping at each time that somebody waits for until what follows from it has been done."""
        end_ns = self._now_ns + by_ns
        while self._waiting and self._waiting[0][0] <= end_ns:
            at_ns, _, future = heapq.heappop(self._waiting)
            self._now_ns = max(at_ns, self._now_ns)
            if not future.done():
                future.set_result(None)
            for _ in range(20):
                await asyncio.sleep(0)
        self._now_ns = end_ns
