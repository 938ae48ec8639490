"""Time that tasks stalled for CPU, memory, I/O or interrupts (Pressure Stall Information).

In: the files of /proc/pressure. Out: rows PRESSURE of the whole host: time in which at least one task stalled, or for
interrupts, of which the kernel tells no such time, all tasks of a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.counted_rows import VALUE, Place, Series
from probes.counter_files import CounterFile, CounterFiles
from probes.drivers.mapped import US_PER_S
from probes.host_root import HostRoot, number_of
from probes.probe import Options, Probe, Unavailable
from stream.kinds import BY_NAME, PRESSURE_CODES

FOLDER = "/proc/pressure"
WHOLE_HOST = "-"
"""The port of a row that speaks of no part of its host."""
_PRESSURE = BY_NAME["PRESSURE"].code
STALE_NS = 2_000_000_000
"""The kernel adds up its CPUs' times every two seconds, and when it is asked."""


def available(options: Options) -> Unavailable | None:
    """Whether the kernel tells pressure."""
    host = HostRoot(options.root)
    if any(host.read(f"{FOLDER}/{name}") for name in PRESSURE_CODES.values()):
        return None
    return Unavailable("the kernel tells no pressure", "boot with psi=1, on a kernel with CONFIG_PSI (4.20 and later)")


def make(options: Options) -> Probe:
    """The poller."""
    return Pressure(options)


class Pressure(CounterFiles):
    """Reads the files."""

    def find(self) -> Sequence[CounterFile]:
        """The files that there are."""
        found = []
        for code, name in PRESSURE_CODES.items():
            if self.host.read(f"{FOLDER}/{name}"):
                place = Place(WHOLE_HOST, _PRESSURE, extra=code)
                series = Series(place, VALUE, 1_000, 64, US_PER_S, STALE_NS)
                found.append(CounterFile(f"{FOLDER}/{name}", series, total_us))
        return found


def total_us(text: bytes) -> int | None:
    """The total of the first line ("some", else "full"), in us."""
    line = text.partition(b"\n")[0]
    if not line.startswith((b"some ", b"full ")):
        return None
    return number_of(line.rpartition(b" total=")[2]) if b" total=" in line else None
