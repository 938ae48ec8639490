"""When to read next, and when to try again: absolute times, so that no delay adds up, and pauses with full jitter.

In: intervals and the monotonic clock. Out: times in seconds on that clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
LONGEST_INTERVAL_S = 60.0
"""Of any probe, by its configuration."""

TOGETHER_S = 0.05
"""All probes are read in the same moment: so long their readings wait for those that take longer."""
IDLE_S = 0.5
"""Without a read, there is something to be done so often."""
SOON_S = (0.85, 1.0)
"""Where the next read is due so soon behind one, what idle streams promise leaves with what it brings, so that an agent
whose windows take a second works once a second."""


def pause_s(due_s: float, *, behind_a_read: bool) -> float:
    """How long whoever passes readings on may sleep at most, where the next read is due in so many seconds."""
    if due_s <= IDLE_S or (behind_a_read and SOON_S[0] <= due_s <= SOON_S[1]):
        return max(due_s, 0.0) + TOGETHER_S
    return IDLE_S


class Schedule:
    """Every `interval_s` at a phase of this host's own, so that not all hosts of a fabric publish in one instant.

    All probes of a host share the phase, and where an interval is a multiple of another, they are read in one moment:
    what they see leaves in the same messages. A read that comes too late is not made up for: the next one covers its
    window.
    """

    def __init__(self, interval_s: float, phase: float) -> None:
        self._interval_s = interval_s
        self._offset_s = phase * LONGEST_INTERVAL_S

    def next_s(self, now_s: float) -> float:
        """The first time of the schedule after now; never so soon that a window would be shorter than a half."""
        turn = math.floor((now_s - self._offset_s) / self._interval_s + 1.5)
        return turn * self._interval_s + self._offset_s


class Retry:
    """Pauses between attempts: twice as long at most each time, up to five minutes, any part of that."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._uniform = uniform
        self._longest_s = FIRST_PAUSE_S

    def pause_s(self) -> float:
        """How long to wait before the next attempt."""
        longest_s = self._longest_s
        self._longest_s = min(longest_s * 2, LONGEST_PAUSE_S)
        return self._uniform(0, longest_s)

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._longest_s = FIRST_PAUSE_S
