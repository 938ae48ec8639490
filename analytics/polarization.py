"""Collisions that are no chance: switches whose hash functions are alike, so that flows together at one stay together.

In: the roots of a cascade with what is known of each. Out: the same roots, of class `hash_polarization` where it is.
Source: docs/concepts.md; Cao, Wang and Zegura, INFOCOM 2000, "Performance of hashing-based schemes".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from analytics.alternatives import NOT_POLARIZED
from analytics.bounds import ACCEPT_PPM
from analytics.classes import sibling_ratios
from analytics.root_facts import RootFacts
from analytics.topology import Topology
from stream.cascade import Alternative, Root

CHANCE = 1e-3
"""What luck does so seldom is not taken for luck: one in a thousand, as much as is asked of any strong evidence."""
IDLE_SHARE = 0.05
"""A sibling that carries less of what the root carries has none of its flows: what polls tell of the time around them,
routing and telemetry are about as much."""


def polarized(topology: Topology, roots: Sequence[tuple[Root, RootFacts]]) -> list[Root]:
    """The roots in their order; those that collide say why they are, or are not, a matter of hash functions."""
    collided = [(root, facts) for root, facts in roots if _is_asserted(root)]
    why = _at_two_tiers(topology, collided) or _one_link_each(topology, collided)
    found = []
    for root, _ in roots:
        if root.root_class == "ecmp_collision" and why:
            changed = msgspec.structs.replace(root, root_class="hash_polarization", evidence=(*root.evidence, why))
        elif _is_asserted(root):
            alone = Alternative("hash_polarization", NOT_POLARIZED)
            changed = msgspec.structs.replace(root, alternatives=(*root.alternatives, alone))
        else:
            changed = root
        found.append(changed)
    return found


def _is_asserted(root: Root) -> bool:
    return root.root_class == "ecmp_collision" and root.share_ppm >= ACCEPT_PPM


def _at_two_tiers(topology: Topology, collided: Sequence[tuple[Root, RootFacts]]) -> str:
    """What a hash put together at one tier stays together at the next."""
    met = sorted({_tier(topology, root) for root, _ in collided})
    if len(met) < 2:
        return ""
    return f"collisions at tiers {', '.join(map(str, met))} at once: their hash functions are alike"


def _one_link_each(topology: Topology, collided: Sequence[tuple[Root, RootFacts]]) -> str:
    """A tier that hashes as the one below gets from it, at each switch, only flows for one of its links.

    That two flows meet makes a collision; that all others at several switches follow them, luck does in a part of the
    cases that falls by the number of links with each flow.
    """
    flows: dict[int, dict[str, int]] = {}
    chance: dict[int, float] = {}
    for root, facts in collided:
        ratios, tier = sibling_ratios(facts), _tier(topology, root)
        beside = max((ratio for name, ratio in ratios.items() if name != facts.port_name), default=math.inf)
        if beside > IDLE_SHARE * ratios.get(facts.port_name, 0.0) or root.device in flows.get(tier, {}):
            continue
        flows.setdefault(tier, {})[root.device] = len(root.contributors)
        chance[tier] = chance.get(tier, 1.0) * len(ratios) ** -max(0.0, len(root.contributors) - 2.0)
    for tier in sorted(flows):
        if len(flows[tier]) > 1 and chance[tier] <= CHANCE:
            return (
                f"{len(flows[tier])} switches of tier {tier} send all of {sum(flows[tier].values())} flows by one of"
                " their equal links each: they hash as the tier below does"
            )
    return ""


def _tier(topology: Topology, root: Root) -> int:
    return int(topology.tier[topology.find_device(root.device)])
