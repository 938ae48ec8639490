"""How much of what a verdict needs was seen, and what would have to be seen to be surer (docs/concepts.md).

A pure function of the engine's state at the moment when a cascade closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analytics import layout
from analytics.announced import Announced
from analytics.bounds import ACCEPT_PPM, PPM
from analytics.engine import Closed, Engine
from analytics.host_evidence import Finding
from analytics.ledger import bounded_sum
from analytics.missing import CUT_OFF, ENDS, GAPS, LATE, LOST, MASKED, NAMES, ONE_ENDED, PCIE, SILENT
from analytics.topology import PRIORITIES
from stream import kinds
from stream.identity import some

EVIDENCE_KINDS = 3
"""Independent kinds of evidence (pause, queue, ECN, rate, host) that make a verdict complete."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """Confidence in ppm, what would raise it (sentences of analytics/missing.py), and the parts it is made of."""

    ppm: int
    missing: tuple[str, ...]
    parts: dict[str, int]


@dataclass(slots=True)
class Seen:
    """What the two ends of a cascade's pauses reported."""

    reports: int = 0
    """Bits REPORTS_* of all switches that paused."""
    covered_ns: int = 0
    """Pause time of which the pauser's part can be told."""
    silent: set[str] = field(default_factory=set)
    one_ended: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)
    """Stopped ports of which nobody knows where their link leads."""
    names: set[str] = field(default_factory=set)
    """Names of ports that no fact explains."""
    late: set[str] = field(default_factory=set)
    """Devices of which a stream was suspended meanwhile."""
    gaps: set[str] = field(default_factory=set)
    """Devices of which a counter began anew or was not read meanwhile."""
    masked: set[str] = field(default_factory=set)
    """Stopped ports, and ports blamed, whose watchdog ignored pause meanwhile."""
    blind_roots: set[int] = field(default_factory=set)
    """Root egresses among those: what stopped them, if anything, nobody could see."""


def confidence_of(
    engine: Engine,
    closed: Closed,
    announced: Announced,
    shares: dict[int, int],
    pause_ns: int,
    inside: Mapping[int, Sequence[Finding]],
) -> Confidence:
    """Time * coverage * evidence * margin, with losses and guessed ends taken off the time.

    `inside`: by root, what the hosts among them reported of themselves.
    """
    seen = what_was_seen(engine, closed, announced, shares)
    pauses = sum(tally.pauses for tally in closed.ledger.queues.values())
    lost = sum(losses(engine, closed).values())
    time = 0.9 if seen.one_ended or seen.late or seen.gaps or seen.masked else 1.0
    if lost:
        time *= pauses / (pauses + lost)
    beside, pieces = _cut_off(engine, closed)
    time /= 1.0 + pieces
    hosts, host_known, found_inside = hosts_seen(engine, closed, shares, inside)
    evidence = evidence_of(seen.reports, host_known or found_inside)
    # Blame of a switch whose queues nobody saw is not placed at any of them: no evidence covers it. Nor is blame of a
    # queue that may have been stopped itself, unseen.
    unplaced = sum(ppm for root, ppm in shares.items() if root & 3 == layout.ROOT_UNKNOWN or root in seen.blind_roots)
    coverage = min(1.0, seen.covered_ns / pause_ns) * (1 - min(unplaced, PPM) / PPM) if pause_ns else 0.0
    missing = (
        (ONE_ENDED, seen.one_ended),
        (LATE, seen.late),
        (MASKED, seen.masked),
        (GAPS, seen.gaps),
        (f"{lost} {LOST}", lost),
        (f"{beside} {CUT_OFF}", round(pieces * 100)),
        (SILENT, seen.silent),
        (ENDS, seen.ends),
        (NAMES, seen.names),
        (PCIE, {engine.topology.devices[host] for host in hosts if not host_known}),
    )
    margin = _margin(engine, shares)
    parts = {"time": time, "coverage": coverage, "evidence": evidence, "margin": margin}
    return Confidence(
        round(PPM * time * coverage * evidence * margin),
        sentences_of(missing),
        {name: round(PPM * part) for name, part in parts.items()},
    )


def sentences_of(missing: Iterable[tuple[str, object]]) -> tuple[str, ...]:
    """Of pairs of words and what they are of, a sentence each: words alone, or with the names of a set."""
    return tuple(f"{what} {some(sorted(of))}" if isinstance(of, set) else what for what, of in missing if of)


def hosts_seen(
    engine: Engine, closed: Closed, shares: dict[int, int], inside: Mapping[int, Sequence[Finding]]
) -> tuple[list[int], bool, bool]:
    """The hosts among the roots, whether a PCIe link of theirs was read, and whether anything was found inside them."""
    hosts = [root >> 2 for root, ppm in shares.items() if root & 3 == layout.ROOT_HOST and ppm >= ACCEPT_PPM]
    readings = (reading for host in hosts for reading in engine.noted.pcie.get(host, ()))
    host_known = any(reading.time_ns <= closed.end_ns for reading in readings)
    return hosts, host_known, any(inside.get(host * 4 + layout.ROOT_HOST) for host in hosts)


