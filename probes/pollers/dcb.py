"""PFC frames sent and received by priority, as DCB tells them of any driver.

In: IEEE 802.1Qbb counters by netlink. Out: rows PFC_FRAMES, of NICs whose own statistics (pollers/ethtool.py) count no
PFC frames: no frame is told twice.
"""

from __future__ import annotations

import numpy as np

from probes.counted_rows import VALUE, CountedRows, Place, Series
from probes.dcb import DcbReader
from probes.drivers import DRIVERS
from probes.drivers.mapped import FRAMES_PER_S, PRIORITIES
from probes.host_root import HostRoot
from probes.interfaces import interfaces, no_interface
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Unavailable
from stream.kinds import PFC_FRAMES, SIDE_RX, SIDE_TX

STALE_NS = 1_000_000_000
"""Some drivers tell the numbers of their last look at the hardware."""


def available(options: Options) -> Unavailable | None:
    """Whether DCB tells of a NIC that has no table of its own."""
    host = HostRoot(options.root)
    if missing := no_interface(host, options.interfaces):
        return missing
    reader = DcbReader(host)
    try:
        names = _names(host, options)
        if any((told := reader.read(name)) is not None and told.pfc is not None for name in names):
            return None
    finally:
        reader.close()
    if not names:
        return Unavailable("the drivers' own statistics count PFC frames already (probe ethtool)")
    return Unavailable(f"no PFC counters by DCB of {', '.join(names)}", "none is needed where no NIC has PFC")


def make(options: Options) -> Probe:
    """The poller."""
    return DcbCounters(options)


def _names(host: HostRoot, options: Options) -> list[str]:
    """The interfaces to ask: those whose drivers have no table that knows PFC."""
    return [each.name for each in interfaces(host, options.interfaces) if each.driver not in DRIVERS]


def _series(name: str) -> list[Series]:
    """The counters of an interface, in the order in which they are read."""
    return [
        Series(Place(name, PFC_FRAMES, priority, side), VALUE, 1, 64, FRAMES_PER_S, STALE_NS)
        for side in (SIDE_TX, SIDE_RX)
        for priority in PRIORITIES
    ]


class DcbCounters(Poller):
    """Asks each NIC."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._reader = DcbReader(self.host)
        self._rows = CountedRows(options.interval_ns)
        self._names: list[str] = []
        self._answered: list[str] = []
        self._numbers = np.zeros(0, np.int64)
        self.counted = self._rows.counted

    def look(self) -> None:
        """Finds the NICs that answer."""
        self._names = [
            name for name in _names(self.host, self.options)
            if (told := self._reader.read(name)) is not None and told.pfc is not None
        ]  # fmt: skip

    def poll(self, now_ns: int) -> Reading:
        """Asks them."""
        answered: list[str] = []
        counts: list[int] = []
        for name in self._names:
            told = self._reader.read(name)
            if told is None or told.pfc is None:
                self.counted["unreadable"] += 1
                continue
            answered.append(name)
            counts += [*told.pfc.requests, *told.pfc.indications]
        if not answered:
            return Reading()
        if answered != self._answered:
            self._answered = answered
            self._numbers = self._rows.add([each for name in answered for each in _series(name)])
        return Reading(rows=self._rows.take(self._numbers, np.array(counts, np.uint64), now_ns))

    def close(self) -> None:
        """Closes the socket."""
        super().close()
        self._reader.close()
