"""How long to wait before the next attempt: exponential with full jitter and a cap, reset by a session that held.

In: how the last session ended. Out: seconds. Full jitter spreads the reconnects of a thousand targets that were lost
at once over the whole interval (M. Brooker, "Exponential Backoff and Jitter", 2015).
"""

from __future__ import annotations

import random

from collectors.failures import Sort

_MOST_DOUBLINGS = 20


class Backoff:
    """Of one target."""

    def __init__(self, random_numbers: random.Random, scale: float = 1.0) -> None:
        self._random = random_numbers
        self._scale = scale
        self.failures = 0
        """Failed attempts in a row."""

    def next_s(self, sort: Sort) -> float:
        """Seconds until the next attempt, for a session that has just ended so."""
        bound_s = min(sort.base_s * 2 ** min(self.failures, _MOST_DOUBLINGS), sort.cap_s)
        self.failures += 1
        return self._random.uniform(0.0, bound_s) * self._scale

    def held(self) -> None:
        """A session has held for long enough: the next failure is the first again."""
        self.failures = 0
