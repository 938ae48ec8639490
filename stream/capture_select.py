"""Which rows of a capture a reader wants: by time, device, port, priority, kind and flow.

In: what was asked for. Out: masks over rows and messages; nothing asked for is everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stream.record import MAX_TIME_NS, Events

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows wanted: those that meet every demand; an empty set demands nothing. Flow 0 and priority 255 are "none".

    A device is left out with its streams; a row is left out alone, and its message stays for the promise that it makes.
    """

    from_ns: int = 0
    to_ns: int = MAX_TIME_NS + 1
    devices: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    priorities: frozenset[int] = frozenset()
    kinds: frozenset[int] = frozenset()
    flows: frozenset[int] = frozenset()

    @property
    def cuts_rows(self) -> bool:
        """Whether single rows may be left out."""
        return self.cuts_time or bool(self.ports or self.priorities or self.kinds or self.flows)

    @property
    def cuts_time(self) -> bool:
        """Whether times are left out."""
        return self.from_ns > 0 or self.to_ns <= MAX_TIME_NS

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.devices or self.cuts_rows)

    @property
    def text(self) -> str:
        """The demands, written alike by every process."""
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return repr([(name, sorted(value) if isinstance(value, frozenset) else value) for name, value in values])

    def overlaps(self, first_ns: int, last_ns: int) -> bool:
        """Whether something between these times may be wanted."""
        return last_ns >= self.from_ns and first_ns < self.to_ns

    def rows(self, events: Events, port: npt.NDArray[Any], port_names: list[str]) -> Mask:
        """Which rows are wanted, their device aside; `port` has each row's index into port_names."""
        wanted = np.ones(len(events), bool)
        if self.cuts_time:
            times = events["time_ns"]
            wanted &= (times >= self.from_ns) & (times < self.to_ns)
        if self.ports:
            wanted &= np.array([name in self.ports for name in port_names] or [False])[port]
        if self.priorities:
            wanted &= _lookup(self.priorities)[events["priority"]]
        if self.kinds:
            wanted &= _lookup(self.kinds)[events["kind"]]
        if self.flows:
            wanted &= np.isin(events["flow"], np.array(sorted(self.flows), np.uint64))
        return wanted


def _lookup(codes: frozenset[int]) -> Mask:
    table = np.zeros(256, bool)
    table[list(codes)] = True
    return table
