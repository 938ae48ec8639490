"""Which cascade a pause belongs to and what each cascade sums up, over whole lists: the twin of membership and ledger.

A pause joins the cascades of the causes and roots that have at least a tenth of its blame; a cascade that had no
stopped queue for more than 10 ms is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.reference.attribution import Attribution, Root
from tests.reference.pauses import Interval, Queue

GAP_NS = 10_000_000
JOIN_SHARE = 0.1
ACTIVE_SHARE = 0.02


class FlowWindow(NamedTuple):
    """Bytes of one flow that left by an egress queue between two instants."""

    queue: Queue
    start_ns: int
    end_ns: int
    flow: int
    sent_bytes: int


class Tally(NamedTuple):
    """Pauses of one queue: how many, how long, from the first's start to the last's end, how many ends were guessed."""

    pauses: int
    pause_ns: int
    first_ns: int
    last_ns: int
    guessed: int


@dataclass
class Cascade:
    """Pauses that belong together."""

    members: list[Interval] = field(default_factory=list)
    open_pauses: int = 0
    last_ns: int = 0

    def first(self) -> tuple[int, Queue]:
        """When it began, and the queue (of several the first by name) with which it did."""
        return min((member.start_ns, member.queue) for member in self.members)

    def over(self, now_ns: int) -> bool:
        """Whether it had no stopped queue for too long."""
        return not self.open_pauses and self.last_ns + GAP_NS < now_ns


class Cascades:
    """All cascades of an attribution, by walking through its openings and ends in time."""

    def __init__(self, attribution: Attribution) -> None:
        self.attribution = attribution
        self.of: dict[Interval, Cascade] = {}
        self._owner: dict[Root, Cascade] = {}
        opening: defaultdict[int, list[Interval]] = defaultdict(list)
        ending: defaultdict[int, list[Interval]] = defaultdict(list)
        for interval in attribution.order:
            opening[interval.start_ns].append(interval)
            if interval.end_ns is not None:
                ending[interval.end_ns].append(interval)
        for now_ns in sorted({*opening, *ending}):
            self._end(interval for interval in ending[now_ns] if interval.start_ns < now_ns)
            for interval in opening[now_ns]:
                self._open(interval)
            self._end(interval for interval in ending[now_ns] if interval.start_ns == now_ns)

    def all(self) -> list[Cascade]:
        """Every cascade once, by its beginning."""
        unique = {id(cascade): cascade for cascade in self.of.values()}
        return sorted(unique.values(), key=lambda cascade: cascade.first())

    def _open(self, interval: Interval) -> None:
        now_ns = interval.start_ns
        mine: Cascade | None = None
        for edge in self.attribution.edges[interval]:
            if edge.cause is not None and edge.cause in self.of and edge.share >= JOIN_SHARE:
                mine = self._join(mine, self.of[edge.cause], now_ns)
        blame = self.attribution.blame[interval]
        for root, share in blame.items():
            if share >= JOIN_SHARE and root in self._owner:
                mine = self._join(mine, self._owner[root], now_ns)
        mine = mine or Cascade()
        mine.members.append(interval)
        mine.open_pauses += 1
        mine.last_ns = now_ns
        self.of[interval] = mine
        for root, share in blame.items():
            if share >= ACTIVE_SHARE and root[0] in ("egress", "host", "unknown"):
                self._owner[root] = mine

    def _join(self, mine: Cascade | None, other: Cascade, now_ns: int) -> Cascade | None:
        if other is mine or other.over(now_ns):
            return mine
        if mine is None:
            return other
        mine.members += other.members
        mine.open_pauses += other.open_pauses
        mine.last_ns = max(mine.last_ns, other.last_ns)
        for member in other.members:
            self.of[member] = mine
        for root, owner in self._owner.items():
            if owner is other:
                self._owner[root] = mine
        return mine

    def _end(self, intervals: Iterable[Interval]) -> None:
        for interval in intervals:
            cascade = self.of[interval]
            cascade.open_pauses -= 1
            assert interval.end_ns is not None
            cascade.last_ns = max(cascade.last_ns, interval.end_ns)

    def queues(self, cascade: Cascade, now_ns: int) -> dict[Queue, Tally]:
        """The pauses of each queue; one that is still open is taken to end at now_ns."""
        tallies: dict[Queue, Tally] = {}
        for member in cascade.members:
            still = member.end_ns is None
            paused_ns = max(0, now_ns - member.start_ns) if still else member.paused_ns
            before = tallies.get(member.queue, Tally(0, 0, member.start_ns, 0, 0))
            tallies[member.queue] = Tally(
                before.pauses + 1,
                before.pause_ns + paused_ns,
                min(before.first_ns, member.start_ns),
                max(before.last_ns, member.start_ns + paused_ns),
                before.guessed + (member.guessed or still),
            )
        return tallies

    def root_ns(self, cascade: Cascade, now_ns: int) -> dict[Root, int]:
        """Pause time by root, every part rounded to whole ns."""
        scores: defaultdict[Root, int] = defaultdict(int)
        for member in cascade.members:
            paused_ns = max(0, now_ns - member.start_ns) if member.end_ns is None else member.paused_ns
            for root, share in self.attribution.blame[member].items():
                scores[root] += (paused_ns * _ppm(share) + 500_000) // 1_000_000
        return dict(scores)

    def edges(self, cascade: Cascade) -> dict[tuple[Queue, Queue], tuple[int, int]]:
        """By told queue and egress queue, the XOFFs that it caused, in ppm of one: all, and those that it passed on."""
        sums: dict[tuple[Queue, Queue], tuple[int, int]] = {}
        for member in cascade.members:
            for edge in self.attribution.edges[member]:
                ppm, passed = sums.get((member.queue, edge.egress), (0, 0))
                share = _ppm(edge.share)
                sums[member.queue, edge.egress] = (ppm + share, passed + share * (edge.cause is not None))
        return sums

    def flow_bytes(
        self, windows: Iterable[FlowWindow], destinations: Mapping[int, str], kept_ns: int
    ) -> list[tuple[Cascade, dict[tuple[Root, int, bool], int]]]:
        """Of every cascade, the bytes of flows through its roots while those were active: by root, flow, at its source.

        Bytes go to the cascade to which the last pause belongs that opened on the root's account before the window's
        end. A window through an egress that is no root counts for the host behind it, if that is one; bytes that leave
        their source for a host that is a root count for that one. A cascade is forgotten kept_ns after its end.
        """
        fabric = self.attribution.fabric
        sums: defaultdict[int, defaultdict[tuple[Root, int, bool], int]] = defaultdict(lambda: defaultdict(int))
        for window in windows:
            device, port, _ = window.queue
            peer = fabric.links.get((device, port))
            root: Root = ("egress", *window.queue)
            if self._active(root, window) is None and peer is not None and peer[0] in fabric.hosts:
                root = ("host", peer[0])
            cascade = self._remembered(root, window, kept_ns)
            at_source = cascade is None and device in fabric.hosts and window.flow in destinations
            if at_source:
                root = ("host", destinations[window.flow])
                cascade = self._remembered(root, window, kept_ns)
            if cascade is not None:
                sums[id(cascade)][root, window.flow, at_source] += window.sent_bytes
        return [(cascade, dict(sums[id(cascade)])) for cascade in self.all()]

    def _remembered(self, root: Root, window: FlowWindow, kept_ns: int) -> Cascade | None:
        cascade = self._active(root, window)
        if cascade is None or (not cascade.open_pauses and cascade.last_ns + kept_ns < window.end_ns):
            return None
        return cascade

    def _active(self, root: Root, window: FlowWindow) -> Cascade | None:
        """The cascade for which the root was active in the window, if it was."""
        opened = [
            interval
            for interval in self.attribution.order
            if interval.start_ns < window.end_ns and self.attribution.blame[interval].get(root, 0.0) >= ACTIVE_SHARE
        ]
        active = any(i.end_ns is None or max(i.start_ns, i.end_ns) >= window.start_ns for i in opened)
        return self.of[opened[-1]] if active else None


def _ppm(share: float) -> int:
    return int(share * 1e6 + 0.5)
