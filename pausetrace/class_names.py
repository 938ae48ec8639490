"""What each class of root, severity and mode is called for people, and the colour that it always has."""

from __future__ import annotations

from typing import NamedTuple


class ClassName(NamedTuple):
    """`title` stands beside a root; `headline` is a sentence about {place} for a cascade with this root first."""

    title: str
    headline: str
    colour: str


UNCLASSIFIED = ClassName("no class fits", "{place} is where it began; no class fits the evidence", "white")

# fmt: off
CLASSES: dict[str, ClassName] = {
    "slow_receiver_pcie": ClassName(
        "slow receiver (PCIe)", "{place} is a slow receiver: its PCIe link is slower than its port", "magenta"),
    "slow_receiver_host": ClassName(
        "slow receiver (host)", "{place} is a slow receiver: something inside the host holds its NIC up", "magenta"),
    "nic_pfc_storm": ClassName(
        "PFC storm of a NIC", "the NIC of {place} sends pause almost without end", "bright_red"),
    "incast": ClassName(
        "incast", "too many senders at once towards the host behind {place}", "yellow"),
    "oversubscribed_host_link": ClassName(
        "oversubscribed host link", "the link {place} to its host gets more than it can carry", "yellow"),
    "link_degraded": ClassName(
        "degraded link", "the link {place} sends below its nominal rate", "bright_blue"),
    "ecmp_collision": ClassName(
        "ECMP collision", "flows hashed together onto {place} while its sister links had room", "cyan"),
    "hash_polarization": ClassName(
        "hash polarization", "the hash prefers {place} again and again while its sister links have room", "cyan"),
    "fabric_overload": ClassName(
        "fabric overload", "{place} and its sister links all get more than they can carry", "bright_yellow"),
    "pfc_deadlock": ClassName(
        "PFC deadlock", "a loop of stopped queues through {place} sends nothing any more", "bright_red"),
    "cyclic_dependency": ClassName(
        "cyclic dependency", "queues through {place} stop each other in a loop that still moves", "bright_yellow"),
    "misconfiguration": ClassName(
        "misconfiguration", "{place} sends pause without a queue that would explain it", "bright_blue"),
    "not_the_fabric": ClassName(
        "not the fabric", "{place} computes for longer than its peers, and no pause explains that", "green"),
    "unclassified": UNCLASSIFIED,
}
# fmt: on

SEVERITY_STYLES: dict[str, str] = {
    "info": "black on cyan",
    "warning": "black on yellow",
    "critical": "bold white on red",
}

MODES: dict[str, str] = {"exact": "exact events", "sampled": "sampled counters"}


def class_name(root_class: str) -> ClassName:
    """The names of a class; one that this version does not know is shown as it is."""
    return CLASSES.get(root_class, UNCLASSIFIED._replace(title=root_class))
