"""The class of a root: one small function a class, with its rule and evidence, in the order in which they are tried.

In: what is known of one root. Out: the class's name and sentences of evidence; "unclassified" where no rule fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analytics.root_facts import RootFacts
from stream import kinds

Evidence = tuple[str, ...]

UNCLASSIFIED = "unclassified"
UNITS = {kinds.PCIE_WIDTH: "lanes", kinds.PCIE_SPEED: "MT/s", kinds.PCIE_RATE: "Mb/s"}
NAMES = {kinds.PCIE_WIDTH: "width", kinds.PCIE_SPEED: "speed", kinds.PCIE_RATE: "rate"}

HOST_TOPICS: dict[str, str] = {
    "pcie": "PCIe width, speed and errors",
    "kernel": "kernel latency",
    "host": "RDMA and memory errors, throttling and pressure",
}
"""Topics that say what goes on inside a host, and what is on them."""
STORM_COVER = 0.9
"""A receiver that is stopped for more takes less than a tenth of what it is brought: no work goes on at such a rate."""
STORM_MIN_NS = 200_000
"""Below this a single pause covers its own span and says nothing."""
STORM_SENT_RATIO = 0.1
"""What such a cover leaves of the line rate."""
DEGRADED_RATIO = 0.8
"""A link that lost one of four lanes, or a step of its speed, has three quarters or less; a whole one that is never
short of packets loses less than a tenth to headers and gaps."""
DEGRADED_WINDOWS = 3
"""In one or two windows a queue may have been short of packets for most of the time."""
COLLISION_SKEW = 1.5
"""Halfway between flows that are spread evenly and two that share one of two links."""
COLLISION_MEAN = 0.7
"""A full link can be COLLISION_SKEW times as full as the mean only up to a mean of two thirds: beyond, no sibling has
room enough to be called so."""
HELD_SHARE = 0.25
"""Where a polled link sent less of its bytes while it was queued, what it and its siblings sent is of other traffic."""
INCAST_SOURCES = 3
"""Two senders to one host meet on any day; from the third on it is many to one."""
INCAST_INGRESS_PORTS = 2
"""One ingress port brings no more than an egress of the same speed takes away."""
DEADLOCK_MIN_NS = 100_000
"""In a ring that moves a queue that is let go drains an XOFF threshold in 20 us (MEMORY_NS); five times
that without a byte from any queue of the ring is no turn that is about to come."""
DEADLOCK_FACTOR = 10
"""A stop that lasts ten times as long as any other of the ring is none that a queue ahead will end."""
PLATEAU_STOPS = 3
"""One or two stops may be a burst that the buffer did not hold; a slow receiver stops its port again and again."""
PLATEAU_LEAST, PLATEAU_MOST = 0.05, 0.95
"""Next to nothing is no slow receiver but a dead or storming one, and within packet overheads of line rate is none."""
ONE_HOST_SHARE = 0.7
"""Of a link that many share no host has most by chance; the rest may be what else was on its way (docs/concepts.md)."""
LINE_RATE_RATIO = 0.8
"""An egress that sends at this share of its speed while queued is filled by demand beyond its line rate."""


def pfc_deadlock(root: RootFacts) -> Evidence | None:
    """Queues that stop each other in a ring, so that none can ever send again.

    Rule: all queues of a ring, each stopped because of the next, are stopped at once for max(10 x the longest other
    stop of them, 100 us): a stopped queue sends nothing. Source: docs/concepts.md; Hu et al., HotNets
    2016, "Deadlocks in datacenter networks: why do they form, and how to avoid them".
    """
    if not root.ring or root.quiet_ns < root.quiet_limit_ns:
        return None
    return (
        f"{len(root.ring)} queues stop each other in a ring: {_some_of(root.ring)}",
        f"all of them were stopped at once for {_ms(root.quiet_ns)}, and sent nothing",
    )


def cyclic_dependency(root: RootFacts) -> Evidence | None:
    """Queues that stop each other in a ring which still moves: the buffer dependency of a deadlock, without one.

    Rule: the root is in such a ring and no other class fits. Source: as for pfc_deadlock.
    """
    if not root.ring:
        return None
    return (
        f"{len(root.ring)} queues stop each other in a ring: {_some_of(root.ring)}",
        f"they were never all stopped at once for longer than {_ms(root.quiet_ns)}: it still moves",
    )


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


def slow_receiver_plateau(root: RootFacts) -> Evidence | None:
    """A host of which nobody reports the PCIe link, that takes less than its port brings it, again and again.

    Rule: a root host without PCIe reports stops its port >= 3 times, and the port sends between .05 and .95 of its line
    rate meanwhile: a receiver that keeps up sends no pause. Source: docs/concepts.md.
    """
    if root.pcie or not _plateau(root):
        return None
    return (*_plateau(root), "its PCIe link is not reported")


def slow_receiver_host(root: RootFacts) -> Evidence | None:
    """A host that sends pause though its PCIe link is not known to be narrow: something inside holds its NIC up.

    Rule: as the plateau, where the PCIe link is reported and whole; or the host reported something of itself in that
    time that is no matter of PCIe. Source: docs/concepts.md; host congestion by memory bandwidth, IOMMU and CPU,
    Agarwal et al., SIGCOMM 2023, "Host congestion control".
    """
    found_inside = bool(root.inside) and root.inside[0].layer != "pcie"
    if root.kind != "host" or _narrow(root) or not (found_inside or (root.pcie and _plateau(root))):
        return None
    return (*_plateau(root), "its PCIe link is whole" if root.pcie else "its PCIe link is not reported")


def incast(root: RootFacts) -> Evidence | None:
    """Many senders to one host: its link is the bottleneck and the host itself does not pause.

    Rule: an egress to a host, >= 3 sources from >= 2 ingress ports, line rate reached. Where flows are unknown the
    ingress ports alone count. Source: docs/concepts.md.
    """
    if root.kind != "egress" or not root.faces_host or root.ingress_ports < INCAST_INGRESS_PORTS:
        return None
    if root.sources and root.sources < INCAST_SOURCES:
        return None
    if _rate_known(root) and not _reaches_line_rate(root):
        return None
    sentences = [f"traffic from {root.ingress_ports} ingress ports meets at the link to {root.faces_host}"]
    if root.sources:
        sentences.append(f"{root.sources} hosts send to it")
    if root.queued_windows and not root.polled:
        # Windows and packets do not end together, so a full link may seem to carry a little more than it can.
        sentences.append(f"it sends {min(root.max_mbps, root.speed_mbps)} of {root.speed_mbps} Mb/s while queued")
    return tuple(sentences)


def oversubscribed_host_link(root: RootFacts) -> Evidence | None:
    """Fewer senders than an incast, whose demand together is more than the link of one host.

    Rule: an egress to a host that sends >= .8 of its line rate while queued; if it is polled, that can have sent so
    much. Source: docs/concepts.md.
    """
    if root.kind != "egress" or not root.faces_host or not _reaches_line_rate(root):
        return None
    senders = f" from {root.sources} hosts" if root.sources else ""
    if root.polled:
        return (
            f"the link to {root.faces_host} was queued for {_ms(root.held_ns)}, and no slower than it should{senders}",
        )
    return (
        f"the link to {root.faces_host} sends {min(root.max_mbps, root.speed_mbps)} of {root.speed_mbps} Mb/s while"
        f" queued{senders}",
    )


def link_degraded(root: RootFacts) -> Evidence | None:
    """A link between switches that carries less than it should.

    Rule: its highest rate while queued and not stopped is < .8 of nominal. Of a polled link that is what it sent in a
    poll, by the least time in which it held what others were stopped for. Source: docs/concepts.md.
    """
    if root.kind != "egress" or root.faces_host or not root.speed_mbps:
        return None
    if root.polled:
        most = root.held_mbps
        if root.ring or most is None or most >= DEGRADED_RATIO * root.speed_mbps:
            return None
        return (
            f"the link carried at most {most} of {root.speed_mbps} Mb/s: for {_ms(root.held_ns)} at least others were"
            " stopped for what it held, and in the polls of that time it sent no more",
            *root.link_errors,
        )
    if root.queued_windows < DEGRADED_WINDOWS:
        return None
    if root.max_mbps >= DEGRADED_RATIO * root.speed_mbps:
        return None
    return (
        f"the link carried at most {root.max_mbps} of {root.speed_mbps} Mb/s"
        f" in {root.queued_windows} windows in which it was queued and not stopped",
        *root.link_errors,
    )


def link_with_errors(root: RootFacts) -> Evidence | None:
    """A link between switches that damages what it carries.

    Rule: errors at one of its ends in the time of the cascade, beyond what a whole link may have (host_evidence.py has
    the bounds). Its rate needs not be known. Source: docs/concepts.md; IEEE 802.3, bit error ratio of 1e-12.
    """
    if root.kind != "egress" or root.faces_host:
        return None
    return root.link_errors or None


def ecmp_collision(root: RootFacts) -> Evidence | None:
    """Flows that hash onto one of several equal links while its siblings have room.

    Rule: the fullest sibling, which is the root, sends > 1.5 times the mean, and the mean is < .7 of the line rate.
    A mean over polls hides what was in them: there, the siblings can have sent no more than that while the root held
    what others were stopped for; or the root was full all the time, or queued for much of what it sent. Siblings of a
    downlink are all same-tier links into its device. Source: docs/concepts.md; RFC 2992.
    """
    ratios = sibling_ratios(root)
    if len(ratios) < 2:
        return None
    mean = sum(ratios.values()) / len(ratios)
    own = ratios[root.port_name]
    siblings = f"its {len(ratios) - 1} siblings" if len(ratios) > 2 else "its sibling"
    if root.polled:
        if root.ring:
            return None  # what it sent is of when the ring moved
        if root.sent_held_bytes * 8_000 < DEGRADED_RATIO * root.speed_mbps * root.held_ns:
            return None  # too slow for a collision, whatever else it is
        most = most_of_siblings(root, ratios)
        if most is not None and most < min(COLLISION_MEAN, 1.0 / COLLISION_SKEW):
            return (
                f"while {root.port_name} held what others were stopped for, it and {siblings} can have averaged"
                f" {most:.0%} of line rate at most",
            )
        queued = root.speed_mbps * root.held_ns >= HELD_SHARE * 8_000 * root.sent_held_bytes > 0
        if own < LINE_RATE_RATIO and not queued:
            return None
    if mean >= COLLISION_MEAN or own <= COLLISION_SKEW * mean:
        return None
    return (
        f"{root.port_name} sends at {min(own, 1.0):.0%} of its line rate while it and {siblings} average {mean:.0%}",
    )


def incast_behind(root: RootFacts) -> Evidence | None:
    """An incast whose bottleneck is one hop before the host's link: the links towards it are fewer than its senders.

    Rule: a full egress between switches, of whose bytes > .7 go to one host. Source: docs/concepts.md.
    """
    full = _full_group(root)
    if full is None or root.main_host_share <= ONE_HOST_SHARE:
        return None
    return (full, f"{root.main_host_share:.0%} of its bytes go to {root.main_host}: an incast, one hop before it")


def fabric_overload(root: RootFacts) -> Evidence | None:
    """More traffic than all equal links together carry: no choice of path would help.

    Rule: the sibling links of the root average >= .7 of their line rate. Source: docs/concepts.md.
    """
    full = _full_group(root)
    return None if full is None else (full,)


def misconfiguration(root: RootFacts) -> Evidence | None:
    """A switch that stops its neighbours though none of its queues holds anything.

    Rule: a pauser that reports depths, none of whose queues held bytes when it paused. Source: docs/concepts.md.
    """
    if root.kind != "unknown" or not root.reports_depth or root.depths_due:
        return None
    return (f"{root.device} sends pause while all its queues are empty: look at its thresholds and headroom",)


RULES: tuple[tuple[str, Callable[[RootFacts], Evidence | None]], ...] = (
    ("pfc_deadlock", pfc_deadlock),
    ("nic_pfc_storm", nic_pfc_storm),
    ("slow_receiver_pcie", slow_receiver_pcie),
    ("slow_receiver_host", slow_receiver_host),
    ("slow_receiver_pcie", slow_receiver_plateau),
    ("incast", incast),
    ("oversubscribed_host_link", oversubscribed_host_link),
    ("link_degraded", link_degraded),
    ("link_degraded", link_with_errors),
    ("ecmp_collision", ecmp_collision),
    ("incast", incast_behind),
    ("fabric_overload", fabric_overload),
    ("misconfiguration", misconfiguration),
    ("cyclic_dependency", cyclic_dependency),
)
"""Every class, in the order in which they are tried: the first that fires gives the root its class."""


def classify(root: RootFacts) -> tuple[str, Evidence]:
    """The class of a root and the evidence for it."""
    for name, rule in RULES:
        evidence = rule(root)
        if evidence is not None:
            return name, (*evidence, *_inside(root))
    if root.kind == "unknown":
        why = "the depths of its queues may still come" if root.reports_depth else ""
        return UNCLASSIFIED, (why or f"no queue of {root.device} reports depth, so its part cannot be told",)
    return UNCLASSIFIED, ("no rule fits what is known of this root", *_inside(root))


def _inside(root: RootFacts) -> Evidence:
    """What was found inside a root host; where that is nothing and its PCIe link is not narrow, what was looked at."""
    if root.inside:
        return tuple(finding.sentence for finding in root.inside)
    if root.kind != "host" or _narrow(root):
        return ()
    missing = [f"{topic} ({what})" for topic, what in HOST_TOPICS.items() if topic not in root.reported]
    if not root.reported:
        return (f"nobody reports what goes on inside {root.device}: collect {_listed(missing)}",)
    collect = f"; collect {_listed(missing)} too" if missing else ""
    return (f"what {root.device} reports of itself ({_listed(root.reported)}) does not explain it{collect}",)


def _rate_known(root: RootFacts) -> bool:
    return root.held_mbps is not None if root.polled else root.queued_windows > 0


def _reaches_line_rate(root: RootFacts) -> bool:
    """Whether it was seen to send at line rate while queued; of a polled one, whether it can have."""
    mbps = root.held_mbps if root.polled else root.max_mbps
    return _rate_known(root) and (mbps or 0) >= LINE_RATE_RATIO * root.speed_mbps


def _narrow(root: RootFacts) -> list[tuple[int, int, int]]:
    return [(kind, now, at_most) for kind, now, at_most in root.pcie if 0 <= now < at_most]


def _plateau(root: RootFacts) -> Evidence:
    if root.kind != "host" or root.sent_share is None or root.stops < PLATEAU_STOPS:
        return ()
    if not PLATEAU_LEAST <= root.sent_share <= PLATEAU_MOST:
        return ()
    return (f"{root.device} takes {root.sent_share:.0%} of its port's line rate and stopped it {root.stops} times",)


def sibling_ratios(root: RootFacts) -> dict[str, float]:
    """Of each sibling of a root egress between switches, its rate by its line rate; empty if that is not known."""
    if root.kind != "egress" or root.faces_host or not root.active_ns:
        return {}
    ratios = {
        sibling.name: sibling.sent_bytes * 8_000 / (sibling.speed_mbps * root.active_ns)
        for sibling in root.siblings
        if sibling.speed_mbps
    }
    return ratios if root.port_name in ratios else {}


def most_of_siblings(root: RootFacts, ratios: dict[str, float]) -> float | None:
    """Of a polled root, the most that it and its siblings can have averaged while it was queued, of line rate."""
    if not root.polled or not root.held_ns:
        return None
    others = [ratio * root.active_ns / root.held_ns for name, ratio in ratios.items() if name != root.port_name]
    return (1.0 + sum(min(1.0, ratio) for ratio in others)) / len(ratios)


def _full_group(root: RootFacts) -> str | None:
    ratios = sibling_ratios(root)
    mean = sum(ratios.values()) / len(ratios) if ratios else 0.0
    if mean < COLLISION_MEAN:
        return None
    links = f"it and its {len(ratios) - 1} sibling links average" if len(ratios) > 1 else "it sends at"
    return f"{links} {min(mean, 1.0):.0%} of line rate"


def _some_of(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"
