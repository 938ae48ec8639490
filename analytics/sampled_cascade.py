"""A cascade of polled devices while it lasts: what each period told of it, added up.

In: the stops of a period and their blame. Out: a ledger as the engine's cascades have it, and what sampling adds.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analytics import layout
from analytics.classes import DEGRADED_WINDOWS
from analytics.layout import Ints
from analytics.ledger import EdgeTally, Ledger, QueueTally
from analytics.polls import Told
from analytics.sampled_blame import HEDGE, RULES, Blamed
from analytics.topology import PRIORITIES, Topology

ENOUGH_PERIODS = 3
"""Below, one period decides too much: the rules' mean is reported, and as a suspect set (docs/sampled.md)."""
JITTER = 1.1
"""Polls that are so many times as long as a period count as of its length."""
FULL_SHARE = 0.99
"""A queue that was stopped for so much of a period was stopped for all of it, as clocks round."""

# Columns of a queue's sums, floats: stops, paused ns, paused ns beyond what is usual for it, begin of its first and end
# of its last period, begin and end of the longest run of full periods, begin of the present one (NEVER: none), the
# longest mean stop of a period that is no part of a run.
STOPS, PAUSED, UNUSUAL, FIRST, LAST, RUN_BEGIN, RUN_END, RUN_OPEN, MEAN_STOP, PAUSER = range(10)
QUEUE_SUMS = 10
# Columns of a port's sums: sent bytes while its siblings had an active root, while it was stopped itself, and the time.
SENT, SENT_STOPPED, ACTIVE_NS, MAX_MBPS, QUEUED_PERIODS = range(5)
PORT_SUMS = 5


@dataclass(frozen=True, slots=True)
class Part:
    """What sampling adds to a closed cascade.

    `periods`: how many polls carry pause; `length_ns`: of the longest of them; `members`: by root, paused ns by each
    rule; `durations`, `repaired`: of the stops those with known durations, and of paused time that of silent devices;
    `exact`, `sampled`: devices; `ports`: state of ports in the engine's layout; `excess`: by queue, stopped time beyond
    the usual; `evidence`: by device that pauses, bits REPORTS_* of what it told; `hedged`: fewer than ENOUGH_PERIODS.
    """

    periods: float
    length_ns: int
    members: dict[int, list[float]]
    durations: float
    repaired: float
    exact: tuple[int, ...]
    sampled: tuple[int, ...]
    ports: Ints
    excess: dict[int, float]
    evidence: dict[int, int]
    hedged: bool
    first_queue: int


