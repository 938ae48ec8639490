"""What a cascade's stops found held, and whom that blames, flow by flow and stop by stop: the slow twin of flow_blame.

Bytes of a flow that came to a device and have not left are held there, in the queue by which it leaves, or in those by
which it is routed if it never does. A queue that is stopped itself, or was within the last 20 us, passes the blame on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

from tests.reference.attribution import MEMORY_NS

Queue = tuple[str, str]
"""Device and port; all of one priority."""
Root = tuple[str, ...]


class FlowWindow(NamedTuple):
    """Bytes of a flow that left by a queue between two instants; windows of one flow and queue do not overlap."""

    flow: int
    queue: Queue
    start_ns: int
    end_ns: int
    sent: int


class Stop(NamedTuple):
    """A stop of a queue."""

    queue: Queue
    begin_ns: int
    end_ns: int


@dataclass
class FlowBlame:
    """The stops of one cascade, with the windows of flows and what is known of links, hosts and routes."""

    stops: Sequence[Stop]
    windows: Sequence[FlowWindow]
    links: dict[Queue, Queue]
    hosts: set[str]
    delay_ns: int
    ways: Callable[[int, str], list[str]]
    """Of a flow and a device, the ports by which it is routed on."""
    _blamed: dict[Stop, dict[Root, float]] = field(default_factory=dict)
    _in_work: set[Stop] = field(default_factory=set)

    def sent(self, flow: int, queue: Queue, until_ns: int) -> int:
        """What a flow had sent by a queue in whole bytes, those of a window spread evenly."""
        return sum(
            int(w.sent * min(1.0, (until_ns - w.start_ns) / (w.end_ns - w.start_ns)))
            for w in self.windows
            if (w.flow, w.queue) == (flow, queue) and until_ns > w.start_ns
        )

    def held(self, stop: Stop, at_ns: int) -> dict[Queue, int]:
        """By egress queue, whole bytes that had come by the stopped link and not left the pauser at an instant."""
        device = self.links[stop.queue][0]
        held: defaultdict[Queue, int] = defaultdict(int)
        if device in self.hosts or not any(w.queue[0] == device for w in self.windows):
            return held
        for flow in sorted({w.flow for w in self.windows if w.queue == stop.queue}):
            own = [w for w in self.windows if w.flow == flow]
            into = {w.queue for w in own if self.links[w.queue][0] == device}
            out = {w.queue for w in own if w.queue[0] == device}
            left = sum(self.sent(flow, queue, at_ns) for queue in out)
            rest = sum(self.sent(flow, queue, at_ns - self.delay_ns) for queue in into) - left
            if rest <= 0:
                continue
            share = self._total(flow, [stop.queue]) / self._total(flow, into)
            if out:
                for queue in out:
                    held[queue] += int(rest * share * (self._total(flow, [queue]) / self._total(flow, out)))
            else:
                ports = self.ways(flow, device)
                for port in ports:
                    held[device, port] += int(rest * share * (1 / len(ports)))
        return {queue: held[queue] for queue in sorted(held)}

    def _total(self, flow: int, queues: Sequence[Queue] | set[Queue]) -> int:
        return sum(w.sent for w in self.windows if w.flow == flow and w.queue in queues)

    @cached_property
    def mass(self) -> dict[Stop, int]:
        """What each stop found in its ingress: what one alone is stopped at, less a ninth of what the others hold."""
        at_stop = {stop: self.reading(stop, stop.begin_ns - self.delay_ns) for stop in self.stops}
        at_end = {stop: self.reading(stop, end) for stop in self.stops if (end := self.window_end(stop)) is not None}
        found = {}
        for stop in self.stops:
            device = self.links[stop.queue][0]
            alone = self.alone([stop for stop in self.stops if self.kind(stop) == self.kind(device)], at_stop, at_end)
            alone = alone or self.alone(self.stops, at_stop, at_end)
            own, others = at_stop[stop]
            ports = sum(here == device for here, _ in self.links)
            by_count = alone * 9 / (8 + max(self.stopped(stop), 1))
            found[stop] = int(max(alone - others / 9, alone * 9 / (8 + ports)) if own else by_count)
        return found

    def kind(self, of: Stop | str) -> int:
        """Of a device, or of who stops: how many ports; all are as fast."""
        device = of if isinstance(of, str) else self.links[of.queue][0]
        return sum(here == device for here, _ in self.links)

    def reading(self, stop: Stop, at_ns: int) -> tuple[int, int]:
        """Bytes of the stopped link at its end's device, and of the others that stand there."""
        device = self.links[stop.queue][0]
        own = sum(self.held(stop, at_ns).values())
        if device in self.hosts or not any(w.queue[0] == device for w in self.windows):
            return 0, 0
        if not any(w.queue == stop.queue for w in self.windows):
            return 0, 0
        came = self.until([w for w in self.windows if self.links[w.queue][0] == device], at_ns - self.delay_ns)
        left = self.until([w for w in self.windows if w.queue[0] == device], at_ns)
        return own, max(came - left - own, 0)

    def until(self, windows: Sequence[FlowWindow], at_ns: int) -> int:
        """Bytes of all these windows up to an instant; alike windows are one."""
        spans: defaultdict[tuple[int, int], int] = defaultdict(int)
        for w in windows:
            spans[w.start_ns, w.end_ns] += w.sent
        return sum(
            int(sent * min(1.0, (at_ns - start) / (end - start)))
            for (start, end), sent in spans.items() if at_ns > start
        )  # fmt: skip

    def window_end(self, stop: Stop) -> int | None:
        """When the window of the stopped queue that holds the XOFF ended, if it was stopped still."""
        sent_ns = stop.begin_ns - self.delay_ns
        own = [w for w in self.windows if w.queue == stop.queue]
        bounds = {w.start_ns for w in own} | {w.end_ns for w in own}
        earlier = max((bound for bound in bounds if bound <= sent_ns), default=None)
        later = min((bound for bound in bounds if bound > sent_ns), default=None)
        longest = max((w.end_ns - w.start_ns for w in own), default=0)
        if earlier is None or later is None or later - earlier > longest or later > stop.end_ns:
            return None
        return later

    @staticmethod
    def alone(
        stops: Sequence[Stop], at_stop: dict[Stop, tuple[int, int]], at_end: dict[Stop, tuple[int, int]]
    ) -> float:
        """The mean of the medians of both kinds of readings, of those that there are."""
        found = []
        for readings in (at_stop, at_end):
            known = [readings[stop] for stop in stops if stop in readings]
            alone = [own + others / 9 for own, others in known if own]
            if alone:
                found.append(median(alone))
        return sum(found) / len(found) if found else 0.0

    def stopped(self, stop: Stop) -> int:
        """Queues that the same device stopped when it sent the XOFF, or just before."""
        device = self.links[stop.queue][0]
        return len({
            other.queue for other in self.stops
            if self.links[other.queue][0] == device and other.begin_ns <= stop.begin_ns <= other.end_ns + MEMORY_NS
        })  # fmt: skip

    def causes(self, stop: Stop) -> dict[Queue, float]:
        """The share of each egress queue in a stop."""
        held = {q: count for q, count in self.held(stop, stop.begin_ns - self.delay_ns).items() if count}
        return {queue: count / sum(held.values()) for queue, count in held.items()}

    def stopped_by(self, queue: Queue, stop: Stop) -> Stop | None:
        """The last stop of a queue that held it up, or just had, when another stop began."""
        begun = [other for other in self.stops if other.queue == queue and other.begin_ns <= stop.begin_ns]
        last = max(begun, key=lambda other: other.begin_ns, default=None)
        return last if last is not None and last.end_ns >= stop.begin_ns - MEMORY_NS else None

    def blame(self, stop: Stop) -> dict[Root, float]:
        """The roots of a stop with shares."""
        if stop in self._blamed:
            return self._blamed[stop]
        self._in_work.add(stop)
        device = self.links[stop.queue][0]
        blamed: defaultdict[Root, float] = defaultdict(float)
        for queue, share in self.causes(stop).items():
            cause = self.stopped_by(queue, stop)
            if cause is None:
                blamed["egress", *queue] += share
            elif cause in self._in_work:
                blamed["cycle",] += share
            else:
                for root, part in self.blame(cause).items():
                    blamed[root] += share * part
        if not blamed:
            blamed["host" if device in self.hosts else "unknown", device] = 1.0
        self._in_work.remove(stop)
        self._blamed[stop] = dict(blamed)
        return self._blamed[stop]
