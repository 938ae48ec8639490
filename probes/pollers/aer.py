"""PCIe errors as the devices count them (Advanced Error Reporting), of each NIC and the bridges above it.

In: `aer_dev_correctable`, `aer_dev_nonfatal` and `aer_dev_fatal` of a PCI device, or `aer/err_cor` and so on as newer
kernels may call them. Out: rows PCIE_ERRORS under the NIC's interface; the text is the address that counted them, since
an error shows at whichever end of a link saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from probes.counted_rows import VALUE, Place, Series
from probes.counter_files import CounterFile, CounterFiles
from probes.drivers.mapped import ERRORS_PER_S
from probes.host_root import HostRoot, number_of
from probes.interfaces import interfaces, no_interface, pci_path
from probes.probe import Options, Probe, Unavailable
from stream.kinds import BY_NAME

_ERRORS = BY_NAME["PCIE_ERRORS"].code
FILES: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (1, "TOTAL_ERR_COR", ("aer_dev_correctable", "aer/err_cor")),
    (2, "TOTAL_ERR_NONFATAL", ("aer_dev_nonfatal", "aer/err_nonfatal")),
    (3, "TOTAL_ERR_FATAL", ("aer_dev_fatal", "aer/err_fatal")),
)
"""By code of PCIE_ERROR_CODES: the line that has the sum, and the names of the file."""


def available(options: Options) -> Unavailable | None:
    """Whether a NIC, or a bridge above it, counts errors."""
    host = HostRoot(options.root)
    if missing := no_interface(host, options.interfaces):
        return missing
    if _found(host, options):
        return None
    return Unavailable(
        "no NIC or bridge above it has AER counters",
        "a kernel with CONFIG_PCIEAER, and a firmware that lets the kernel have the errors, shows them",
    )


def make(options: Options) -> Probe:
    """The poller."""
    return AerCounters(options)


class AerCounters(CounterFiles):
    """Reads the counters of all devices on the way of each NIC."""

    def find(self) -> Sequence[CounterFile]:
        """The files."""
        return _found(self.host, self.options)


def _found(host: HostRoot, options: Options) -> list[CounterFile]:
    found = []
    seen: set[str] = set()
    for interface in interfaces(host, options.interfaces):
        for path in pci_path(interface.device):
            if path in seen:
                continue  # a bridge that NICs share: what it counts is told once, under the first of them
            seen.add(path)
            for code, line, names in FILES:
                name = next((name for name in names if host.exists(f"{path}/{name}")), None)
                if name is None:
                    continue
                place = Place(interface.name, _ERRORS, extra=code, text=path.rpartition("/")[2])
                series = Series(place, VALUE, 1, 64, ERRORS_PER_S)
                found.append(CounterFile(f"{path}/{name}", series, _SUMS[line]))
    return found


def total(text: bytes, line: str) -> int | None:
    """The sum that the file states, or that of its lines "NAME count" where it states none."""
    counted, lines = 0, 0
    for row in text.splitlines():
        name, _, number = row.strip().rpartition(b" ")
        count = number_of(number)
        if count is None or count < 0:
            continue
        if name.strip().decode("ascii", "replace") == line:
            return count
        counted, lines = counted + count, lines + 1
    return counted if lines and counted < 1 << 64 else None


_SUMS = {line: partial(total, line=line) for _, line, _ in FILES}