@dataclass(slots=True)
class SampledCascade:
    """The sums of one cascade, from the period at `start_ns` on; `first_queue` gives it its name."""

    start_ns: int
    first_queue: int
    last_ns: int = 0
    periods: float = 0.0
    length_ns: int = 0
    queues: dict[int, list[float]] = field(default_factory=dict)
    edges: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    """By (told queue, egress queue): XOFFs that it caused, those that it passed on, the ingress port."""
    blamed: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    """By (told queue, root): paused ns, by the main rule and by the mean of several."""
    members: dict[int, list[float]] = field(default_factory=dict)
    ports: dict[int, list[float]] = field(default_factory=dict)
    counted_stops: float = 0.0
    timed_stops: float = 0.0
    repaired_ns: float = 0.0
    exact: set[int] = field(default_factory=set)
    sampled: set[int] = field(default_factory=set)
    evidence: dict[int, int] = field(default_factory=dict)
    """By device that pauses, bits REPORTS_* of what it told."""
    former_ids: list[str] = field(default_factory=list)

    def meets(self, queues: list[int], roots: set[int]) -> bool:
        """Whether stops of these queues, that blame these roots, belong to it."""
        if any(queue in self.queues for queue in queues):
            return True
        total = sum(sums[0] for sums in self.members.values())
        return any(root in self.members and self.members[root][0] >= layout.JOIN_SHARE * total for root in roots)

    def join(self, other: SampledCascade, name: str) -> None:
        """Adds another that turns out to be part of it; the older one lives on."""
        self.former_ids += [name, *other.former_ids]
        self.last_ns, self.length_ns = max(self.last_ns, other.last_ns), max(self.length_ns, other.length_ns)
        self.periods = max(self.periods, other.periods)
        for queue, sums in other.queues.items():
            if queue not in self.queues:
                self.queues[queue] = sums
                continue
            mine = self.queues[queue]
            for column in (STOPS, PAUSED, UNUSUAL):
                mine[column] += sums[column]
            mine[FIRST], mine[LAST] = min(mine[FIRST], sums[FIRST]), max(mine[LAST], sums[LAST])
            mine[MEAN_STOP] = max(mine[MEAN_STOP], sums[MEAN_STOP])
        for name_of in ("edges", "blamed", "members", "ports"):
            own: dict[Any, list[float]] = getattr(self, name_of)
            for key, sums in getattr(other, name_of).items():
                if key not in own:
                    own[key] = sums
                elif name_of == "edges":
                    own[key][0] += sums[0]
                    own[key][1] += sums[1]
                elif name_of == "ports":
                    own[key] = [max(a, b) for a, b in zip(own[key], sums)]
                else:
                    own[key] = [a + b for a, b in zip(own[key], sums)]
        self.counted_stops += other.counted_stops
        self.timed_stops += other.timed_stops
        self.repaired_ns += other.repaired_ns
        self.exact |= other.exact
        self.sampled |= other.sampled
        for device, bits in other.evidence.items():
            self.evidence[device] = self.evidence.get(device, 0) | bits

    def add(
        self,
        told: Told,
        blamed: Blamed,
        group: Ints,
        begin_ns: int,
        end_ns: int,
        topology: Topology,
        logs: layout.Bools,
        usual: dict[int, float],
    ) -> None:
        """Adds the stops of one period: places `group` of `blamed`; `usual` shares of a period by queue."""
        period = told.period
        length_ns = end_ns - begin_ns
        ports = blamed.ports[group]
        at = np.searchsorted(told.ports, ports)
        paused = period.paused_ns[ports]
        if begin_ns >= self.last_ns:
            # Polls longer than the period tell of fewer periods; by how much polls jitter makes none longer.
            longer = told.length_ns[at] > JITTER * length_ns
            weights = np.where(longer, length_ns / np.maximum(told.length_ns[at], length_ns), 1.0)
            self.periods += float((weights * paused).sum() / paused.sum())
        self.last_ns = max(self.last_ns, end_ns)
        self.length_ns = max(self.length_ns, length_ns, int(told.length_ns[at].max(initial=0.0)))
        self.counted_stops += float(period.stops[ports].sum())
        self.timed_stops += float(period.stops[ports][~told.estimated[at]].sum())
        self.repaired_ns += float(paused[told.repaired[at]].sum())
        for port in ports.tolist():
            self._add_queue(told, port, begin_ns, end_ns, topology, logs, usual)
        priority = told.priority
        stops = period.stops[ports]
        inside = {number: place for place, number in enumerate(group.tolist())}
        for edge in np.flatnonzero(np.isin(blamed.edge_of, group) & (blamed.edge_weight >= layout.CAUSE_MIN_SHARE)):
            place = inside[int(blamed.edge_of[edge])]
            weight = float(stops[place] * blamed.edge_weight[edge])
            key = int(ports[place]) * PRIORITIES + priority, int(blamed.edge_port[edge]) * PRIORITIES + priority
            sums = self.edges.setdefault(key, [0.0, 0.0, float(topology.port_peer[ports[place]])])
            sums[0] += weight
            sums[1] += weight * float(blamed.edge_pass[edge])
        shares = blamed.shares[:, group, :]
        hedge = shares[list(HEDGE)].mean(axis=0)
        by_rule = (shares * paused[None, :, None]).sum(axis=1)
        active = set()
        for column in np.flatnonzero(by_rule.max(axis=0) > 0.0).tolist():
            root = with_priority(int(blamed.roots[column]), priority)
            sums = self.members.setdefault(root, [0.0] * RULES)
            for rule in range(RULES):
                sums[rule] += float(by_rule[rule, column])
            if (shares[0, :, column] >= layout.ACTIVE_SHARE).any():
                active |= _siblings(root, topology)
            for place in np.flatnonzero(np.maximum(shares[0, :, column], hedge[:, column]) > 0.0).tolist():
                mass = self.blamed.setdefault((int(ports[place]) * PRIORITIES + priority, root), [0.0, 0.0])
                mass[0] += float(paused[place] * shares[0, place, column])
                mass[1] += float(paused[place] * hedge[place, column])
        for port in sorted(active):
            self._add_port(period, told, port, length_ns, topology)

    def _add_queue(
        self, told: Told, port: int, begin_ns: int, end_ns: int, topology: Topology, logs: layout.Bools,
        usual: dict[int, float],
    ) -> None:  # fmt: skip
        period, length_ns = told.period, end_ns - begin_ns
        queue, peer = port * PRIORITIES + told.priority, int(topology.port_peer[port])
        stops, paused = float(period.stops[port]), float(period.paused_ns[port])
        fresh = [0.0, 0.0, 0.0, float(begin_ns), 0.0, 0.0, 0.0, float(layout.NEVER), 0.0, float(peer)]
        sums = self.queues.setdefault(queue, fresh)
        if sums[RUN_OPEN] != layout.NEVER and sums[LAST] != begin_ns:
            sums[RUN_OPEN] = float(layout.NEVER)
        sums[STOPS] += stops
        sums[PAUSED] += paused
        sums[UNUSUAL] += max(0.0, paused - usual[queue] * length_ns)
        sums[LAST] = float(end_ns)
        if paused >= FULL_SHARE * length_ns and period.sent_bytes[port] == 0:
            if sums[RUN_OPEN] == layout.NEVER:
                sums[RUN_OPEN] = float(begin_ns)
            if end_ns - sums[RUN_OPEN] > sums[RUN_END] - sums[RUN_BEGIN]:
                sums[RUN_BEGIN], sums[RUN_END] = sums[RUN_OPEN], float(end_ns)
        else:
            sums[RUN_OPEN] = float(layout.NEVER)
            sums[MEAN_STOP] = max(sums[MEAN_STOP], paused / max(stops, 1.0))
        for end in (port, peer):
            if end >= 0:
                device = int(topology.port_device[end])
                (self.exact if logs[device] else self.sampled).add(device)
        if peer >= 0:
            device = int(topology.port_device[peer])
            bits = (
                layout.REPORTS_DEPTH * bool(period.depths[device])
                | layout.REPORTS_BYTES * bool(period.counted[device])
                | layout.REPORTS_ECN * bool(period.marks[device])
            )
            self.evidence[device] = self.evidence.get(device, 0) | bits

    def _add_port(self, period: Any, told: Told, port: int, length_ns: int, topology: Topology) -> None:
        sums = self.ports.setdefault(port, [0.0] * PORT_SUMS)
        sent, paused = float(period.sent_bytes[port]), float(period.paused_ns[port])
        sums[SENT] += sent
        sums[ACTIVE_NS] += length_ns
        if paused > 0:
            sums[SENT_STOPPED] += sent
        elif told.aligned and period.peak_bytes[port] >= layout.MIN_QUEUED_BYTES and length_ns <= layout.MAX_POLL_NS:
            sums[MAX_MBPS] = max(sums[MAX_MBPS], sent * 8_000 / length_ns)
            sums[QUEUED_PERIODS] += 1

    def told(self, topology: Topology) -> tuple[Ledger, Part]:
        """The cascade as a ledger, and what sampling adds to it."""
        hedged = self.periods < ENOUGH_PERIODS
        ledger = Ledger(former_ids=list(self.former_ids))
        for queue, sums in self.queues.items():
            ledger.queues[queue] = QueueTally(
                pauses=max(1, round(sums[STOPS])),
                pause_ns=round(sums[PAUSED]),
                first_ns=int(sums[FIRST]),
                last_ns=int(sums[LAST]),
                pauser=int(sums[PAUSER]),
                longest_from_ns=int(sums[RUN_BEGIN] or sums[FIRST]),
                longest_ns=int(sums[RUN_END] - sums[RUN_BEGIN]),
                second_ns=round(sums[MEAN_STOP]),
            )
        for key, (weight, passed, ingress) in self.edges.items():
            ledger.edges[key] = EdgeTally(round(weight * 1e6), round(passed * 1e6), int(ingress))
        for key, mass in self.blamed.items():
            if ns := round(mass[hedged]):
                ledger.blamed_ns[key] = ns
        ports = layout.new_state(len(topology.ports), layout.P_COLUMNS)
        ports[:, [layout.P_RUN_BEGIN, layout.P_RUN_END]] = layout.NEVER
        for port, counted in self.ports.items():
            ports[port, layout.P_TX_BYTES] = round(counted[SENT])
            ports[port, layout.P_STOPPED_BYTES] = round(counted[SENT_STOPPED])
            if counted[QUEUED_PERIODS] >= DEGRADED_WINDOWS:
                # In fewer a queue may have been short of packets for most of the time, so that they say nothing.
                ports[port, layout.P_MAX_MBPS] = round(counted[MAX_MBPS])
                ports[port, layout.P_QUEUED_BINS] = round(counted[QUEUED_PERIODS])
            group = int(topology.port_group[port])
            ports[group, layout.P_GROUP_BINS_NS] = max(ports[group, layout.P_GROUP_BINS_NS], round(counted[ACTIVE_NS]))
        paused_ns = sum(sums[PAUSED] for sums in self.queues.values())
        part = Part(
            periods=self.periods,
            length_ns=self.length_ns,
            members={root: list(sums) for root, sums in self.members.items()},
            durations=self.timed_stops / self.counted_stops if self.counted_stops else 1.0,
            repaired=self.repaired_ns / paused_ns if paused_ns else 0.0,
            exact=tuple(sorted(self.exact)),
            sampled=tuple(sorted(self.sampled)),
            ports=ports,
            excess={queue: sums[UNUSUAL] for queue, sums in self.queues.items()},
            evidence=dict(self.evidence),
            hedged=hedged,
            first_queue=self.first_queue,
        )
        return ledger, part

    def copy(self) -> SampledCascade:
        """A copy that further periods change alone."""
        return copy.deepcopy(self)

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        tables = [
            [[*_parts(key), *sums] for key, sums in getattr(self, name).items()]
            for name in ("queues", "edges", "blamed", "members", "ports")
        ]
        return [
            self.start_ns, self.first_queue, self.last_ns, self.periods, self.length_ns, tables, self.counted_stops,
            self.timed_stops, self.repaired_ns, sorted(self.exact), sorted(self.sampled),
            [list(entry) for entry in self.evidence.items()], self.former_ids,
        ]  # fmt: skip

    @classmethod
    def of_state(cls, state: list[Any]) -> SampledCascade:
        """Continues from `state()`."""
        start_ns, first_queue, last_ns, periods, length_ns, tables, counted, timed, repaired, *rest = state
        exact, sampled, evidence, former_ids = rest
        queues, edges, blamed, members, ports = tables
        return cls(
            start_ns, first_queue, last_ns, periods, length_ns,
            {row[0]: row[1:] for row in queues}, {(row[0], row[1]): row[2:] for row in edges},
            {(row[0], row[1]): row[2:] for row in blamed}, {row[0]: row[1:] for row in members},
            {row[0]: row[1:] for row in ports}, counted, timed, repaired, set(exact), set(sampled), dict(evidence),
            list(former_ids),
        )  # fmt: skip

    def carry(self, topology: Topology) -> None:
        """Moves all to the ports and devices that their names now mean."""
        ports, devices = topology.moved_ports, topology.moved_devices

        def queue(number: int) -> int:
            port, priority = divmod(number, PRIORITIES)
            return ports.get(port, port) * PRIORITIES + priority

        def root(number: int) -> int:
            if number & 3 == layout.ROOT_EGRESS:
                return queue(number >> 2) * 4 + layout.ROOT_EGRESS
            if number & 3 == layout.ROOT_SPECIAL:
                return number
            return devices.get(number >> 2, number >> 2) * 4 + (number & 3)

        self.first_queue = queue(self.first_queue)
        self.queues = {queue(number): sums for number, sums in self.queues.items()}
        for sums in self.queues.values():
            sums[PAUSER] = float(ports.get(int(sums[PAUSER]), int(sums[PAUSER])))
        self.edges = {(queue(one), queue(other)): sums for (one, other), sums in self.edges.items()}
        self.blamed = {(queue(one), root(other)): sums for (one, other), sums in self.blamed.items()}
        self.members = {root(number): sums for number, sums in self.members.items()}
        self.ports = {ports.get(port, port): sums for port, sums in self.ports.items()}
        self.exact = {devices.get(device, device) for device in self.exact}
        self.sampled = {devices.get(device, device) for device in self.sampled}
        self.evidence = {devices.get(device, device): bits for device, bits in self.evidence.items()}


def _parts(key: int | tuple[int, int]) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _siblings(root: int, topology: Topology) -> set[int]:
    """The ports whose bytes tell something of a root: its siblings, or the ports that face it."""
    if root & 3 == layout.ROOT_EGRESS:
        group = int(topology.port_group[(root >> 2) // PRIORITIES])
    elif root & 3 == layout.ROOT_HOST:
        group = int(topology.device_group[root >> 2])
    else:
        return set()
    if group < 0:
        return set()
    return set(topology.group_ports[topology.group_start[group] : topology.group_start[group + 1]].tolist())


def with_priority(root: int, priority: int) -> int:
    """A root of one priority's blame, as the engine numbers it."""
    if root & 3 == layout.ROOT_EGRESS:
        return ((root >> 2) * PRIORITIES + priority) * 4 + layout.ROOT_EGRESS
    return root
