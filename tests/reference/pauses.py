"""Pauses by names, in the plainest way: frames to episodes, and episode rows to whole intervals.

The slow twin of analytics.pauses and of the way in which analytics.kernel matches opens and closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

Queue = tuple[str, str, int]
"""Device, egress port and priority: what a pause stops."""


class Frame(NamedTuple):
    """A pause frame on a queue and side, in the order of its stream."""

    time_ns: int
    queue: Hashable
    stops: bool
    logged: bool = False
    """Whether it comes from a log of changes, which tells no quanta."""


class Episode(NamedTuple):
    """What a frame becomes: a pause that opens, or one that ends after span_ns (-1: unknown); its order there."""

    time_ns: int
    queue: Hashable
    ends: bool
    span_ns: int
    order: int


class Paired(NamedTuple):
    """All episodes, in order, and the frames that made none."""

    episodes: list[Episode]
    refreshes: int
    unmatched: int


def pair(frames: Iterable[Frame]) -> Paired:
    """XOFF opens a pause or refreshes an open one, XON ends it; in a log, what does not fit says what is missing."""
    logged: dict[Hashable, bool] = {}
    open_since: dict[Hashable, int] = {}
    counts: defaultdict[Hashable, int] = defaultdict(int)
    episodes: list[Episode] = []
    refreshes = unmatched = 0
    for frame in frames:
        is_open = frame.queue in open_since
        if frame.stops and is_open and not frame.logged:
            refreshes += 1
        elif frame.stops:
            logged[frame.queue] = frame.logged
            open_since[frame.queue] = frame.time_ns
            counts[frame.queue] += 1
            episodes.append(Episode(frame.time_ns, frame.queue, False, 0, counts[frame.queue]))
        elif is_open:
            span_ns = frame.time_ns - open_since.pop(frame.queue)
            episodes.append(Episode(frame.time_ns, frame.queue, True, span_ns, counts[frame.queue]))
        else:
            unmatched += 1
            if logged.get(frame.queue):
                episodes.append(Episode(frame.time_ns, frame.queue, True, -1, counts[frame.queue]))
    return Paired(episodes, refreshes, unmatched)


class Told(NamedTuple):
    """An episode row as it takes effect at the told queue; an end says how long the pause lasted."""

    time_ns: int
    queue: Queue
    ends: bool
    order: int
    paused_ns: int = 0


@dataclass(frozen=True)
class Interval:
    """A queue that was stopped from start_ns to end_ns; None = still is."""

    queue: Queue
    start_ns: int
    end_ns: int | None
    paused_ns: int
    guessed: bool = False

    def stopped_at(self, time_ns: int) -> bool:
        """Whether the queue is stopped once all that ended at this instant has ended and all that began has begun."""
        if self.start_ns == time_ns:
            return True
        return self.start_ns < time_ns and (self.end_ns is None or self.end_ns > time_ns)


class Matched(NamedTuple):
    """All intervals and the rows that fit to none."""

    intervals: list[Interval]
    unmatched: int
    reopened: int


def match(rows: Iterable[Told]) -> Matched:
    """Intervals of every queue: an end belongs to the open pause of the same order.

    A pause that opens while one is open ends that one by a guess. Of several that open on a queue at one instant the
    last stands; ends of that instant belong first to what was open before, then to what opened.
    """
    by_queue: defaultdict[Queue, list[Told]] = defaultdict(list)
    for row in rows:
        by_queue[row.queue].append(row)
    intervals: list[Interval] = []
    unmatched = reopened = 0
    for queue, told in by_queue.items():
        opened: Told | None = None
        for now_ns in sorted({row.time_ns for row in told}):
            ends = sorted((row for row in told if row.time_ns == now_ns and row.ends), key=lambda row: row.order)
            opens = sorted((row for row in told if row.time_ns == now_ns and not row.ends), key=lambda row: row.order)
            for wave in ("before", "opened now"):
                if wave == "opened now" and opens:
                    reopened += len(opens) - (opened is None)
                    if opened is not None:
                        start_ns = opened.time_ns
                        intervals.append(Interval(queue, start_ns, now_ns, now_ns - start_ns, guessed=True))
                    opened = opens[-1]
                for row in list(ends):
                    if opened is not None and row.order == opened.order:
                        intervals.append(Interval(queue, opened.time_ns, now_ns, row.paused_ns))
                        opened = None
                        ends.remove(row)
            unmatched += len(ends)
        if opened is not None:
            intervals.append(Interval(queue, opened.time_ns, None, 0))
    return Matched(intervals, unmatched, reopened)
