"""Blame of every pause over whole lists of intervals and windows, by recursion: the slow twin of analytics.blame.

An XOFF that device X sent on ingress q is caused by the egress queues of X that q feeds, by the square of their queues.
A queue that is stopped itself, or was within the last 20 us, passes its blame on to what stopped it; else it is a root.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.reference.pauses import Interval, Queue
from tests.reference.topology import Fabric, Port

MEMORY_NS = 20_000
MOST_ROOTS = 8
LEAST_CAUSE = 0.001

Root = tuple[str | int, ...]
"""("egress", device, port, priority), ("host", device), ("unknown", device), ("other",) or ("cycle",)."""
OTHER: Root = ("other",)
CYCLE: Root = ("cycle",)


class Window(NamedTuple):
    """The high-water mark of an egress queue between two instants; windows of one queue do not overlap."""

    queue: Queue
    start_ns: int
    end_ns: int
    peak_bytes: int


class Edge(NamedTuple):
    """A queue of the pauser that caused an XOFF, its share, and the interval that it passed the blame on from."""

    egress: Queue
    share: float
    cause: Interval | None


class Attribution:
    """Of every interval the blame by root and the edges; `order` is the order in which they were worked out."""

    def __init__(self, fabric: Fabric, intervals: Iterable[Interval], windows: Iterable[Window]) -> None:
        self.fabric = fabric
        self.blame: dict[Interval, dict[Root, float]] = {}
        self.edges: dict[Interval, list[Edge]] = {}
        self.order: list[Interval] = []
        self._intervals: defaultdict[Queue, list[Interval]] = defaultdict(list)
        self._windows: defaultdict[Queue, list[Window]] = defaultdict(list)
        self._exits: dict[Port, list[Port]] = {}
        self._in_work: set[Interval] = set()
        for window in sorted(windows, key=lambda w: w.start_ns):
            self._windows[window.queue].append(window)
        ordered = sorted(intervals, key=lambda i: (i.start_ns, i.queue))
        for interval in ordered:
            self._intervals[interval.queue].append(interval)
        for interval in ordered:
            self._work_out(interval)

    def _work_out(self, interval: Interval) -> None:
        if interval in self.blame:
            return
        self._in_work.add(interval)
        device, port, priority = interval.queue
        pauser = self.fabric.links.get((device, port))
        blame: dict[Root, float] = {}
        edges: list[Edge] = []
        if pauser is None:
            blame[("unknown", device)] = 1.0
        elif pauser[0] in self.fabric.hosts:
            blame[("host", pauser[0])] = 1.0
        else:
            blame, edges = self._pass_on(pauser, priority, interval.start_ns)
        self.blame[interval] = _largest(blame)
        self.edges[interval] = edges
        self.order.append(interval)
        self._in_work.remove(interval)

    def _pass_on(self, pauser: Port, priority: int, now_ns: int) -> tuple[dict[Root, float], list[Edge]]:
        weights: dict[Queue, float] = {}
        for device, port in self._feasible(pauser):
            queue = (device, port, priority)
            height = float(self._evidence(queue, now_ns))
            if height > 0:
                weights[queue] = height * height
                cause = self._last(queue, now_ns)
                if cause is not None and cause.start_ns == now_ns and cause not in self._in_work:
                    self._work_out(cause)
        if not weights and not self._reports_depth(pauser[0], now_ns):
            # Nobody tells of its queues: of those that may hold the bytes, the stopped ones surely hold some.
            for device, port in self._feasible(pauser):
                queue = (device, port, priority)
                cause = self._last(queue, now_ns)
                if cause is not None and _lately(cause, now_ns):
                    weights[queue] = 1.0
                    if cause.start_ns == now_ns and cause not in self._in_work:
                        self._work_out(cause)
        total = sum(weights.values())
        if not total:
            return {("unknown", pauser[0]): 1.0}, []
        blame: defaultdict[Root, float] = defaultdict(float)
        edges: list[Edge] = []
        rest = 0.0
        for queue, weight in weights.items():
            share = weight / total
            if share < LEAST_CAUSE:
                rest += share
                continue
            cause = self._last(queue, now_ns)
            if cause is None or not _lately(cause, now_ns):
                cause = None
                blame["egress", *queue] += share
            elif cause in self._in_work:
                blame[CYCLE] += share
            else:
                for root, part in self.blame[cause].items():
                    blame[root] += share * part
            edges.append(Edge(queue, share, cause))
        if rest:
            blame[OTHER] += rest
        return blame, edges

    def _reports_depth(self, device: str, now_ns: int) -> bool:
        """Whether any of the device's queues has told of its depth so far."""
        return any(
            queue[0] == device and windows[0].start_ns <= now_ns for queue, windows in self._windows.items() if windows
        )

    def _feasible(self, entry: Port) -> list[Port]:
        if entry not in self._exits:
            self._exits[entry] = self.fabric.exits(entry)
        return self._exits[entry]

    def _last(self, queue: Queue, now_ns: int) -> Interval | None:
        """The queue's last interval that began at or before this instant."""
        intervals = self._intervals.get(queue, [])
        place = bisect_right(intervals, now_ns, key=lambda i: i.start_ns)
        return intervals[place - 1] if place else None

    def _evidence(self, queue: Queue, now_ns: int) -> int:
        """The window's mark; of a stopped queue the highest since its stop, or else that of the window before it."""
        windows = self._windows.get(queue, [])
        begun = bisect_right(windows, now_ns, key=lambda w: w.start_ns)
        last = self._last(queue, now_ns)
        if last is None or not last.stopped_at(now_ns):
            return windows[begun - 1].peak_bytes if begun and now_ns < windows[begun - 1].end_ns else 0
        first = bisect_right(windows, last.start_ns, key=lambda w: w.start_ns)
        held = first > 0 and last.start_ns < windows[first - 1].end_ns
        since_stop = windows[first - held : begun]
        highest = max((window.peak_bytes for window in since_stop), default=0)
        if highest or first - held < 1:
            return highest
        before = windows[first - held - 1]
        if held:
            return before.peak_bytes if before.end_ns == windows[first - 1].start_ns else 0
        return before.peak_bytes if last.start_ns - before.end_ns < before.end_ns - before.start_ns else 0


def _lately(interval: Interval, now_ns: int) -> bool:
    """Whether it stops its queue at an instant, or did a moment ago."""
    return interval.stopped_at(now_ns) or (interval.end_ns is not None and interval.end_ns >= now_ns - MEMORY_NS)


def _largest(blame: dict[Root, float]) -> dict[Root, float]:
    """At most eight roots: the seven largest (of equals the one met first) and all others as one."""
    if len(blame) <= MOST_ROOTS:
        return dict(blame)
    ranked = sorted(blame.items(), key=lambda pair: -pair[1])
    kept = dict(ranked[: MOST_ROOTS - 1])
    kept[OTHER] = kept.get(OTHER, 0.0) + sum(share for _, share in ranked[MOST_ROOTS - 1 :])
    return kept
