"""Lets sessions connect one after another: two thousand targets that were lost at once must not all handshake at once.

In: sessions that want to connect. Out: at most so many handshakes at a time, and so many begun in a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

AT_ONCE = 64
PER_S = 100.0


class Gate:
    """Of one event loop. First come, first served, so that everybody gets through."""

    def __init__(self, at_once: int = AT_ONCE, per_s: float = PER_S) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._gap_s = 1.0 / per_s
        self._next_s = 0.0
        self.most = 0
        """Handshakes at the same time, at most so far."""
        self.inside = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        """`async with gate():` connects."""
        async with self._slots:
            now_s = asyncio.get_running_loop().time()
            at_s = max(self._next_s, now_s)
            self._next_s = at_s + self._gap_s
            await asyncio.sleep(at_s - now_s)
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                yield
            finally:
                self.inside -= 1
