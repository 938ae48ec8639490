"""The network interfaces of a host, and the PCIe way of a device up to its root port, as /sys tells them.

In: the host. Out: `Interface`s, PCI addresses. A virtual function is left out unless it is asked for by name: there may
be hundreds, and the port that they share counts for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from probes.host_root import HostRoot
from probes.probe import Unavailable

NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
MAX_SPEED_MBPS = 10_000_000


class Interface(NamedTuple):
    """A network interface; `driver` and `device` (a path below /sys/devices) are "" where no device is behind it."""

    name: str
    driver: str
    device: str

    @property
    def pci(self) -> str:
        """The PCI address of its device, "" if it is none of PCI."""
        address = self.device.rpartition("/")[2]
        return address if _PCI_ADDRESS.fullmatch(address) else ""


def interfaces(host: HostRoot, patterns: Sequence[str] = ()) -> list[Interface]:
    """The interfaces whose names fit a pattern; without patterns, those that have a device behind them.

    One that lies on another, such as a VLAN, has to be named itself: it has the names and counters of that one.
    """
    found = []
    for name in host.names(NET):
        if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        device = host.target(f"{NET}/{name}/device") or ""
        if not patterns and (not device or host.exists(f"{device}/physfn")):
            continue
        if not device:
            if not host.exists(f"{NET}/{name}/ifindex"):
                continue  # a file such as bonding_masters
            if name not in patterns and lies_on(host, name):
                continue
        driver = (host.target(f"{device}/driver") or "").rpartition("/")[2] if device else ""
        found.append(Interface(name, driver, device))
    return found


def lies_on(host: HostRoot, name: str) -> str:
    """The one interface that this one lies on, such as a VLAN or a bridge of one port; "" for a bond and all others."""
    lower = [entry[6:] for entry in host.names(f"{NET}/{name}") if entry.startswith("lower_")]
    return lower[0] if len(lower) == 1 and not host.exists(f"{NET}/{name}/bonding") else ""


def no_interface(host: HostRoot, patterns: Sequence[str]) -> Unavailable | None:
    """Why there is nothing to watch, if that is so."""
    if interfaces(host, patterns):
        return None
    if patterns:
        return Unavailable(f"no network interface is called {' or '.join(patterns)}", "correct `interfaces`")
    return Unavailable("no network interface has a device behind it", "name virtual ones in `interfaces`")


def speed_mbps(host: HostRoot, name: str) -> int:
    """The speed of an interface; 0 where it is not known, as of one that is down."""
    speed = host.number(f"{NET}/{name}/speed")
    return speed if speed is not None and 0 < speed <= MAX_SPEED_MBPS else 0


def pci_path(device: str) -> list[str]:
    """The paths of a PCI device and of the bridges above it, up to its root port; nothing for other devices."""
    parts = device.split("/")
    last = next((at for at in range(len(parts) - 1, 0, -1) if _PCI_ADDRESS.fullmatch(parts[at])), 0)
    path = []
    while last and _PCI_ADDRESS.fullmatch(parts[last]):
        path.append("/".join(parts[: last + 1]))
        last -= 1
    return path


class RdmaPort(NamedTuple):
    """A port of an RDMA device; `interface` is "" where it has none, as on InfiniBand."""

    device: str
    port: str
    driver: str
    interface: str

    @property
    def name(self) -> str:
        """What rows call it: its interface, else the device and port."""
        return self.interface or (self.device if self.port == "1" else f"{self.device}/{self.port}")


def rdma_ports(host: HostRoot, patterns: Sequence[str] = ()) -> list[RdmaPort]:
    """The ports whose names fit a pattern; without patterns, those of all RDMA devices but virtual functions."""
    found: list[RdmaPort] = []
    for name in host.names(RDMA):
        device = host.target(f"{RDMA}/{name}/device") or ""
        if not patterns and device and host.exists(f"{device}/physfn"):
            continue
        driver = (host.target(f"{device}/driver") or "").rpartition("/")[2] if device else ""
        found += [
            RdmaPort(name, port, driver, _interface_of(host, name, port, device))
            for port in host.names(f"{RDMA}/{name}/ports")
        ]
    return [port for port in found if not patterns or any(fnmatchcase(port.name, pattern) for pattern in patterns)]


def _interface_of(host: HostRoot, rdma: str, port: str, device: str) -> str:
    """The interface that a port sends through: what its first address says, else the device's only one."""
    told = host.text(f"{RDMA}/{rdma}/ports/{port}/gid_attrs/ndevs/0", 256)
    if told and host.exists(f"{NET}/{told}"):
        return told
    names = host.names(f"{device}/net") if device else ()
    return names[0] if len(names) == 1 else ""
