"""A cascade of polled devices while it lasts, or a piece of one: what each period told of it, added up.

In: the stops of a period and their blame. Out: a ledger as the engine's cascades have it, and what sampling adds.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analytics import layout
from analytics.bounds import ENOUGH_PERIODS
from analytics.layout import Ints
from analytics.ledger import EdgeTally, Ledger, QueueTally
from analytics.pair_sums import PairSums
from analytics.pause_graph import FAINT, HEDGE, MAIN, RULES
from analytics.polls import Told
from analytics.port_sums import PortSums
from analytics.sampled_blame import Blamed
from analytics.topology import PRIORITIES, Topology

FULL_SHARE = 0.99
"""A queue that was stopped for so much of a period was stopped for all of it, as clocks round."""
SEVERAL_STOPS = 1.5
"""Fewer frames in a period are one stop, which may go on from the period before or into the next; polls that are not
aligned share frames out."""

# Columns of a queue's sums, floats: stops, paused ns, paused ns beyond what is usual for it, begin of its first and end
# of its last period, begin and end of the longest run of full periods, begin of the present one (NEVER: none), the
# longest mean stop of a period that is no part of a run, the pauser, and a stop that was alone in the last period, so
# that all of it may be part of the run that comes.
STOPS, PAUSED, UNUSUAL, FIRST, LAST, RUN_BEGIN, RUN_END, RUN_OPEN, MEAN_STOP, PAUSER, ALONE = range(11)


@dataclass(frozen=True, slots=True)
class Part:
    """What sampling adds to a closed cascade.

    `periods`: how many polls carry pause; `length_ns`: of the longest of them; `members`: by root, paused ns by each
    rule; `durations`, `repaired`: of the stops those with known durations, and of paused time that of silent devices;
    `untold`: devices that were stopped and tell no pauses; `exact`, `sampled`: devices; `ports`: state of ports in the
    engine's layout; `held`: by egress port, the least time in which it held what others were stopped for and could send
    it, and the bytes that it sent in the polls of that;
    `excess`: by queue, stopped time beyond the usual; `evidence`: by device that pauses, bits REPORTS_* of what it
    told; `hedged`: fewer than ENOUGH_PERIODS.
    """

    periods: float
    length_ns: int
    members: dict[int, list[float]]
    durations: float
    repaired: float
    untold: tuple[int, ...]
    exact: tuple[int, ...]
    sampled: tuple[int, ...]
    ports: Ints
    held: dict[int, tuple[int, int]]
    excess: dict[int, float]
    evidence: dict[int, int]
    hedged: bool
    first_queue: int


@dataclass(slots=True)
class SampledCascade:
    """The sums of one, from the period at `start_ns` on; `first_queue` gives it its name."""

    start_ns: int
    first_queue: int
    last_ns: int = 0
    periods: float = 0.0
    length_ns: int = 0
    queues: dict[int, list[float]] = field(default_factory=dict)
    edges: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    """By (told queue, egress queue): XOFFs that it caused, those that it passed on, the ingress port."""
    blamed: PairSums = field(default_factory=lambda: PairSums(2))
    """By (told queue, root): paused ns, by the main rule and by the mean of several."""
    members: dict[int, list[float]] = field(default_factory=dict)
    ports: PortSums = field(default_factory=PortSums)
    counted_stops: float = 0.0
    timed_stops: float = 0.0
    repaired_ns: float = 0.0
    untold: set[int] = field(default_factory=set)
    """Devices whose stops the other ends of their links told."""
    exact: set[int] = field(default_factory=set)
    sampled: set[int] = field(default_factory=set)
    evidence: dict[int, int] = field(default_factory=dict)
    """By device that pauses, bits REPORTS_* of what it told."""
    former_ids: list[str] = field(default_factory=list)
    polled_ns: int = layout.NEVER
    """Where the last period ended in which a polled device told of stops of it."""

    def paused_ns(self) -> float:
        """For how long its queues were stopped in all."""
        return sum(sums[PAUSED] for sums in self.queues.values())

    def goes_on_beside(self, other: SampledCascade) -> bool:
        """Whether both were there in the same ENOUGH_PERIODS."""
        both_ns = min(self.last_ns, other.last_ns) - max(self.start_ns, other.start_ns)
        return both_ns >= ENOUGH_PERIODS * max(self.length_ns, other.length_ns)

    def has_root(self, roots: set[int]) -> bool:
        """Whether one of some roots is one of its own."""
        total = sum(sums[0] for sums in self.members.values())
        return any(self.members[root][0] >= layout.JOIN_SHARE * total for root in roots & self.members.keys())

    def join(self, other: SampledCascade, name: str) -> None:
        """Adds another that turns out to be part of it; the older one lives on."""
        self.former_ids += [name, *other.former_ids]
        self.last_ns, self.length_ns = max(self.last_ns, other.last_ns), max(self.length_ns, other.length_ns)
        self.periods, self.polled_ns = max(self.periods, other.periods), max(self.polled_ns, other.polled_ns)
        for queue, sums in other.queues.items():
            if queue not in self.queues:
                self.queues[queue] = sums
                continue
            mine = self.queues[queue]
            for column in (STOPS, PAUSED, UNUSUAL):
                mine[column] += sums[column]
            mine[FIRST], mine[LAST] = min(mine[FIRST], sums[FIRST]), max(mine[LAST], sums[LAST])
            mine[MEAN_STOP] = max(mine[MEAN_STOP], sums[MEAN_STOP], mine[ALONE], sums[ALONE])
            mine[ALONE] = 0.0
        self.ports.join(other.ports)
        self.blamed.join(other.blamed)
        for name_of in ("edges", "members"):
            own: dict[Any, list[float]] = getattr(self, name_of)
            for key, sums in getattr(other, name_of).items():
                if key not in own:
                    own[key] = sums
                elif name_of == "edges":
                    own[key][0] += sums[0]
                    own[key][1] += sums[1]
                else:
                    own[key] = [a + b for a, b in zip(own[key], sums)]
        self.counted_stops += other.counted_stops
        self.timed_stops += other.timed_stops
        self.repaired_ns += other.repaired_ns
        self.untold |= other.untold
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
        at = np.searchsorted(told.stops.ports, ports)
        paused = period.paused_ns[ports]
        self.last_ns = max(self.last_ns, end_ns)
        self.length_ns = max(self.length_ns, length_ns, int(told.stops.length_ns[at].max(initial=0.0)))
        self.counted_stops += float(period.stops[ports].sum())
        self.timed_stops += float(period.stops[ports][~told.stops.estimated[at]].sum())
        repaired = told.stops.repaired[at]
        self.repaired_ns += float(paused[repaired].sum())
        self.untold |= set(topology.port_device[ports[repaired]].tolist())
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
        roots = [with_priority(int(root), priority) for root in blamed.roots.tolist()]
        for column in np.flatnonzero(by_rule.max(axis=0) >= FAINT * paused.sum()).tolist():
            sums = self.members.setdefault(roots[column], [0.0] * RULES)
            for rule, mass in enumerate(by_rule[:, column].tolist()):
                sums[rule] += mass
        # What is less is no root that anybody could tell, and in a storm there are as many as queues.
        told_shares = np.stack((shares[MAIN], hedge))
        clear = told_shares.max(axis=0) >= FAINT
        masses = told_shares * paused[None, :, None]
        queues = ports * PRIORITIES + priority
        stops_at, roots_at = np.nonzero(clear)
        self.blamed.add(queues[stops_at], np.array(roots, np.int64)[roots_at], masses[:, stops_at, roots_at].T)
        rest = np.where(clear[None], 0.0, masses).sum(axis=2)
        left_at = np.flatnonzero(rest.max(axis=0) > 0.0)
        self.blamed.add(queues[left_at], np.full(len(left_at), layout.ROOT_OTHER), rest[:, left_at].T)

    def add_beside(self, told: Told, blamed: Blamed, group: Ints, topology: Topology) -> None:
        """Adds what ports did beside the roots of one period: of the stops at places `group` of `blamed`."""
        period, ports = told.period, blamed.ports[group]
        timed, paused = ~told.stops.estimated[np.searchsorted(told.stops.ports, ports)], period.paused_ns[ports]
        inside = {number: place for place, number in enumerate(group.tolist())}
        held_ns: dict[int, float] = {}
        for edge in np.flatnonzero(np.isin(blamed.edge_of, group) & (blamed.edge_weight >= layout.CAUSE_MIN_SHARE)):
            place, egress = inside[int(blamed.edge_of[edge])], int(blamed.edge_port[edge])
            if timed[place] and period.counted[topology.port_device[egress]]:
                charged = float(paused[place] * blamed.edge_weight[edge])
                # Rings pass on by number, but whoever is stopped sends nothing whatever it passes on.
                stays = min(charged * (1.0 - blamed.edge_pass[edge]), charged - period.paused_ns[egress])
                held_ns[egress] = max(float(stays), held_ns.get(egress, 0.0))
        if held_ns:
            held = np.array(sorted(held_ns), np.int64)
            self.ports.add_held(held, np.array([held_ns[port] for port in held.tolist()]), period.sent_bytes[held])
        columns = np.flatnonzero((blamed.shares[MAIN, group] >= layout.ACTIVE_SHARE).any(axis=0)).tolist()
        active = [_siblings(with_priority(int(blamed.roots[column]), told.priority), topology) for column in columns]
        if active:
            self.ports.add(period, np.unique(np.concatenate(active)))

    def _add_queue(
        self, told: Told, port: int, begin_ns: int, end_ns: int, topology: Topology, logs: layout.Bools,
        usual: dict[int, float],
    ) -> None:  # fmt: skip
        period, length_ns = told.period, end_ns - begin_ns
        queue, peer = port * PRIORITIES + told.priority, int(topology.port_peer[port])
        stops, paused = float(period.stops[port]), float(period.paused_ns[port])
        fresh = [0.0, 0.0, 0.0, float(begin_ns), 0.0, 0.0, 0.0, float(layout.NEVER), 0.0, float(peer), 0.0]
        sums = self.queues.setdefault(queue, fresh)
        full = paused >= FULL_SHARE * length_ns and period.sent_bytes[port] == 0
        if sums[LAST] != float(begin_ns):
            sums[RUN_OPEN] = float(layout.NEVER)
        elif full:
            sums[ALONE] = 0.0
        # A stop that was there at the end of the period before, and may be the only one of this, goes on.
        goes_on = stops < SEVERAL_STOPS and sums[LAST] == float(begin_ns) and (full or sums[RUN_OPEN] != layout.NEVER)
        sums[MEAN_STOP], sums[ALONE] = max(sums[MEAN_STOP], sums[ALONE]), 0.0
        sums[STOPS] += 0.0 if goes_on else stops
        sums[PAUSED] += paused
        sums[UNUSUAL] += max(0.0, paused - usual[queue] * length_ns)
        sums[LAST] = float(end_ns)
        if full:
            if sums[RUN_OPEN] == layout.NEVER:
                sums[RUN_OPEN] = float(begin_ns)
            if end_ns - sums[RUN_OPEN] > sums[RUN_END] - sums[RUN_BEGIN]:
                sums[RUN_BEGIN], sums[RUN_END] = sums[RUN_OPEN], float(end_ns)
        else:
            if stops >= SEVERAL_STOPS:
                sums[MEAN_STOP] = max(sums[MEAN_STOP], paused / stops)
            elif not goes_on:
                sums[ALONE] = paused
            sums[RUN_OPEN] = float(layout.NEVER)
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
                second_ns=round(max(sums[MEAN_STOP], sums[ALONE])),
            )
        for key, (weight, passed, ingress) in self.edges.items():
            ledger.edges[key] = EdgeTally(round(weight * 1e6), round(passed * 1e6), int(ingress))
        ledger.blamed_ns.update(self.blamed.rounded(int(hedged)))
        paused_ns = sum(sums[PAUSED] for sums in self.queues.values())
        part = Part(
            periods=self.periods,
            length_ns=self.length_ns,
            members={root: list(sums) for root, sums in self.members.items()},
            durations=self.timed_stops / self.counted_stops if self.counted_stops else 1.0,
            repaired=self.repaired_ns / paused_ns if paused_ns else 0.0,
            untold=tuple(sorted(self.untold)),
            exact=tuple(sorted(self.exact)),
            sampled=tuple(sorted(self.sampled)),
            ports=self.ports.state_of_ports(topology),
            held=self.ports.held(),
            excess={queue: sums[UNUSUAL] for queue, sums in self.queues.items()},
            evidence=dict(self.evidence),
            hedged=hedged,
            first_queue=self.first_queue,
        )
        return ledger, part

    def copy(self) -> SampledCascade:
        """A copy that further periods change alone."""
        twin = copy.copy(self)
        for name in ("queues", "edges", "members"):
            setattr(twin, name, {key: list(sums) for key, sums in getattr(self, name).items()})
        twin.ports, twin.evidence, twin.former_ids = self.ports.copy(), dict(self.evidence), list(self.former_ids)
        twin.blamed = self.blamed.copy()
        twin.untold, twin.exact, twin.sampled = set(self.untold), set(self.exact), set(self.sampled)
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        tables = [
            [[*_parts(key), *sums] for key, sums in getattr(self, name).items()]
            for name in ("queues", "edges", "members")
        ]
        return [
            self.start_ns, self.first_queue, self.last_ns, self.periods, self.length_ns, tables, self.blamed.state(),
            self.ports.state(),
            self.counted_stops,
            self.timed_stops, self.repaired_ns, sorted(self.untold), sorted(self.exact), sorted(self.sampled),
            [list(entry) for entry in self.evidence.items()], self.former_ids, self.polled_ns,
        ]  # fmt: skip

    @classmethod
    def of_state(cls, state: list[Any]) -> SampledCascade:
        """Continues from `state()`."""
        start_ns, first_queue, last_ns, periods, length_ns, tables, blamed, ports, counted, timed, repaired, *rest = (
            state
        )
        untold, exact, sampled, evidence, former_ids, polled_ns = rest
        queues, edges, members = tables
        return cls(
            start_ns, first_queue, last_ns, periods, length_ns,
            {row[0]: row[1:] for row in queues}, {(row[0], row[1]): row[2:] for row in edges},
            PairSums.of_state(blamed), {row[0]: row[1:] for row in members},
            PortSums.of_state(ports), counted, timed, repaired, set(untold), set(exact), set(sampled), dict(evidence),
            list(former_ids), polled_ns,
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
        self.blamed = self.blamed.moved(queue, root)
        self.members = {root(number): sums for number, sums in self.members.items()}
        self.ports.carry(ports)
        self.untold = {devices.get(device, device) for device in self.untold}
        self.exact = {devices.get(device, device) for device in self.exact}
        self.sampled = {devices.get(device, device) for device in self.sampled}
        self.evidence = {devices.get(device, device): bits for device, bits in self.evidence.items()}


def _parts(key: int | tuple[int, int]) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _siblings(root: int, topology: Topology) -> Ints:
    """The ports whose bytes tell something of a root: its siblings, or the ports that face it."""
    if root & 3 == layout.ROOT_EGRESS:
        group = int(topology.port_group[(root >> 2) // PRIORITIES])
    elif root & 3 == layout.ROOT_HOST:
        group = int(topology.device_group[root >> 2])
    else:
        group = -1
    return topology.group_ports[slice(*topology.group_start[group : group + 2]) if group >= 0 else slice(0)]


def with_priority(root: int, priority: int) -> int:
    """A root of one priority's blame, as the engine numbers it."""
    if root & 3 == layout.ROOT_EGRESS:
        return ((root >> 2) * PRIORITIES + priority) * 4 + layout.ROOT_EGRESS
    return root
