"""The clocks of all targets: what a message's time is worth, how far each clock is off, and what a stream may promise.

In: times as sent, times of arrival on our clock. Out: times in ns with quality bits, skews, marks. Arrays over all
targets; no Python for each message. A message cannot arrive before it was stamped: the least of (arrival - stamp) over
a minute or two is therefore what a clock is behind ours, plus the shortest way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kinds import CLOCK_SUSPECT, ESTIMATED
from stream.outgoing import CLOCK_LEAD_NS
from stream.record import MAX_TIME_NS

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Qualities = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

SECOND_NS = 1_000_000_000
WINDOW_NS = 60 * SECOND_NS
MAX_SKEW_NS = CLOCK_LEAD_NS
"""Beyond it a clock is wrong: its times are moved to ours, and say so. Readers trust none further ahead either."""
SETTLED_MESSAGES = 8
"""So many after the first dump have to agree that a clock is behind: an old state has an old time by right."""
LEAST_LATENESS_NS = 500_000_000
MOST_LATENESS_NS = 8 * SECOND_NS
"""More than this, a stream would be suspended for holding up the others."""
SLACK_NS = 250_000_000
UNSEEN = np.iinfo(np.int64).max
# Greatest plausible time in each unit: the year 5138 in s, which is 1973 in ms, and so on.
_UNITS = ((100_000_000_000, 1_000_000_000), (100_000_000_000_000, 1_000_000), (100_000_000_000_000_000, 1_000))


class Judged(NamedTuple):
    """Times of messages that can be used; `stepped` are targets whose times have moved between clocks."""

    time_ns: Ints
    quality: Qualities
    stepped: list[int]


def in_ns(time: Ints, seen_ns: Ints) -> tuple[Ints, Qualities]:
    """Times in ns, whatever unit a device counts in; without a usable one, the time of arrival. Both are ESTIMATED."""
    made = time.astype(np.int64, copy=True)
    quality = np.zeros(len(made), np.uint8)
    missing = (time <= 0) | (time > MAX_TIME_NS)
    made[missing] = seen_ns[missing]
    left = ~missing
    for below, factor in _UNITS:
        unit = left & (time < below)
        made[unit] = time[unit] * factor
        quality[unit] = ESTIMATED
        left &= ~unit
    quality[missing] = ESTIMATED
    return made, quality


class Clocks:
    """Of all targets of a process, by number."""

    def __init__(self) -> None:
        self.counters = {"times_missing": 0, "times_in_other_units": 0, "times_moved": 0, "clock_steps": 0}
        self._since_ns = 0
        self._now: Ints = np.zeros((0, 2), np.int64)
        """Least and greatest (arrival - stamp) in this window, by target; `_before` in the one before."""
        self._before: Ints = np.zeros((0, 2), np.int64)
        self._settled: Ints = np.zeros(0, np.int64)
        """Messages since the first dump, -1 while it lasts."""
        self._moved: Bools = np.zeros(0, np.bool_)

    def began(self, target: int) -> None:
        """A subscription begins: its first dump may hold old times."""
        self._grow(target)
        self._settled[target] = -1

    def synced(self, target: int) -> None:
        """The first dump is over."""
        if self._settled[target] < 0:
            self._settled[target] = 0

    def forget(self, target: int) -> None:
        """The number may be given to another target."""
        self._grow(target)
        for window in (self._now, self._before):
            window[target] = UNSEEN, -UNSEEN
        self._settled[target], self._moved[target] = -1, False

    def take(self, targets: Numbers, time: Ints, seen_ns: Ints) -> Judged:
        """Judges the times of messages, in the order in which they came."""
        made, quality = in_ns(time, seen_ns)
        if not len(made):
            return Judged(made, quality, [])
        self._grow(int(targets.max()))
        told = (time > 0) & (time <= MAX_TIME_NS)
        self.counters["times_missing"] += int((~told).sum())
        self.counters["times_in_other_units"] += int((told & (quality != 0)).sum())
        self._turn(int(seen_ns[-1]))
        offset = seen_ns - made
        settled = told & (self._settled[targets] >= 0)
        np.minimum.at(self._now[:, 0], targets[told], offset[told])
        np.maximum.at(self._now[:, 1], targets[settled], offset[settled])
        np.add.at(self._settled, targets[settled], 1)
        stepped = self._judge(np.unique(targets[told]))
        moved = self._moved[targets] & told
        made[moved] += self._least()[targets[moved]]
        quality[moved] |= CLOCK_SUSPECT | ESTIMATED
        self.counters["times_moved"] += int(moved.sum())
        self.counters["clock_steps"] += len(stepped)
        return Judged(made, quality, stepped)

    def skew_ns(self, target: int) -> int | None:
        """How far the target's clock is ahead of ours (negative: behind), less the shortest way; None if not known."""
        if target >= len(self._now) or (least := int(self._least_of(target))) == UNSEEN:
            return None
        return -least

    def mark_ns(self, target: int, seen_ns: int) -> int:
        """The promise of a target of which everything has arrived that it had sent until `seen_ns` on our clock.

        Its own clock was then so far; what its messages are late, one to another, it may still do.
        """
        lateness_ns = self.lateness_ns(target)
        least = int(self._least_of(target))
        return seen_ns - (0 if self._moved[target] or least == UNSEEN else least) - lateness_ns

    def lateness_ns(self, target: int) -> int:
        """How late the target's messages may be, one to another."""
        self._grow(target)
        least = int(self._least_of(target))
        if least == UNSEEN:
            return MOST_LATENESS_NS
        greatest = max(int(self._now[target, 1]), int(self._before[target, 1]), least)
        return min(max(greatest - least + SLACK_NS, LEAST_LATENESS_NS), MOST_LATENESS_NS)

    def _judge(self, targets: Ints) -> list[int]:
        """Sees whose clock has become wrong or right again."""
        least = self._least()[targets]
        known = least != UNSEEN
        was = self._moved[targets]
        # What has been moved comes back only where the clock is well within the bound.
        bound = np.where(was, MAX_SKEW_NS // 2, MAX_SKEW_NS)
        ahead = known & (least < -bound)
        behind = known & (least > bound) & ((self._settled[targets] >= SETTLED_MESSAGES) | was)
        wrong = ahead | behind
        self._moved[targets] = wrong
        return [int(target) for target in targets[wrong != was]]

    def _least(self) -> Ints:
        least: Ints = np.minimum(self._now[:, 0], self._before[:, 0])
        return least

    def _least_of(self, target: int) -> int:
        return int(min(self._now[target, 0], self._before[target, 0]))

    def _turn(self, now_ns: int) -> None:
        if now_ns - self._since_ns >= WINDOW_NS:
            self._since_ns = now_ns
            self._before = self._now
            self._now = np.empty_like(self._before)
            self._now[:] = UNSEEN, -UNSEEN

    def _grow(self, target: int) -> None:
        more = target + 1 - len(self._now)
        if more <= 0:
            return
        more = max(more, 64)
        unseen = np.tile(np.array([UNSEEN, -UNSEEN], np.int64), (more, 1))
        self._now = np.concatenate((self._now, unseen))
        self._before = np.concatenate((self._before, unseen))
        self._settled = np.concatenate((self._settled, np.full(more, -1, np.int64)))
        self._moved = np.concatenate((self._moved, np.zeros(more, np.bool_)))
