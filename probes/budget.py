"""What a probe may cost: a share of one core, and named steps down and up again when it costs more.

In: CPU time and wall time of each read. Out: the step that the probe is to be on.
"""

from __future__ import annotations

from enum import IntEnum

OVER_S = 5.0
"""So long it must cost too much: a second of bursts is what it is there to see."""
CALM_S = 60.0
MOST_CALM_S = 3600.0
"""Calm that is asked for before it steps up: twice as long after each relapse, up to an hour."""
CALM_SHARE = 0.5
"""Of the budget; below it there is room for what was given up."""
SLOWER = 4
"""Times as long between two reads on step SLOW."""
FAR_OVER = 4
"""Times the budget: beyond, it is closed. Below, counters that cost too much are better than none, and it shows."""


class Step(IntEnum):
    """How much of a probe runs, from all of it down to nothing."""

    FULL = 0
    COUNTERS = 1
    """No single events: counters and histograms alone."""
    SLOW = 2
    """Read a quarter as often as well."""
    OFF = 3
    """Closed until the calm is over."""

    @property
    def word(self) -> str:
        """As people are told."""
        return ("full", "counters only", "read less often", "off")[self]


class Budget:
    """Follows what one probe costs. Not safe for several threads."""

    def __init__(self, share: float, now_s: float, *, over_s: float = OVER_S, calm_s: float = CALM_S) -> None:
        self.share = share
        """Of one core."""
        self.step = Step.FULL
        self.used_share = 0.0
        """Over the last stretch of `over_s`."""
        self._steps = list(Step)
        self._over_s = over_s
        self._first_calm_s = self._calm_s = calm_s
        self._calm_since_s = now_s
        self._stepped_up_s = -MOST_CALM_S
        self._since_s = now_s
        self._cpu_ns = 0

    def spent(self, cpu_ns: int, now_s: float) -> Step:
        """The probe took so much CPU time since the last call; returns the step that it is to be on from now."""
        self._cpu_ns += cpu_ns
        wall_s = now_s - self._since_s
        if wall_s >= self._over_s:
            self.used_share = self._cpu_ns * 1e-9 / wall_s
            self._since_s, self._cpu_ns = now_s, 0
            self._judge(now_s)
        return self.step

    def has_no_detail(self) -> Step:
        """The probe has nothing to give up on step COUNTERS, which it skips from now on."""
        if Step.COUNTERS in self._steps:
            self._steps.remove(Step.COUNTERS)
        if self.step == Step.COUNTERS:
            self.step = Step.SLOW
        return self.step

    def _judge(self, now_s: float) -> None:
        at = self._steps.index(self.step)
        if self.used_share > self.share:
            bearable = self.step == Step.SLOW and self.used_share <= self.share * FAR_OVER
            if at + 1 < len(self._steps) and not bearable:
                relapsed = now_s - self._stepped_up_s < self._calm_s
                self._calm_s = min(self._calm_s * 2, MOST_CALM_S) if relapsed else self._calm_s
                self.step = self._steps[at + 1]
            self._calm_since_s = now_s
        elif self.used_share > self.share * CALM_SHARE:
            self._calm_since_s = now_s
        elif at and now_s - self._calm_since_s >= self._calm_s:
            self.step = self._steps[at - 1]
            self._calm_since_s = self._stepped_up_s = now_s
        elif not at and now_s - self._stepped_up_s >= MOST_CALM_S:
            self._calm_s = self._first_calm_s
