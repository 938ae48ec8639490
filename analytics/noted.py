"""What the engine keeps with its times and looks up when a cascade closes: PCIe states, losses, what is not seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analytics.asked_names import Unexplained, congestion
from analytics.blind import Blind
from analytics.topology import Topology
from stream import kinds
from stream.record import Events

Ints = npt.NDArray[np.int64]


class PcieReading(NamedTuple):
    """A PCIe measure of a host: the kind of the row, the port (a PCI function), when, the measure now and at most."""

    kind: int
    port: str
    time_ns: int
    now: int
    at_most: int


class Noted:
    """What was said of hosts, losses and names, by the times of the rows."""

    def __init__(self) -> None:
        self.pcie: dict[int, list[PcieReading]] = {}
        self.losses: list[tuple[int, int, int]] = []
        """(time_ns, device, rows lost or UNKNOWN) of sequence gaps and source losses."""
        self.unexplained = Unexplained()
        self.blind = Blind()

    def take(self, events: Events, ports: Ints, topology: Topology) -> None:
        """Reads settled rows."""
        pcie = np.isin(events["kind"], (kinds.PCIE_WIDTH, kinds.PCIE_SPEED, kinds.PCIE_RATE))
        for row, port in zip(events[pcie], ports[pcie].tolist(), strict=True):
            device, name = topology.ports[port]
            readings = self.pcie.setdefault(device, [])
            readings.append(
                PcieReading(int(row["kind"]), name, int(row["time_ns"]), int(row["value"]), int(row["extra"]))
            )
            readings.sort()
        lost = events["kind"] == kinds.SOURCE_LOST
        for row, port in zip(events[lost], ports[lost].tolist(), strict=True):
            self.losses.append((int(row["time_ns"]), topology.ports[port][0], int(row["value"])))
        unexplained = topology.unresolved[ports] & congestion(events)
        self.unexplained.add(ports[unexplained], events["time_ns"][unexplained])
        self.blind.take(events, ports)

    def carry(self, topology: Topology) -> None:
        """Moves readings to the ports that their names now mean."""
        moved: dict[int, list[PcieReading]] = {}
        for device, readings in self.pcie.items():
            for reading in readings:
                port = topology.port(topology.devices[device], reading.port)
                here, name = topology.ports[topology.moved_ports.get(port, port)]
                moved.setdefault(here, []).append(reading._replace(port=name))
        self.pcie = {device: sorted(readings) for device, readings in moved.items()}
        self.blind.carry(topology.moved_ports)

    def forget(self, before_ns: int) -> None:
        """Drops what no cascade can ask for any more."""
        self.pcie = {device: _needed(readings, before_ns) for device, readings in self.pcie.items()}
        self.losses = [loss for loss in self.losses if loss[0] >= before_ns]
        self.unexplained.forget(before_ns)
        self.blind.forget(before_ns)

    def copy(self) -> Noted:
        """A copy that further rows change alone."""
        twin = Noted()
        twin.pcie = {device: list(readings) for device, readings in self.pcie.items()}
        twin.losses, twin.unexplained = list(self.losses), self.unexplained.copy()
        twin.blind = self.blind.copy()
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        pcie = [[device, [list(reading) for reading in readings]] for device, readings in self.pcie.items()]
        return [pcie, [list(loss) for loss in self.losses], self.unexplained.state(), self.blind.state()]

    @classmethod
    def of_state(cls, state: list[Any]) -> Noted:
        """Continues from `state()`."""
        noted = cls()
        pcie, losses, unexplained, blind = state
        noted.pcie = {device: [PcieReading(*reading) for reading in readings] for device, readings in pcie}
        noted.losses = [(time_ns, device, count) for time_ns, device, count in losses]
        noted.unexplained.load(unexplained)
        noted.blind = Blind.of_state(blind)
        return noted


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
