"""Why a root is of no other class: for each rule of classes.py a function that says what speaks against it.

In: what is known of a root, and the class that it got. Out: the other classes that a root of its kind may have, each
with a sentence from the same numbers. A class about another kind of root says nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from analytics import classes
from analytics.classes import RULES
from analytics.root_facts import RootFacts
from stream.cascade import Alternative

NOT_POLARIZED = (
    "no queue at another tier collides at the same time, nor do switches of its tier use one of their links each"
)


def alternatives(root: RootFacts, root_class: str) -> tuple[Alternative, ...]:
    """The other classes in the order in which they are tried; a class of two rules tells why neither fired."""
    told: dict[str, list[str]] = {}
    for name, rule in RULES:
        why = "" if name == root_class else _against(root, root_class, rule)
        if why and why not in told.setdefault(name, []):
            told[name].append(why)
    return tuple(Alternative(name, "; ".join(reasons)) for name, reasons in told.items() if reasons)


def _against(root: RootFacts, root_class: str, rule: Callable[[RootFacts], classes.Evidence | None]) -> str:
    if rule(root) is not None:
        return f"its rule fires too: {root_class} is tried first"
    return WHY_NOT[rule.__name__](root) if rule.__name__ in WHY_NOT else ""  # a ring: whoever is in one is told so


def no_deadlock(root: RootFacts) -> str:
    """Against pfc_deadlock: the ring was not stopped as a whole for long enough."""
    if not root.ring:
        return ""
    return (
        f"the ring of {len(root.ring)} queues was stopped at once for {_ms(root.quiet_ns)},"
        f" a deadlock for {_ms(root.quiet_limit_ns)} or longer"
    )


def no_storm(root: RootFacts) -> str:
    """Against nic_pfc_storm: the PCIe link explains it, the stops are too short or leave gaps, or bytes get through."""
    if root.kind != "host":
        return ""
    if _is_narrow(root):
        return "its PCIe link is below its maximum, which is reason enough to pause"
    if root.stopped_ns < classes.STORM_MIN_NS:
        return f"its stops lasted {_ms(root.stopped_ns)} together, less than {_ms(classes.STORM_MIN_NS)}"
    cover = root.stopped_ns / max(root.stopped_span_ns, 1)
    if cover < classes.STORM_COVER:
        return (
            f"its stops cover {cover:.0%} of the time from the first to the last, in a storm {classes.STORM_COVER:.0%}"
        )
    return (
        f"its port sent {root.sent_ratio or 0:.0%} of its line rate meanwhile,"
        f" in a storm {classes.STORM_SENT_RATIO:.0%} at most"
    )


def no_narrow_pcie(root: RootFacts) -> str:
    """Against the first rule of slow_receiver_pcie: the link is at its maximum."""
    if root.kind != "host" or not root.pcie:
        return ""
    known = [(kind, now, at_most) for kind, now, at_most in root.pcie if now >= 0]
    if not known:
        return "its PCIe link is known, and no figure of it"
    figures = " and ".join(f"{classes.NAMES[kind]} {now} of {most} {classes.UNITS[kind]}" for kind, now, most in known)
    return f"its PCIe link is whole: {figures}"


def no_plateau(root: RootFacts) -> str:
    """Against the second rule of slow_receiver_pcie, which is for hosts whose PCIe link nobody reports."""
    return "" if root.kind != "host" or root.pcie else _no_plateau(root)


def no_slow_host(root: RootFacts) -> str:
    """Against slow_receiver_host: the PCIe link is not known to be whole, or the port shows no plateau."""
    if root.kind != "host":
        return ""
    if not root.pcie:
        return "its PCIe link is not reported, so what holds it up cannot be placed behind that"
    if _is_narrow(root):
        return "its PCIe link is below its maximum, which comes before anything behind it"
    return _no_plateau(root)


def no_incast(root: RootFacts) -> str:
    """Against the first rule of incast: too few ports or senders, or room on the host's link."""
    if root.kind != "egress" or not root.faces_host:
        return ""
    if root.ingress_ports < classes.INCAST_INGRESS_PORTS:
        ports = "1 port was" if root.ingress_ports == 1 else f"{root.ingress_ports} ports were"
        return f"{ports} stopped because of it, in an incast {classes.INCAST_INGRESS_PORTS} or more"
    if root.sources and root.sources < classes.INCAST_SOURCES:
        return f"{root.sources} hosts send to it, in an incast {classes.INCAST_SOURCES} or more"
    return _not_full(root)


def no_oversubscription(root: RootFacts) -> str:
    """Against oversubscribed_host_link: the link was not seen full."""
    return _not_full(root) if root.kind == "egress" and root.faces_host else ""


