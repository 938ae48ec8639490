"""The driver's own statistics of each NIC: PFC, bytes, drops and errors of the link, and stalls of the PCIe link.

In: what `ethtool -S` shows, by ioctl. Out: rows by the driver's table (probes/drivers); one without gives none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from probes.counted_rows import CountedRows, Series
from probes.drivers import DRIVERS
from probes.drivers.mapped import Driver, Found, find
from probes.host_root import HostRoot
from probes.interfaces import interfaces, no_interface
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Rows, Unavailable
from probes.statistics import Statistics, statistics
from stream.kinds import BY_CODE, ESTIMATED, UNKNOWN
from stream.record import empty_events

PERCENT_WINDOW_NS = 1_000_000_000
"""A share that a driver shows is of its last second."""


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

    def match(self, rows: CountedRows) -> None:
        """Finds the counters anew if the driver shows others than before."""
        if self.shown.names is self._names or self.shown.names == self._names:
            return
        self._names = self.shown.names
        found = find(self.driver.statistics, self._names, self.name, self.driver.statistics_stale_ns)
        self.at, self.series = np.array(found.places, np.int64), rows.add(found.series)
        self.shares = find(self.driver.statistics, self._names, self.name, 0, percent=True)


class _Share(NamedTuple):
    """A share of the last second that a driver showed."""

    series: Series
    percent: int


class Ethtool(Poller):
    """Reads the statistics of all NICs."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._rows = CountedRows(options.interval_ns)
        self._watched: dict[str, _Watched] = {}
        self._last_ns: int | None = None
        self._stalled: set[Series] = set()
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
        shares: list[_Share] = []
        for watched in self._watched.values():
            shown = watched.shown.read()
            if shown is None:
                self.counted["unreadable"] += 1
                continue
            watched.match(self._rows)
            numbers.append(watched.series)
            counts.append(shown[watched.at])
            shares += [
                _Share(series, int(shown[at]))
                for at, series in zip(watched.shares.places, watched.shares.series, strict=True)
            ]
        rows = self._rows.take(np.concatenate(numbers), np.concatenate(counts), now_ns) if numbers else []
        return Reading(rows=[*rows, *self._stalls(shares, now_ns)])

    def close(self) -> None:
        """Closes sockets."""
        super().close()
        for watched in self._watched.values():
            watched.shown.close()
        self._watched.clear()
        self._look_ns = None

    def _stalls(self, shares: list[_Share], now_ns: int) -> list[Rows]:
        """Rows of shares of time: of those that are not 0, or were not when they were read last."""
        last_ns, self._last_ns = self._last_ns, now_ns
        self.counted["absurd_shares"] += sum(share.percent > 100 for share in shares)
        shares = [share for share in shares if share.percent <= 100]
        told = [share for share in shares if share.percent or share.series in self._stalled]
        self._stalled = {share.series for share in shares if share.percent}
        if last_ns is None or now_ns <= last_ns or not told:
            return []
        span_ns = min(PERCENT_WINDOW_NS, now_ns - last_ns)
        ports: dict[str, int] = {}
        events = empty_events(len(told))
        events["time_ns"] = events["seen_ns"] = now_ns
        events["span_ns"] = span_ns
        events["quality"] = ESTIMATED
        events["extra"] = UNKNOWN
        for row, (series, percent) in zip(events, told, strict=True):
            row["value"] = span_ns * percent // 100
            row["port"] = ports.setdefault(series.place.port, len(ports))
            row["kind"], row["side"] = series.place.kind, series.place.side
        return [Rows(BY_CODE[told[0].series.place.kind].topic, events, tuple(ports))]
