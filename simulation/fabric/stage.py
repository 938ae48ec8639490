"""What scenarios share: a fabric with a training job on it, random choices by seed, and the steps of the fault.

In: `Size`. Out: `Stage`, from which a scenario takes its `Plot`.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from simulation.fabric.compiled import Ints
from simulation.fabric.plot import Burst, Fault, Plot
from simulation.fabric.routes import Routes
from simulation.fabric.settings import Settings
from simulation.fabric.topologies import leaf_spine, rail
from simulation.fabric.traffic import Flows, background, joined, ring_pairs, training
from simulation.fabric.wires import Wires, make_wires
from stream.errors import ConfigError

MEDIUM = Settings(dcqcn=False, buffer_bytes=4_000_000)
"""Switches of 4 MB, and pauses before marks: a story of a few steps shows what a fault does."""
LEAST_HOSTS = 16
MOST_BINS = 10_000_000
STEP_LIMIT_NS = 100_000_000
"""So long the exchange of a step may last, faults and all: what has not ended by then stands still."""


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a story is; the fault comes after half of the steps and goes after four fifths, unless told.

    Raises ConfigError for what cannot be played.
    """

    scenario: str
    seed: int = 1
    hosts: int = 256
    steps: int = 20
    message_bytes: int = 8_000_000
    """Of each host and step."""
    queue_pairs: int = 4
    compute_ns: int = 1_000_000
    jitter_ratio: float = 0.002
    bin_ns: int = 100_000
    fault_steps: tuple[int, int] | None = None
    settings: Settings = MEDIUM
    use_express: bool = True
    rails: int = 0
    """NICs of a server, each on a fabric of its own as far as the spines; 0: plain leaves and spines."""
    background_load: float = 0.0
    """Of one pair of hosts in eight: messages of 1 MB at random times beside the training."""

    def __post_init__(self) -> None:
        line_ns = self.message_bytes * 8_000 // self.settings.line_mbps
        first, last = self.fault_steps or (0, 1)
        bins = self.steps * (self.compute_ns + line_ns) // max(self.bin_ns, 1)
        for name, can_be, why in (
            ("seed", self.seed >= 0, "0 at least"),
            ("hosts", self.hosts >= LEAST_HOSTS, f"{LEAST_HOSTS} at least"),
            ("hosts", self.hosts % (self.per_leaf * max(self.rails, 1)) == 0, "whole leaves, of each rail"),
            ("steps", self.steps >= 1, "1 at least"),
            ("queue_pairs", self.queue_pairs >= 1, "1 at least"),
            ("message_bytes", self.message_bytes >= self.queue_pairs, "a byte of each queue pair at least"),
            ("message_bytes", line_ns <= STEP_LIMIT_NS, "what a link carries in 100 ms at most"),
            ("compute_ns", self.compute_ns >= 0, "0 at least"),
            ("jitter_ratio", 0 <= self.jitter_ratio <= 1, "from 0 to 1"),
            ("bin_ns", self.bin_ns >= self.settings.tick_ns, "a tick at least"),
            ("bin_ns", bins <= MOST_BINS, f"so long that a story has no more than {MOST_BINS:,} of them"),
            ("fault_steps", 0 <= first < last <= self.steps, "the first and the one after the last, of the story's"),
            ("rails", self.rails >= 0, "0 at least"),
            ("background_load", 0 <= self.background_load < 1, "from 0 to below 1"),
        ):
            if not can_be:
                raise ConfigError(f"{name} of a story cannot be {getattr(self, name)!r}", f"it is {why}")

    @property
    def per_leaf(self) -> int:
        """Hosts of a leaf."""
        return 32 if self.hosts >= 1024 else 16 if self.hosts >= 64 else 4

    @property
    def spines(self) -> int:
        """As many as a leaf has hosts: nothing is oversubscribed."""
        return self.per_leaf


