"""A small fluid model of a lossless fabric: queues fill, ingresses stop their peers, what is stopped backs up.

In: a `Plan` of cables, flows and slow hosts. Out: a `Run`: every pause, what ports counted, when flows were through.

Time goes in steps of 1 us, which is the delay of a cable too. An egress serves the flows in its queue in proportion to
their bytes, as a first-in-first-out queue does on average. An ingress stops its peer above XOFF_BYTES that came by it
and lets it go below XON_BYTES; headroom is unbounded, so nothing is dropped. A host takes what comes at its own rate
out of a buffer with the same thresholds. There is no congestion control: what a plan sends, the fabric must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEP_NS = 1_000
BIN_STEPS = 100
SPEED_MBPS = 100_000
BYTES_PER_STEP = SPEED_MBPS * STEP_NS / 8_000
XOFF_BYTES = 200_000
"""16 us at line rate: thresholds of 100 Gb/s switches lie between 160 and 300 KB."""
XON_BYTES = XOFF_BYTES - 18_432
"""Two large frames below, the usual offset of shared-buffer switches."""
STUCK_STEPS = 1_000
"""If nothing at all has moved for so long, nothing ever will: every queue that could send would have."""

Port = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Burst:
    """Bytes that a host has to send from a time on, offered at a share of line rate."""

    at_step: int
    size_bytes: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """The egress ports of a flow in order, from its source's NIC on, and what it sends."""

    path: tuple[Port, ...]
    bursts: tuple[Burst, ...]


@dataclass(frozen=True, slots=True)
class Slow:
    """A host takes only a share of line rate from one step to another."""

    host: str
    from_step: int
    to_step: int
    rate: float


@dataclass(slots=True)
class Plan:
    """A fabric and what is to happen in it."""

    hosts: set[str] = field(default_factory=set)
    peers: dict[Port, Port] = field(default_factory=dict)
    flows: list[PlannedFlow] = field(default_factory=list)
    slow: list[Slow] = field(default_factory=list)
    steps: int = 4_000

    def cable(self, one: Port, other: Port) -> None:
        """Joins two ports."""
        self.peers[one], self.peers[other] = other, one


