"""Fabrics by size, and the ways through them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simulation.fabric.express import express, greatest_share
from simulation.fabric.routes import Routes
from simulation.fabric.topologies import fat_tree, leaf_spine, oversubscribed, rail, ring
from simulation.fabric.traffic import all_to_all_pairs, background, ring_pairs, training
from simulation.fabric.wires import Topology, make_wires


@pytest.mark.parametrize(
    ("topology", "hosts", "cables"),
    [
        (leaf_spine(64, per_leaf=16, spines=8, parallel=2), 64, 64 + 4 * 16),
        (oversubscribed(64, per_leaf=16), 64, 64 + 4 * 8),
        (rail(32, rails=8, per_leaf=16, spines=4), 256, 256 + 16 * 16),
        (fat_tree(4), 16, 16 * 3),
        (ring(5), 10, 5 + 10),
    ],
)
def test_a_fabric_joins_each_port_once(topology: Topology, hosts: int, cables: int) -> None:
    assert len(topology.hosts) == hosts
    assert len(topology.cables) == cables
    ends = Counter(end for cable in topology.cables for end in ((cable.a, cable.a_port), (cable.b, cable.b_port)))
    assert set(ends.values()) == {1}
    assert {device for device, _ in ends} == set(topology.devices)


def test_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="65 is no multiple of 16"):
        leaf_spine(65, per_leaf=16, spines=8)


@pytest.mark.parametrize("topology", [leaf_spine(64, per_leaf=16, spines=16), fat_tree(8)])
def test_planned_ways_load_every_link_alike(topology: Topology) -> None:
    wires = make_wires(topology)
    routes = Routes(wires)
    hosts = len(wires.hosts)
    flows = training(routes, wires.hosts, ring_pairs(hosts, 16, 1), 1000, planned=True)
    loads = np.bincount(flows.paths[flows.paths >= 0])
    assert loads.max() == 1


def test_a_way_leads_from_its_source_to_its_destination() -> None:
    wires = make_wires(rail(32, rails=8, per_leaf=16, spines=4))
    routes = Routes(wires)
    flows = training(routes, wires.hosts, all_to_all_pairs(256, 6), 1000, planned=False)
    assert len(set(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))) == 256 * 6
    for row in range(0, len(flows.src), 37):
        way = [link for link in flows.paths[row].tolist() if link >= 0]
        assert wires.source[way[0]] == flows.src[row]
        assert wires.target[way[-1]] == flows.dst[row]
        assert (wires.target[way[:-1]] == wires.source[way[1:]]).all()


def test_background_has_the_load_that_was_asked_for() -> None:
    wires = make_wires(leaf_spine(64, per_leaf=16, spines=16))
    end_ns = 50_000_000
    flows = background(Routes(wires), 3, pairs=8, load=0.2, size_bytes=100_000, end_ns=end_ns, mbps=100_000)
    load = flows.size_bytes.sum() * 8000 / (8 * 100_000 * end_ns)
    assert load == pytest.approx(0.2, rel=0.1)


def test_the_last_flows_of_a_source_have_more_of_it() -> None:
    source = np.array([0, 0, 0, 5])
    assert greatest_share(source, np.array([10, 30, 30, 7])).tolist() == [1 / 3, 1 / 2, 1 / 2, 1]


def test_what_lies_before_a_full_link_is_not_express() -> None:
    # Two sources into link 2; a third flow shares a source with the first, a fourth none of their links.
    paths = np.array([[0, 2, -1], [1, 2, -1], [0, 3, -1], [4, 3, -1]])
    rates = np.full(5, 100)
    none = np.zeros(5, np.bool_)
    free = np.zeros(4, np.bool_)
    assert express(paths, np.full(4, 1000), rates, none, free).tolist() == [False, False, False, False]
    wide = np.array([100, 100, 200, 200, 100])
    assert express(paths, np.full(4, 1000), wide, none, free).all()
    assert express(paths, np.full(4, 1000), wide, none, np.array([False, False, False, True])).tolist() == [
        True, True, True, False,
    ]  # fmt: skip
