"""The hosts of a played trace as folders that look like `/` to the probes' pollers, written anew as time goes.

In: a `Played` trace and a folder. Out: DIR/HOST with sys, proc and ethtool: an mlx5 NIC a port, its PCIe link, RDMA
device and counters (docs/pollers.md, "Hosts from files").
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from simulation.gnmi_targets.played import PACKET_BYTES, Played

WIDTHS = (1, 2, 4, 8, 12, 16)
SPEEDS_MTS = (2_500, 5_000, 8_000, 16_000, 32_000, 64_000)
ENCODED_BELOW_MTS = 8_000
"""Slower links carry 8 bits in 10, from this speed on 128 in 130 (PCI Express Base Specification 3.0, 4.2)."""
ROOT_COMPLEX = "sys/devices/pci0000:00"
NUMBER_BYTES = 24
"""So wide each number is written, so that a reader never meets half of it."""


class HostTrees:
    """The folders of all hosts; `write` brings their counters up to a time."""

    def __init__(self, played: Played, folder: Path) -> None:
        self._played = played
        trace = played.trace
        self._hosts: list[_Host] = []
        for device, (name, role) in enumerate(zip(trace.devices, trace.roles, strict=True)):
            if role == "host":
                self._hosts.append(_Host(played, device, folder / name))

    def write(self, now_ns: int) -> None:
        """All counters as they are at a time."""
        for host in self._hosts:
            host.write(now_ns)

    def close(self) -> None:
        """Closes what is kept open; the folders stay."""
        for host in self._hosts:
            host.close()


class _Host:
    def __init__(self, played: Played, device: int, root: Path) -> None:
        self._played, self._root = played, root
        trace = played.trace
        self._ports = (trace.ports.device == device).nonzero()[0].tolist()
        _put(root / "proc/sys/kernel/hostname", trace.devices[device])
        for name in ("cpu", "memory", "io"):
            _put(root / "proc/pressure" / name, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0")
        for driver in ("mlx5_core", "pcieport"):
            _put(root / "sys/bus/pci/drivers" / driver / "uevent", "")
        (root / "ethtool").mkdir(parents=True, exist_ok=True)
        self._marked: dict[int, int] = {}
        for at, port in enumerate(self._ports):
            self._nic(at, port)

    def _nic(self, at: int, port: int) -> None:
        """The NIC of a port, its way to the root port, and its RDMA device."""
        trace, root = self._played.trace, self._root
        name, speed_mbps = trace.ports.names[port], int(trace.ports.speed_mbps[port])
        bridge = root / ROOT_COMPLEX / f"0000:00:{at + 1:02x}.0"
        card = bridge / f"0000:{at + 1:02x}:00.0"
        now, most = self._slot(port, speed_mbps)
        for end, driver, kind in ((bridge, "pcieport", "0x060400"), (card, "mlx5_core", "0x020000")):
            _put(end / "class", kind)
            for which, (width, mts) in (("current", now), ("max", most)):
                _put(end / f"{which}_link_width", str(width))
                _put(end / f"{which}_link_speed", f"{mts / 1000:.1f} GT/s PCIe")
            _link(end / "driver", root / "sys/bus/pci/drivers" / driver)
        net = card / "net" / name
        _put(net / "ifindex", str(at + 2))
        _put(net / "address", f"02:00:00:{port >> 16 & 255:02x}:{port >> 8 & 255:02x}:{port & 255:02x}")
        _put(net / "speed", str(speed_mbps))
        _put(net / "operstate", "up")
        _link(net / "device", card)
        _link(root / "sys/class/net" / name, net)
        rdma = card / "infiniband" / f"mlx5_{at}"
        _put(rdma / "ports/1/gid_attrs/ndevs/0", name)
        _put(rdma / "ports/1/hw_counters/lifespan", "10")
        _link(rdma / "device", card)
        _link(root / "sys/class/infiniband" / f"mlx5_{at}", rdma)
        marked = rdma / "ports/1/hw_counters/np_ecn_marked_roce_packets"
        _put(marked, f"{0:<{NUMBER_BYTES}}")
        self._marked[port] = os.open(marked, os.O_WRONLY | os.O_CLOEXEC)

    def _slot(self, port: int, speed_mbps: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Width and speed of the PCIe link now and at most, whose rates come nearest to those of the trace."""
        pcie = self._played.trace.pcie
        now_mbps = most_mbps = speed_mbps
        if pcie is not None and len(rows := (pcie.port == port).nonzero()[0]):
            now_mbps, most_mbps = int(pcie.now_mbps[rows[0]]), int(pcie.max_mbps[rows[0]])
        # The slowest link of 16 lanes that carries as much.
        most = next((16, mts) for mts in SPEEDS_MTS if rate_mbps(16, mts) >= most_mbps or mts == SPEEDS_MTS[-1])
        if now_mbps >= most_mbps:
            return most, most
        links = [(width, mts) for mts in SPEEDS_MTS if mts <= most[1] for width in WIDTHS]
        return min(links, key=lambda link: (abs(rate_mbps(*link) - now_mbps), -link[1])), most

    def close(self) -> None:
        for marked in self._marked.values():
            os.close(marked)

    def write(self, now_ns: int) -> None:
        for port in self._ports:
            path = self._root / "ethtool" / f"{self._played.trace.ports.names[port]}.json"
            aside = path.with_suffix(".new")
            aside.write_text(json.dumps({"driver": "mlx5_core", "statistics": dict(self._statistics(port, now_ns))}))
            aside.replace(path)
            marked = sum(self._played.count("rx_ce_packets", port, each, now_ns) for each in self._played.priorities)
            os.pwrite(self._marked[port], f"{marked:<{NUMBER_BYTES}}\n".encode(), 0)

    def _statistics(self, port: int, now_ns: int) -> Iterator[tuple[str, int]]:
        """What the driver shows; how long it asked its peer to stop is how long the peer was stopped."""
        played, peer = self._played, int(self._played.trace.ports.peer[port])
        sums = dict.fromkeys(("rx", "tx"), 0)
        for priority in played.priorities:
            for side in sums:
                counted = played.count(f"{side}_bytes", port, priority, now_ns)
                sums[side] += counted
                yield f"{side}_prio{priority}_bytes", counted
                yield f"{side}_prio{priority}_packets", counted // PACKET_BYTES
                yield f"{side}_prio{priority}_pause", played.count(f"{side}_pause_frames", port, priority, now_ns)
                stopped = port if side == "rx" else peer
                paused_ns = played.count("rx_paused_ns", stopped, priority, now_ns)
                yield f"{side}_prio{priority}_pause_duration", paused_ns // 1000
        for side, counted in sums.items():
            yield f"{side}_bytes_phy", counted
            yield f"{side}_packets_phy", counted // PACKET_BYTES


def rate_mbps(width: int, mts: int) -> int:
    """What so many lanes carry."""
    return width * mts * 8 // 10 if mts < ENCODED_BELOW_MTS else width * mts * 128 // 130


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
