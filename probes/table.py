"""The one table of all probes: what each sees, where its rows go, how often it is read, and which module makes it.

In: a name. Out: its `ProbeKind`. Imports nothing: a module is imported when its probe is asked for, so that an agent
holds in memory only what it runs, and the configuration can name all probes.
"""

from __future__ import annotations

import importlib
import threading
from typing import NamedTuple, Protocol, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from probes.probe import Options, Probe, Unavailable

MS_NS = 1_000_000
S_NS = 1_000_000_000
PROGRAMS = "probes.programs"
"""The module of all eBPF programs, which are compiled together."""


class ProbeKind(NamedTuple):
    """One row of the table.

    `topics` are all that its rows and facts can go on. `interval_ns` is its window. `sums`: its rows sum over windows
    (all of correlate waits as long as the longest of them), instead of telling instants and states. `instants`: its
    rows may lie anywhere between two reads, as those of a ring buffer do, instead of at the read. `read_ns` is how
    often it is read, where a ring has to be emptied more often than its windows are over. `threshold_ns` is 0 where
    the probe knows none. `attach` is how a probe of packets is attached (probes/attach.py), "" of all others.
    """

    name: str
    module: str
    topics: tuple[str, ...]
    sees: str
    on: bool = True
    interval_ns: int = S_NS
    threshold_ns: int = 0
    sums: bool = True
    instants: bool = False
    read_ns: int = 0
    attach: str = ""


# fmt: off
PROBES: tuple[ProbeKind, ...] = (
    # eBPF programs
    ProbeKind("runqueue", PROGRAMS, ("kernel",), "time that runnable tasks waited for a CPU, and who waited longest",
              threshold_ns=10 * MS_NS, instants=True),
    ProbeKind("softirq", PROGRAMS, ("kernel",), "time from a softirq's raise to its start, and how long it ran",
              threshold_ns=5 * MS_NS, instants=True),
    ProbeKind("hardirq", PROGRAMS, ("kernel",), "time that handlers of hardware interrupts took",
              threshold_ns=MS_NS, instants=True),
    ProbeKind("napi", PROGRAMS, ("kernel",), "time that NAPI polls of NICs took, and polls that used up their budget",
              threshold_ns=5 * MS_NS, instants=True),
    ProbeKind("block", PROGRAMS, ("kernel",), "latency of block I/O", threshold_ns=100 * MS_NS, instants=True),
    ProbeKind("tcp_retransmits", PROGRAMS, ("host", "flow"), "TCP segments sent again, by flow", instants=True),
    ProbeKind("packets", PROGRAMS, ("pfc", "ecn", "flowbytes", "host", "flow"),
              "PFC pause frames, ECN marks, CNPs and bytes of flows among the packets that the kernel sees",
              on=False, instants=True, read_ns=50 * MS_NS, attach="auto"),
    ProbeKind("memory_errors", PROGRAMS, ("host",), "memory errors as the kernel reports them (RAS), instead of edac",
              on=False, instants=True),
    ProbeKind("pcie_errors", PROGRAMS, ("pcie",), "PCIe errors as the kernel reports them (RAS), instead of aer",
              on=False, instants=True),
    # pollers of counters and states
    ProbeKind("ethtool", "probes.pollers.ethtool", ("pfc", "queue", "pcie"),
              "pause frames and paused time by priority, bytes, drops and link errors as the NIC counts them"),
    ProbeKind("dcb", "probes.pollers.dcb", ("pfc",), "PFC frames sent and received by priority, from any driver"),
    ProbeKind("rdma", "probes.pollers.rdma", ("ecn", "host"), "CNPs, ECN marks and RDMA errors as the NIC counts them"),
    ProbeKind("pcie", "probes.pollers.pcie", ("pcie",), "width and speed of the PCIe links of NICs, now and at most",
              interval_ns=10 * S_NS, sums=False),
    ProbeKind("aer", "probes.pollers.aer", ("pcie",), "PCIe errors as the devices count them (AER)"),
    ProbeKind("edac", "probes.pollers.edac", ("host",), "memory errors as the memory controllers count them (EDAC)"),
    ProbeKind("cpu_throttle", "probes.pollers.cpu_throttle", ("host",), "CPUs held down by heat or power"),
    ProbeKind("pressure", "probes.pollers.pressure", ("host",), "time that tasks stalled for CPU, memory, I/O (PSI)"),
    ProbeKind("clock", "probes.pollers.clock", ("host",), "offset and error bound of the host's clock",
              interval_ns=10 * S_NS, sums=False),
    ProbeKind("gpu", "probes.pollers.gpu", ("host",), "GPU errors and clocks held down"),
    ProbeKind("identity", "probes.pollers.identity", ("device",), "names, ports, addresses and priorities of the host",
              interval_ns=30 * S_NS, sums=False),
)
# fmt: on


class ProbeModule(Protocol):
    """What a module of the table has."""

    def available(self, options: Options) -> Unavailable | None:
        """Why the probe cannot run here; None if it can. Looks and loads nothing."""

    def make(self, options: Options) -> Probe:
        """The probe, attached; raises PausetraceError with the next step where it cannot be."""


_IMPORTING = threading.Lock()
"""Held for a whole import: threads that import modules of each other at the same time get some of them half made."""

BY_NAME: dict[str, ProbeKind] = {kind.name: kind for kind in PROBES}


def module_of(kind: ProbeKind) -> ProbeModule:
    """The module that makes this probe, imported; safe for threads."""
    with _IMPORTING:
        return cast("ProbeModule", importlib.import_module(kind.module))
