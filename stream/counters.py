"""Cumulative counters become deltas, here and nowhere else: reset, wrap and gap are three different outcomes.

In: readings of many series, each with its time; NumPy alone. Out: of each reading that ends a window, what was counted
in it, with quality bits. A series keeps its last reading and nothing more.

- The first reading of a series is a baseline and gives no delta: an idle port may show ten years of old pause frames.
- A later one of a smaller count is a wrap (WRAP) if the way round is no longer than the counter could have gone at its
  highest rate; else the counter began anew. It also began anew where the device says so (`since_ns`, from its uptime or
  its time of last clear), and where it went further than it could. Then nobody knows what was counted in the window:
  the value is UNKNOWN (RESET and GAP), the reading is the new baseline, and no delta is ever negative.
- A counter that can go all the way round within a window (32 bits of bytes at 100 Gb/s: 0.34 s) tells nothing of it:
  UNKNOWN (GAP).
- A window longer than one and a half periods holds polls that were missed: its value is whole, and covers them (GAP).
- What is read again is passed over; so is what is older than the last reading, or of its time and different.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stream.kinds import GAP, RESET, UNKNOWN, WRAP

Ints = npt.NDArray[np.int64]
Readings = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

UNSEEN = -1
"""Time of the last reading of a series that has none; times of readings are not negative."""
SECOND_NS = 1_000_000_000
MOST = 1 << 61
"""More than this is counted in no window: 64 bits of the bytes of 800 Gb/s last for five years."""


class Deltas(NamedTuple):
    """Windows, in the order of the readings that end them: `row` is the reading's place among those given."""

    row: Ints
    span_ns: Ints
    value: Ints
    quality: npt.NDArray[np.uint8]


