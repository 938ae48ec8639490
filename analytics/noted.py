"""What the engine keeps with its times and looks up when a cascade closes: what hosts and links report of themselves,
losses, unexplained names, what is not seen.

Readings of hosts and links are bounded: NOTED_NS of event time, and MAX_A_SECOND of one kind and port in each second,
the first of them; what is more is counted (`readings_not_kept`). What CPUs, GPUs and the like of one host report counts
as of one port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analytics.asked_names import INSIDE, Unexplained, congestion, is_inside
from analytics.blind import Blind
from analytics.topology import Topology
from stream import kinds
from stream.record import Events

Ints = npt.NDArray[np.int64]

NOTED_NS = 60_000_000_000
"""Counters inside hosts are polled every second to every minute; longer ago no reading speaks of what is going on."""
MAX_A_SECOND = 32
"""Outliers are rare by what they are, and nobody polls a counter more often than thirty times a second."""
_SECOND_NS = 1_000_000_000

_READ = INSIDE.copy()
"""Kinds of rows that are kept as readings."""
for _name in ("LINK_ERRORS", "PCIE_ERRORS", "PCIE_STALL", "RDMA_ERRORS"):
    _READ[kinds.BY_NAME[_name].code] = True


class PcieReading(NamedTuple):
    """A PCIe measure of a host: the kind of the row, the port (a PCI function), when, the measure now and at most."""

    kind: int
    port: str
    time_ns: int
    now: int
    at_most: int


class Reading(NamedTuple):
    """What a device reported of itself, or of a link at one of its ports, over a window.

    `port` is a port of the network or a PCI function, `part` a CPU or the like; "" where it is none. A window that is
    longer than was announced begins, for what it touches, as late as if it were not.
    """

    time_ns: int
    kind: int
    extra: int
    value: int
    port: str
    part: str
    begin_ns: int
    span_ns: int


class Noted:
    """What was said of hosts, links, losses and names, by the times of the rows."""

    def __init__(self) -> None:
        self.pcie: dict[int, list[PcieReading]] = {}
        self.readings: dict[int, list[Reading]] = {}
        """By device, in order of time."""
        self._kept: dict[int, Counter[tuple[int, str, int]]] = {}
        """By device: how many readings of a kind, port and second are kept."""
        self.losses: list[tuple[int, int, int]] = []
        """(time_ns, device, rows lost or UNKNOWN) of sequence gaps and source losses."""
        self.unexplained = Unexplained()
        self.blind = Blind()
        self.newest_ns = 0
        """The latest time of a row that has settled."""

    def take(self, events: Events, ports: Ints, topology: Topology, horizon_ns: int, parts: Sequence[str] = ()) -> int:
        """Reads settled rows; returns how many readings are too many to be kept.

        `parts` names what rows from inside a host say in `flow`.
        """
        kind = events["kind"]
        pcie = np.isin(kind, (kinds.PCIE_WIDTH, kinds.PCIE_SPEED, kinds.PCIE_RATE))
        for row, port in zip(events[pcie], ports[pcie].tolist(), strict=True):
            device, name = topology.ports[port]
            readings = self.pcie.setdefault(device, [])
            readings.append(
                PcieReading(int(row["kind"]), name, int(row["time_ns"]), int(row["value"]), int(row["extra"]))
            )
            readings.sort()
        lost = kind == kinds.SOURCE_LOST
        for row, port in zip(events[lost], ports[lost].tolist(), strict=True):
            self.losses.append((int(row["time_ns"]), topology.ports[port][0], int(row["value"])))
        unexplained = topology.unresolved[ports] & congestion(events)
        self.unexplained.add(ports[unexplained], events["time_ns"][unexplained])
        self.blind.take(events, ports)
        read = _READ[kind] & (events["value"] > 0)
        return self._read(events[read], ports[read], topology, horizon_ns, parts) if read.any() else 0

    def _read(self, events: Events, ports: Ints, topology: Topology, horizon_ns: int, parts: Sequence[str]) -> int:
        inside = is_inside(events)
        found: list[tuple[Reading, int]] = []
        for row, port, within in zip(events, ports.tolist(), inside.tolist(), strict=True):
            device, name = topology.ports[port]
            time_ns, span_ns, part = int(row["time_ns"]), max(int(row["span_ns"]), 0), int(row["flow"])
            reading = Reading(
                time_ns, int(row["kind"]), int(row["extra"]), int(row["value"]), "" if within else name,
                parts[part - 1] if within and part else "", time_ns - min(span_ns, horizon_ns), span_ns,
            )  # fmt: skip
            found.append((reading, device))
        dropped = 0
        # By their times and names: rows of several sources come in any order. Devices do not meet, so theirs may stay.
        for reading, device in sorted(found, key=lambda pair: pair[0]):
            kept = self._kept.setdefault(device, Counter())
            second = (reading.kind, reading.port, reading.time_ns // _SECOND_NS)
            if kept[second] < MAX_A_SECOND:
                kept[second] += 1
                self.readings.setdefault(device, []).append(reading)
            else:
                dropped += 1
        return dropped

    def of_link(self, topology: Topology, port: int) -> list[Reading]:
        """What was counted of the link at one port; nothing at -1."""
        if port < 0:
            return []
        device, name = topology.ports[port]
        return [r for r in self.readings.get(device, ()) if r.kind == kinds.LINK_ERRORS and r.port == name]

    def carry(self, topology: Topology) -> None:
        """Moves what is known to the ports and devices that their names now mean."""
        moved: dict[int, list[PcieReading]] = {}
        for device, states in self.pcie.items():
            for state in states:
                here, name = _meant(topology, device, state.port)
                moved.setdefault(here, []).append(state._replace(port=name))
        self.pcie = {device: sorted(states) for device, states in moved.items()}
        carried: dict[int, list[Reading]] = {}
        for device, readings in self.readings.items():
            for reading in readings:
                if reading.port:
                    here, name = _meant(topology, device, reading.port)
                    carried.setdefault(here, []).append(reading._replace(port=name))
                else:
                    carried.setdefault(topology.moved_devices.get(device, device), []).append(reading)
        self.readings = {device: sorted(readings) for device, readings in carried.items()}
        self._kept = {device: _counted(readings) for device, readings in self.readings.items()}
        self.blind.carry(topology.moved_ports)

    def forget(self, before_ns: int, old_ns: int) -> None:
        """Drops what no cascade can ask for any more; `old_ns` is the least end that one can still have."""
        self.pcie = {device: _needed(readings, before_ns) for device, readings in self.pcie.items()}
        self.losses = [loss for loss in self.losses if loss[0] >= before_ns]
        self.unexplained.forget(before_ns)
        self.blind.forget(before_ns)
        # When all sources have gone, what is still open ends with the newest row.
        before_ns = min(old_ns, self.newest_ns) - NOTED_NS
        for device in [d for d, readings in self.readings.items() if readings[0].time_ns < before_ns]:
            kept = [reading for reading in self.readings[device] if reading.time_ns >= before_ns]
            if kept:
                self.readings[device], self._kept[device] = kept, _counted(kept)
            else:
                del self.readings[device], self._kept[device]

    def copy(self) -> Noted:
        """A copy that further rows change alone."""
        twin = Noted()
        twin.pcie = {device: list(readings) for device, readings in self.pcie.items()}
        twin.readings = {device: list(readings) for device, readings in self.readings.items()}
        twin._kept = {device: kept.copy() for device, kept in self._kept.items()}
        twin.losses, twin.unexplained = list(self.losses), self.unexplained.copy()
        twin.blind = self.blind.copy()
        twin.newest_ns = self.newest_ns
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        pcie = [[device, [list(reading) for reading in readings]] for device, readings in self.pcie.items()]
        reported = [[device, [list(reading) for reading in readings]] for device, readings in self.readings.items()]
        losses = [list(loss) for loss in self.losses]
        return [pcie, losses, self.unexplained.state(), reported, self.newest_ns, self.blind.state()]

    @classmethod
    def of_state(cls, state: list[Any]) -> Noted:
        """Continues from `state()`."""
        noted = cls()
        pcie, losses, unexplained, reported, noted.newest_ns, blind = state
        noted.pcie = {device: [PcieReading(*reading) for reading in readings] for device, readings in pcie}
        noted.readings = {device: [Reading(*reading) for reading in readings] for device, readings in reported}
        noted._kept = {device: _counted(readings) for device, readings in noted.readings.items()}
        noted.losses = [(time_ns, device, count) for time_ns, device, count in losses]
        noted.unexplained.load(unexplained)
        noted.blind = Blind.of_state(blind)
        return noted


def _meant(topology: Topology, device: int, port: str) -> tuple[int, str]:
    """The device and port that a former name of a port now means."""
    index = topology.port(topology.devices[device], port)
    return topology.ports[topology.moved_ports.get(index, index)]


def _counted(readings: list[Reading]) -> Counter[tuple[int, str, int]]:
    return Counter((reading.kind, reading.port, reading.time_ns // _SECOND_NS) for reading in readings)


def _needed(readings: list[PcieReading], before_ns: int) -> list[PcieReading]:
    """The readings that can still be asked for: one that changed something and the last before `before_ns`."""
    kept: list[PcieReading] = []
    for reading in readings:
        if kept and kept[-1][:2] == reading[:2]:
            if kept[-1][3:] == reading[3:]:
                continue
            if reading.time_ns <= before_ns:
                kept.pop()
        kept.append(reading)
    return kept