def evidence_of(reports: int, by_hosts: bool) -> float:
    """What is left of a confidence by the kinds of evidence: bits REPORTS_* of switches, and that of hosts."""
    # With no switch that reports anything, nobody has seen a queue: host evidence alone names no cascade's root.
    kinds_seen = 1 + reports.bit_count() + int(by_hosts) if reports else 1
    return min(1.0, kinds_seen / EVIDENCE_KINDS)


def losses(engine: Engine, closed: Closed) -> dict[str, int]:
    """Losses that touch the cascade's time: rows that sources or the way here lost, and ends that were guessed."""
    near = [
        count
        for time_ns, _, count in engine.noted.losses
        if closed.start_ns - layout.GAP_NS <= time_ns <= closed.end_ns + layout.GAP_NS
    ]
    return {
        "rows_lost": bounded_sum(count for count in near if count > 0),
        "streams_joined_late": sum(count == kinds.UNKNOWN for count in near),
        "ends_guessed": 0 if closed.still_open else sum(tally.guessed for tally in closed.ledger.queues.values()),
    }


def _cut_off(engine: Engine, closed: Closed) -> tuple[int, float]:
    """Ends guessed beside the cascade, and how many cascades like it they may be pieces of others."""
    tallies = closed.ledger.queues
    rounds = max((tally.pauses for tally in tallies.values()), default=0)
    stopped_ns = max((tally.pause_ns for tally in tallies.values()), default=0)
    return engine.told_pauses.cut_off(
        list(tallies), closed.start_ns, closed.end_ns, rounds, stopped_ns, engine.topology
    )


def what_was_seen(engine: Engine, closed: Closed, announced: Announced, shares: dict[int, int]) -> Seen:
    """What sources told of the cascade's queues and ports, and what they could not."""
    topology, seen = engine.topology, Seen()
    gaps = engine.noted.blind.gaps(closed.start_ns, closed.end_ns)
    with_gaps = {topology.devices[topology.ports[port][0]] for port in gaps}
    for root in shares:
        if root & 3 == layout.ROOT_EGRESS and _masked(engine, closed, root >> 2):
            seen.blind_roots.add(root)
            seen.masked.add(":".join(topology.queue_name(root >> 2)[:2]))
    unexplained = _unexplained(engine, closed)
    seen.names = {":".join(topology.queue_name(port * PRIORITIES)[:2]) for port in unexplained}
    unclear = {topology.ports[port][0] for port in unexplained}
    late = announced.suspended(closed.start_ns, closed.end_ns, topology.names)
    for queue, tally in closed.ledger.queues.items():
        told, port, _ = topology.queue_name(queue)
        ends = {told}
        if tally.pauser < 0:
            seen.ends.add(f"{told}:{port}")
        else:
            pauser = int(topology.port_device[tally.pauser])
            ends.add(topology.devices[pauser])
            is_host, reports = bool(topology.is_host[pauser]), int(engine.devices[pauser, layout.D_REPORTS])
            seen.reports |= 0 if is_host else reports
            if not is_host and not reports:
                seen.silent.add(topology.devices[pauser])
            elif pauser not in unclear:
                seen.covered_ns += tally.pause_ns
        seen.late |= ends & late
        seen.gaps |= ends & with_gaps
        if _masked(engine, closed, queue):
            seen.masked.add(f"{told}:{port}")
        for name in ends - seen.one_ended:
            if not announced.reports(name, closed.start_ns, closed.end_ns, topology.names):
                seen.one_ended.add(name)
    return seen


def _masked(engine: Engine, closed: Closed, queue: int) -> bool:
    """Whether the queue's watchdog ignored pause while the cascade lasted, or ended it by that."""
    port, priority = divmod(queue, PRIORITIES)
    return engine.noted.blind.masked(port, priority, closed.start_ns, closed.end_ns + layout.GAP_NS)


def _unexplained(engine: Engine, closed: Closed) -> list[int]:
    """Ports of the cascade's devices that had rows under names which do not resolve, while it went on."""
    topology = engine.topology
    devices = set()
    for queue, tally in closed.ledger.queues.items():
        devices |= {int(topology.port_device[port]) for port in (queue // PRIORITIES, tally.pauser) if port >= 0}
    near = engine.noted.unexplained.between(closed.start_ns - layout.GAP_NS, closed.end_ns)
    return [port for port in near if topology.ports[port][0] in devices]


def _margin(engine: Engine, shares: dict[int, int]) -> float:
    """1 - strongest rejected root / all accepted ones.

    With one root, how far it stands out. With several, a doubt about the weakest is none about the others (decision
    0018).
    """
    together = by_place(engine, shares)
    accepted = [ppm for ppm in together if ppm >= ACCEPT_PPM]
    rejected = [ppm for ppm in together if ppm < ACCEPT_PPM]
    return 1.0 - max(rejected, default=0) / sum(accepted) if accepted else 0.0


def by_place(engine: Engine, shares: Mapping[int, int]) -> list[int]:
    """Shares of the blame, where egresses of one device to siblings count as one root: what one is, all are."""
    together: dict[tuple[str, int], int] = {}
    for root, ppm in shares.items():
        key = ("root", root)
        if root & 3 == layout.ROOT_EGRESS:
            key = ("group", int(engine.topology.port_group[(root >> 2) // PRIORITIES]))
        if root != layout.ROOT_OTHER:
            together[key] = together.get(key, 0) + ppm
    return list(together.values())