class Counters:
    """Series of cumulative counters by number. `counted` tells how often what was met that is not plain counting."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self._limits: Ints = np.zeros((0, 4), np.int64)
        """Of each series: bits, most counts in a second, period, how far a stamp may be off."""
        self._last_ns: Ints = np.zeros(0, np.int64)
        self._last: Readings = np.zeros(0, np.uint64)

    def add(self, count: int, *, bits: int, most_per_s: int, stamp_error_ns: int, period_ns: int = 0) -> range:
        """Numbers of new series of one sort. To add many at once costs as much as to add one.

        `most_per_s` is what line rate allows: bytes at the port's speed, frames of 64 bytes and 20 of gap, ns of pause
        in a second. `stamp_error_ns`: a count may have been taken so long before or after the time that it came with,
        as where an agent polls its chip and answers from a cache. `period_ns` is 0 where nobody promises one.
        """
        if not 1 <= bits <= 64 or not 0 < most_per_s <= MOST or not 0 <= stamp_error_ns <= MOST or period_ns < 0:
            raise ValueError(f"no counter: {bits} bits, {most_per_s} a second, stamps off by {stamp_error_ns} ns")
        first = len(self._last_ns)
        sort = np.array([bits, most_per_s, min(period_ns, MOST), stamp_error_ns], np.int64)
        self._limits = np.concatenate((self._limits, np.tile(sort, (count, 1))))
        self._last_ns = np.concatenate((self._last_ns, np.full(count, UNSEEN, np.int64)))
        self._last = np.concatenate((self._last, np.zeros(count, np.uint64)))
        return range(first, first + count)

    def limit(self, series: Ints, bits: Ints, most_per_s: Ints, stamp_error_ns: Ints, period_ns: Ints) -> None:
        """Gives series other limits, as when a port's speed becomes known; they keep their last readings."""
        bits, most = np.clip(bits, 1, 64), np.clip(most_per_s, 1, MOST)
        error_ns, period_ns = np.clip(stamp_error_ns, 0, MOST), np.clip(period_ns, 0, MOST)
        self._limits[series] = np.stack((bits, most, period_ns, error_ns), axis=1)

    def forget(self, series: Ints) -> None:
        """Makes series begin anew: their next reading is a baseline."""
        self._last_ns[series], self._last[series] = UNSEEN, 0

    def take(self, series: Ints, time_ns: Ints, reading: Readings, since_ns: Ints | None = None) -> Deltas:
        """Takes readings in, in the order in which they came; `since_ns` says from when on each counts (or UNKNOWN)."""
        if not len(series):
            none = np.zeros(0, np.int64)
            return Deltas(none, none, none, np.zeros(0, np.uint8))
        if (series[1:] > series[:-1]).all():
            return self._take_one_each(series, time_ns, reading, since_ns)
        order = np.argsort(series, kind="stable")
        of = series[order]
        firsts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        # What each series showed last goes before its readings, as if it had been read again.
        known = of[firsts]
        of = np.insert(of, firsts, known)
        times = np.insert(time_ns[order], firsts, self._last_ns[known])
        counts = np.insert(reading[order], firsts, self._last[known])
        rows = np.insert(order, firsts, -1)
        full = _full(self._limits[of, 0])
        readable = (rows < 0) | (counts <= full)
        accepted, before = _newer(of, times, readable, rows < 0)
        self._count_left_out(times, counts, before, readable & (rows >= 0) & ~accepted)
        self.counted["readings_out_of_range"] += int((~readable).sum())

        now = np.flatnonzero(accepted)
        seen = times[before[now]] != UNSEEN
        self.counted["baselines"] += int((~seen).sum())
        ends = np.concatenate((np.flatnonzero(of[1:] != of[:-1]), [len(of) - 1]))
        last = np.where(accepted[ends] | (rows[ends] < 0), ends, before[ends])
        self._last_ns[known], self._last[known] = times[last], counts[last]

        now = now[seen]
        then, rows = before[now], rows[now]
        since = np.full(len(now), UNKNOWN) if since_ns is None else since_ns[rows]
        span = times[now] - times[then]
        value, quality = self._windows(of[now], span, counts[then], counts[now], since > times[then])
        by_row = np.argsort(rows)
        return Deltas(rows[by_row], span[by_row], value[by_row], quality[by_row])

    def _take_one_each(self, series: Ints, time_ns: Ints, reading: Readings, since_ns: Ints | None) -> Deltas:
        """The same for one reading of each series, in the order of their numbers: what a poller has."""
        last_ns, last = self._last_ns[series], self._last[series]
        readable = reading <= _full(self._limits[series, 0])
        newer = time_ns > last_ns
        old = readable & ~newer
        if old.any():
            at = np.flatnonzero(old)
            self._count_old((time_ns == last_ns)[at], (reading == last)[at])
        self.counted["readings_out_of_range"] += len(series) - int(readable.sum())
        accepted = newer & readable
        which = series[accepted]
        self._last_ns[which], self._last[which] = time_ns[accepted], reading[accepted]
        rows = np.flatnonzero(accepted & (last_ns != UNSEEN))
        self.counted["baselines"] += len(which) - len(rows)
        then_ns = last_ns[rows]
        span = time_ns[rows] - then_ns
        restarted = np.zeros(len(rows), np.bool_) if since_ns is None else since_ns[rows] > then_ns
        value, quality = self._windows(series[rows], span, last[rows], reading[rows], restarted)
        return Deltas(rows, span, value, quality)

    def _windows(
        self, of: Ints, span_ns: Ints, before: Readings, now: Readings, restarted: Bools
    ) -> tuple[Ints, npt.NDArray[np.uint8]]:
        bits, most_per_s, period_ns, stamp_error_ns = self._limits[of].T
        full = _full(bits)
        limit = _in_time(most_per_s, span_ns + stamp_error_ns).astype(np.uint64)
        way = (now - before) & full
        reset = restarted | (way > limit)
        unclear = ~reset & (limit > full)
        wrap = ~reset & ~unclear & (now < before)
        missed = (period_ns > 0) & (span_ns - period_ns > period_ns // 2)
        unknown = reset | unclear
        value = np.where(unknown, np.uint64(0), way).astype(np.int64)
        value[unknown] = UNKNOWN
        quality = (reset * RESET | wrap * WRAP | (unknown | missed) * GAP).astype(np.uint8)
        for name, which in (("resets", reset), ("wraps", wrap), ("unclear_rounds", unclear), ("gaps", missed)):
            self.counted[name] += int(which.sum())
        return value, quality

    def _count_left_out(self, times: Ints, counts: Readings, before: Ints, left_out: Bools) -> None:
        at = np.flatnonzero(left_out)
        then = before[at]
        self._count_old(times[at] == times[then], counts[at] == counts[then])

    def _count_old(self, same_time: Bools, same_count: Bools) -> None:
        self.counted["duplicates"] += int((same_time & same_count).sum())
        self.counted["conflicts"] += int((same_time & ~same_count).sum())
        self.counted["out_of_order"] += int((~same_time).sum())

    def state(self) -> list[Any]:
        """Arrays for a snapshot."""
        return [self._limits, self._last_ns, self._last.view(np.int64)]

    @classmethod
    def of_state(cls, state: list[Any]) -> Counters:
        """Continues from `state()`."""
        counters = cls()
        limits, last_ns, last = (np.array(column) for column in state)
        counters._limits, counters._last_ns, counters._last = limits, last_ns, last.view(np.uint64)
        return counters


def _full(bits: Ints) -> Readings:
    """The highest count of so many bits."""
    return np.uint64((1 << 64) - 1) >> (64 - bits).astype(np.uint64)


def _newer(of: Ints, times: Ints, readable: Bools, known: Bools) -> tuple[Bools, Ints]:
    """Which readings are newer than all before them of their series, and of each the place of the newest before it.

    Rows lie series by series, each series' last known reading first (`known`).
    """
    places = np.arange(len(of))
    ranks = np.unique(times, return_inverse=True)[1]
    # A number that rises with the time and, whatever the time, from series to series.
    order = (np.cumsum(known) - 1) * len(of) + np.where(readable, ranks, 0)
    highest = np.maximum.accumulate(order)
    newer = known.copy()
    newer[1:] |= readable[1:] & (order[1:] > highest[:-1])
    newest = np.maximum.accumulate(np.where(newer, places, 0))
    return newer & ~known, np.concatenate(([0], newest[:-1]))


def _in_time(most_per_s: Ints, time_ns: Ints) -> Ints:
    """What is counted at most in a time, MOST at most; in whole numbers, with no product beyond 64 bits."""
    seconds, rest_ns = np.divmod(time_ns, SECOND_NS)
    seconds = np.minimum(seconds, MOST // most_per_s)
    a_ns, more = np.divmod(most_per_s, SECOND_NS)
    most: Ints = most_per_s * seconds + a_ns * rest_ns + more * rest_ns // SECOND_NS
    return np.minimum(most, MOST)
