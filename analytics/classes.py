"""The class of a root: one small function a class, with its rule and evidence, in the order in which they are tried.

In: what is known of one root. Out: the class's name and sentences of evidence; "unclassified" where no rule fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream import kinds

Evidence = tuple[str, ...]

UNCLASSIFIED = "unclassified"
UNITS = {kinds.PCIE_WIDTH: "lanes", kinds.PCIE_SPEED: "MT/s", kinds.PCIE_RATE: "Mb/s"}
NAMES = {kinds.PCIE_WIDTH: "width", kinds.PCIE_SPEED: "speed", kinds.PCIE_RATE: "rate"}


@dataclass(frozen=True, slots=True)
class Sibling:
    """An egress port of the root's sibling group: name, speed and what it sent while the group had an active root."""

    name: str
    speed_mbps: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class RootFacts:
    """What is known of one root; a number that nobody reported is None (or 0 for counts)."""

    kind: str
    device: str
    port: str
    speed_mbps: int
    faces_host: str
    """The host that the root egress leads to, "" if it leads to a switch."""
    pcie: tuple[tuple[int, int, int], ...]
    """(kind, least value in the time of the cascade, at most) of the root host."""
    stopped_ns: int
    stopped_span_ns: int
    """Of the egress that the root host stops: stopped time, and from its first stop to the end of its last."""
    sent_ratio: float | None
    """Of what it could, what that egress (or the root egress itself) sent between its first stop and its last."""
    ingress_ports: int
    """Ingress ports that were stopped because of the root egress."""
    sources: int
    """Hosts whose flows fed the root; 0 where flows are unknown."""
    max_mbps: int
    """Highest rate of the root egress in a window in which it was queued and not stopped."""
    queued_windows: int
    siblings: tuple[Sibling, ...]
    active_ns: int
    """Time of the byte windows in which the root's sibling group was active."""

    @property
    def port_name(self) -> str:
        """The root's name among its siblings."""
        return f"{self.device}:{self.port}"


STORM_COVER = 0.9
STORM_MIN_NS = 200_000
"""Below this a single pause covers its own span and says nothing."""
STORM_SENT_RATIO = 0.1
DEGRADED_RATIO = 0.8
DEGRADED_WINDOWS = 3
"""In one or two windows a queue may have been short of packets for most of the time."""
COLLISION_SKEW = 1.5
COLLISION_MEAN = 0.7
INCAST_SOURCES = 3
INCAST_INGRESS_PORTS = 2
LINE_RATE_RATIO = 0.8
"""An egress that sends at this share of its speed while queued is filled by demand beyond its line rate."""


def nic_pfc_storm(root: RootFacts) -> Evidence | None:
    """A host that pauses almost without end though its PCIe link is whole.

    Rule: stops cover >= .9 of the span from the first to the last, next to nothing gets through in it, PCIe healthy.
    Source: docs/concepts.md; PFC storms by malfunctioning NICs, Guo et al., SIGCOMM 2016, section 4.3.
    """
    if root.kind != "host" or _narrow(root) or root.stopped_ns < STORM_MIN_NS:
        return None
    cover = root.stopped_ns / max(root.stopped_span_ns, 1)
    if cover < STORM_COVER or (root.sent_ratio is not None and root.sent_ratio > STORM_SENT_RATIO):
        return None
    sentences = [f"{root.device} stopped its port for {cover:.0%} of {_ms(root.stopped_span_ns)}"]
    if root.sent_ratio is not None:
        sentences.append(f"the port could send {root.sent_ratio:.1%} of its line rate in that time")
    sentences.append("its PCIe link is whole" if root.pcie else "its PCIe link is not reported")
    return tuple(sentences)


def slow_receiver_pcie(root: RootFacts) -> Evidence | None:
    """A host whose PCIe link is narrower or slower than it could be, so that its NIC cannot drain what arrives.

    Rule: PCIe width, speed or rate below its maximum while the cascade lasted. Source: docs/concepts.md.
    """
    if root.kind != "host":
        return None
    narrow = _narrow(root)
    return tuple(
        f"PCIe {NAMES[kind]} of {root.device} is {now} of {at_most} {UNITS[kind]}" for kind, now, at_most in narrow
    ) or None  # fmt: skip


