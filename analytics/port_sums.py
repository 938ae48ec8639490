"""What ports sent while a root beside them was active, added up over the periods of a cascade of polled devices.

In: a period and ports. Out: the columns of the engine's state of ports that classes of roots are read from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analytics import layout
from analytics.layout import Floats, Ints
from analytics.pause_graph import Period
from analytics.topology import Topology

SENT, SENT_STOPPED, ACTIVE_NS, HELD_NS, SENT_HELD = range(5)
"""Columns: bytes sent, those in periods in which it was stopped, time; the least time in which it held what others were
stopped for and was not stopped itself, and what it sent in the periods of that."""
COLUMNS = 5


class PortSums:
    """The sums of some ports."""

    def __init__(self) -> None:
        self._ports: Ints = np.zeros(0, np.int64)
        """In order."""
        self._sums: Floats = np.zeros((0, COLUMNS))

    def add(self, period: Period, ports: Ints) -> None:
        """Adds a period of some ports beside an active root."""
        at = self._places(ports)
        sent, stopped = period.sent_bytes[ports], period.paused_ns[ports] > 0
        self._sums[at, SENT] += sent
        self._sums[at, SENT_STOPPED] += np.where(stopped, sent, 0.0)
        self._sums[at, ACTIVE_NS] += period.length_ns

    def add_held(self, ports: Ints, held_ns: Floats, sent_bytes: Floats) -> None:
        """Adds the time in which some ports held what others were stopped for, and what they sent in its period."""
        at = self._places(ports)
        self._sums[at, HELD_NS] += held_ns
        self._sums[at, SENT_HELD] += sent_bytes

    def held(self) -> dict[int, tuple[int, int]]:
        """By port, the time in which it held what others were stopped for, and the bytes of those periods."""
        rounded = np.rint(self._sums[:, [HELD_NS, SENT_HELD]]).astype(np.int64).tolist()
        return {port: (held_ns, sent) for port, (held_ns, sent) in zip(self._ports.tolist(), rounded, strict=True)}

    def join(self, other: PortSums) -> None:
        """Adds those of another cascade that turns out to be part of this one: of what both saw, what is more."""
        at = self._places(other._ports)
        self._sums[at] = np.maximum(self._sums[at], other._sums)

    def state_of_ports(self, topology: Topology) -> Ints:
        """State of all ports in the engine's layout."""
        state = layout.new_state(len(topology.ports), layout.P_COLUMNS)
        state[:, [layout.P_RUN_BEGIN, layout.P_RUN_END]] = layout.NEVER
        ports, sums = self._ports, np.rint(self._sums).astype(np.int64)
        state[ports, layout.P_TX_BYTES], state[ports, layout.P_STOPPED_BYTES] = sums[:, SENT], sums[:, SENT_STOPPED]
        np.maximum.at(state[:, layout.P_GROUP_BINS_NS], topology.port_group[ports], sums[:, ACTIVE_NS])
        return state

    def copy(self) -> PortSums:
        """A copy that further periods change alone."""
        twin = PortSums()
        twin._ports, twin._sums = self._ports, self._sums.copy()
        return twin

    def state(self) -> list[Any]:
        """Arrays for a snapshot."""
        return [self._ports, self._sums]

    @classmethod
    def of_state(cls, state: list[Any]) -> PortSums:
        """Continues from `state()`."""
        sums = cls()
        sums._ports, sums._sums = state[0], state[1].copy()
        return sums

    def carry(self, moved_ports: dict[int, int]) -> None:
        """Moves all to the ports that their names now mean."""
        meant = np.array([moved_ports.get(port, port) for port in self._ports.tolist()], np.int64)
        self._ports, first = np.unique(meant, return_index=True)
        self._sums = self._sums[first]

    def _places(self, ports: Ints) -> Ints:
        """The place of each of some ports, in order, with room made for new ones."""
        new = ports[~np.isin(ports, self._ports, assume_unique=True)]
        if len(new):
            at = np.searchsorted(self._ports, new)
            self._ports, self._sums = np.insert(self._ports, at, new), np.insert(self._sums, at, 0.0, axis=0)
        return np.searchsorted(self._ports, ports)