def no_degraded_link(root: RootFacts) -> str:
    """Against link_degraded: too little was seen of it, or it reached its rate."""
    if not _between_switches(root):
        return ""
    if not root.speed_mbps:
        return "nobody knows its nominal rate"
    if root.polled:
        return _rate_of_polls(root)
    if root.queued_windows < classes.DEGRADED_WINDOWS:
        return (
            f"it was seen queued and not stopped in {root.queued_windows} windows, and"
            f" {classes.DEGRADED_WINDOWS} are needed to tell its rate"
        )
    return (
        f"it reached {min(root.max_mbps, root.speed_mbps)} of {root.speed_mbps} Mb/s,"
        f" a degraded link less than {classes.DEGRADED_RATIO:.0%}"
    )


def no_link_errors(root: RootFacts) -> str:
    """Against link_degraded by errors: nobody counted more than a whole link may have."""
    return "neither end of its link told of more errors than a whole link may have" if _between_switches(root) else ""


def no_collision(root: RootFacts) -> str:
    """Against ecmp_collision: no siblings, all of them full, or the root no fuller than they are."""
    if not _between_switches(root):
        return ""
    ratios = classes.sibling_ratios(root)
    if len(ratios) < 2:
        return "it has no siblings of which bytes are known"
    mean, own = sum(ratios.values()) / len(ratios), ratios[root.port_name]
    most = classes.most_of_siblings(root, ratios)
    if most is not None and own < classes.LINE_RATE_RATIO:
        return f"polls leave it open whether its siblings had room meanwhile: they may have averaged {most:.0%}"
    if mean >= classes.COLLISION_MEAN:
        return f"it and its siblings average {mean:.0%} of line rate: there was no room beside it"
    return (
        f"it sends at {own:.0%} of its line rate and the group at {mean:.0%}, which is less than"
        f" {classes.COLLISION_SKEW:g} times as much"
    )


def no_incast_behind(root: RootFacts) -> str:
    """Against the second rule of incast: the links towards the host are not full, or not for one host."""
    if not _between_switches(root):
        return ""
    if not root.main_host:
        return "nobody knows to which hosts its bytes go"
    if root.main_host_share <= classes.ONE_HOST_SHARE:
        return (
            f"{root.main_host_share:.0%} of its bytes go to {root.main_host}, one hop before an incast"
            f" more than {classes.ONE_HOST_SHARE:.0%}"
        )
    return _group_not_full(root)


def no_overload(root: RootFacts) -> str:
    """Against fabric_overload: its siblings had room."""
    return _group_not_full(root) if _between_switches(root) else ""


def no_misconfiguration(root: RootFacts) -> str:
    """Against misconfiguration: nobody reports the depths of the queues, or they may still come."""
    if root.kind != "unknown":
        return ""
    return "the depths of its queues may still come" if root.reports_depth else "it reports no depth of its queues"


WHY_NOT: dict[str, Callable[[RootFacts], str]] = {
    "pfc_deadlock": no_deadlock,
    "nic_pfc_storm": no_storm,
    "slow_receiver_pcie": no_narrow_pcie,
    "slow_receiver_plateau": no_plateau,
    "slow_receiver_host": no_slow_host,
    "incast": no_incast,
    "oversubscribed_host_link": no_oversubscription,
    "link_degraded": no_degraded_link,
    "link_with_errors": no_link_errors,
    "ecmp_collision": no_collision,
    "incast_behind": no_incast_behind,
    "fabric_overload": no_overload,
    "misconfiguration": no_misconfiguration,
}
"""By the name of the rule's function; only asked where the rule did not fire."""


def _between_switches(root: RootFacts) -> bool:
    return root.kind == "egress" and not root.faces_host


def _rate_of_polls(root: RootFacts) -> str:
    if root.held_mbps is None:
        return "polls say too little of what it sent while it was queued"
    return f"it can have sent at {min(root.held_mbps, root.speed_mbps)} of {root.speed_mbps} Mb/s while it was queued"


def _is_narrow(root: RootFacts) -> bool:
    return any(0 <= now < at_most for _, now, at_most in root.pcie)


def _no_plateau(root: RootFacts) -> str:
    if root.stops < classes.PLATEAU_STOPS:
        times = "once" if root.stops == 1 else f"{root.stops} times"
        return f"it stopped its port {times}, a slow receiver {classes.PLATEAU_STOPS} times or more"
    if root.sent_share is None:
        return "nobody counts the bytes of its port"
    return (
        f"its port took {root.sent_share:.1%} of its line rate, a slow receiver's between"
        f" {classes.PLATEAU_LEAST:.0%} and {classes.PLATEAU_MOST:.0%}"
    )


def _not_full(root: RootFacts) -> str:
    if root.polled:
        return _rate_of_polls(root)
    if not root.queued_windows:
        return "in no window was it seen queued and not stopped"
    return (
        f"it sent at most {root.max_mbps} of {root.speed_mbps} Mb/s while queued, a full link"
        f" {classes.LINE_RATE_RATIO:.0%} or more"
    )


def _group_not_full(root: RootFacts) -> str:
    ratios = classes.sibling_ratios(root)
    if not ratios:
        return "bytes of it and its siblings are not known"
    mean = sum(ratios.values()) / len(ratios)
    return f"it and its siblings average {mean:.0%} of line rate, full ones {classes.COLLISION_MEAN:.0%} or more"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"
