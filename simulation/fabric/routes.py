"""The ways of flows: shortest paths, and among equal ones the choice of each switch's hash.

In: `Wires` and the addresses of flows. Out: links by flow and hop. The hash is that of HPCC's `switch-node`: Murmur 3
of 32 bits over source, destination and both ports.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from simulation.fabric.wires import Ints, Wires

MASK = 0xFFFF_FFFF
FIRST_ADDRESS = 0x0B00_0001


def ecmp_hash(words: tuple[Ints, ...], seed: Ints) -> Ints:
    """The hash of 32-bit words by flow, each an array of flows as is `seed`."""

    def times(values: Ints, factor: int) -> Ints:
        # Two 16-bit halves: a product of 32-bit numbers may not fit in 63 bits.
        low = values * (factor & 0xFFFF)
        return (low + ((values * (factor >> 16) & 0xFFFF) << 16)) & MASK

    def turned(values: Ints, by: int) -> Ints:
        return ((values << by) | (values >> (32 - by))) & MASK

    h = seed & MASK
    for word in words:
        k = times(turned(times(word & MASK, 0xCC9E2D51), 15), 0x1B873593)
        h = (turned(h ^ k, 13) * 5 + 0xE6546B64) & MASK
    h ^= 4 * len(words)
    h = times(h ^ (h >> 16), 0x85EBCA6B)
    h = times(h ^ (h >> 13), 0xC2B2AE35)
    return h ^ (h >> 16)


def address(device: Ints) -> Ints:
    """The address that the hash sees of a device."""
    return FIRST_ADDRESS + (device // 256 << 16) + (device % 256 << 8)


class Routes:
    """Next hops by device and destination; those towards one host are searched for once for all of its leaf."""

    def __init__(self, wires: Wires) -> None:
        self.wires = wires
        topology = wires.topology
        number = {name: n for n, name in enumerate(topology.devices)}
        self._out: list[list[int]] = [[] for _ in topology.devices]
        self._far: dict[int, int] = {}
        for k, cable in enumerate(topology.cables):
            for link, here, there in ((2 * k, cable.a, cable.b), (2 * k + 1, cable.b, cable.a)):
                self._out[number[here]].append(link)
                self._far[link] = number[there]
        self._is_host = np.array([kind == "host" for kind in topology.kinds])
        self._host = {int(device): k for k, device in enumerate(wires.hosts)}
        self._next: dict[int, dict[int, Ints]] = {}

    def far_device(self, link: int) -> int:
        """The device at the far end of a cable's link."""
        return self._far[link]

    def next_links(self, device: int, towards: int) -> Ints:
        """The links of a switch on shortest paths to another switch, in the order of its ports."""
        if towards not in self._next:
            self._next[towards] = self._search(towards)
        return self._next[towards][device]

    def _search(self, towards: int) -> dict[int, Ints]:
        hops = {towards: 0}
        queue = deque([towards])
        while queue:
            device = queue.popleft()
            for link in self._out[device]:
                there = self._far[link]
                if there not in hops and not self._is_host[there]:
                    hops[there] = hops[device] + 1
                    queue.append(there)
        return {
            device: np.array([link for link in self._out[device] if hops.get(self._far[link], -1) == distance - 1])
            for device, distance in hops.items()
            if device != towards
        }

    def paths(
        self,
        src: Ints,
        dst: Ints,
        ports: tuple[Ints, Ints],
        *,
        seeds: Ints | None = None,
        through: dict[int, tuple[int, ...]] | None = None,
    ) -> Ints:
        """Links by flow (rows) and hop, from the source's first link to the slot of the destination, -1 behind it.

        `src` and `dst` are devices, `ports` the source and destination ports; `seeds` of the switches' hashes follow
        their numbers unless given. `through` gives the switch links of single flows, whatever is shortest.
        """
        wires = self.wires
        seeds = np.arange(len(self._out)) + len(wires.hosts) if seeds is None else seeds
        ways: list[list[int]] = []
        hosts = np.array([(self._host[a], self._host[b]) for a, b in zip(src.tolist(), dst.tolist(), strict=True)])
        first = wires.to_fabric[hosts[:, 0]]
        last = wires.to_fabric[hosts[:, 1]] ^ 1
        words = (address(src), address(dst), ports[0] | ports[1] << 16)
        hashes: dict[int, Ints] = {}
        for f, (link, final) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            way = [link] if wires.from_host[hosts[f, 0]] == link else [int(wires.from_host[hosts[f, 0]]), link]
            towards = self._far[final ^ 1]
            device = self._far[link]
            if through is not None and f in through:
                way += through[f]
                device = towards
            while device != towards:
                choices = self.next_links(device, towards)
                pick = 0
                if len(choices) > 1:
                    if device not in hashes:
                        hashes[device] = ecmp_hash(words, np.full(len(src), seeds[device], np.int64))
                    # The simulators that this hash is held against list their ports from the last to the first.
                    pick = -1 - int(hashes[device][f]) % len(choices)
                way.append(int(choices[pick]))
                device = self._far[way[-1]]
            ways.append([*way, final, int(wires.to_host[hosts[f, 1]])])
        longest = max(map(len, ways))
        return np.array([way + [-1] * (longest - len(way)) for way in ways], np.int64)
