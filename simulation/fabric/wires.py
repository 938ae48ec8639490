"""The fabric as the model sees it: nodes and directed links, made from devices and cables.

In: a `Topology`. Out: `Wires`. A host is a node of its own; its NIC is a switch of two ports between it and the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

PCIE_DELAY_NS = 200


class Cable(NamedTuple):
    """A cable between two ports; `speed_mbps` and `delay_ns` hold both ways."""

    a: str
    a_port: str
    b: str
    b_port: str
    speed_mbps: int
    delay_ns: int = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Devices and cables. The kind of a host is `host`; other kinds are words for people. A host has one cable."""

    name: str
    devices: tuple[str, ...]
    kinds: tuple[str, ...]
    cables: tuple[Cable, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in the order of devices."""
        return tuple(name for name, kind in zip(self.devices, self.kinds, strict=True) if kind == "host")


@dataclass(frozen=True, slots=True, eq=False)
class Wires:
    """Directed links: of each cable both ways, then NIC to host of each host, then, where modelled, host to NIC.

    Cable k has the links 2k (a to b) and 2k + 1. Nodes are the devices, then the NICs of the hosts.
    """

    topology: Topology
    node_count: int
    source: Ints
    target: Ints
    speed_mbps: Ints
    delay_ns: Ints
    hosts: Ints
    """Device of each host."""
    to_fabric: Ints
    """Of each host: the link by which it sends into the fabric."""
    to_host: Ints
    """Of each host: the link from its NIC to itself, which is its PCIe slot."""
    from_host: Ints
    """Of each host: the link on which its flows begin; that into the fabric, if the sending NIC is left out."""
    index: dict[tuple[str, str], int]
    """The link by which a device sends from a port."""

    @property
    def is_inside_host(self) -> npt.NDArray[np.bool_]:
        """Of each link: whether it lies between a NIC and its host, where no switch and no pause log sees it."""
        return np.arange(len(self.source)) >= 2 * len(self.topology.cables)

    def end(self, link: int) -> tuple[str, str]:
        """Device and port at which a link of a cable begins."""
        cable = self.topology.cables[link // 2]
        return (cable.b, cable.b_port) if link % 2 else (cable.a, cable.a_port)


def make_wires(topology: Topology, *, pcie_mbps: int | None = None, sending_nic: bool = False) -> Wires:
    """The links of a topology; a PCIe slot is as fast as its host's port, or `pcie_mbps`."""
    number = {name: n for n, name in enumerate(topology.devices)}
    hosts = [number[name] for name in topology.hosts]
    nic = {host: len(number) + k for k, host in enumerate(hosts)}
    source: list[int] = []
    target: list[int] = []
    speed: list[int] = []
    delay: list[int] = []
    to_fabric: dict[int, int] = {}
    index: dict[tuple[str, str], int] = {}
    for cable in topology.cables:
        for begin, port, end in ((cable.a, cable.a_port, cable.b), (cable.b, cable.b_port, cable.a)):
            here, there = number[begin], number[end]
            index[begin, port] = len(source)
            if here in nic:
                to_fabric[here] = len(source)
            source.append(nic[here] if here in nic and sending_nic else here)
            target.append(nic.get(there, there))
            speed.append(cable.speed_mbps)
            delay.append(cable.delay_ns)
    outward = [to_fabric[host] for host in hosts]
    slots = [pcie_mbps or speed[link] for link in outward]
    to_host = len(source) + np.arange(len(hosts))
    source += [nic[host] for host in hosts]
    target += hosts
    speed += slots
    delay += [PCIE_DELAY_NS] * len(hosts)
    from_host = np.array(outward, np.int64)
    if sending_nic:
        from_host = len(source) + np.arange(len(hosts))
        source += hosts
        target += [nic[host] for host in hosts]
        speed += slots
        delay += [PCIE_DELAY_NS] * len(hosts)
    return Wires(
        topology=topology,
        node_count=len(number) + len(hosts),
        source=np.array(source, np.int64),
        target=np.array(target, np.int64),
        speed_mbps=np.array(speed, np.int64),
        delay_ns=np.array(delay, np.int64),
        hosts=np.array(hosts, np.int64),
        to_fabric=np.array(outward, np.int64),
        to_host=to_host,
        from_host=from_host,
        index=index,
    )
