"""Collisions at once: of switches whose hash functions are alike, or of luck."""

from __future__ import annotations

import dataclasses

import pytest

from analytics.alternatives import NOT_POLARIZED
from analytics.polarization import CHANCE, polarized
from analytics.root_facts import RootFacts, Sibling
from stream.cascade import Contributor, Root
from tests.analytics.test_classes import UPLINK
from tests.analytics.test_damage import FABRIC

LINKS = 4
FULL = 12_000_000


def colliding(device: str, flows: int, *, beside: int = 0, share_ppm: int = 300_000) -> tuple[Root, RootFacts]:
    """An uplink that carries so many flows while each of its siblings carries so many bytes."""
    fed = tuple(Contributor(f"{flow:016x}", "", "", "", 1, 1000) for flow in range(flows))
    root = Root(device, "u0", 3, "egress", share_ppm, 1000, "ecmp_collision", ("it is full",), fed)
    siblings = tuple(Sibling(f"{device}:u{i}", 100_000, beside if i else FULL) for i in range(LINKS))
    return root, dataclasses.replace(UPLINK, device=device, port="u0", siblings=siblings, active_ns=1_000_000)


def classes_of(*roots: tuple[Root, RootFacts]) -> list[str]:
    return [root.root_class for root in polarized(FABRIC, roots)]


def test_switches_of_one_tier_that_use_one_link_each_hash_alike() -> None:
    assert classes_of(colliding("leaf0", 5), colliding("leaf1", 5)) == ["hash_polarization"] * 2


@pytest.mark.parametrize("flows", range(2, 8))
def test_as_long_as_luck_would_do_it_now_and_then_it_is_luck(flows: int) -> None:
    by_luck = LINKS ** (-2 * (flows - 2)) > CHANCE
    found = classes_of(colliding("leaf0", flows), colliding("leaf1", flows))
    assert found == ["ecmp_collision" if by_luck else "hash_polarization"] * 2


def test_one_switch_alone_is_luck_whatever_it_carries() -> None:
    (root,) = polarized(FABRIC, [colliding("leaf0", 50)])
    assert root.root_class == "ecmp_collision"
    assert [(other.root_class, other.why_not) for other in root.alternatives] == [("hash_polarization", NOT_POLARIZED)]


@pytest.mark.parametrize(("beside", "found"), [(599_000, "hash_polarization"), (601_000, "ecmp_collision")])
def test_siblings_that_carry_flows_make_it_luck(beside: int, found: str) -> None:
    assert classes_of(colliding("leaf0", 9, beside=beside), colliding("leaf1", 9, beside=beside)) == [found] * 2


def test_two_roots_of_one_switch_are_no_second_switch() -> None:
    assert classes_of(colliding("leaf0", 9), colliding("leaf0", 9)) == ["ecmp_collision"] * 2


def test_a_root_that_is_not_asserted_decides_nothing_but_is_of_the_class() -> None:
    weak = colliding("leaf1", 9, share_ppm=50_000)
    assert classes_of(colliding("leaf0", 9), weak) == ["ecmp_collision"] * 2
    assert classes_of(colliding("leaf0", 2), colliding("spine0", 2), weak) == ["hash_polarization"] * 3


def test_collisions_at_two_tiers_are_alike() -> None:
    assert classes_of(colliding("leaf0", 2), colliding("spine0", 2)) == ["hash_polarization"] * 2
