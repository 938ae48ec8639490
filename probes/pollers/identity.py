"""The host's identity: its ports with their other names, addresses, speeds and bonds, and how it sorts packets.

In: /sys/class/net, /sys/class/infiniband, addresses, DCB. Out: a device fact (stream/facts.py), when it changed.
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import NamedTuple

from probes.addresses import MAX_ADDRESSES, addresses
from probes.dcb import DcbReader, priority_maps
from probes.host_root import HostRoot
from probes.interfaces import NET, Interface, interfaces, lies_on, no_interface, rdma_ports, speed_mbps
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Unavailable
from stream.facts import Device, Port
from stream.publisher import UNSENT
from stream.ranges import MAX_NAME_CHARS

MAX_LAYERS = 4
"""A VLAN on a bridge on a bond is three."""
NO_MAC = "00:00:00:00:00:00"


def available(options: Options) -> Unavailable | None:
    """Whether there is a port to tell of."""
    return no_interface(HostRoot(options.root), options.interfaces)


def make(options: Options) -> Probe:
    """The poller."""
    return Identity(options)


class Identity(Poller):
    """Looks who this host is."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._dcb = DcbReader(self.host)
        self._told: Device | None = None

    def poll(self, now_ns: int) -> Reading:
        """The fact, if it is another than before."""
        found = identity(self.host, self.options, self._dcb, self.counted)
        if found == self._told:
            return Reading()
        self._told = found
        return Reading(facts=[_valid_from(found, now_ns)])

    def close(self) -> None:
        """Closes the socket."""
        super().close()
        self._dcb.close()


def identity(host: HostRoot, options: Options, dcb: DcbReader, counted: Counter[str]) -> Device:
    """The fact as of now, valid from 0."""
    own = interfaces(host, options.interfaces)
    told = [answer for each in own if (answer := dcb.read(each.name)) is not None]
    maps, disputed = priority_maps(told)
    counted["nics_sort_differently"] += disputed
    return Device(
        fabric=options.fabric, device=options.device, role="host", valid_from_ns=0, stream=UNSENT,
        ports=tuple(_ports(host, own, options)), aliases=_host_names(host, options.device),
        priorities=maps,
    )  # fmt: skip


def _valid_from(fact: Device, now_ns: int) -> Device:
    return Device(
        fabric=fact.fabric, device=fact.device, role=fact.role, valid_from_ns=now_ns, stream=fact.stream,
        ports=fact.ports, aliases=fact.aliases, priorities=fact.priorities,
    )  # fmt: skip


def _host_names(host: HostRoot, device: str) -> tuple[str, ...]:
    """The kernel's name of the host, if it is called otherwise."""
    name = host.text("/proc/sys/kernel/hostname", MAX_NAME_CHARS) or ""
    return (name,) if name and name not in (device, "(none)", "localhost") else ()


class _Bond(NamedTuple):
    name: str
    members: frozenset[str]


def _ports(host: HostRoot, own: list[Interface], options: Options) -> list[Port]:
    ips, rails, patterns = _addresses(host), options.rails, options.interfaces
    by_interface: dict[str, list[str]] = {}
    alone: list[Port] = []
    for rdma in rdma_ports(host):
        name = rdma.device if rdma.port == "1" else f"{rdma.device}/{rdma.port}"
        if rdma.interface:  # one of a bond, too, which no pattern may name
            by_interface.setdefault(rdma.interface, []).append(name)
        elif not patterns or any(fnmatchcase(name, pattern) for pattern in patterns):
            alone.append(Port(name, rail=rails.get(name, "")))
    names = {each.name for each in own}
    bonds = _bonds(host)
    bond_of = {member: bond.name for bond in bonds for member in bond.members}
    ports = []
    for each in own:
        # An RDMA device over a bond counts for the bond, but names the cable of no member.
        aliases = [*_aliases(host, each.name), *by_interface.get(each.name, ())]
        if each.pci:
            aliases.append(each.pci)
        ports.append(
            Port(
                each.name, speed_mbps=speed_mbps(host, each.name), aliases=_distinct(aliases, each.name),
                ips=ips.get(each.name, ()), lag=bond_of.get(each.name, ""), rail=rails.get(each.name, ""),
            )
        )  # fmt: skip
    for bond in bonds:
        if bond.members & names and bond.name not in names:
            # A bond has the address of its first member: that names the member alone.
            aliases = by_interface.get(bond.name, [])
            ports.append(
                Port(
                    bond.name, speed_mbps=speed_mbps(host, bond.name), aliases=_distinct(aliases, bond.name),
                    ips=ips.get(bond.name, ()), rail=rails.get(bond.name, ""),
                )
            )  # fmt: skip
    return sorted([*ports, *alone], key=lambda port: port.port)


def _addresses(host: HostRoot) -> dict[str, tuple[str, ...]]:
    """The addresses of each interface, and of those that lie on it alone: VLANs, a bridge."""
    own = addresses(host)
    found = {name: list(each) for name, each in own.items()}
    for name, each in own.items():
        below = name
        for _ in range(MAX_LAYERS):
            below = lies_on(host, below) or below
        if below != name:
            found.setdefault(below, []).extend(each)
    return {name: tuple(sorted(each)[:MAX_ADDRESSES]) for name, each in found.items()}


def _aliases(host: HostRoot, name: str) -> list[str]:
    """The MAC address, the card's own where a bond gives all its members one; and the name that people gave."""
    slave = host.text(f"{NET}/{name}/bonding_slave/perm_hwaddr", 64)
    mac = "" if lies_on(host, name) else slave or host.text(f"{NET}/{name}/address", 64) or ""
    ifalias = host.text(f"{NET}/{name}/ifalias", MAX_NAME_CHARS) or ""
    return [text for text in (mac, ifalias) if text and text != NO_MAC]


def _distinct(aliases: list[str], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(alias for alias in aliases if alias != name and alias.isprintable()))


def _bonds(host: HostRoot) -> list[_Bond]:
    found = []
    for name in host.names(NET):
        members = host.text(f"{NET}/{name}/bonding/slaves", 4096)
        if members:
            found.append(_Bond(name, frozenset(members.split())))
    return found
