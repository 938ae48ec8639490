"""CPUs that were held down by heat, as x86 counts it of each package and core.

In: /sys/devices/system/cpu/cpu*/thermal_throttle. Out: rows CPU_THROTTLE, under `package0` and `cpu3` (the first CPU of
a core), with the time where the kernel tells it (5.6 and later).
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.counted_rows import EXTRA, VALUE, Place, Series
from probes.counter_files import CounterFile, CounterFiles
from probes.host_root import HostRoot
from probes.probe import Options, Probe, Unavailable
from stream.kinds import BY_NAME

FOLDER = "/sys/devices/system/cpu"
_THROTTLE = BY_NAME["CPU_THROTTLE"].code
TIMES_PER_S = 1_000_000
MS_NS = 1_000_000


def available(options: Options) -> Unavailable | None:
    """Whether the CPUs count."""
    host = HostRoot(options.root)
    if any(host.exists(f"{FOLDER}/{name}/thermal_throttle") for name in host.names(FOLDER)):
        return None
    return Unavailable("the CPUs count no throttling", "only x86 machines that are no virtual ones do")


def make(options: Options) -> Probe:
    """The poller."""
    return CpuThrottle(options)


class CpuThrottle(CounterFiles):
    """Reads the counters of all packages and cores."""

    def find(self) -> Sequence[CounterFile]:
        """The files: each package's once, and each core's once."""
        found: list[CounterFile] = []
        seen: set[tuple[str, str]] = set()
        cpus = [name for name in self.host.names(FOLDER) if name.startswith("cpu") and name[3:].isdigit()]
        for name in sorted(cpus, key=lambda name: int(name[3:])):
            topology = f"{FOLDER}/{name}/topology"
            package = self.host.text(f"{topology}/physical_package_id", 32) or "0"
            core = self.host.text(f"{topology}/core_id", 32) or name
            for part, port in (((package, ""), f"package{package}"), ((package, core), name)):
                if part not in seen:
                    seen.add(part)
                    found += self._files(name, "core" if part[1] else "package", port)
        return found

    def _files(self, cpu: str, what: str, port: str) -> list[CounterFile]:
        folder = f"{FOLDER}/{cpu}/thermal_throttle"
        place = Place(port, _THROTTLE)
        files = (
            CounterFile(f"{folder}/{what}_throttle_count", Series(place, VALUE, 1, 64, TIMES_PER_S)),
            CounterFile(f"{folder}/{what}_throttle_total_time_ms", Series(place, EXTRA, MS_NS, 64, 1_000, MS_NS)),
        )
        return [each for each in files if self.host.exists(each.path)]
