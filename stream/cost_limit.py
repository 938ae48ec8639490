"""Keeps work that may wait from taking all of the time: a process that is behind must first of all catch up.

In: when such work begins and ends. Out: whether it may be done now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHEAP_S = 0.02
REST = 3.0
"""Times what the work took that pass before it is done again: it takes a quarter of the time at most."""


class CostLimit:
    """Work that took more than `cheap_s` waits for REST times as long as it took before it is done again."""

    def __init__(self, cheap_s: float = CHEAP_S, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._cheap_s = cheap_s
        self._monotonic_s = monotonic_s
        self._cost_s = self._ended_s = 0.0

    def allows(self) -> bool:
        """Whether the work may be done now."""
        return self._cost_s <= self._cheap_s or self._monotonic_s() - self._ended_s >= REST * self._cost_s

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Measures the work done in the block."""
        begun_s = self._monotonic_s()
        try:
            yield
        finally:
            self._ended_s = self._monotonic_s()
            self._cost_s = self._ended_s - begun_s
