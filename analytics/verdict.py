"""From a closed cascade's ledger to the published cascade: roots with class, told queues, edges, flows, confidence.

A pure function of the engine's state at the moment of closing.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import NamedTuple

import msgspec

from analytics import around_root, layout
from analytics.advice import advice
from analytics.alternatives import alternatives
from analytics.announced import Announced
from analytics.bounds import ACCEPT_PPM, ENOUGH_PERIODS, PPM, SURE_PPM, TIMED_SHARE, VERDICT_PPM
from analytics.classes import DEADLOCK_FACTOR, DEADLOCK_MIN_NS, STORM_MIN_NS, classify
from analytics.confidence import confidence_of, losses
from analytics.cycles import rings
from analytics.damage import damages
from analytics.engine import Closed, Engine
from analytics.flow_blame import with_flow_bytes
from analytics.host_evidence import Finding
from analytics.layers import layer_of
from analytics.ledger import QueueTally, bounded_sum
from analytics.polarization import polarized
from analytics.root_facts import RootFacts, Sibling
from analytics.sampled_confidence import mode_of, modes_of, sampled_confidence_of, sampled_severity_of
from analytics.severity import severity_of
from analytics.topology import PRIORITIES, Topology
from analytics.victims import Exposure, exposures
from stream import kinds
from stream.cascade import FINAL, Cascade, Contributor, Edge, HeldBy, PausedQueue, Root, Victim
from stream.facts import Flow
from stream.kinds import INT64_MAX

REPORT_PPM = 20_000
"""Roots below this share are left out: the resolution of what is known to be true about layout."""
LINK_PPM = 100_000
"""An egress that caused at least this share of a queue's stops is named as their cause."""
MAX_LISTED = 1_000
"""Queues, edges and contributors (of all roots) listed at most, the largest: a cascade must fit into one message."""

EXPOSURE_NS = 2_000
"""A flow is a victim from here on: the time that a burst of 100 kB takes at 400 Gb/s."""


