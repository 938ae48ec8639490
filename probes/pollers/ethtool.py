"""The driver's own statistics of each NIC: PFC, bytes, drops and errors of the link, and stalls of the PCIe link.

In: what `ethtool -S` shows, by ioctl. Out: rows by the driver's table (probes/drivers); one without gives none.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from probes.counted_rows import CountedRows, Series
from probes.drivers import DRIVERS
from probes.drivers.mapped import Driver, Found, find
from probes.host_root import HostRoot
from probes.interfaces import interfaces, no_interface
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Unavailable
from probes.statistics import Readings, Statistics, statistics


def available(options: Options) -> Unavailable | None:
    """Whether a NIC has a driver whose statistics are known."""
    host = HostRoot(options.root)
    if missing := no_interface(host, options.interfaces):
        return missing
    drivers = {interface.driver for interface in interfaces(host, options.interfaces)}
    if drivers & DRIVERS.keys():
        return None
    known = ", ".join(DRIVERS)
    return Unavailable(
        f"no NIC has a driver whose statistics are known ({known})", "none is needed where no NIC has PFC"
    )


def make(options: Options) -> Probe:
    """The poller."""
    return Ethtool(options)


class _Watched:
    """One interface, and where in its statistics the counters of its table stand."""

    def __init__(self, name: str, driver: Driver, shown: Statistics) -> None:
        self.name, self.driver, self.shown = name, driver, shown
        self._names: tuple[str, ...] | None = None
        self.at: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.series: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.shares = Found((), ())
        self.share_series: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def match(self, rows: CountedRows) -> None:
        """Finds the counters anew if the driver shows others than before."""
        if self.shown.names is self._names or self.shown.names == self._names:
            return
        self._names = self.shown.names
        found = find(self.driver.statistics, self._names, self.name, self.driver.statistics_stale_ns)
        self.at, self.series = np.array(found.places, np.int64), rows.add(found.series)
        self.shares = find(self.driver.statistics, self._names, self.name, 0, percent=True)
        self.share_series = rows.add(self.shares.series)


class Ethtool(Poller):
    """Reads the statistics of all NICs."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._rows = CountedRows(options.interval_ns)
        self._watched: dict[str, _Watched] = {}
        self._last_ns = 0
        self._shared_ns: Counter[Series] = Counter()
        """Shares of time added up, which makes them counters like all others."""
        self.counted = self._rows.counted

    def look(self) -> None:
        """Finds the NICs."""
        now = {each.name: each.driver for each in interfaces(self.host, self.options.interfaces)}
        for name in [name for name in self._watched if DRIVERS.get(now.get(name, "")) != self._watched[name].driver]:
            self._watched.pop(name).shown.close()
        for name, driver in now.items():
            if name not in self._watched and driver in DRIVERS:
                self._watched[name] = _Watched(name, DRIVERS[driver], statistics(self.host, name))

    def poll(self, now_ns: int) -> Reading:
        """Reads the NICs."""
        numbers, counts = [], []
        passed_ns, self._last_ns = max(now_ns - self._last_ns, 0) if self._last_ns else 0, now_ns
        for watched in self._watched.values():
            shown = watched.shown.read()
            if shown is None:
                self.counted["unreadable"] += 1
                continue
            watched.match(self._rows)
            numbers.append(watched.series)
            counts.append(shown[watched.at])
            if watched.shares.series:
                numbers.append(watched.share_series)
                counts.append(self._add_up(watched.shares, shown, passed_ns))
        if not numbers:
            return Reading()
        return Reading(rows=self._rows.take(np.concatenate(numbers), np.concatenate(counts), now_ns))

    def _add_up(self, shares: Found, shown: Readings, passed_ns: int) -> Readings:
        for at, series in zip(shares.places, shares.series, strict=True):
            percent = int(shown[at])
            if percent <= 100:
                self._shared_ns[series] += passed_ns * percent // 100
            else:
                self.counted["absurd_shares"] += 1
        return np.array([self._shared_ns[series] for series in shares.series], np.uint64)

    def close(self) -> None:
        """Closes sockets."""
        super().close()
        for watched in self._watched.values():
            watched.shown.close()
        self._watched.clear()
        self._look_ns = None
