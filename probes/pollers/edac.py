"""Memory errors as the memory controllers count them (EDAC).

In: /sys/devices/system/edac/mc/mc*/ce_count and ue_count. Out: rows MEMORY_ERRORS, one controller a port.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.counted_rows import VALUE, Place, Series
from probes.counter_files import CounterFile, CounterFiles
from probes.drivers.mapped import ERRORS_PER_S
from probes.host_root import HostRoot
from probes.probe import Options, Probe, Unavailable
from stream.kinds import BY_NAME

FOLDER = "/sys/devices/system/edac/mc"
_ERRORS = BY_NAME["MEMORY_ERRORS"].code
FILES = ((1, "ce_count"), (2, "ue_count"))
"""By code of MEMORY_ERROR_CODES."""


def available(options: Options) -> Unavailable | None:
    """Whether there is a memory controller that counts."""
    if _found(HostRoot(options.root)):
        return None
    return Unavailable("no memory controller counts errors (EDAC)", "load the EDAC driver of this CPU, if it has one")


def make(options: Options) -> Probe:
    """The poller."""
    return EdacCounters(options)


class EdacCounters(CounterFiles):
    """Reads the counters of all memory controllers."""

    def find(self) -> Sequence[CounterFile]:
        """The files."""
        return _found(self.host)


def _found(host: HostRoot) -> list[CounterFile]:
    return [
        CounterFile(f"{FOLDER}/{name}/{file}", Series(Place(name, _ERRORS, extra=code), VALUE, 1, 32, ERRORS_PER_S))
        for name in host.names(FOLDER)
        if name.startswith("mc") and name[2:].isdigit()
        for code, file in FILES
        if host.exists(f"{FOLDER}/{name}/{file}")
    ]
