"""Of the bytes that wait at an egress, the part that came in by each ingress, as equal-cost paths would have it.

In: a Topology and a device. Out: a matrix by local ingress and egress. Traffic between all pairs of hosts is taken as
alike and split evenly over equal paths; what really went where nobody counts by pair of ports.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from analytics.layout import Bools, Floats, Ints
from analytics.topology import Topology

Hops = npt.NDArray[np.int8]
FAR = 127
"""Hops of what is farther, or cannot be reached."""


class Transit:
    """The matrices of the devices that were asked for, until the topology changes.

    `of(device)` is float64 (n, n) over the device's fan-out, columns summing to 1: row = ingress, column = egress.
    A pair that no shortest path uses has 0; a column that no path uses is split evenly over the other ingresses.
    """

    def __init__(self) -> None:
        self._made_for: object = None
        self._known: dict[int, Floats] = {}
        self._hops: dict[int, Hops] = {}
        """By switch, how far all devices are: neighbours ask for those of each other."""

    def of(self, topology: Topology, device: int) -> Floats:
        """The matrix of one switch."""
        # A rebuilt topology has a new array, one that only got names has not.
        if self._made_for is not topology.feasible:
            self._made_for, self._known, self._hops = topology.feasible, {}, {}
        found = self._known.get(device)
        if found is None:
            found = self._known[device] = self._matrix(topology, device)
        return found

    def _matrix(self, topology: Topology, device: int) -> Floats:
        ports = topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]]
        count = len(ports)
        own = self._hops_from(topology, device)
        # Devices that were named since have no links, and so are not there.
        hops = np.full((count + 1, len(topology.is_host)), FAR, np.int8)
        hops[0, : len(own)] = own
        for row, neighbour in enumerate(topology.port_device[topology.port_peer[ports]].tolist(), 1):
            if topology.is_host[neighbour] and topology.fan_start[neighbour + 1] - topology.fan_start[neighbour] == 1:
                # All ways of a host with one link lead over this switch.
                hops[row] = np.minimum(hops[0], FAR - 1) + 1
                hops[row, neighbour] = 0
            else:
                known = self._hops_from(topology, neighbour)
                hops[row, : len(known)] = known
        paths = np.zeros((count, count))
        hosts, number = _hosts(topology, device)
        _count_paths(hops, hosts, number, np.zeros((2, count), np.int64), np.zeros((2, count)), paths)
        start = int(topology.feasible_start[device])
        allowed = topology.feasible[start : start + count * count].reshape(count, count)
        paths[~allowed] = 0.0
        for column in np.flatnonzero(paths.sum(axis=0) == 0):
            paths[:, column] = allowed[:, column]
        total = paths.sum(axis=0)
        shares: Floats = paths / np.where(total > 0, total, 1.0)
        return shares

    def _hops_from(self, topology: Topology, origin: int) -> Hops:
        known = self._hops.get(origin)
        if known is None:
            known = np.full(len(topology.is_host), FAR, np.int8)
            _search(origin, known, np.empty(len(known), np.int64), topology.is_host, topology.fan_start,
                    topology.fan_ports, topology.port_peer, topology.port_device)  # fmt: skip
            if not topology.is_host[origin]:
                self._hops[origin] = known
        return known


@kernel
def _search(
    origin: int, hops: Hops, queue: Ints, is_host: Bools, fan_start: Ints, fan_ports: Ints, port_peer: Ints,
    port_device: Ints,
) -> None:  # fmt: skip
    """Hops from a device to all others, FAR to begin with; hosts do not forward."""
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
            if hops[there] == FAR and hops[here] + 1 < FAR:
                hops[there] = hops[here] + 1
                queue[tail] = there
                tail += 1


def _hosts(topology: Topology, device: int) -> tuple[Ints, Ints]:
    """Hosts, and how many each stands for: those with one link to the same other switch have the same ways."""
    hosts = np.flatnonzero(topology.is_host)
    starts = topology.fan_start[hosts]
    alone = topology.fan_start[hosts + 1] - starts == 1
    behind = np.where(alone, 0, -1 - hosts)
    behind[alone] = topology.port_device[topology.port_peer[topology.fan_ports[starts[alone]]]]
    behind = np.where(behind == device, -1 - hosts, behind)
    _, first, number = np.unique(behind, return_index=True, return_counts=True)
    order = np.argsort(first)
    return hosts[first[order]], number[order]


@kernel
def _count_paths(hops: Hops, hosts: Ints, number: Ints, work: Ints, sums: Floats, paths: Floats) -> None:
    """Adds, for each host and ingress, one unit for the host's way out, split evenly over equal next hops.

    hops[0] are those of the device itself, hops[1 + i] those of the neighbour at port i; hosts[i] stands for number[i].
    An ingress weighs as the hosts behind it, each split over the ways in that are as short. `work` is room for
    two numbers a port, `sums` too, all 0.
    """
    count = len(paths)
    nearer, farther = work[0], work[1]
    behind, served = sums[0], sums[1]
    for at in range(len(hosts)):
        host = hosts[at]
        ways = others = 0
        for j in range(count):
            if hops[1 + j, host] + 1 == hops[0, host]:
                nearer[ways] = j
                ways += 1
            elif hops[1 + j, host] == hops[0, host] + 1:
                farther[others] = j
                others += 1
        if ways == 0:
            continue
        part = number[at] / ways
        for j in range(ways):
            behind[nearer[j]] += part
        for i in range(others):
            served[farther[i]] += number[at]
            for j in range(ways):
                paths[farther[i], nearer[j]] += part
    for i in range(count):
        for j in range(count):
            paths[i, j] = paths[i, j] * behind[i] / served[i] if served[i] > 0.0 else 0.0
