"""What a cascade's stops found in each egress queue, by the bytes of whole ports: the slow twin of port_edges.

Tables of bytes by ingress and egress are fitted to what came and what left in each piece of time, and what stands in a
queue is followed from piece to piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from analytics.port_edges import LEAST_PART, PASSES, ROUNDS
from tests.reference.flow_edges import Queue, Stop

Table = dict[tuple[str, str], float]
"""Bytes, or parts, by ingress and egress port of one device."""


class PortWindow(NamedTuple):
    """Bytes that left by a queue between two instants, or how high it was."""

    queue: Queue
    start_ns: int
    end_ns: int
    amount: int


def scaled(table: Table, sums: dict[str, float], side: int) -> Table:
    """The table with its rows (side 0) or columns (side 1) scaled to their sums."""
    totals: defaultdict[str, float] = defaultdict(float)
    for pair, amount in table.items():
        totals[pair[side]] += amount
    return {
        pair: amount * (sums[pair[side]] / totals[pair[side]]) if totals[pair[side]] else 0.0
        for pair, amount in table.items()
    }  # fmt: skip


def fitted(split: Table, came: dict[str, float], left: dict[str, float]) -> Table:
    """Bytes by pair in one piece of time."""
    table = {pair: came[pair[0]] * part + LEAST_PART for pair, part in split.items()}
    for _ in range(ROUNDS):
        table = scaled(scaled(table, came, 0), left, 1)
    return table


@dataclass
class DevicePorts:
    """One device: its ports by name, which pairs may be, and all windows, depths and pauses of the fabric."""

    device: str
    ports: Sequence[str]
    may: set[tuple[str, str]]
    links: dict[Queue, Queue]
    sent: Sequence[PortWindow]
    depths: Sequence[PortWindow]
    pauses: Sequence[Stop]
    delay_ns: int
    speed_mbps: int
    _mixes: list[Table] = field(default_factory=list)

    @cached_property
    def bounds_ns(self) -> list[int]:
        """The ends of all windows in which the device sent."""
        own = [w for w in self.sent if w.queue[0] == self.device]
        return sorted({w.start_ns for w in own} | {w.end_ns for w in own})

    def spread(self, windows: Sequence[PortWindow], delay_ns: int) -> list[float]:
        """The bytes of windows in each piece of time."""
        pieces = []
        for begin, end in zip(self.bounds_ns, self.bounds_ns[1:], strict=False):
            amount = 0.0
            for w in sorted(windows, key=lambda w: (w.start_ns, w.end_ns, w.amount)):
                inside = min(end, w.end_ns + delay_ns) - max(begin, w.start_ns + delay_ns)
                amount += w.amount * (inside / (w.end_ns - w.start_ns)) if inside > 0 else 0.0
            pieces.append(amount)
        return pieces

    @cached_property
    def mixes(self) -> list[Table]:
        """In each piece of time, the part of each ingress in what stood in each egress queue."""
        came, left = {}, {}
        for port in self.ports:
            peer = self.links[self.device, port]
            came[port] = self.spread([w for w in self.sent if w.queue == peer], self.delay_ns)
            left[port] = self.spread([w for w in self.sent if w.queue == (self.device, port)], 0)
        pieces = range(max(len(self.bounds_ns) - 1, 0))
        rows = [{port: came[port][piece] for port in self.ports} for piece in pieces]
        columns = [{port: left[port][piece] for port in self.ports} for piece in pieces]
        pairs = [(i, j) for i in self.ports for j in self.ports if (i, j) in self.may]
        split = {(i, j): 1 / sum(pair[0] == i for pair in pairs) for i, j in pairs}
        for _ in range(PASSES):
            all_of: defaultdict[tuple[str, str], float] = defaultdict(float)
            for piece in pieces:
                for pair, amount in fitted(split, rows[piece], columns[piece]).items():
                    all_of[pair] += amount
            ones = dict.fromkeys(self.ports, 1.0)
            split = {
                pair: part if sum(all_of[other] for other in pairs if other[0] == pair[0])
                else split[pair] for pair, part in scaled({pair: all_of[pair] for pair in pairs}, ones, 0).items()
            }  # fmt: skip
        mix = {(i, j): 1 / sum(pair[1] == j for pair in pairs) for i, j in pairs}
        stood = dict.fromkeys(pairs, 0.0)
        mixes = []
        for piece in pieces:
            new = fitted(split, rows[piece], columns[piece])
            mix, stays = dict(mix), {}
            for port in self.ports:
                column = [pair for pair in pairs if pair[1] == port]
                came_now, stood_before = sum(new[p] for p in column), sum(stood[p] for p in column)
                high = self.highest(port, piece)
                for pair in column:
                    if came_now + stood_before:
                        mix[pair] = (new[pair] + stood[pair]) / (came_now + stood_before)
                    old = min(max(high - came_now, 0), stood_before)
                    kept = stood[pair] / stood_before * old if stood_before else 0
                    stays[pair] = kept + (new[pair] / came_now * min(high, came_now) if came_now else 0)
            stood = stays
            mixes.append(mix)
        return mixes

    def highest(self, port: str, piece: int) -> int:
        """The greatest depth of the windows that meet a piece of time."""
        begin, end = self.bounds_ns[piece], self.bounds_ns[piece + 1]
        own = [w for w in self.depths if w.queue == (self.device, port)]
        return max((w.amount for w in own if w.start_ns < end and w.end_ns > begin), default=0)

    def held(self, port: str, time_ns: int) -> float:
        """The bytes to be met in a queue at an instant."""
        queue = (self.device, port)
        own = [w for w in self.depths if w.queue == queue and w.start_ns <= time_ns]
        depths = sorted(own, key=lambda w: w.start_ns)
        stops = sorted(s for s in self.pauses if s.queue == queue and s.begin_ns <= time_ns)
        if stops and stops[-1].end_ns >= time_ns:
            begin_ns = stops[-1].begin_ns
            height = max((w.amount for w in depths if w.end_ns > begin_ns), default=0)
            before = [w for w in depths if w.end_ns <= begin_ns]
            if not height and before and begin_ns - before[-1].end_ns < before[-1].end_ns - before[-1].start_ns:
                height = before[-1].amount
            return height
        if not depths or depths[-1].end_ns <= time_ns:
            return 0.0
        last = depths[-1]
        could = self.speed_mbps * (last.end_ns - last.start_ns) / 8_000
        return last.amount * min(1.0, last.amount / could) if could else last.amount

    def parts(self, ingress: str, time_ns: int) -> dict[str, float]:
        """The parts of the egress queues in what an ingress held when its XOFF was sent, which sum to 1."""
        held = {port: self.held(port, time_ns) for port in self.ports if (ingress, port) in self.may}
        at = sum(bound <= time_ns for bound in self.bounds_ns) - 1
        if self.mixes:
            mix = self.mixes[min(max(at, 0), len(self.mixes) - 1)]
            mixed = {port: height * mix[ingress, port] for port, height in held.items()}
            held = mixed if sum(mixed.values()) else held
        total = sum(held.values())
        return {port: height / total for port, height in held.items() if height} if total else {}
