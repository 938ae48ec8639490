"""Who sends to whom: collectives of a training job, traffic of others beside it, and bursts towards one host.

In: a topology's wires and ranks. Out: `Flows`, by row, with their ways.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from simulation.fabric.express import Bools
from simulation.fabric.routes import Routes
from simulation.fabric.wires import Ints

FIRST_PORT = 49_152
ROCE_PORT = 4_791


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """Queue pairs by row. `src` and `dst` are devices; `start_ns` is -1 for those that a job starts at every step."""

    src: Ints
    dst: Ints
    src_port: Ints
    size_bytes: Ints
    start_ns: Ints
    paths: Ints
    priority: Ints

    @property
    def is_training(self) -> Bools:
        """Whether a job starts the flow at every step."""
        return self.start_ns < 0


def ring_pairs(ranks: int, stride: int, queue_pairs: int) -> Ints:
    """Sender, receiver and number of the queue pair: every rank sends to the one `stride` further on."""
    rank = np.repeat(np.arange(ranks), queue_pairs)
    return np.stack((rank, (rank + stride) % ranks, np.tile(np.arange(queue_pairs), ranks)), axis=1)


def all_to_all_pairs(ranks: int, peers: int) -> Ints:
    """As above: every rank sends to `peers` others, spread evenly over all of them."""
    rank = np.repeat(np.arange(ranks), peers)
    number = np.tile(np.arange(peers), ranks)
    return np.stack((rank, (rank + 1 + number * ((ranks - 1) // peers)) % ranks, number), axis=1)


def training(routes: Routes, hosts: Ints, pairs: Ints, size_bytes: int, *, planned: bool) -> Flows:
    """Flows of a job whose ranks are `hosts` (devices); each pair sends `size_bytes` a step.

    Planned ways spread the queue pairs of a leaf evenly over its uplinks, as a controller would; else ECMP does.
    """
    src, dst = hosts[pairs[:, 0]], hosts[pairs[:, 1]]
    ports = FIRST_PORT + pairs[:, 2]
    through = planned_ways(routes, src, dst, pairs[:, 2]) if planned else None
    return made(routes, src, dst, ports, np.full(len(src), size_bytes), np.full(len(src), -1), through=through)


def made(
    routes: Routes, src: Ints, dst: Ints, src_port: Ints, size_bytes: Ints, start_ns: Ints,
    *, through: dict[int, tuple[int, ...]] | None = None, seeds: Ints | None = None,
) -> Flows:  # fmt: skip
    """Flows on ways of ECMP, or on those that `through` says."""
    ports = (src_port, np.full(len(src), ROCE_PORT))
    paths = routes.paths(src, dst, ports, seeds=seeds, through=through)
    return Flows(src, dst, src_port, size_bytes, start_ns, paths, np.zeros(len(src), np.int64))


def planned_ways(routes: Routes, src: Ints, dst: Ints, number: Ints) -> dict[int, tuple[int, ...]]:
    """For each flow the links between its leaves, so that every link gets as many flows as any other.

    The k-th host of leaf n takes uplink k for its first queue pair, and others for the next ones; a second tier's
    switch, which all leaves of a pod send it by the same k, takes k + n.
    """
    wires = routes.wires
    slot: dict[int, tuple[int, int]] = {}
    seen: dict[int, int] = {}
    for host, link in zip(wires.hosts.tolist(), wires.to_fabric.tolist(), strict=True):
        leaf = routes.far_device(link)
        slot[host] = (leaf, seen.get(leaf, 0))
        seen[leaf] = seen.get(leaf, 0) + 1
    pairs = int(number.max()) + 1
    found: dict[int, tuple[int, ...]] = {}
    for f, (a, b, q) in enumerate(zip(src.tolist(), dst.tolist(), number.tolist(), strict=True)):
        device, place = slot[a]
        towards, _ = slot[b]
        first = device
        way: list[int] = []
        while device != towards:
            choices = routes.next_links(device, towards)
            step = place + q * max(len(choices) // pairs, 1) + (first if way else 0)
            way.append(int(choices[step % len(choices)]))
            device = routes.far_device(way[-1])
        found[f] = tuple(way)
    return found


def background(routes: Routes, seed: int, *, pairs: int, load: float, size_bytes: int, end_ns: int, mbps: int) -> Flows:
    """Poisson flows between `pairs` of hosts drawn from the seed, each with `load` of its link's rate on average."""
    draw = np.random.default_rng([seed, 7])
    hosts = routes.wires.hosts
    picked = draw.permutation(len(hosts))[: 2 * pairs].reshape(-1, 2)
    gap_ns = size_bytes * 8000 / mbps / load
    count = draw.poisson(end_ns / gap_ns, len(picked))
    pair = np.repeat(np.arange(len(picked)), count)
    start = np.sort(draw.integers(0, end_ns, len(pair)))
    ports = FIRST_PORT + 1000 + np.arange(len(pair)) % 10_000
    return made(routes, hosts[picked[pair, 0]], hosts[picked[pair, 1]], ports, np.full(len(pair), size_bytes), start)


def burst(routes: Routes, senders: Ints, receiver: int, size_bytes: int, start_ns: int, number: int = 0) -> Flows:
    """An incast as of storage that answers: each sender (a device) sends to the receiver at once."""
    count = len(senders)
    ports = FIRST_PORT + 12_000 + number * 100 + np.arange(count) % 100
    full = np.full(count, receiver)
    return made(routes, senders, full, ports, np.full(count, size_bytes), np.full(count, start_ns))


def joined(*parts: Flows) -> Flows:
    """All flows, the parts one after the other."""
    longest = max(part.paths.shape[1] for part in parts)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(Flows)
        if field.name != "paths"
    }
    paths = [np.pad(part.paths, ((0, 0), (0, longest - part.paths.shape[1])), constant_values=-1) for part in parts]
    return Flows(**columns, paths=np.concatenate(paths))
