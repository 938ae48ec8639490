"""Of the bytes that wait at an egress, the part that came in by each ingress, as equal-cost paths would have it.

In: a Topology and a device. Out: a matrix by local ingress and egress. Traffic between all pairs of hosts is taken as
alike and split evenly over equal paths; what really went where nobody counts by pair of ports.
"""

from __future__ import annotations

import numpy as np

from analytics.compiled import kernel
from analytics.layout import Bools, Floats, Ints
from analytics.topology import Topology

_FAR = 1 << 20


class Transit:
    """The matrices of the devices that were asked for, until the topology changes.

    `of(device)` is float64 (n, n) over the device's fan-out, columns summing to 1: row = ingress, column = egress.
    A pair that no shortest path uses has 0; a column that no path uses is split evenly over the other ingresses.
    """

    def __init__(self) -> None:
        self._made_for: object = None
        self._known: dict[int, Floats] = {}

    def of(self, topology: Topology, device: int) -> Floats:
        """The matrix of one switch."""
        # A rebuilt topology has a new array, one that only got names has not.
        if self._made_for is not topology.feasible:
            self._made_for, self._known = topology.feasible, {}
        found = self._known.get(device)
        if found is None:
            found = self._known[device] = _matrix(topology, device)
        return found


def _matrix(topology: Topology, device: int) -> Floats:
    ports = topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]]
    count, devices = len(ports), len(topology.is_host)
    hops = np.full((count + 1, devices), _FAR, np.int64)
    queue = np.empty(devices, np.int64)
    arrays = (topology.is_host, topology.fan_start, topology.fan_ports, topology.port_peer, topology.port_device)
    for row, origin in enumerate([device, *topology.port_device[topology.port_peer[ports]].tolist()]):
        _search(origin, hops[row], queue, *arrays)
    paths = np.zeros((count, count))
    _count_paths(hops, np.flatnonzero(topology.is_host[:devices]), paths)
    start = int(topology.feasible_start[device])
    allowed = topology.feasible[start : start + count * count].reshape(count, count)
    paths[~allowed] = 0.0
    for column in np.flatnonzero(paths.sum(axis=0) == 0):
        paths[:, column] = allowed[:, column]
    total = paths.sum(axis=0)
    shares: Floats = paths / np.where(total > 0, total, 1.0)
    return shares


@kernel
def _search(
    origin: int, hops: Ints, queue: Ints, is_host: Bools, fan_start: Ints, fan_ports: Ints, port_peer: Ints,
    port_device: Ints,
) -> None:  # fmt: skip
    """Hops from a device to all others; hosts do not forward."""
    queue[0] = origin
    hops[origin] = 0
    head, tail = 0, 1
    while head < tail:
        here = queue[head]
        head += 1
        if is_host[here] and here != origin:
            continue
        for at in range(fan_start[here], fan_start[here + 1]):
            there = port_device[port_peer[fan_ports[at]]]
            if hops[there] > hops[here] + 1:
                hops[there] = hops[here] + 1
                queue[tail] = there
                tail += 1


@kernel
def _count_paths(hops: Ints, hosts: Ints, paths: Floats) -> None:
    """Adds, for each host and ingress, one unit for the host's way out, split evenly over equal next hops.

    hops[0] are those of the device itself, hops[1 + i] those of the neighbour at port i. An ingress weighs as the hosts
    behind it, each split over the ways in that are as short.
    """
    count = len(paths)
    for i in range(count):
        behind = 0.0
        for at in range(len(hosts)):
            host = hosts[at]
            if hops[1 + i, host] + 1 != hops[0, host]:
                continue
            ways = 0
            for j in range(count):
                ways += hops[1 + j, host] + 1 == hops[0, host]
            behind += 1.0 / ways
        if behind == 0.0:
            continue
        served = 0.0
        for at in range(len(hosts)):
            host = hosts[at]
            if hops[1 + i, host] != hops[0, host] + 1:
                continue
            ways = 0
            for j in range(count):
                ways += hops[1 + j, host] + 1 == hops[0, host]
            if ways == 0:
                continue
            served += 1.0
            for j in range(count):
                if hops[1 + j, host] + 1 == hops[0, host]:
                    paths[i, j] += 1.0 / ways
        if served > 0.0:
            for j in range(count):
                paths[i, j] *= behind / served
