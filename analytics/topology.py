"""The fabric as arrays: devices, ports, links, which egress an ingress can feed, which links are siblings.

In: device and link facts, whose names go through the resolver. Out: `Topology`, whose indices only ever grow, so that
state kept by index stays valid.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from analytics.layout import Ints, Links
from analytics.port_sets import WORD_BITS, packed, words_of
from stream.facts import Device, Link
from stream.identity import Resolver
from stream.inventory import Inventory

PRIORITIES = 8
"""A queue is port * 8 + priority."""


class Topology:
    """Interned names and the arrays that kernels read; call `rebuild` after facts, `extend` after names were added.

    Indices are those of names; `place` gives the index of what a name means by the facts of the last rebuild.

    After a rebuild, with N devices and P ports (a sibling group is named by the least index of its ports):
    port_device, port_peer (-1 = no link), port_speed_mbps, port_delay_ns, port_group: int64 (P,);
    is_host: bool (N,); tier: int64 (N,), hops to the nearest host (hosts 0, -1 = no host can be reached);
    fan_start (N+1,), fan_ports: ports of each device that have a link; port_local (P,): place in that list;
    feasible_start (N,), feasible (sum of fan-out squared): may bytes that came in by i leave by j; for switches the
    same as sets of analytics.port_sets: reach, of port i from reach_start + i * words on; word_start (N+1,): words of a
    set of each device, counted up; port_word (P,): the word that holds the port's bit, counted likewise (-1 = none);
    group_start (P+1,), group_ports: ports of each sibling group; device_group (N,): group of the ports that face a
    host (-1 = none); port_rank (P,): place of the port in the order of names; unresolved: bool (P,): no fact knows the
    name, or several things claim it.

    And conflicting_ends: names that keep links from joining anything; moved_ports, moved_devices: indices whose names,
    by the facts of the last rebuild, mean another one.
    """

    port_device: Ints
    port_peer: Ints
    port_speed_mbps: Ints
    port_delay_ns: Ints
    port_rank: Ints
    port_local: Ints
    port_group: Ints
    is_host: npt.NDArray[np.bool_]
    tier: Ints
    fan_start: Ints
    fan_ports: Ints
    feasible_start: Ints
    feasible: npt.NDArray[np.bool_]
    word_start: Ints
    port_word: Ints
    reach_start: Ints
    reach: Ints
    group_start: Ints
    group_ports: Ints
    device_group: Ints
    unresolved: npt.NDArray[np.bool_]
    conflicting_ends: set[tuple[str, str]]
    moved_ports: dict[int, int]
    moved_devices: dict[int, int]

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.ports: list[tuple[int, str]] = []
        self._device_index: dict[str, int] = {}
        self._port_index: dict[tuple[int, str], int] = {}
        self._inventory = Inventory()
        self.rebuild()

    @property
    def names(self) -> Resolver:
        """What names mean."""
        return self._inventory.names

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

    def place(self, device: str, port: str) -> int:
        """Index of the port that a pair of names means, made if new."""
        return self.port(*self.names.resolve(device, port)[:2])

    def place_device(self, name: str) -> int:
        """Index of the device that a name means, made if new."""
        return self.device(self.names.device(name))

    def add(self, fact: Device | Link, from_ns: int | None = None) -> None:
        """Takes a device or link in, in the order from which they hold."""
        self._inventory.add(fact, from_ns)

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [self.devices, [list(port) for port in self.ports], self._inventory.state()]

    @classmethod
    def of_state(cls, state: list[Any]) -> Topology:
        """The topology of a `state()`."""
        devices, ports, inventory = state
        topology = cls()
        for name in devices:
            topology.device(name)
        for device, port in ports:
            topology.port(devices[device], port)
        topology._inventory = Inventory.of_state(inventory)
        topology.rebuild()
        return topology

    def complete(self) -> bool:
        """Whether the arrays cover every interned name."""
        return len(self.port_device) == len(self.ports) and len(self.is_host) == len(self.devices)

    def rebuild(self) -> None:
        """Makes the arrays anew from the names and facts known by now."""
        hosts, cables = self._take_facts()
        port_count, device_count = len(self.ports), len(self.devices)
        self.port_device = np.array([device for device, _ in self.ports], np.int64)
        self.port_peer = np.full(port_count, -1, np.int64)
        self.port_speed_mbps = np.zeros(port_count, np.int64)
        self.port_delay_ns = np.zeros(port_count, np.int64)
        for name, speed in self._inventory.speeds_mbps().items():
            self.port_speed_mbps[self.port(*name)] = speed
        for a, b, speed, delay in cables:
            self.port_peer[a], self.port_peer[b] = b, a
            self.port_delay_ns[[a, b]] = delay
            if speed:
                self.port_speed_mbps[[a, b]] = speed
        self.is_host = np.zeros(device_count, bool)
        self.is_host[hosts] = True
        self.port_rank = self._port_ranks()
        self._fan_out(device_count)
        distance = self._distances(device_count)
        self.tier = (
            np.where(distance.min(axis=0) < _FAR, distance.min(axis=0), -1)
            if len(distance)
            else np.full(device_count, -1)
        ).astype(np.int64)
        self.feasible = _feasible(
            np.ascontiguousarray(distance.T), self.fan_start, self.fan_ports, self.port_peer, self.port_device,
            self.feasible_start,
        )  # fmt: skip
        self._set_reach()
        self._sibling_groups(device_count)

    def extend(self) -> None:
        """Makes the arrays cover names that no fact has told of: they have no link, so that nothing else changes."""
        ports, devices = len(self.ports) - len(self.port_device), len(self.devices) - len(self.is_host)
        self.port_device = np.array([device for device, _ in self.ports], np.int64)
        self.port_peer = np.append(self.port_peer, np.full(ports, -1))
        self.port_speed_mbps = np.append(self.port_speed_mbps, np.zeros(ports, np.int64))
        self.port_delay_ns = np.append(self.port_delay_ns, np.zeros(ports, np.int64))
        self.port_local = np.append(self.port_local, np.full(ports, -1))
        self.port_rank = self._port_ranks()
        self._set_groups(np.append(self.port_group, np.arange(len(self.ports) - ports, len(self.ports))))
        self.is_host = np.append(self.is_host, np.zeros(devices, bool))
        self.tier = np.append(self.tier, np.full(devices, -1))
        self.device_group = np.append(self.device_group, np.full(devices, -1))
        self.unresolved = np.append(self.unresolved, self._unresolved(len(self.unresolved)))
        self.fan_start = np.append(self.fan_start, np.full(devices, self.fan_start[-1]))
        self.feasible_start = np.append(self.feasible_start, np.full(devices, self.feasible_start[-1]))
        self.word_start = np.append(self.word_start, np.full(devices, self.word_start[-1]))
        self.port_word = np.append(self.port_word, np.full(ports, -1))
        self.reach_start = np.append(self.reach_start, np.full(devices, self.reach_start[-1]))

    def copy(self) -> Topology:
        """A copy to which facts can be added without a change to this one; arrays are never written to, so shared."""
        twin = copy.copy(self)
        twin.devices, twin.ports = list(self.devices), list(self.ports)
        twin._device_index, twin._port_index = dict(self._device_index), dict(self._port_index)
        twin._inventory = self._inventory.copy()
        return twin

    def of_facts_alone(self) -> Topology:
        """One that knows the same facts and no other name, to be rebuilt: its indices are not those of arrival."""
        fresh = Topology()
        fresh._inventory = self._inventory
        return fresh

    def links(self) -> Links:
        """The arrays that the kernel reads."""
        return Links(
            self.port_device, self.port_peer, self.port_group, self.port_local, self.port_rank, self.fan_start,
            self.fan_ports, self.word_start, self.port_word, self.reach_start, self.reach, self.is_host,
            self.group_start, self.group_ports, self.device_group,
        )  # fmt: skip

    def next_hops(self, device: int, host: int) -> list[int]:
        """Ports of a device on the shortest paths to a host, by name; none where the host cannot be reached."""
        if not 0 <= host < len(self.is_host) or not self.is_host[host]:
            return []
        distance = np.full((1, len(self.is_host)), _FAR, np.int16)
        _search(
            distance, np.array([host], np.int64), self.is_host, self.fan_start, self.fan_ports, self.port_peer,
            self.port_device,
        )  # fmt: skip
        ports = self.fan_ports[self.fan_start[device] : self.fan_start[device + 1]]
        nearer: list[int] = ports[distance[0, self.port_device[self.port_peer[ports]]] < distance[0, device]].tolist()
        return nearer

    def queue_name(self, queue: int) -> tuple[str, str, int]:
        """Device, port and priority of a queue."""
        device, port = self.ports[queue // PRIORITIES]
        return self.devices[device], port, queue % PRIORITIES

    def _take_facts(self) -> tuple[list[int], list[tuple[int, int, int, int]]]:
        """Interns all names that facts tell; returns the hosts, and the cables as (port, port, speed, delay)."""
        inventory, names = self._inventory, self._inventory.names
        hosts = [self.device(device) for device, role in inventory.roles().items() if role == "host"]
        for device in names.devices():
            self.device(device)
            for port in names.ports(device):
                self.port(device, port)
        cables = [
            (self.port(*cable.a[:2]), self.port(*cable.b[:2]), cable.speed_mbps, cable.delay_ns)
            for cable in inventory.cables()
        ]
        self.conflicting_ends = inventory.conflicting_ends()
        meant = [names.resolve(self.devices[device], port) for device, port in self.ports]
        places = [self.port(*place[:2]) for place in meant]
        self.moved_ports = {index: place for index, place in enumerate(places) if place != index}
        places = [self.place_device(name) for name in self.devices]
        self.moved_devices = {index: place for index, place in enumerate(places) if place != index}
        self.unresolved = np.array([not place.known for place in meant], bool)
        self.unresolved = np.append(self.unresolved, self._unresolved(len(meant)))
        return hosts, cables

    def _unresolved(self, first: int) -> npt.NDArray[np.bool_]:
        names = self.names
        ports = self.ports[first:]
        return np.array([not names.resolve(self.devices[device], port).known for device, port in ports], bool)

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
        self.fan_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.fan_ports = linked.astype(np.int64)
        self.port_local = np.full(len(self.ports), -1, np.int64)
        self.port_local[linked] = np.arange(len(linked)) - self.fan_start[self.port_device[linked]]
        self.feasible_start = np.concatenate(([0], np.cumsum(counts * counts))).astype(np.int64)

    def _set_reach(self) -> None:
        counts = np.diff(self.fan_start)
        words = np.where(self.is_host, 0, words_of(counts))
        self.word_start = np.concatenate(([0], np.cumsum(words)))
        self.reach_start = np.concatenate(([0], np.cumsum(words * counts)))
        self.port_word = self.word_start[self.port_device] + self.port_local // WORD_BITS
        self.port_word[(self.port_local < 0) | self.is_host[self.port_device]] = -1
        self.reach = np.concatenate(
            [np.zeros(0, np.int64)]
            + [
                packed(self.feasible[self.feasible_start[d] : self.feasible_start[d + 1]].reshape(counts[d], counts[d]))
                for d in np.flatnonzero(words).tolist()
            ]
        )

    def _distances(self, device_count: int) -> npt.NDArray[np.int16]:
        """Hops from every host (rows) to every device, by breadth-first search; hosts do not forward."""
        hosts = np.flatnonzero(self.is_host)
        distance = np.full((len(hosts), device_count), _FAR, np.int16)
        _search(distance, hosts, self.is_host, self.fan_start, self.fan_ports, self.port_peer, self.port_device)
        return distance

    def _sibling_groups(self, device_count: int) -> None:
        """Siblings of an uplink leave one device for one tier, those of a downlink reach one device from one tier.

        The links to a host with several are siblings, since the host stops them all; a link within a tier has none.
        """
        keys: dict[tuple[Any, ...], list[int]] = {}
        for port in range(len(self.ports)):
            peer = self.port_peer[port]
            key: tuple[Any, ...] = ("alone", port)
            if peer >= 0:
                here, there = int(self.port_device[port]), int(self.port_device[peer])
                if self.is_host[there] and not self.is_host[here]:
                    key = ("host", there)
                elif not self.is_host[here] and not self.is_host[there] and self.tier[here] != self.tier[there]:
                    down = self.tier[there] < self.tier[here]
                    key = ("down", there, int(self.tier[here])) if down else ("up", here, int(self.tier[there]))
            keys.setdefault(key, []).append(port)
        port_group = np.zeros(len(self.ports), np.int64)
        for ports in keys.values():
            port_group[ports] = ports[0]
        self._set_groups(port_group)
        self.device_group = np.full(device_count, -1, np.int64)
        for key, ports in keys.items():
            if key[0] == "host":
                self.device_group[key[1]] = ports[0]

    def _set_groups(self, port_group: Ints) -> None:
        self.port_group = port_group
        sizes = np.bincount(port_group, minlength=len(port_group))
        self.group_start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.group_ports = np.argsort(port_group, kind="stable").astype(np.int64)


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

    Where no host at all is fed by i, every j but i is possible. `distance` is by device and host. The hosts that a port
    leads to, and those that it leads away from, are sets of bits, so that a pair of ports costs hosts / 64 steps.
    """
    feasible = np.zeros(feasible_start[-1], np.bool_)
    hosts = distance.shape[1]
    words = (hosts + 63) // 64
    widest = 0
    for device in range(len(fan_start) - 1):
        widest = max(widest, fan_start[device + 1] - fan_start[device])
    toward, away = np.zeros((widest, words), np.uint64), np.zeros((widest, words), np.uint64)
    for device in range(len(fan_start) - 1):
        first, count = fan_start[device], fan_start[device + 1] - fan_start[device]
        toward[:count], away[:count] = 0, 0
        for i in range(count):
            neighbour = port_device[port_peer[fan_ports[first + i]]]
            for host in range(hosts):
                step = distance[neighbour, host] - distance[device, host]
                if distance[device, host] < _FAR and step == -1:
                    toward[i, host // 64] |= np.uint64(1) << np.uint64(host % 64)
                elif distance[device, host] < _FAR and step == 1:
                    away[i, host // 64] |= np.uint64(1) << np.uint64(host % 64)
        for i in range(count):
            row = feasible_start[device] + i * count
            any_found = False
            for j in range(count):
                if j == i:
                    continue
                for word in range(words):
                    if away[i, word] & toward[j, word]:
                        feasible[row + j] = True
                        any_found = True
                        break
            if not any_found:
                for j in range(count):
                    feasible[row + j] = j != i
    return feasible
