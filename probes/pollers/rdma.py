"""CNPs, ECN marks and errors as the RDMA device counts them, by the table of its driver (probes/drivers).

In: /sys/class/infiniband/*/ports/*/hw_counters. Out: rows CNP, ECN_MARKED and RDMA_ERRORS under the port's interface.
The driver refreshes them no more often than once in their `lifespan`.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.counter_files import CounterFile, CounterFiles
from probes.drivers import DRIVERS
from probes.drivers.mapped import find
from probes.host_root import HostRoot
from probes.interfaces import RDMA, RdmaPort, rdma_ports
from probes.probe import Options, Probe, Unavailable

DEFAULT_LIFESPAN_MS = 10
MAX_LIFESPAN_MS = 10_000


def available(options: Options) -> Unavailable | None:
    """Whether there is an RDMA device whose counters are known."""
    host = HostRoot(options.root)
    ports = rdma_ports(host, options.interfaces)
    if not ports and options.interfaces and rdma_ports(host):
        named = " or ".join(options.interfaces)
        return Unavailable(f"no RDMA port is called {named}", "correct `interfaces`")
    if not ports:
        return Unavailable(
            "there is no RDMA device in /sys/class/infiniband", "load the NIC's RDMA driver, if it has one"
        )
    if any(_found(host, port) for port in ports):
        return None
    drivers = ", ".join(sorted({port.driver or "no driver" for port in ports}))
    return Unavailable(f"no hw_counters that are known ({drivers})", f"known are those of {', '.join(DRIVERS)}")


def make(options: Options) -> Probe:
    """The poller."""
    return RdmaCounters(options)


class RdmaCounters(CounterFiles):
    """Reads the counters of all ports."""

    def find(self) -> Sequence[CounterFile]:
        """The files of all ports."""
        return [each for port in rdma_ports(self.host, self.options.interfaces) for each in _found(self.host, port)]


def _found(host: HostRoot, port: RdmaPort) -> list[CounterFile]:
    driver = DRIVERS.get(port.driver)
    if driver is None:
        return []
    folder = f"{RDMA}/{port.device}/ports/{port.port}/hw_counters"
    names = host.names(folder)
    lifespan_ms = host.number(f"{folder}/lifespan")
    if lifespan_ms is None or not 0 <= lifespan_ms <= MAX_LIFESPAN_MS:
        lifespan_ms = DEFAULT_LIFESPAN_MS
    found = find(driver.hw_counters, names, port.name, lifespan_ms * 1_000_000)
    return [CounterFile(f"{folder}/{names[at]}", series) for at, series in zip(found.places, found.series, strict=True)]