class Stage:
    """The fabric, its job's flows, and the seed's choices."""

    def __init__(self, size: Size, wires: Wires, routes: Routes, flows: Flows) -> None:
        self.size, self.wires, self.routes, self.flows = size, wires, routes, flows
        self.line_mbps = size.settings.line_mbps
        self.draw = np.random.default_rng([size.seed, 11])
        self.leaf = np.array([routes.far_device(link) for link in wires.to_fabric.tolist()])
        """Device that each host hangs on."""
        half = size.steps // 2
        self.fault_steps = size.fault_steps or (half, max(half + 1, size.steps * 4 // 5))
        self.ranks = np.unique(flows.src[flows.is_training])

    def plot(
        self, *, faults: tuple[Fault, ...] = (), bursts: tuple[Burst, ...] = (), limit_ns: int = STEP_LIMIT_NS
    ) -> Plot:
        """The story with these faults and bursts."""
        size = self.size
        return Plot(
            scenario=size.scenario,
            seed=size.seed,
            wires=self.wires,
            settings=dataclasses.replace(size.settings, seed=size.seed),
            flows=self.flows,
            ranks=self.ranks,
            steps=size.steps,
            compute_ns=size.compute_ns,
            jitter_ratio=size.jitter_ratio,
            bin_ns=size.bin_ns,
            faults=faults,
            bursts=bursts,
            limit_ns=limit_ns,
            use_express=size.use_express,
        )

    def add(self, flows: Flows) -> Ints:
        """Adds flows; gives their rows."""
        first = len(self.flows.src)
        self.flows = joined(self.flows, flows)
        return np.arange(first, len(self.flows.src))

    def any_uplink(self) -> int:
        """A link from a leaf to a spine, by the seed."""
        ways = self.flows.paths[:, 1]
        inner = ways[(ways >= 0) & (self.flows.paths[:, 4] >= 0)]
        return int(self.draw.choice(np.unique(inner)))

    def ways_by_uplink(self, rows: Ints, uplink: int) -> Ints:
        """Ways of flows between leaves that all take the leaf's uplink of this number, and down from the same spine."""
        paths = self.flows.paths[rows].copy()
        for n, (a, b) in enumerate(zip(self.flows.src[rows].tolist(), self.flows.dst[rows].tolist(), strict=True)):
            here, there = (
                self.routes.far_device(int(self.wires.to_fabric[int(np.flatnonzero(self.wires.hosts == host)[0])]))
                for host in (a, b)
            )
            up = int(self.routes.next_links(here, there)[uplink])
            down = int(self.routes.next_links(self.routes.far_device(up), there)[0])
            paths[n, 1:3] = up, down
        return paths

    def busiest(self, paths: Ints) -> tuple[str, str]:
        """Device and port of the link between switches that the most flows take."""
        switch = np.zeros(len(self.wires.source), np.bool_)
        devices = len(self.wires.topology.devices)
        is_switch = np.array([kind != "host" for kind in self.wires.topology.kinds])
        within = (self.wires.source < devices) & (self.wires.target < devices)
        switch[within] = is_switch[self.wires.source[within]] & is_switch[self.wires.target[within]]
        counts = np.bincount(paths[paths >= 0], minlength=len(switch)) * switch
        return self.wires.end(int(counts.argmax()))


def leaf_spine_stage(size: Size, *, storage: int = 0) -> Stage:
    """A non-blocking fabric; each host sends to the one at its place of the next leaf, on planned ways."""
    if size.rails:
        if storage:
            raise ConfigError("a rail-optimised fabric has no storage", "leave rails out")
        topology = rail(size.hosts // size.rails, rails=size.rails, per_leaf=size.per_leaf, spines=size.spines)
    else:
        topology = leaf_spine(size.hosts, per_leaf=size.per_leaf, spines=size.spines, storage=storage)
    wires = make_wires(topology)
    routes = Routes(wires)
    pairs = ring_pairs(size.hosts, size.per_leaf * max(size.rails, 1), size.queue_pairs)
    flows = training(routes, wires.hosts[: size.hosts], pairs, size.message_bytes // size.queue_pairs, planned=True)
    stage = Stage(size, wires, routes, flows)
    if size.background_load:
        message = 1_000_000
        line_ns = size.message_bytes * 8000 // size.settings.line_mbps
        end_ns = size.steps * (size.compute_ns + 2 * line_ns)
        others = background(
            routes, size.seed, pairs=max(size.hosts // 16, 1), load=size.background_load, size_bytes=message,
            end_ns=end_ns, mbps=size.settings.line_mbps,
        )  # fmt: skip
        stage.add(others)
    return stage
