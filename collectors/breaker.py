"""A circuit breaker for each target: CLOSED lets attempts through, OPEN none, HALF_OPEN a single one as a trial.

In: ends of sessions and a clock. Out: whether an attempt may be made now, and when at the earliest.
"""

from __future__ import annotations

import enum

from collectors.failures import Sort

FAILURES_TO_OPEN = 5
"""Failures in a row; a failure that no retry can mend opens it at once."""
OPEN_S = 60.0
MAX_OPEN_S = 600.0


class State(enum.IntEnum):
    """As exported: 0, 1 and 2."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    """Of one target. Each trial that fails doubles the time until the next one, up to the cap."""

    def __init__(
        self, failures: int = FAILURES_TO_OPEN, open_s: float = OPEN_S, max_open_s: float = MAX_OPEN_S
    ) -> None:
        self.state = State.CLOSED
        self.opened = 0
        """Times that it has opened."""
        self._limit = failures
        self._first_open_s = open_s
        self._max_open_s = max_open_s
        self._open_s = open_s
        self._failures = 0
        self._until_s = 0.0

    def wait_s(self, now_s: float) -> float:
        """Seconds until an attempt may be made; 0 lets one through, which is then the trial of an open breaker."""
        if self.state is State.OPEN:
            if now_s < self._until_s:
                return self._until_s - now_s
            self.state = State.HALF_OPEN
        return 0.0

    def failed(self, sort: Sort, now_s: float) -> None:
        """An attempt or a session ended badly."""
        self._failures += 1
        trial = self.state is State.HALF_OPEN
        if not (trial or sort.opens or self._failures >= self._limit):
            return
        self._open_s = min(self._open_s * 2, self._max_open_s) if trial else self._first_open_s
        self.state = State.OPEN
        self.opened += 1
        self._until_s = now_s + self._open_s

    def succeeded(self) -> None:
        """Data came: the target works."""
        self.state = State.CLOSED
        self._failures = 0
        self._open_s = self._first_open_s
