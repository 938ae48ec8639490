"""Looks up what was noted around a root while its cascade lasted: PCIe states, findings inside hosts, errors of links.

A pure function of the engine's state at the moment of closing; what the readings mean is in host_evidence.py.
"""

from __future__ import annotations

from analytics import host_evidence
from analytics.announced import Announced
from analytics.classes import HOST_TOPICS
from analytics.engine import Closed, Engine
from analytics.topology import PRIORITIES
from stream import kinds


def pcie_states(engine: Engine, closed: Closed, host: int) -> tuple[tuple[int, int, int], ...]:
    """Per kind of PCIe measure, the least value in force during the cascade relative to its maximum."""
    worst: dict[int, tuple[int, int]] = {}
    in_force: dict[tuple[int, str], tuple[int, int]] = {}
    readings = engine.noted.pcie.get(host, [])
    for reading in readings:
        if reading.time_ns <= closed.start_ns:
            in_force[reading.kind, reading.port] = (reading.now, reading.at_most)
    during = [(r.kind, (r.now, r.at_most)) for r in readings if closed.start_ns < r.time_ns <= closed.end_ns]
    for kind, (now, at_most) in [*((kind, pair) for (kind, _), pair in in_force.items()), *during]:
        if now == kinds.UNKNOWN or at_most in (kinds.UNKNOWN, 0):
            continue
        if kind not in worst or now * worst[kind][1] < worst[kind][0] * at_most:
            worst[kind] = (now, at_most)
    return tuple((kind, now, at_most) for kind, (now, at_most) in sorted(worst.items()))


def inside_host(engine: Engine, closed: Closed, host: int) -> tuple[host_evidence.Finding, ...]:
    """What a host reported of itself, and the other ends of its links of these, in the time of the cascade."""
    topology = engine.topology
    readings = list(engine.noted.readings.get(host, ()))
    for peer in topology.port_peer[topology.port_device == host].tolist():
        readings += engine.noted.of_link(topology, peer)
    return host_evidence.inside(readings, closed.start_ns, closed.end_ns)


def reported(engine: Engine, closed: Closed, announced: Announced, host: str) -> tuple[str, ...]:
    """The topics about its inside that a host reported on in the time of the cascade."""
    names = engine.topology.names
    return tuple(
        topic for topic in HOST_TOPICS if announced.reports(host, closed.start_ns, closed.end_ns, names, topic)
    )


def errors_of_link(engine: Engine, closed: Closed, port: int) -> tuple[str, ...]:
    """Errors that both ends of an egress' link counted in the time of the cascade, beyond what a whole link may."""
    topology = engine.topology
    ends = [
        (":".join(topology.queue_name(end * PRIORITIES)[:2]), engine.noted.of_link(topology, end))
        for end in (port, int(topology.port_peer[port]))
        if end >= 0
    ]
    return host_evidence.link_errors(ends, int(topology.port_speed_mbps[port]), closed.start_ns, closed.end_ns)
