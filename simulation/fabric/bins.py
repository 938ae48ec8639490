"""Runs a fabric from bin to bin and notes what its ports counted in each; things that change do so at their ticks.

In: a `Fabric`. Out: `PortCounters`, rows of ports and bins in which something happened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from simulation.fabric.compiled import Ints
from simulation.fabric.fabric import Counts, Fabric


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PortCounters:
    """Rows of one port (the link that begins at it), priority and bin. A row that is not there is all zero."""

    bin_index: Ints
    link: Ints
    priority: Ints
    tx_bytes: Ints
    rx_bytes: Ints
    q_max_bytes: Ints
    tx_ce_packets: Ints
    rx_ce_packets: Ints
    rx_pause_frames: Ints
    tx_pause_frames: Ints
    rx_paused_ns: Ints
    lost_packets: Ints
    """Of those that came in: destroyed by errors on the link."""


class Bins:
    """The clock of a story: `run` stops at every edge of a bin, and at every change that was asked for."""

    def __init__(self, fabric: Fabric, bin_ns: int) -> None:
        if bin_ns % fabric.settings.tick_ns:
            raise ValueError("a bin is a whole number of ticks")
        self.fabric = fabric
        self.bin_ns = bin_ns
        self.ticks = bin_ns // fabric.settings.tick_ns
        self._changes: list[tuple[int, int, Callable[[], None]]] = []
        self._before = fabric.counts()
        self._found: list[tuple[int, Counts]] = []
        self._express: dict[int, Ints] = {}

    def at(self, tick: int, change: Callable[[], None]) -> None:
        """Has `change` happen at a tick that is to come."""
        self._changes.append((tick, len(self._changes), change))
        self._changes.sort(key=lambda entry: entry[:2])

    def run(self, until: int) -> bool:
        """Runs to a tick or until all flows that are waited for are done; gives whether they were."""
        fabric = self.fabric
        while fabric.now < until:
            while self._changes and self._changes[0][0] <= fabric.now:
                self._changes.pop(0)[2]()
            edge = (fabric.now // self.ticks + 1) * self.ticks
            change = self._changes[0][0] if self._changes else until
            waits = fabric.waiting > 0
            done = fabric.run(min(until, edge, change))
            if fabric.now == edge:
                self._note(edge // self.ticks - 1)
            if done or (waits and fabric.waiting == 0):
                return True
        return False

    def add_express(self, counts: dict[int, Ints]) -> None:
        """Adds bytes of express flows, by bin and link."""
        for number, sums in counts.items():
            self._express[number] = self._express.get(number, 0) + sums

    def _note(self, number: int) -> None:
        counts = self.fabric.counts()
        change = [new - old for new, old in zip(counts, self._before, strict=True)]
        self._before = counts
        noted = Counts(*change)._replace(peak_bytes=counts.peak_bytes)
        if any(column.any() for column in noted):
            self._found.append((number, noted))

    def finish(self) -> PortCounters:
        """All rows; the bin that is not over yet is run to its end first."""
        fabric = self.fabric
        last = max([*self._express, fabric.now // self.ticks])
        while fabric.now < (last + 1) * self.ticks:
            self.run((last + 1) * self.ticks)
        own = dict(self._found)
        parts = [
            self._rows(number, own.get(number), self._express.get(number)) for number in sorted({*own, *self._express})
        ]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return PortCounters(*columns)

    def _rows(self, number: int, counts: Counts | None, express: Ints | None) -> list[Ints]:
        fabric = self.fabric
        links = 2 * len(fabric.wires.topology.cables)
        count = fabric.priorities
        queues = links * count
        zero = np.zeros(queues, np.int64)
        by_name = dict.fromkeys(Counts._fields, zero)
        if counts is not None:
            by_name = {name: column[:queues].copy() for name, column in counts._asdict().items()}
        if express is not None:
            packets = 2 * fabric.settings.packet_bytes
            sent = express[:links]
            by_name["tx_bytes"] = by_name["tx_bytes"].copy()
            by_name["rx_bytes"] = by_name["rx_bytes"].copy()
            by_name["tx_bytes"][::count] += sent
            by_name["rx_bytes"][::count] += sent
            peak = by_name["peak_bytes"].copy()
            peak[::count] = np.maximum(peak[::count], np.where(sent > 0, packets, 0))
            by_name["peak_bytes"] = peak
        # What comes in by a port is what the link of the other way carried.
        back = (np.arange(queues) // count ^ 1) * count + np.arange(queues) % count
        is_host = np.isin(fabric.wires.source[np.arange(queues) // count], fabric.wires.hosts)
        columns = [
            by_name["tx_bytes"],
            by_name["rx_bytes"][back],
            np.where(is_host, 0, by_name["peak_bytes"]),
            by_name["tx_marked"],
            by_name["rx_marked"][back],
            by_name["rx_xoffs"],
            by_name["tx_xoffs"][back],
            by_name["paused_ticks"] * fabric.settings.tick_ns,
            by_name["lost_packets"][back],
        ]
        kept = np.flatnonzero(np.any([column != 0 for column in columns], axis=0))
        return [
            np.full(len(kept), number),
            kept // count,
            kept % count,
            *(column[kept] for column in columns),
        ]
