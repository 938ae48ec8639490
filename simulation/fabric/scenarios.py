"""The scenarios by name: on which fabric, with what traffic, and what goes wrong from when to when.

In: a name, a seed and sizes. Out: a `Plot`. One function a scenario, and one line in `SCENARIOS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from simulation.fabric.plot import PCIE, Burst, Fault, Plot
from simulation.fabric.routes import Routes
from simulation.fabric.stage import Size, Stage, leaf_spine_stage
from simulation.fabric.topologies import fat_tree, oversubscribed, ring
from simulation.fabric.traffic import FIRST_PORT, ROCE_PORT, burst, made, planned_ways, training
from simulation.fabric.wires import make_wires
from stream.errors import ConfigError

STORM_MBPS = 100
"""What a NIC that sends pause without end still takes in."""


def healthy(size: Size) -> Plot:
    """Nothing goes wrong."""
    return leaf_spine_stage(size).plot()


def pcie_narrow(size: Size) -> Plot:
    """A NIC's PCIe link comes up at a quarter of its width: x4 instead of x16."""
    stage = leaf_spine_stage(size)
    return stage.plot(faults=(_slow_host(stage, "slow_receiver_pcie", stage.line_mbps // 4, reports=True),))


def slow_host(size: Size) -> Plot:
    """A host takes in a third of what its port brings, while its PCIe link says that all is well."""
    stage = leaf_spine_stage(size)
    return stage.plot(faults=(_slow_host(stage, "slow_receiver_host", stage.line_mbps // 3, reports=False),))


def nic_storm(size: Size) -> Plot:
    """A NIC sends pause almost without end for 6 ms, then comes to itself."""
    stage = leaf_spine_stage(size)
    host = int(stage.draw.integers(len(stage.wires.hosts)))
    fault = Fault(
        "nic_pfc_storm", stage.wires.topology.hosts[host], PCIE, stage.fault_steps[0], stage.fault_steps[0] + 1,
        links=(int(stage.wires.to_host[host]),), mbps=STORM_MBPS, pulse_ns=6_000_000,
    )  # fmt: skip
    return stage.plot(faults=(fault,))


def degraded_link(size: Size) -> Plot:
    """A link between leaf and spine runs at a fifth of its speed, both ways."""
    stage = leaf_spine_stage(size)
    link = stage.any_uplink()
    fault = Fault(
        "link_degraded", *stage.wires.end(link), *stage.fault_steps, links=(link, link ^ 1), mbps=stage.line_mbps // 5
    )
    return stage.plot(faults=(fault,))


def link_errors(size: Size) -> Plot:
    """A link between leaf and spine destroys one packet in twenty; all is sent again, and nobody is paused for it."""
    stage = leaf_spine_stage(size)
    link = stage.any_uplink()
    fault = Fault("link_errors", *stage.wires.end(link), *stage.fault_steps, links=(link,), loss_ratio=0.05)
    return stage.plot(faults=(fault,))


def incast(size: Size) -> Plot:
    """Eight hosts of other leaves send to one at once, as storage does that answers a read, on top of the training."""
    stage = leaf_spine_stage(size)
    hosts = stage.wires.hosts
    receiver = int(stage.draw.integers(len(hosts)))
    others = np.flatnonzero(stage.leaf != stage.leaf[receiver])
    senders = hosts[stage.draw.choice(others, 8, replace=False)]
    flows = burst(stage.routes, senders, int(hosts[receiver]), size.message_bytes, 0)
    rows = stage.add(flows)
    first, last = stage.fault_steps
    link = int(stage.wires.to_fabric[receiver]) ^ 1
    fault = Fault("incast", *stage.wires.end(link), first, last)
    return stage.plot(faults=(fault,), bursts=(Burst(rows, first, last, is_fault=True),))


def ecmp_collision(size: Size) -> Plot:
    """The flows of four hosts of one leaf hash onto one uplink, from one step on."""
    stage = leaf_spine_stage(size)
    leaf = stage.draw.choice(np.unique(stage.leaf))
    places = stage.draw.choice(np.flatnonzero(stage.leaf == leaf), 4, replace=False)
    rows = np.flatnonzero(np.isin(stage.flows.src, stage.wires.hosts[places]))
    uplink = int(stage.draw.integers(size.spines))
    paths = stage.ways_by_uplink(rows, uplink)
    fault = Fault("ecmp_collision", *stage.wires.end(int(paths[0, 1])), *stage.fault_steps, rows=rows, paths=paths)
    return stage.plot(faults=(fault,))


def hash_polarization(size: Size) -> Plot:
    """Both tiers of a pod come to hash alike: flows that one hash puts together stay together at the next."""
    k = 4
    while (k + 2) ** 3 // 4 <= size.hosts:
        k += 2
    per_pod = k * k // 4
    wires = make_wires(fat_tree(k))
    routes = Routes(wires)
    rank = np.arange(len(wires.hosts))
    pairs = np.stack((rank, (rank + per_pod) % len(rank), 0 * rank), axis=1)
    flows = training(routes, wires.hosts, pairs, size.message_bytes, planned=True)
    stage = Stage(size, wires, routes, flows)
    rows = int(stage.draw.integers(k)) * per_pod + np.arange(per_pod)
    alike = np.full(len(wires.topology.devices), size.seed)
    ports = (flows.src_port[rows], np.full(len(rows), ROCE_PORT))
    paths = routes.paths(flows.src[rows], flows.dst[rows], ports, seeds=alike)
    fault = Fault("hash_polarization", "", "", *stage.fault_steps, rows=rows, paths=paths)
    return stage.plot(faults=(fault,))


def pfc_deadlock(size: Size) -> Plot:
    """Ways of a ring of switches come to wait for each other in a circle, and nothing moves any more."""
    switches = 4
    size = dataclasses.replace(size, settings=dataclasses.replace(size.settings, buffer_bytes=1_000_000))
    wires = make_wires(ring(switches, per_switch=1))
    routes = Routes(wires)
    rows = np.arange(switches)
    across = (rows + 2) % switches
    onward: dict[int, tuple[int, ...]] = {
        r: (wires.index[f"sw{r}", "p1"], wires.index[f"sw{(r + 1) % switches}", "p1"]) for r in range(switches)
    }
    back: dict[int, tuple[int, ...]] = {
        r: (wires.index[f"sw{r}", "p2"], wires.index[f"sw{(r - 1) % switches}", "p2"]) for r in range(switches)
    }
    ports = np.full(switches, FIRST_PORT)
    full, each_step = np.full(switches, size.message_bytes), np.full(switches, -1)
    # Half go round one way and half the other; then all the same way, and each queue of the ring waits for the next.
    both = {r: (back if r % 2 else onward)[r] for r in range(switches)}
    flows = made(routes, wires.hosts, wires.hosts[across], ports, full, each_step, through=both)
    far = made(routes, wires.hosts, wires.hosts[across], ports, full, each_step, through=onward).paths
    stage = Stage(size, wires, routes, flows)
    fault = Fault("pfc_deadlock", "", "", stage.fault_steps[0], size.steps, rows=rows, paths=far)
    return stage.plot(faults=(fault,), limit_ns=20_000_000)


def slow_rank(size: Size) -> Plot:
    """A rank computes for half as long again; the network has nothing to do with it."""
    stage = leaf_spine_stage(size)
    rank = int(stage.draw.integers(size.hosts))
    fault = Fault(
        "not_the_fabric", stage.wires.topology.hosts[rank], "", *stage.fault_steps, slow_rank=rank, factor=1.5
    )
    return stage.plot(faults=(fault,))


def storage_stall(size: Size) -> Plot:
    """Checkpoints go to storage every other step; one storage host comes to take in a tenth of what its port brings."""
    stage = leaf_spine_stage(size, storage=4)
    wires = stage.wires
    rows = []
    for number in range(4):
        writers = wires.hosts[number : size.hosts : size.hosts // 8][:8]
        flows = burst(stage.routes, writers, int(wires.hosts[size.hosts + number]), size.message_bytes // 16, 0, number)
        rows.append(stage.add(flows))
    checkpoints = Burst(np.concatenate(rows), 0, size.steps, every=2, is_waited=True)
    slow = size.hosts + int(stage.draw.integers(4))
    fault = Fault(
        "slow_receiver_host", wires.topology.hosts[slow], PCIE, *stage.fault_steps,
        links=(int(wires.to_host[slow]),), mbps=stage.line_mbps // 10,
    )  # fmt: skip
    return stage.plot(faults=(fault,), bursts=(checkpoints,))


def fabric_overload(size: Size) -> Plot:
    """All hosts of a leaf with half as many uplinks write to storage at once: each uplink gets more than it carries."""
    wires = make_wires(oversubscribed(size.hosts, per_leaf=size.per_leaf, storage=size.per_leaf))
    routes = Routes(wires)
    own = np.arange(size.hosts)
    # Each leaf trains within itself, so that nothing is full without the writers.
    beside = own // size.per_leaf * size.per_leaf + (own + 1) % size.per_leaf
    pairs = np.stack((own, beside, np.zeros_like(own)), axis=1)
    flows = training(routes, wires.hosts[: size.hosts], pairs, size.message_bytes, planned=True)
    stage = Stage(size, wires, routes, flows)
    leaf = int(stage.draw.integers(size.hosts // size.per_leaf))
    places = leaf * size.per_leaf + np.arange(size.per_leaf)
    stores = wires.hosts[size.hosts :]
    through = planned_ways(routes, wires.hosts[places], stores, np.zeros(size.per_leaf, np.int64))
    rows = stage.add(
        made(
            routes, wires.hosts[places], stores, np.full(size.per_leaf, 61_000),
            np.full(size.per_leaf, 2 * size.message_bytes), np.zeros(size.per_leaf, np.int64), through=through,
        )
    )  # fmt: skip
    first, last = stage.fault_steps
    uplinks = np.unique(stage.flows.paths[rows, 1]).tolist()
    faults = tuple(Fault("fabric_overload", *wires.end(link), first, last) for link in uplinks)
    return stage.plot(faults=faults, bursts=(Burst(rows, first, last, is_waited=True, is_fault=True),))


def two_faults(size: Size) -> Plot:
    """A narrow PCIe link, and later a degraded link of another leaf."""
    stage = leaf_spine_stage(size)
    first, last = stage.fault_steps
    half = (first + last) // 2
    if half == first:
        raise ConfigError("two faults need two steps at least", "give the story more steps, or fault_steps")
    narrow = _slow_host(stage, "slow_receiver_pcie", stage.line_mbps // 4, reports=True, steps=(first, half))
    link = stage.any_uplink()
    slow = Fault("link_degraded", *stage.wires.end(link), half, last, links=(link, link ^ 1), mbps=stage.line_mbps // 5)
    return stage.plot(faults=(narrow, slow))


def _slow_host(
    stage: Stage, root_class: str, mbps: int, *, reports: bool, steps: tuple[int, int] | None = None
) -> Fault:
    host = int(stage.draw.integers(len(stage.wires.hosts)))
    first, last = steps or stage.fault_steps
    return Fault(
        root_class, stage.wires.topology.hosts[host], PCIE, first, last, links=(int(stage.wires.to_host[host]),),
        mbps=mbps, reports_pcie=reports,
    )  # fmt: skip


class Scenario(NamedTuple):
    """How a scenario is made, and one sentence about it."""

    make: Callable[[Size], Plot]

    @property
    def about(self) -> str:
        """What happens, for people."""
        return " ".join((self.make.__doc__ or "").split())


_MAKERS = (
    healthy, pcie_narrow, slow_host, nic_storm, degraded_link, link_errors, incast, ecmp_collision, hash_polarization,
    pfc_deadlock, slow_rank, storage_stall, fabric_overload, two_faults,
)  # fmt: skip
SCENARIOS: dict[str, Scenario] = {make.__name__: Scenario(make) for make in _MAKERS}