def incast(root: RootFacts) -> Evidence | None:
    """Many senders to one host: its link is the bottleneck and the host itself does not pause.

    Rule: an egress to a host, >= 3 sources from >= 2 ingress ports, line rate reached. Where flows are unknown the
    ingress ports alone count. Source: docs/concepts.md.
    """
    if root.kind != "egress" or not root.faces_host or root.ingress_ports < INCAST_INGRESS_PORTS:
        return None
    if root.sources and root.sources < INCAST_SOURCES:
        return None
    if root.queued_windows and root.max_mbps < LINE_RATE_RATIO * root.speed_mbps:
        return None
    sentences = [f"traffic from {root.ingress_ports} ingress ports meets at the link to {root.faces_host}"]
    if root.sources:
        sentences.append(f"{root.sources} hosts send to it")
    if root.queued_windows:
        # Windows and packets do not end together, so a full link may seem to carry a little more than it can.
        sentences.append(f"it sends {min(root.max_mbps, root.speed_mbps)} of {root.speed_mbps} Mb/s while queued")
    return tuple(sentences)


def link_degraded(root: RootFacts) -> Evidence | None:
    """A link between switches that carries less than it should.

    Rule: its highest rate while queued and not stopped is < .8 of nominal. Source: docs/concepts.md.
    """
    if root.kind != "egress" or root.faces_host or root.queued_windows < DEGRADED_WINDOWS or not root.speed_mbps:
        return None
    if root.max_mbps >= DEGRADED_RATIO * root.speed_mbps:
        return None
    return (
        f"the link carried at most {root.max_mbps} of {root.speed_mbps} Mb/s"
        f" in {root.queued_windows} windows in which it was queued and not stopped",
    )


def ecmp_collision(root: RootFacts) -> Evidence | None:
    """Flows that hash onto one of several equal links while its siblings have room.

    Rule: the fullest sibling, which is the root, sends > 1.5 times the mean, and the mean is < .7 of the line rate.
    Siblings of a downlink are all same-tier links into its device. Source: docs/concepts.md; RFC 2992.
    """
    if root.kind != "egress" or root.faces_host or len(root.siblings) < 2 or not root.active_ns:
        return None
    ratios = {
        sibling.name: sibling.sent_bytes * 8_000 / (sibling.speed_mbps * root.active_ns)
        for sibling in root.siblings
        if sibling.speed_mbps
    }
    if not ratios or root.port_name not in ratios:
        return None
    mean = sum(ratios.values()) / len(ratios)
    own = ratios[root.port_name]
    if mean >= COLLISION_MEAN or own <= COLLISION_SKEW * mean:
        return None
    siblings = f"its {len(ratios) - 1} siblings" if len(ratios) > 2 else "its sibling"
    return (
        f"{root.port_name} sends at {min(own, 1.0):.0%} of its line rate while it and {siblings} average {mean:.0%}",
    )


RULES: tuple[tuple[str, Callable[[RootFacts], Evidence | None]], ...] = (
    ("nic_pfc_storm", nic_pfc_storm),
    ("slow_receiver_pcie", slow_receiver_pcie),
    ("incast", incast),
    ("link_degraded", link_degraded),
    ("ecmp_collision", ecmp_collision),
)
"""Every class, in the order in which they are tried: the first that fires gives the root its class."""


def classify(root: RootFacts) -> tuple[str, Evidence]:
    """The class of a root and the evidence for it."""
    for name, rule in RULES:
        evidence = rule(root)
        if evidence is not None:
            return name, evidence
    return UNCLASSIFIED, ("no rule fits what is known of this root",)


def _narrow(root: RootFacts) -> list[tuple[int, int, int]]:
    return [(kind, now, at_most) for kind, now, at_most in root.pcie if 0 <= now < at_most]


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"