@dataclass(frozen=True, slots=True)
class Pause:
    """An egress that was told to stop (or to go on, `stops` False), at the step at which it was told."""

    step: int
    port: Port
    stops: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What happened. Counters are arrays of bins by port; `done` is the step at which a flow was through, -1 if never.

    `stuck_from` is the step from which nothing moved any more though bytes were left, -1 if it never came to that.
    """

    pauses: list[Pause]
    ports: list[Port]
    sent_bytes: Ints
    peak_bytes: Ints
    stopped_steps: Ints
    stops: Ints
    flow_bytes: dict[tuple[int, Port], Ints]
    """By flow and egress port, what left in each bin."""
    delivered: Floats
    """By step and flow, the bytes that its destination has taken."""
    done: list[int]
    stuck_from: int


def run(plan: Plan, *, pausing: bool = True) -> Run:
    """Runs the plan to its end; without `pausing`, every buffer holds whatever comes."""
    return _Model(plan, pausing).run()


class _Model:
    """Places (flow, hop) in one array; a flow's last place is the buffer of its destination, served by the host."""

    def __init__(self, plan: Plan, pausing: bool) -> None:
        self.plan, self.pausing = plan, pausing
        self.ports = sorted(plan.peers)
        number = {port: place for place, port in enumerate(self.ports)}
        egress: list[int] = []
        ingress: list[int] = []
        follows: list[int] = []
        self.first: list[int] = []
        hosts = sorted(plan.hosts)
        for flow in plan.flows:
            self.first.append(len(egress))
            for hop, port in enumerate(flow.path):
                egress.append(number[port])
                ingress.append(number[flow.path[hop - 1]] if hop else -1)
                follows.append(len(egress))
            destination = plan.peers[flow.path[-1]][0]
            egress.append(len(self.ports) + hosts.index(destination))
            ingress.append(number[flow.path[-1]])
            follows.append(-1)
        self.egress, self.ingress, self.follows = (np.array(column, np.int64) for column in (egress, ingress, follows))
        self.lines = len(self.ports) + len(hosts)
        self.rates = self._host_rates(plan.slow, hosts)

    def _host_rates(self, slow: list[Slow], hosts: list[str]) -> Floats:
        # A host takes a little more than line rate while it is well, so that only slowness fills its buffer.
        rates = np.full((self.plan.steps, len(hosts)), 2.0)
        for span in slow:
            rates[span.from_step : span.to_step, hosts.index(span.host)] = span.rate
        return rates * BYTES_PER_STEP

    def run(self) -> Run:
        """All steps."""
        plan, ports = self.plan, len(self.ports)
        held, coming = np.zeros(len(self.egress)), np.zeros(len(self.egress))
        stopped = np.zeros(ports, np.bool_)
        delivered = np.zeros(len(plan.flows))
        wanted = np.array([sum(burst.size_bytes for burst in flow.bursts) for flow in plan.flows], np.float64)
        offered = self._offered()
        bins = -(-plan.steps // BIN_STEPS)
        sent_bytes, peak_bytes = np.zeros((bins, ports)), np.zeros((bins, ports))
        through = np.zeros((plan.steps, len(plan.flows)))
        passed = np.zeros((bins, len(self.egress)))
        stopped_steps, stops = np.zeros((bins, ports), np.int64), np.zeros((bins, ports), np.int64)
        pauses: list[Pause] = []
        done, still = np.full(len(plan.flows), -1), 0
        last, first = self.follows < 0, np.array(self.first, np.int64)
        arrives = self.ingress >= 0
        for step in range(plan.steps):
            here = step // BIN_STEPS
            held += coming
            held[first] += offered[step]
            line = np.bincount(self.egress, held, self.lines)
            peak_bytes[here] = np.maximum(peak_bytes[here], line[:ports])
            room = np.full(self.lines, BYTES_PER_STEP)
            room[:ports][stopped] = 0.0
            room[ports:] = self.rates[step]
            share = np.minimum(1.0, room / np.maximum(line, 1e-9))
            sent = held * share[self.egress]
            held -= sent
            coming = np.zeros_like(held)
            coming[self.follows[~last]] = sent[~last]
            delivered += sent[last]
            passed[here] += sent
            through[step] = delivered
            sent_bytes[here] += np.bincount(self.egress, sent, self.lines)[:ports]
            done[(done < 0) & (delivered >= wanted - 1.0)] = step
            stopped_steps[here] += stopped
            still = still + 1 if sent.sum() < 1.0 and held.sum() > 1.0 else 0
            if self.pausing and step + 1 < plan.steps:
                came = np.bincount(self.ingress[arrives], held[arrives], ports)
                now = (stopped | (came > XOFF_BYTES)) & (came >= XON_BYTES)
                for port in np.flatnonzero(now != stopped).tolist():
                    pauses.append(Pause(step + 1, self.ports[port], bool(now[port])))
                    stops[(step + 1) // BIN_STEPS, port] += now[port]
                stopped = now
        flow_bytes = {
            (place, port): np.round(passed[:, self.first[place] + hop]).astype(np.int64)
            for place, flow in enumerate(plan.flows)
            for hop, port in enumerate(flow.path)
        }
        return Run(
            pauses=pauses,
            ports=self.ports,
            sent_bytes=np.round(sent_bytes).astype(np.int64),
            peak_bytes=np.round(peak_bytes).astype(np.int64),
            stopped_steps=stopped_steps,
            stops=stops,
            flow_bytes=flow_bytes,
            delivered=through,
            done=done.tolist(),
            stuck_from=plan.steps - still if still >= STUCK_STEPS else -1,
        )

    def _offered(self) -> Floats:
        """Bytes that each flow's source has to send at each step."""
        offered = np.zeros((self.plan.steps, len(self.plan.flows)))
        for place, flow in enumerate(self.plan.flows):
            for burst in flow.bursts:
                each = burst.rate * BYTES_PER_STEP
                whole = int(burst.size_bytes / each)
                end = min(burst.at_step + whole, self.plan.steps)
                offered[burst.at_step : end, place] += each
                if end < self.plan.steps:
                    offered[end, place] += burst.size_bytes - whole * each
        return offered


def slowed_by(plan: Plan, paused: Run) -> float:
    """The most that any bytes of a flow were late because of pauses, as a share of the flow's time.

    Late is what comes later than by the same plan in a fabric whose buffers hold everything and that never pauses.
    """
    free = run(plan, pausing=False)
    worst = 0.0
    for place, (flow, undisturbed) in enumerate(zip(plan.flows, free.done, strict=True)):
        if undisturbed < 0:
            raise ValueError("the plan ends before a flow that nobody stops is through")
        begins = min(burst.at_step for burst in flow.bursts)
        steps = np.arange(begins, undisturbed)
        # A byte of rounding may separate two curves that are the same.
        when = np.searchsorted(paused.delivered[:, place], free.delivered[steps, place] - 1.0)
        worst = max(worst, float((when - steps).max()) / (undisturbed - begins))
    return worst


def shortest_path(peers: Mapping[Port, Port], hosts: set[str], src: str, dst: str, choice: int) -> tuple[Port, ...]:
    """The egress ports of a shortest way between two hosts; `choice` picks among equal ones, as a hash does."""
    hops = {dst: 0}
    frontier = [dst]
    while frontier:
        reached = []
        for device in frontier:
            for port in sorted(port for port in peers if port[0] == device):
                there = peers[port][0]
                if there not in hops:
                    hops[there] = hops[device] + 1
                    if there not in hosts:
                        reached.append(there)
        frontier = reached
    path: list[Port] = []
    device = src
    while device != dst:
        ports = sorted(port for port in peers if port[0] == device)
        nearer = [port for port in ports if hops.get(peers[port][0]) == hops[device] - 1]
        path.append(nearer[choice % len(nearer)])
        device = peers[path[-1]][0]
    return tuple(path)
