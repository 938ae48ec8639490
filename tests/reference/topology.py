"""The fabric by names, in the plainest way: who is linked to whom, how far hosts are, which way bytes may go.

The slow twin of analytics.topology: dictionaries and breadth-first search, nothing kept by index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

Port = tuple[str, str]
"""Device and port."""


@dataclass
class Fabric:
    """Hosts and links; a link is in `links` from both of its ends."""

    hosts: set[str] = field(default_factory=set)
    links: dict[Port, Port] = field(default_factory=dict)

    def link(self, one: Port, other: Port) -> None:
        """Links two ports; whatever they were linked to before is unlinked."""
        for end in (one, other):
            before = self.links.pop(end, None)
            if before is not None:
                self.links.pop(before, None)
        self.links[one], self.links[other] = other, one

    def ports(self, device: str) -> list[Port]:
        """Linked ports of a device by name."""
        return sorted(port for port in self.links if port[0] == device)

    @cached_property
    def distances(self) -> dict[str, dict[str, int]]:
        """Hops from each host to every device that it can reach; hosts do not forward."""
        return {host: self._distances_from(host) for host in sorted(self.hosts)}

    def _distances_from(self, host: str) -> dict[str, int]:
        hops = {host: 0}
        frontier = [host]
        while frontier:
            reached = []
            for device in frontier:
                if device in self.hosts and device != host:
                    continue
                for port in self.ports(device):
                    neighbour = self.links[port][0]
                    if neighbour not in hops:
                        hops[neighbour] = hops[device] + 1
                        reached.append(neighbour)
            frontier = reached
        return hops

    def exits(self, entry: Port) -> list[Port]:
        """Ports of the entry's device by which bytes that came in by `entry` may leave, by name.

        In and out lie on a shortest path to some host; where there is no such path, every port but the entry.
        """
        device, came_from = entry[0], self.links[entry][0]
        others = [port for port in self.ports(device) if port != entry]
        found = [
            port
            for port in others
            if any(
                hops.get(came_from) == hops[device] + 1 and hops.get(self.links[port][0]) == hops[device] - 1
                for hops in self.distances.values()
                if device in hops
            )
        ]
        return found or others

    def tier(self, device: str) -> int:
        """Hops to the nearest host, -1 if none can be reached."""
        return min((hops[device] for hops in self.distances.values() if device in hops), default=-1)

    def siblings(self, port: Port) -> set[Port]:
        """The ports that share the port's load: of an uplink those of its device, of a downlink those to its peer.

        The links to one host are siblings, since the host stops them all.
        """
        group = self._sibling_key(port)
        return {port} if group is None else {other for other in self.links if self._sibling_key(other) == group}

    def _sibling_key(self, port: Port) -> tuple[str, str, int] | None:
        here, peer = port[0], self.links.get(port)
        if peer is None or here in self.hosts:
            return None
        if peer[0] in self.hosts:
            return ("to host", peer[0], 0)
        if self.tier(here) == self.tier(peer[0]):
            return None
        if self.tier(peer[0]) < self.tier(here):
            return ("to", peer[0], self.tier(here))
        return ("from", here, self.tier(peer[0]))
