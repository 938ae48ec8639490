"""Which port is cabled to which, by links and by what ports tell of their peers, under whatever names."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from stream.facts import Device, FactStream, Link, Peer, Port
from stream.inventory import Inventory
from tests.stream.test_identity import FACTS, device, link

Ends = set[frozenset[tuple[str, str]]]


def ends(*facts: Device | Link) -> Ends:
    return {frozenset((cable.a[:2], cable.b[:2])) for cable in Inventory.of(facts).cables()}


def joined(*pairs: tuple[tuple[str, str], tuple[str, str]]) -> Ends:
    return {frozenset(pair) for pair in pairs}


LEAF = device("leaf-1", Port("Ethernet0", 400_000, ("Eth1/1",)), Port("Ethernet4", 100_000))
HOST = device("host-7", Port("eth0", 400_000, ("mlx5_0",)), Port("eth1", 400_000))
CABLE = joined((("leaf-1", "Ethernet0"), ("host-7", "eth0")))


def test_a_link_joins_what_its_names_mean() -> None:
    told = link(("leaf-1.example.net", "Eth1/1"), ("HOST-7", "mlx5_0/1"))
    assert ends(LEAF, HOST, told) == CABLE
    (cable,) = Inventory.of([LEAF, HOST, told]).cables()
    assert (cable.speed_mbps, cable.delay_ns, cable.link) == (100_000, 1000, told)


def test_a_later_link_replaces_earlier_ones_of_its_ports_under_other_names_too() -> None:
    first = link(("leaf-1", "Ethernet0"), ("host-7", "eth0"), at=1)
    other = link(("leaf-1", "Ethernet4"), ("host-7", "eth1"), at=1)
    moved = link(("leaf-1", "Eth1/1"), ("host-7", "eth1"), at=2)
    facts: list[Device | Link] = [LEAF, HOST, first, other, moved]
    for told in (facts, facts[::-1]):
        assert ends(*told) == joined((("leaf-1", "Ethernet0"), ("host-7", "eth1")))


def test_a_link_with_an_end_in_conflict_joins_nothing() -> None:
    host = device("host-7", Port("eth0", aliases=("x",)), Port("eth1", aliases=("x",)))
    told = link(("leaf-1", "Ethernet0"), ("host-7", "x"))
    assert ends(LEAF, host, told) == set()
    assert Inventory.of([LEAF, host, told]).conflicting_ends() == {("host-7", "x")}
    assert ends(LEAF, link(("leaf-1", "Ethernet0"), ("leaf-1", "Eth1/1"))) == set()


def with_peer(name: str, port: str, peer: tuple[str, str], source: str = "inventory") -> Device:
    return device(name, Port(port, 400_000, peer=Peer(*peer)), source=source)


def test_a_peer_told_by_one_end_or_by_both_joins_them() -> None:
    leaf = with_peer("leaf-1", "Ethernet0", ("host-7", "eth0"))
    assert ends(leaf, HOST) == CABLE
    assert ends(leaf) == CABLE
    assert ends(leaf, with_peer("host-7", "eth0", ("leaf-1", "Ethernet0"))) == CABLE
    (cable,) = Inventory.of([leaf]).cables()
    assert cable.link is None


@pytest.mark.parametrize(
    "other",
    [
        with_peer("host-7", "eth0", ("leaf-2", "Ethernet0")),
        with_peer("leaf-2", "Ethernet0", ("host-7", "eth0")),
        with_peer("leaf-2", "Ethernet0", ("leaf-1", "Ethernet0")),
        with_peer("leaf-1", "Ethernet0", ("host-8", "eth0"), source="gnmi"),
    ],
)
def test_peers_that_contradict_each_other_join_nothing(other: Device) -> None:
    assert ends(with_peer("leaf-1", "Ethernet0", ("host-7", "eth0")), other) == set()


def test_two_that_tell_of_each_other_are_joined_whatever_a_third_says() -> None:
    leaf = with_peer("leaf-1", "Ethernet0", ("host-7", "eth0"))
    third = with_peer("leaf-2", "Ethernet0", ("host-7", "eth0"))
    assert ends(leaf, with_peer("host-7", "eth0", ("leaf-1", "Ethernet0")), third) == CABLE


def test_a_link_counts_more_than_a_peer() -> None:
    leaf = with_peer("leaf-1", "Ethernet0", ("host-7", "eth0"))
    told = link(("leaf-1", "Ethernet0"), ("host-8", "eth0"))
    assert ends(leaf, told) == joined((("leaf-1", "Ethernet0"), ("host-8", "eth0")))


def test_roles_and_speeds_are_those_told_last() -> None:
    later = Device(
        "lab", "LEAF-1", "spine", 5, FactStream("gnmi", "e1", 0, 0), (Port("Eth1/1", 800_000), Port("Ethernet4"))
    )  # fmt: skip
    inventory = Inventory.of([later, LEAF, HOST])
    assert inventory.roles() == {"LEAF-1": "spine", "host-7": "switch"}
    speeds = inventory.speeds_mbps()
    assert speeds["LEAF-1", "Ethernet0"] == 800_000
    assert speeds["LEAF-1", "Ethernet4"] == 100_000


@settings(derandomize=True, deadline=None, max_examples=100)
@given(facts=FACTS)
def test_an_inventory_restored_from_its_state_is_the_same(facts: list[Device | Link]) -> None:
    facts = [fact for fact in facts if not isinstance(fact, Link) or fact.a_device != fact.b_device]
    inventory = Inventory.of(facts)
    again = Inventory.of_state(inventory.state())
    assert again.state() == inventory.state() == inventory.state()
    assert again.cables() == inventory.cables() == inventory.copy().cables()
    assert again.roles() == inventory.roles()
    shuffled = list(facts)
    Random(len(facts)).shuffle(shuffled)
    twice = {(fact.stream, isinstance(fact, Link)) for fact in facts}
    if len(twice) == len(facts):  # else their order is none
        assert Inventory.of(shuffled).cables() == inventory.cables()
