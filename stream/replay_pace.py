"""When the messages of a replay are due: as far apart as Kafka got them, or so many times closer.

In: times of the capture. Out: how long to wait for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from stream.replay_order import AFTER_ALL_MS

MS_PER_S = 1000


class Pace:
    """An absolute schedule that begins with the first message asked for: one that is late makes none after it later.

    `speed` is how many times as fast as it was; 0 waits for nothing.
    """

    def __init__(self, speed: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._clock_s = clock_s
        self._begun_s = 0.0
        self._from_ms: int | None = None

    def wait_s(self, at_ms: int) -> float:
        """How long it is from now until a message of this time is due; 0 if it is overdue."""
        if not self._speed or at_ms == AFTER_ALL_MS:
            return 0.0
        if self._from_ms is None:
            self._begun_s, self._from_ms = self._clock_s(), at_ms
        due_s = self._begun_s + (at_ms - self._from_ms) / MS_PER_S / self._speed
        return max(due_s - self._clock_s(), 0.0)
