"""The fabric as arrays: devices, ports, links, which egress an ingress can feed, which links are siblings.

In: device and link facts. Out: `Topology`, whose indices only ever grow, so that state kept by index stays valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from stream.facts import Device, Link

Ints = npt.NDArray[np.int64]

PRIORITIES = 8
"""A queue is port * 8 + priority."""


class Topology:
    """Interned names and the arrays that kernels read; call `rebuild` after facts have been added.

    After a rebuild, with N devices and P ports (a sibling group is named by the least index of its ports):
    port_device, port_peer (-1 = no link), port_speed_mbps, port_delay_ns, port_group: int64 (P,);
    is_host: bool (N,); tier: int64 (N,), hops to the nearest host (hosts 0, -1 = no host can be reached);
    fan_start (N+1,), fan_ports: ports of each device that have a link; port_local (P,): place in that list;
    feasible_start (N,), feasible (sum of fan-out squared): may bytes that came in by i leave by j;
    group_start (P+1,), group_ports: ports of each sibling group; device_group (N,): group of the port that faces a host
    (-1 = none); port_rank (P,): place of the port in the order of names.
    """

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.ports: list[tuple[int, str]] = []
        self._device_index: dict[str, int] = {}
        self._port_index: dict[tuple[int, str], int] = {}
        self._roles: dict[int, str] = {}
        self._links: dict[int, tuple[int, int, int]] = {}
        self._speeds: dict[int, int] = {}
        self.rebuild()

    def device(self, name: str) -> int:
        """Index of a device, made if new."""
        index = self._device_index.get(name)
        if index is None:
            index = self._device_index[name] = len(self.devices)
            self.devices.append(name)
        return index

    def find_device(self, name: str) -> int:
        """Index of a device, -1 if nothing has named it."""
        return self._device_index.get(name, -1)

    def port(self, device: str, port: str) -> int:
        """Index of a port, made if new."""
        key = (self.device(device), port)
        index = self._port_index.get(key)
        if index is None:
            index = self._port_index[key] = len(self.ports)
            self.ports.append(key)
        return index

    def add(self, fact: Device | Link) -> None:
        """Takes a device or link in; a later link replaces earlier links of the same ports."""
        if isinstance(fact, Device):
            self._roles[self.device(fact.device)] = fact.role
            for port in fact.ports:
                index = self.port(fact.device, port.port)
                if port.speed_mbps:
                    self._speeds[index] = port.speed_mbps
            return
        a, b = self.port(fact.a_device, fact.a_port), self.port(fact.b_device, fact.b_port)
        for end in (a, b):
            if end in self._links:
                self._links.pop(self._links[end][0], None)
        self._links[a] = (b, fact.speed_mbps, fact.delay_ns)
        self._links[b] = (a, fact.speed_mbps, fact.delay_ns)

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        links = [[port, *link] for port, link in self._links.items()]
        return [self.devices, [list(port) for port in self.ports], list(self._roles.items()), links,
                list(self._speeds.items())]  # fmt: skip

    @classmethod
    def of_state(cls, state: list[Any]) -> Topology:
        """The topology of a `state()`."""
        devices, ports, roles, links, speeds = state
        topology = cls()
        for name in devices:
            topology.device(name)
        for device, port in ports:
            topology.port(devices[device], port)
        topology._roles = dict(roles)
        topology._links = {port: (peer, speed, delay) for port, peer, speed, delay in links}
        topology._speeds = dict(speeds)
        topology.rebuild()
        return topology

    def complete(self) -> bool:
        """Whether the arrays cover every interned name."""
        return len(self.port_device) == len(self.ports) and len(self.is_host) == len(self.devices)

    def rebuild(self) -> None:
        """Makes the arrays anew from the names, roles and links known by now."""
        port_count, device_count = len(self.ports), len(self.devices)
        self.port_device: Ints = np.array([device for device, _ in self.ports], np.int64)
        self.port_peer: Ints = np.full(port_count, -1, np.int64)
        self.port_speed_mbps: Ints = np.zeros(port_count, np.int64)
        self.port_delay_ns: Ints = np.zeros(port_count, np.int64)
        for port, speed in self._speeds.items():
            self.port_speed_mbps[port] = speed
        for port, (peer, speed, delay) in self._links.items():
            self.port_peer[port], self.port_delay_ns[port] = peer, delay
            self.port_speed_mbps[port] = speed or self.port_speed_mbps[port]
        self.is_host: npt.NDArray[np.bool_] = np.array(
            [self._roles.get(device) == "host" for device in range(device_count)], bool
        )
        self.port_rank: Ints = self._port_ranks()
        self._fan_out(device_count)
        distance = self._distances(device_count)
        self.tier: Ints = (
            np.where(distance.min(axis=0) < _FAR, distance.min(axis=0), -1)
            if len(distance)
            else np.full(device_count, -1)
        ).astype(np.int64)
        self.feasible: npt.NDArray[np.bool_] = _feasible(
            distance, self.fan_start, self.fan_ports, self.port_peer, self.port_device, self.feasible_start
        )
        self._sibling_groups(device_count)

    def queue_name(self, queue: int) -> tuple[str, str, int]:
        """Device, port and priority of a queue."""
        device, port = self.ports[queue // PRIORITIES]
        return self.devices[device], port, queue % PRIORITIES

    def _port_ranks(self) -> Ints:
        """Place of each port among all, ordered by device and port name: order that no arrival can change."""
        names = sorted(range(len(self.ports)), key=lambda p: (self.devices[self.ports[p][0]], self.ports[p][1]))
        ranks = np.empty(len(names), np.int64)
        ranks[names] = np.arange(len(names))
        return ranks

    def _fan_out(self, device_count: int) -> None:
        # In the order of names: sums over a fan-out must not depend on the order in which facts arrived.
        linked = np.flatnonzero(self.port_peer >= 0)
        linked = linked[np.lexsort((self.port_rank[linked], self.port_device[linked]))]
        counts = np.bincount(self.port_device[linked], minlength=device_count)
        self.fan_start: Ints = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.fan_ports: Ints = linked.astype(np.int64)
        self.port_local: Ints = np.full(len(self.ports), -1, np.int64)
        self.port_local[linked] = np.arange(len(linked)) - self.fan_start[self.port_device[linked]]
        self.feasible_start: Ints = np.concatenate(([0], np.cumsum(counts * counts))).astype(np.int64)

    def _distances(self, device_count: int) -> npt.NDArray[np.int16]:
        """Hops from every host (rows) to every device, by breadth-first search; hosts do not forward."""
        hosts = np.flatnonzero(self.is_host)
        distance = np.full((len(hosts), device_count), _FAR, np.int16)
        _search(distance, hosts, self.is_host, self.fan_start, self.fan_ports, self.port_peer, self.port_device)
        return distance

    def _sibling_groups(self, device_count: int) -> None:
        """Siblings of an uplink leave one device for one tier, those of a downlink reach one device from one tier.

        A link within a tier and a link to a host has none.
        """
        keys: dict[tuple[Any, ...], list[int]] = {}
        for port in range(len(self.ports)):
            peer = self.port_peer[port]
            key: tuple[Any, ...] = ("alone", port)
            if peer >= 0:
                here, there = int(self.port_device[port]), int(self.port_device[peer])
                if not self.is_host[here] and not self.is_host[there] and self.tier[here] != self.tier[there]:
                    down = self.tier[there] < self.tier[here]
                    key = ("down", there, int(self.tier[here])) if down else ("up", here, int(self.tier[there]))
            keys.setdefault(key, []).append(port)
        self.port_group: Ints = np.zeros(len(self.ports), np.int64)
        for ports in keys.values():
            self.port_group[ports] = ports[0]
        sizes = np.bincount(self.port_group, minlength=len(self.ports))
        self.group_start: Ints = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.group_ports: Ints = np.argsort(self.port_group, kind="stable").astype(np.int64)
        self.device_group: Ints = np.full(device_count, -1, np.int64)
        for port, peer in enumerate(self.port_peer):
            if peer >= 0 and self.is_host[self.port_device[peer]]:
                self.device_group[self.port_device[peer]] = self.port_group[port]


_FAR = np.int16(30_000)


@njit(cache=True)
def _search(
    distance: npt.NDArray[np.int16],
    hosts: Ints,
    is_host: npt.NDArray[np.bool_],
    fan_start: Ints,
    fan_ports: Ints,
    port_peer: Ints,
    port_device: Ints,
) -> None:
    queue = np.empty(len(is_host), np.int64)
    for row in range(len(hosts)):
        queue[0] = hosts[row]
        distance[row, hosts[row]] = 0
        head, tail = 0, 1
        while head < tail:
            here = queue[head]
            head += 1
            if is_host[here] and here != hosts[row]:
                continue
            for at in range(fan_start[here], fan_start[here + 1]):
                there = port_device[port_peer[fan_ports[at]]]
                if distance[row, there] > distance[row, here] + 1:
                    distance[row, there] = distance[row, here] + 1
                    queue[tail] = there
                    tail += 1


@njit(cache=True)
def _feasible(
    distance: npt.NDArray[np.int16],
    fan_start: Ints,
    fan_ports: Ints,
    port_peer: Ints,
    port_device: Ints,
    feasible_start: Ints,
) -> npt.NDArray[np.bool_]:
    """Whether bytes that enter a device by port i may leave by port j: both hops lie on a shortest path to a host.

    Where no host at all is fed by i, every j but i is possible.
    """
    feasible = np.zeros(feasible_start[-1], np.bool_)
    for device in range(len(fan_start) - 1):
        first, count = fan_start[device], fan_start[device + 1] - fan_start[device]
        for i in range(count):
            before = port_device[port_peer[fan_ports[first + i]]]
            row = feasible_start[device] + i * count
            any_found = False
            for j in range(count):
                after = port_device[port_peer[fan_ports[first + j]]]
                if j == i:
                    continue
                for host in range(distance.shape[0]):
                    here = distance[host, device]
                    if here < 30_000 and distance[host, before] == here + 1 and distance[host, after] == here - 1:
                        feasible[row + j] = True
                        any_found = True
                        break
            if not any_found:
                for j in range(count):
                    feasible[row + j] = j != i
    return feasible