def cascade(engine: Engine, closed: Closed, announced: Announced, revision: int | str) -> Cascade:
    """The published cascade; `announced` says which devices report pauses themselves."""
    if revision == FINAL and closed.sampled is None:
        closed = with_flow_bytes(engine, closed)
    ledger = closed.ledger
    pause_ns = bounded_sum(tally.pause_ns for tally in ledger.queues.values())
    root_ns = ledger.root_ns()
    blamed = sum(root_ns.values())
    shares = {root: ns * PPM // blamed for root, ns in root_ns.items()} if blamed else {}
    named = {
        root: root_ns[root] for root, ppm in shares.items() if ppm >= REPORT_PPM and root & 3 != layout.ROOT_SPECIAL
    }
    weights = ledger.weights()
    found_rings = _rings(engine, closed, weights)
    for ring in found_rings:
        # What began inside a ring that moves no more began with the ring: it has the time of pauses causing each other.
        if ring.deadlock and not any(queue * 4 + layout.ROOT_EGRESS in named for queue in ring.queues):
            named[ring.first * 4 + layout.ROOT_EGRESS] = root_ns.get(layout.ROOT_CYCLE, 0)
    inside = {
        root: around_root.inside_host(engine, closed, root >> 2) for root in named if root & 3 == layout.ROOT_HOST
    }
    ingress_ports = _ingress_ports(closed, weights)
    roots = polarized(engine.topology, [
        _root(
            engine, closed, announced, root, ns, ns * PPM // max(blamed, 1), found_rings, ingress_ports,
            inside.get(root, ()), final=revision == FINAL,
        )
        for root, ns in named.items()
    ])  # fmt: skip
    alike = {root for root, told in zip(named, roots, strict=True) if told.root_class == "hash_polarization"}
    roots.sort(key=lambda root: (-root.share_ppm, root.device, root.port, root.priority))
    queues = _queues(engine, closed, named, pause_ns, weights)
    if closed.sampled is None:
        confidence = confidence_of(engine, closed, announced, shares, pause_ns, inside)
        severity, reason = severity_of(engine, closed, pause_ns)
        least_ppm = VERDICT_PPM
    else:
        stuck = {queue * 4 + layout.ROOT_EGRESS for ring in found_rings if ring.deadlock for queue in ring.queues}
        one = {*stuck, layout.ROOT_CYCLE} if stuck else alike
        confidence = sampled_confidence_of(engine, closed, announced, closed.sampled, shares, roots, inside, one)
        severity, reason = sampled_severity_of(engine, closed, closed.sampled, pause_ns)
        # Where most durations are guesses, nobody knows what the stops cost, however sure it is whose they were.
        enough = closed.sampled.periods >= ENOUGH_PERIODS and closed.sampled.durations >= TIMED_SHARE
        least_ppm = SURE_PPM if enough else PPM + 1
    lost = losses(engine, closed) | {
        "stops_not_followed": ledger.stops_not_followed,
        "stops_not_weighed": ledger.stops_not_weighed,
    }
    victims = _victims(engine, closed, roots)
    # Who fed a root is no victim, so the longest lists are cut only now.
    roots = [_shortened(root, MAX_LISTED // len(roots)) for root in roots]
    return Cascade(
        id=closed.id,
        fabric=engine.fabric,
        revision=revision,
        start_ns=closed.start_ns,
        end_ns=closed.end_ns,
        mode=mode_of(closed),
        confidence_ppm=confidence.ppm,
        suspect_set=confidence.ppm < least_ppm,
        severity=severity,
        severity_reason=reason,
        pause_ns=pause_ns,
        pauses=sum(tally.pauses for tally in ledger.queues.values()),
        roots=tuple(roots),
        queues=tuple(queues[:MAX_LISTED]),
        edges=tuple(_edges(engine, closed)[:MAX_LISTED]),
        missing_evidence=confidence.missing,
        losses={name: count for name, count in lost.items() if count},
        # A suspect set names no root, so there is nothing to set better.
        advice=advice(engine, closed, announced, roots) if confidence.ppm >= least_ppm else (),
        victims=victims,
        confidence_parts=confidence.parts,
        modes=modes_of(engine, closed),
        periods=None if closed.sampled is None else math.floor(closed.sampled.periods + 0.5),
        poll_ns=None if closed.sampled is None else closed.sampled.length_ns,
    )


def _victims(engine: Engine, closed: Closed, roots: list[Root]) -> tuple[Victim, ...]:
    """Flows that fed no root of a share that is asserted, and that such roots held up for longer than EXPOSURE_NS."""
    topology, names = engine.topology, engine.topology.names
    asserted = {(root.device, root.port, root.priority) for root in roots if root.share_ppm >= ACCEPT_PPM}
    fed = {flow.flow for root in roots if root.share_ppm >= ACCEPT_PPM for flow in root.contributors}
    # What waited until the end leaves after it; a cascade closes when everything up to then is known.
    until_ns = closed.end_ns + layout.GAP_NS
    if not len(engine.flows) and not len(engine.sent.all_rows().flow):
        return ()
    of_queue: dict[int, list[tuple[int, int]]] = {}
    for (queue, root), ns in closed.ledger.blamed_ns.items():
        of_queue.setdefault(queue, []).append((root, ns))
    found = []
    from_ns, facts = closed.start_ns - layout.GAP_NS, engine.flows.then(until_ns, topology)
    held_up = exposures(engine.sent, closed.ledger.stops, from_ns, until_ns, facts, topology)
    lasted: dict[int, tuple[int, int]] = {}
    for number, times in held_up.items():
        if f"{number:016x}" in fed or sum(time.end_ns - time.begin_ns for time in times) <= EXPOSURE_NS:
            continue
        held_by = _held_by(topology, times, of_queue)
        held_ns = sum(part.pause_ns for part in held_by if (part.device, part.port, part.priority) in asserted)
        if held_ns <= EXPOSURE_NS:
            continue
        flow = engine.flows.at(number, until_ns)
        lasted[number] = times[0].begin_ns, times[-1].end_ns
        found.append(
            Victim(
                flow=f"{number:016x}",
                name=flow.name if flow else "",
                src_device=names.device(flow.src_device) if flow else "",
                dst_device=names.device(flow.dst_device) if flow else "",
                pause_ns=held_ns,
                roots=held_by,
            )
        )
    listed = sorted(found, key=lambda victim: (-victim.pause_ns, victim.flow))[:MAX_LISTED]
    spans = {int(victim.flow, 16): lasted[int(victim.flow, 16)] for victim in listed}
    lost = damages(engine.sent.all_rows(), spans, closed.start_ns, topology) if spans else {}
    return tuple(msgspec.structs.replace(victim, damage=lost.get(int(victim.flow, 16))) for victim in listed)


def _held_by(
    topology: Topology, times: list[Exposure], of_queue: dict[int, list[tuple[int, int]]]
) -> tuple[HeldBy, ...]:
    """The time, split over the roots as the stops of each queue are."""
    by_root: Counter[int] = Counter()
    in_queue: Counter[int] = Counter()
    for begin_ns, end_ns, queue in times:
        in_queue[queue] += end_ns - begin_ns
    for queue, held_ns in in_queue.items():
        blamed = of_queue.get(queue, [])
        total = sum(ns for _, ns in blamed)
        for root, ns in blamed:
            by_root[root] += held_ns * ns // total if total else 0
    held = []
    for root, ns in by_root.items():
        if ns and root & 3 == layout.ROOT_EGRESS:
            held.append(HeldBy(*topology.queue_name(root >> 2), ns))
        elif ns and root & 3 != layout.ROOT_SPECIAL:
            held.append(HeldBy(topology.devices[root >> 2], "", kinds.NO_PRIORITY, ns))
    return tuple(sorted(held, key=lambda part: (-part.pause_ns, part.device, part.port, part.priority)))


class _Ring(NamedTuple):
    """Queues that stop each other: for how long all at once, and from how long on that is a deadlock."""

    queues: list[int]
    first: int
    quiet_ns: int
    limit_ns: int

    @property
    def deadlock(self) -> bool:
        return self.quiet_ns >= self.limit_ns


def _rings(engine: Engine, closed: Closed, total: dict[int, int]) -> list[_Ring]:
    tallies = closed.ledger.queues
    causes: dict[int, list[int]] = {queue: [] for queue in tallies}
    for (told, egress), edge in closed.ledger.edges.items():
        if told in tallies and egress in tallies and edge.weight * PPM >= LINK_PPM * total[told]:
            causes[told].append(egress)
    found = []
    for ring in rings(causes):
        if len(ring) == 1:
            continue  # a cable from a device to itself
        stops = [tallies[queue] for queue in ring]
        begin = max(tally.longest_from_ns for tally in stops)
        end = min(tally.longest_from_ns + tally.longest_ns for tally in stops)
        limit_ns = max(DEADLOCK_MIN_NS, DEADLOCK_FACTOR * max(tally.second_ns for tally in stops))
        first = min(ring, key=lambda queue: (tallies[queue].longest_from_ns, -_place(engine, queue)))
        found.append(_Ring(ring, first, max(0, end - begin), limit_ns))
    return found


def _shortened(root: Root, most_flows: int) -> Root:
    return msgspec.structs.replace(root, contributors=root.contributors[:most_flows])


def _root(
    engine: Engine,
    closed: Closed,
    announced: Announced,
    root: int,
    pause_ns: int,
    ppm: int,
    found_rings: list[_Ring],
    ingress_ports: Counter[int],
    inside: tuple[Finding, ...],
    *,
    final: bool,
) -> tuple[Root, RootFacts]:
    """The root but for what others at the same time make of it, and what is known of it."""
    topology = engine.topology
    contributors = _contributors(engine, closed, root)
    if root & 3 == layout.ROOT_EGRESS:
        device, port, priority = topology.queue_name(root >> 2)
        kind = "egress"
    else:
        device, port, priority = topology.devices[root >> 2], "", kinds.NO_PRIORITY
        kind = "host" if root & 3 == layout.ROOT_HOST else "unknown"
    facts = _root_facts(engine, closed, root, kind, device, port, contributors, found_rings, ingress_ports)
    facts = dataclasses.replace(
        facts,
        depths_due=not final,
        inside=inside,
        reported=around_root.reported(engine, closed, announced, device) if kind == "host" else (),
        link_errors=around_root.errors_of_link(engine, closed, (root >> 2) // PRIORITIES) if kind == "egress" else (),
    )
    root_class, evidence = classify(facts)
    others = alternatives(facts, root_class) if ppm >= ACCEPT_PPM else ()
    layer = layer_of(root_class, facts)
    made = Root(device, port, priority, kind, ppm, pause_ns, root_class, evidence, contributors, others, layer)
    return made, facts


def _root_facts(
    engine: Engine,
    closed: Closed,
    root: int,
    kind: str,
    device: str,
    port_name: str,
    contributors: tuple[Contributor, ...],
    found_rings: list[_Ring],
    ingress_ports: Counter[int],
) -> RootFacts:
    topology = engine.topology
    if kind == "unknown":
        queue, told = -1, QueueTally()
    elif kind == "host":
        queue, told = _stopped_by_host(engine, closed, root >> 2)
    else:
        queue, told = root >> 2, QueueTally()
    port = queue // PRIORITIES
    own = root >> 2 if kind == "egress" else -1
    ring = next((ring for ring in found_rings if own in ring.queues), None)
    main_host, main_share = _main_host(contributors)
    group = int(topology.port_group[port]) if port >= 0 else -1
    state = engine.ports if closed.sampled is None else closed.sampled.ports
    active_ns = int(state[group, layout.P_GROUP_BINS_NS]) if group >= 0 else 0
    speed = int(topology.port_speed_mbps[port]) if port >= 0 else 0
    stopped_bytes = int(state[port, layout.P_STOPPED_BYTES]) if port >= 0 else 0
    counted = port >= 0 and bool(engine.devices[topology.port_device[port], layout.D_REPORTS] & layout.REPORTS_BYTES)
    span_ns = max(0, told.last_ns - told.first_ns)
    if closed.sampled is not None and told.pause_ns >= STORM_MIN_NS * max(told.pauses, 1):
        # When in its polls it was stopped is not known; no receiver that takes anything stops for as long as that.
        span_ns, counted = told.pause_ns, False
    peer = int(topology.port_peer[port]) if port >= 0 else -1
    faces = int(topology.port_device[peer]) if peer >= 0 else -1
    members = topology.group_ports[topology.group_start[group] : topology.group_start[group + 1]] if group >= 0 else ()
    held_ns, sent_held_bytes = (0, 0) if closed.sampled is None else closed.sampled.held.get(port, (0, 0))
    return RootFacts(
        kind=kind,
        device=device,
        port=port_name,
        speed_mbps=speed,
        faces_host=topology.devices[faces] if faces >= 0 and topology.is_host[faces] else "",
        pcie=around_root.pcie_states(engine, closed, root >> 2) if kind == "host" else (),
        stopped_ns=told.pause_ns,
        stopped_span_ns=span_ns,
        sent_ratio=stopped_bytes * 8_000 / (speed * span_ns) if counted and span_ns and speed else None,
        ingress_ports=ingress_ports[root >> 2] if kind == "egress" else 0,
        sources=len({flow.src_device for flow in contributors}),
        max_mbps=int(state[port, layout.P_MAX_MBPS]) if port >= 0 else 0,
        queued_windows=int(state[port, layout.P_QUEUED_BINS]) if port >= 0 else 0,
        siblings=tuple(
            Sibling(
                f"{topology.devices[topology.ports[member][0]]}:{topology.ports[member][1]}",
                int(topology.port_speed_mbps[member]),
                int(state[member, layout.P_TX_BYTES]),
            )
            for member in members
        ),
        active_ns=active_ns,
        # By name: the numbers of queues depend on what was read first.
        ring=tuple(sorted(":".join(topology.queue_name(q)[:2]) for q in ring.queues)) if ring is not None else (),
        quiet_ns=ring.quiet_ns if ring is not None else 0,
        quiet_limit_ns=ring.limit_ns if ring is not None else 0,
        stops=told.pauses,
        sent_share=(
            int(state[port, layout.P_TX_BYTES]) * 8_000 / (speed * active_ns)
            if kind == "host" and counted and active_ns and speed
            else None
        ),
        main_host=main_host,
        main_host_share=main_share,
        polled=closed.sampled is not None,
        held_ns=held_ns,
        sent_held_bytes=sent_held_bytes,
        reports_depth=kind == "unknown" and bool(engine.devices[root >> 2, layout.D_REPORTS] & layout.REPORTS_DEPTH),
    )


def _main_host(contributors: tuple[Contributor, ...]) -> tuple[str, float]:
    """Where most of the bytes of some flows went, and the share of them; nowhere if nobody counted."""
    counted: Counter[str] = Counter()
    for flow in contributors:
        counted[flow.dst_device] += flow.bytes
    if not counted.total():
        return "", 0.0
    host = max(sorted(counted), key=counted.__getitem__)
    return host, counted[host] / counted.total()


def _stopped_by_host(engine: Engine, closed: Closed, host: int) -> tuple[int, QueueTally]:
    """The queue that the host stopped for longest (of equals the first by name) and its tally; -1 if there is none."""
    topology = engine.topology
    stopped = [
        (queue, tally)
        for queue, tally in closed.ledger.queues.items()
        if tally.pauser >= 0 and topology.port_device[tally.pauser] == host
    ]
    return max(stopped, key=lambda pair: (pair[1].pause_ns, _place(engine, pair[0])), default=(-1, QueueTally()))


def _place(engine: Engine, queue: int) -> int:
    """Larger for a queue whose name comes first."""
    return -int(engine.topology.port_rank[queue // PRIORITIES]) * PRIORITIES - queue % PRIORITIES


def _ingress_ports(closed: Closed, total: dict[int, int]) -> Counter[int]:
    """By egress, the ports of its device that were stopped because of it; `total` weighs each told queue's edges."""
    return Counter(
        egress for (told, egress), edge in closed.ledger.edges.items() if edge.weight * PPM >= LINK_PPM * total[told]
    )


def _contributors(engine: Engine, closed: Closed, root: int) -> tuple[Contributor, ...]:
    names = engine.topology.names
    counted: dict[int, int] = {}
    for (of, flow, _), amount in closed.ledger.flow_bytes.items():
        if of == root:
            # Of a flow to a stopped host, bytes are counted at its source and at the host's link: the larger fed it.
            counted[flow] = max(counted.get(flow, 0), amount)
    estimated = not counted
    if estimated:
        counted = {number: max(flow.size_bytes, 0) for number, flow in _passing(engine, root, closed.end_ns)}
    total = sum(counted.values())
    found = []
    for number, amount in counted.items():
        # Its bytes were there, so it was: where it is known from later on, its sender's clock is ahead.
        known = engine.flows.at(number, closed.end_ns) or engine.flows.at(number, closed.end_ns + layout.GAP_NS)
        found.append(
            Contributor(
                flow=f"{number:016x}",
                name=known.name if known else "",
                src_device=names.device(known.src_device) if known else "",
                dst_device=names.device(known.dst_device) if known else "",
                bytes=amount,
                share_ppm=amount * PPM // total if total else 0,
                estimated=estimated,
            )
        )
    return tuple(sorted(found, key=lambda flow: (-flow.bytes, flow.flow)))


def _passing(engine: Engine, root: int, time_ns: int) -> list[tuple[int, Flow]]:
    """Flows whose known path leaves by the root egress at a time, or that end at the root host."""
    names = engine.topology.names
    if root & 3 == layout.ROOT_HOST:
        host = engine.topology.devices[root >> 2]
        candidates = engine.flows.to(host, names)

        def passes(flow: Flow) -> bool:
            return names.device(flow.dst_device) == host
    elif root & 3 == layout.ROOT_EGRESS:
        place = engine.topology.queue_name(root >> 2)[:2]
        candidates = engine.flows.through(*place, names)

        def passes(flow: Flow) -> bool:
            return any(names.resolve(hop.device, hop.out_port)[:2] == place for hop in flow.path)
    else:
        return []
    known = ((number, engine.flows.at(number, time_ns)) for number in candidates)
    return [(number, flow) for number, flow in known if flow is not None and passes(flow)]


def _causes(closed: Closed, total: dict[int, int]) -> dict[int, list[int]]:
    """Of each told queue, the stopped queues of its pauser that passed the stop on, in order of index."""
    passed = [
        (told, egress)
        for (told, egress), edge in closed.ledger.edges.items()
        if edge.passed_weight * PPM >= LINK_PPM * total[told]
    ]
    causes: dict[int, list[int]] = {}
    for told, egress in sorted(passed):
        causes.setdefault(told, []).append(egress)
    return causes


def _queues(
    engine: Engine, closed: Closed, named: dict[int, int], pause_ns: int, total: dict[int, int]
) -> list[PausedQueue]:
    topology = engine.topology
    causes = _causes(closed, total)
    depth = {queue: 1 for queue in closed.ledger.queues if queue not in causes}
    frontier = sorted(depth)
    level = 1
    while frontier:
        level += 1
        frontier = [
            queue
            for queue, parents in sorted(causes.items())
            if queue not in depth and any(depth.get(parent, level) < level for parent in parents)
        ]
        depth.update((queue, level) for queue in frontier)
    listed = []
    for queue, tally in closed.ledger.queues.items():
        device, port, priority = topology.queue_name(queue)
        peer = tally.pauser
        by_device, by_port = (
            ("", "") if peer < 0 else (topology.devices[topology.ports[peer][0]], topology.ports[peer][1])
        )
        caused_by = sorted(":".join(topology.queue_name(cause)[:2]) for cause in causes.get(queue, []))
        listed.append(
            PausedQueue(
                device=device,
                port=port,
                priority=priority,
                paused_by_device=by_device,
                paused_by_port=by_port,
                pauses=tally.pauses,
                pause_ns=tally.pause_ns,
                share_ppm=tally.pause_ns * PPM // pause_ns if pause_ns else 0,
                depth=depth.get(queue, 1),
                caused_by=tuple(caused_by),
                first_ns=max(tally.first_ns, 0) if tally.pauses else None,
                last_ns=max(0, min(tally.last_ns, closed.end_ns)) if tally.pauses else None,
            )
        )
    return sorted(listed, key=lambda q: (-q.pause_ns, q.device, q.port, q.priority))


def _edges(engine: Engine, closed: Closed) -> list[Edge]:
    """The edges, largest first."""
    topology = engine.topology
    merged: dict[tuple[str, str, str], int] = {}
    for (_, egress), edge in closed.ledger.edges.items():
        device, out_port, _ = topology.queue_name(egress)
        key = (device, topology.ports[edge.ingress][1], out_port)
        merged[key] = merged.get(key, 0) + edge.weight
    total = sum(merged.values())
    edges = [
        Edge(*key, share_ppm=weight * PPM // total, held_bytes=min(weight, INT64_MAX) if closed.ledger.in_bytes else 0)
        for key, weight in merged.items()
        if total
    ]
    return sorted(edges, key=lambda edge: (-edge.share_ppm, edge.device, edge.ingress_port, edge.egress_port))
