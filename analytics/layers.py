"""Which layer a root belongs to: who would have to look at it.

In: its class and what is known of it. Out: host, compute, pcie, nic, link, queue, storage or application; "" = not
known.
"""

from __future__ import annotations

from analytics.classes import INCAST_SOURCES
from analytics.root_facts import RootFacts

OF_CLASS: dict[str, str] = {
    "slow_receiver_pcie": "pcie",
    "nic_pfc_storm": "nic",
    "link_degraded": "link",
    "incast": "queue",
    "oversubscribed_host_link": "queue",
    "ecmp_collision": "queue",
    "hash_polarization": "queue",
    "fabric_overload": "queue",
    "pfc_deadlock": "queue",
    "cyclic_dependency": "queue",
    "misconfiguration": "queue",
}
"""The layer that a class alone says."""


def layer_of(root_class: str, root: RootFacts) -> str:
    """The layer of a root of a class.

    A host that nothing but its pauses accuses has the layer of the strongest finding inside it; where there is none and
    its PCIe link is whole, something in the host is slow, and nobody tells what. An incast of flows that are known is
    the application's: the senders chose one receiver at one time, and no setting of a queue serves a link that gets
    more than it carries. Where only ports are known, it is told as what was seen: a queue.
    """
    if root_class == "incast" and root.sources >= INCAST_SOURCES:
        return "application"
    if root_class in OF_CLASS:
        return OF_CLASS[root_class]
    if root.kind == "host":
        if root.inside:
            return root.inside[0].layer
        return "host" if root_class == "slow_receiver_host" else ""
    return "queue" if root.kind == "egress" else ""
