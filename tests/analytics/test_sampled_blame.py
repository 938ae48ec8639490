"""Blame of one period of counters against the slow twin, on random fabrics and counters."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics import layout
from analytics.pause_graph import CAPPED, COUNTS, HIGH, LOW, MAIN, Period
from analytics.sampled_blame import blame_period
from analytics.topology import Topology
from analytics.transit import Transit
from stream.facts import Device, FactStream, Link
from tests.reference.sampled import Chain, Counted, transit
from tests.reference.topology import Fabric, Port

STREAM = FactStream("inventory", "e1", 0, 0)
SPEED_MBPS = 100_000
RULES = {"main": MAIN, "low": LOW, "capped": CAPPED, "high": HIGH, "counts": COUNTS}


def leaf_spine(random: Random) -> Fabric:
    fabric = Fabric()
    leaves, spines, hosts = random.randrange(2, 4), random.randrange(1, 4), random.randrange(1, 4)
    for leaf in range(leaves):
        for host in range(hosts):
            fabric.hosts.add(f"h{leaf}{host}")
            fabric.link((f"h{leaf}{host}", "e"), (f"leaf{leaf}", f"d{host}"))
        for spine in range(spines):
            fabric.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"p{leaf}"))
    return fabric


def ring(random: Random) -> Fabric:
    fabric = Fabric()
    switches = random.randrange(3, 6)
    for here in range(switches):
        fabric.hosts.add(f"h{here}")
        fabric.link((f"h{here}", "e"), (f"s{here}", "d"))
        fabric.link((f"s{here}", "next"), (f"s{(here + 1) % switches}", "last"))
    return fabric


def counted(fabric: Fabric, random: Random) -> Counted:
    length_ns = float(random.choice((100_000, 5_000_000, 1_000_000_000)))
    found = Counted(length_ns, SPEED_MBPS / 8_000)
    for port in fabric.links:
        if random.random() < 0.5:
            found.paused_ns[port] = random.choice((500.0, random.uniform(1, length_ns), length_ns))
            found.stops[port] = random.choice((0.0, 1.0, random.uniform(0.2, 50)))
        if random.random() < 0.8:
            found.sent[port] = random.uniform(0, 12.5 * length_ns)
            found.received[port] = random.uniform(0, 12.5 * length_ns)
        if random.random() < 0.7:
            found.peak[port] = float(random.choice((0, 4_000, random.randrange(1, 2_000_000))))
    switches = sorted({port[0] for port in fabric.links} - fabric.hosts)
    found.without_depths = {switch for switch in switches if random.random() < 0.2}
    found.without_bytes = {switch for switch in found.without_depths if random.random() < 0.5}
    return found


def topology_of(fabric: Fabric) -> Topology:
    topology = Topology()
    for device in sorted({port[0] for port in fabric.links}):
        topology.add(Device("lab", device, "host" if device in fabric.hosts else "switch", 0, STREAM))
    for one, other in fabric.links.items():
        if one < other:
            topology.add(Link("lab", *one, *other, SPEED_MBPS, 0, STREAM))
    topology.rebuild()
    return topology


def period_of(topology: Topology, found: Counted) -> Period:
    def by_port(values: dict[Port, float]) -> layout.Floats:
        column = np.zeros(len(topology.ports))
        for (device, port), value in values.items():
            column[topology.port(device, port)] = value
        return column

    def by_device(without: set[str]) -> layout.Bools:
        return np.array([name not in without for name in topology.devices])

    return Period(
        found.length_ns, by_port(found.paused_ns), by_port(found.stops), by_port(found.sent), by_port(found.received),
        by_port(found.peak), np.zeros(len(topology.ports)), by_device(found.without_depths),
        np.zeros(len(topology.devices), np.bool_), by_device(found.without_bytes),
        by_port(found.paused_ns),
    )  # fmt: skip


def root_name(topology: Topology, root: int) -> tuple[str, ...]:
    if root == layout.ROOT_CYCLE:
        return ("cycle",)
    if root & 3 == layout.ROOT_EGRESS:
        device, port = topology.ports[root >> 2]
        return ("egress", topology.devices[device], port)
    return ("host" if root & 3 == layout.ROOT_HOST else "unknown", topology.devices[root >> 2])


@pytest.mark.parametrize("seed", range(40))
def test_blame_is_that_of_the_twin(seed: int) -> None:
    random = Random(seed)
    fabric = random.choice((leaf_spine, ring))(random)
    found = counted(fabric, random)
    topology = topology_of(fabric)
    chain = Chain(fabric, found)
    parts = blame_period(period_of(topology, found), topology, Transit())
    places = {}
    for blamed in parts:
        for place, port in enumerate(blamed.ports.tolist()):
            places[topology.devices[topology.ports[port][0]], topology.ports[port][1]] = blamed, place
    assert sorted(places) == chain.stopped
    for rule, number in RULES.items():
        expected = chain.blame(rule)
        for name, (blamed, place) in places.items():
            shares = blamed.shares[number, place]
            assert shares.sum() == pytest.approx(1.0, abs=1e-9)
            made = {root_name(topology, int(root)): share for root, share in zip(blamed.roots, shares, strict=True)}
            for root in made.keys() | expected[name].keys():
                # What goes in a circle still moves a little when both stop, and they go round in different orders.
                assert made.get(root, 0.0) == pytest.approx(expected[name].get(root, 0.0), abs=2e-6), (rule, name, root)


@pytest.mark.parametrize("seed", range(10))
def test_transit_is_that_of_the_twin(seed: int) -> None:
    random = Random(seed)
    fabric = random.choice((leaf_spine, ring))(random)
    topology = topology_of(fabric)
    for device in sorted({port[0] for port in fabric.links} - fabric.hosts):
        expected = transit(fabric, device)
        index = topology.find_device(device)
        ports = [topology.ports[port][1] for port in topology.fan_ports[slice(*topology.fan_start[index : index + 2])]]
        made = Transit().of(topology, index)
        for row, ingress in enumerate(ports):
            for column, egress in enumerate(ports):
                assert made[row, column] == pytest.approx(expected[(device, ingress), (device, egress)])


def test_a_stop_on_an_unknown_link_blames_its_own_device() -> None:
    topology = Topology()
    topology.add(Device("lab", "leaf", "switch", 0, STREAM))
    topology.rebuild()
    topology.port("leaf", "p1")
    topology.rebuild()
    found = Counted(1e6, 12.5, {("leaf", "p1"): 5e5}, {("leaf", "p1"): 3.0})
    (blamed,) = blame_period(period_of(topology, found), topology, Transit())
    assert blamed.shares[MAIN, 0].tolist() == [float(root & 3 == layout.ROOT_UNKNOWN) for root in blamed.roots.tolist()]
