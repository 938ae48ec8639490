"""The fabric as arrays against its slow twin: ways through a device, tiers and siblings of any fabric are the same."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.topology import Topology
from stream.facts import Device, FactStream, Link, Port
from tests.analytics.engine_by_names import facts
from tests.analytics.random_runs import FABRICS, leaf_spine, ring
from tests.reference.topology import Fabric

STREAM = FactStream("inventory", "e1", 0, 0)


def topology_of(fabric: Fabric, seed: int) -> Topology:
    """The fabric's topology, its names met in an order that the seed chooses, and rebuilt in between."""
    topology, random = Topology(), Random(seed)
    told = facts(fabric)
    random.shuffle(told)
    for device, port in random.sample(sorted(fabric.links), len(fabric.links) // 3):
        topology.port(device, port)
    for fact in told:
        topology.add(fact)
        if random.random() < 0.2:
            topology.rebuild()
    topology.rebuild()
    return topology


def exits(topology: Topology, device: str, port: str) -> list[tuple[str, str]]:
    index = topology.port(device, port)
    here = topology.device(device)
    fan = topology.fan_ports[topology.fan_start[here] : topology.fan_start[here + 1]]
    first = topology.feasible_start[here] + topology.port_local[index] * len(fan)
    may_leave = topology.feasible[first : first + len(fan)]
    return [(device, topology.ports[out][1]) for out in fan[may_leave].tolist()]


def siblings(topology: Topology, device: str, port: str) -> set[tuple[str, str]]:
    group = topology.port_group[topology.port(device, port)]
    members = topology.group_ports[topology.group_start[group] : topology.group_start[group + 1]]
    return {topology.queue_name(member * 8)[:2] for member in members.tolist()}


def assert_same(topology: Topology, fabric: Fabric) -> None:
    for device, port in fabric.links:
        index = topology.port(device, port)
        assert topology.queue_name(int(topology.port_peer[index]) * 8)[:2] == fabric.links[device, port]
        assert exits(topology, device, port) == fabric.exits((device, port))
        assert siblings(topology, device, port) == fabric.siblings((device, port))
    for device in {device for device, _ in fabric.links}:
        assert topology.tier[topology.device(device)] == fabric.tier(device)
        assert topology.is_host[topology.device(device)] == (device in fabric.hosts)
        for host, hops in fabric.distances.items():
            nearer = [
                port for port in fabric.ports(device) if hops.get(fabric.links[port][0], 99) < hops.get(device, 99)
            ]
            found = topology.next_hops(topology.device(device), topology.device(host))
            assert [topology.queue_name(port * 8)[:2] for port in found] == nearer
    by_name = sorted(range(len(topology.ports)), key=lambda port: topology.queue_name(port * 8))
    assert [int(topology.port_rank[port]) for port in by_name] == list(range(len(by_name)))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(fabric=FABRICS, seed=st.integers(0, 1000))
def test_the_arrays_say_what_the_twin_says(fabric: Fabric, seed: int) -> None:
    assert_same(topology_of(fabric, seed), fabric)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(fabric=FABRICS, seed=st.integers(0, 1000), names=st.lists(st.tuples(*[st.sampled_from("abcxyz")] * 2)))
def test_names_without_links_extend_the_arrays_to_what_a_rebuild_makes(
    fabric: Fabric, seed: int, names: list[tuple[str, str]]
) -> None:
    topology = topology_of(fabric, seed)
    for device, port in names:
        topology.port(device, port)
    topology.extend()
    assert topology.complete()
    assert_same(topology, fabric)
    extended = {name: array for name, array in vars(topology).items() if isinstance(array, np.ndarray)}
    topology.rebuild()
    for name, array in extended.items():
        rebuilt = getattr(topology, name)
        assert array.dtype == rebuilt.dtype, name
        np.testing.assert_array_equal(array, rebuilt, name)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(fabric=FABRICS, seed=st.integers(0, 1000))
def test_a_topology_restored_from_its_state_is_the_same(fabric: Fabric, seed: int) -> None:
    before = topology_of(fabric, seed)
    after = Topology.of_state(before.state())
    assert_same(after, fabric)
    assert after.ports == before.ports


def test_a_later_link_takes_both_ports_from_their_earlier_links() -> None:
    fabric = leaf_spine(2, 1, 2)
    topology = topology_of(fabric, 0)
    topology.add(Link("lab", "leaf0", "d0", "leaf1", "d1", 100_000, 5, STREAM))
    topology.rebuild()
    fabric = leaf_spine(2, 1, 2)
    fabric.link(("leaf0", "d0"), ("leaf1", "d1"))
    assert topology.port_peer[topology.port("h00", "eth0")] == -1
    assert topology.port_peer[topology.port("h11", "eth0")] == -1
    assert_same(topology, fabric)


def test_a_fact_added_to_a_copy_leaves_the_original_as_it_is() -> None:
    fabric = ring(3, 1)
    topology = topology_of(fabric, 0)
    twin = topology.copy()
    twin.add(Link("lab", "sw0", "d0", "sw9", "new", 100_000, 5, STREAM))
    twin.add(Device("lab", "sw1", "host", 5, STREAM))
    twin.rebuild()
    topology.rebuild()
    assert topology.find_device("sw9") == -1
    assert_same(topology, fabric)


def test_up_means_both_links_of_a_leaf_and_down_all_links_to_it() -> None:
    topology = topology_of(leaf_spine(3, 2, 1), 0)
    assert siblings(topology, "leaf0", "u1") == {("leaf0", "u0"), ("leaf0", "u1")}
    assert siblings(topology, "spine1", "p2") == {("spine0", "p2"), ("spine1", "p2")}
    assert siblings(topology, "leaf0", "d0") == {("leaf0", "d0")}


def test_bytes_that_came_down_to_a_leaf_do_not_go_up_again() -> None:
    topology = topology_of(leaf_spine(3, 2, 2), 0)
    assert exits(topology, "leaf1", "u0") == [("leaf1", "d0"), ("leaf1", "d1")]
    assert exits(topology, "leaf1", "d0") == [("leaf1", "d1"), ("leaf1", "u0"), ("leaf1", "u1")]
    assert exits(topology, "spine0", "p1") == [("spine0", "p0"), ("spine0", "p2")]


def test_the_links_to_a_host_are_siblings() -> None:
    fabric = leaf_spine(2, 1, 1)
    fabric.link(("h00", "eth1"), ("leaf1", "d9"))
    topology = topology_of(fabric, 0)
    assert siblings(topology, "leaf0", "d0") == {("leaf0", "d0"), ("leaf1", "d9")}
    assert topology.device_group[topology.device("h00")] == topology.port_group[topology.port("leaf1", "d9")]
    assert topology.device_group[topology.device("leaf0")] == -1


def test_a_speed_of_the_port_counts_where_the_link_tells_none() -> None:
    topology = Topology()
    topology.add(Device("lab", "leaf0", "switch", 0, STREAM, (Port("u0", 400_000), Port("u1", 100_000))))
    topology.add(Link("lab", "leaf0", "u0", "spine0", "p0", 0, 0, STREAM))
    topology.add(Link("lab", "leaf0", "u1", "spine0", "p1", 200_000, 0, STREAM))
    topology.rebuild()
    speeds = [int(topology.port_speed_mbps[topology.port("leaf0", port)]) for port in ("u0", "u1")]
    assert speeds == [400_000, 200_000]
