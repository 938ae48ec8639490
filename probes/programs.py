"""All eBPF programs of an agent: whether each can run here, and how the wanted ones are compiled, attached and read.

In: names and `Settings`. Out: `Probe`s. The agent itself never imports bcc: it holds file descriptors and arrays.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from probes import btf
from probes.addresses import addresses
from probes.attach import ATTACH_MODES, Attached, attach_packets, attach_tracepoint, leftovers
from probes.compile import Compiled, bcc_directory, compile_programs
from probes.dcb import DcbReader, priority_maps
from probes.flows import FLOW, RETRANSMITS, SEGMENTS, Opened
from probes.hardware_errors import COUNT, MEMORY, PCIE, HardwareErrorsProbe
from probes.histogram import HISTOGRAM, Histogram
from probes.host_root import HostRoot
from probes.interfaces import NET, interfaces, no_interface
from probes.latency import NAPI_STATE, LatencyProbe, Outliers, Slot
from probes.maps import Map
from probes.packets import PORT, PacketsProbe, tell_single_pauses
from probes.probe import Probe, Unavailable
from probes.ring import Ring
from probes.sources import LATENCY_SOURCES, SOURCES
from probes.tcp_retransmits import TcpRetransmitsProbe
from probes.watched_ports import WatchedPorts
from stream.errors import PausetraceError
from stream.facts import PriorityMaps
from stream.record import c_header

READ_INTERVAL_S = 0.02
PID_MAX = Path("/proc/sys/kernel/pid_max")
DEFAULT_THRESHOLD_NS: Mapping[str, int] = MappingProxyType(
    {"runqueue": 10_000_000, "softirq": 5_000_000, "hardirq": 1_000_000, "napi": 5_000_000, "block": 100_000_000}
)
HIT_NS: Mapping[str, int] = MappingProxyType(
    {
        "runqueue": 400,
        "softirq": 300,
        "hardirq": 350,
        "napi": 350,
        "block": 1500,
        "packets": 200,
        "tcp_retransmits": 3000,
    }
)
"""About what one thing counted costs in the kernel, all functions of the program together, so that an agent knows its
own cost without switching on the kernel's statistics, which cost more (benchmarks/probe_overhead.py)."""
_LATENCIES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "runqueue": ("runqueue",), "softirq": ("softirq", "softirq_run"), "hardirq": ("hardirq",), "napi": ("napi",),
    "block": ("block",),
})  # fmt: skip
_CAPABILITIES = {12: "CAP_NET_ADMIN", 38: "CAP_PERFMON", 39: "CAP_BPF"}
_SYS_ADMIN = 21
"""Which before Linux 5.8 was what the others are now, and still includes the last two."""


class Settings(NamedTuple):
    """How programs run. `threshold_ns` is by program; `ring_bytes` is of each of the two rings, a power of two."""

    fabric: str
    device: str
    interfaces: Sequence[str] = ()
    attach_mode: str = "auto"
    window_ns: int = 1_000_000_000
    threshold_ns: Mapping[str, int] = DEFAULT_THRESHOLD_NS
    per_cpu: bool = False
    max_flows: int = 16_384
    ring_bytes: int = 4 << 20


def available(name: str, settings: Settings, root: Path = Path("/")) -> Unavailable | None:
    """Why a program cannot run here, as far as that can be seen without compiling it."""
    if Path(os.path.realpath(root)) != Path("/"):
        return Unavailable("programs run in this host's kernel, not in a recorded tree")
    if missing := _missing_capabilities(name):
        return Unavailable(f"it needs {missing}", "run as root, or give the service these capabilities")
    if not btf.VMLINUX.is_file():
        return Unavailable("the kernel does not describe its types (BTF)", "run a kernel with CONFIG_DEBUG_INFO_BTF=y")
    if bcc_directory() is None:
        return Unavailable("bcc is not installed", "install it (Debian, Ubuntu: apt-get install python3-bpfcc)")
    kernel = btf.VMLINUX.read_bytes()
    for tracepoint in SOURCES[name].tracepoints():
        if not btf.has_tracepoint(kernel, tracepoint):
            return Unavailable(f"the kernel has no tracepoint {tracepoint}")
    if name == "packets":
        return no_interface(HostRoot(), settings.interfaces)
    return None


def _missing_capabilities(name: str) -> str:
    status = Path("/proc/self/status").read_text()
    effective = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
    wanted = dict(_CAPABILITIES)
    if name != "packets":
        del wanted[12]
    if effective >> _SYS_ADMIN & 1:
        wanted = {bit: each for bit, each in wanted.items() if bit == 12}
    return ", ".join(each for bit, each in wanted.items() if not effective >> bit & 1)


def open_probes(names: Sequence[str], settings: Settings, deadline_s: float = 30.0) -> dict[str, Probe | Unavailable]:
    """Compiles these programs as one module, attaches them, and says of those that cannot run why.

    Raises PausetraceError for wrong settings alone.
    """
    _check(names, settings)
    found: dict[str, Probe | Unavailable] = {}
    for name in names:
        if reason := available(name, settings):
            found[name] = reason
    wanted = [name for name in names if name not in found]
    if not wanted:
        return found
    pages = settings.ring_bytes // mmap.PAGESIZE
    macros = {
        "PID_MAX": _most_pids(), "RING_PAGES": pages, "PAUSE_RING_PAGES": pages,
        "MAX_FLOWS": settings.max_flows,
        **{f"LEAST_NS_{source.upper()}": _threshold_ns(name, settings)
           for name, sources in _LATENCIES.items() for source in sources},
    }  # fmt: skip
    try:
        compiled = compile_programs(wanted, macros, c_header(), deadline_s)
    except OSError as error:  # also TimeoutError
        return found | dict.fromkeys(wanted, Unavailable(f"the programs cannot be compiled: {error}"))
    module = _Module(compiled, macros["PID_MAX"])
    try:
        for name in wanted:
            if name in compiled.failed:
                found[name] = Unavailable(compiled.failed[name])
                continue
            try:
                found[name] = _open(name, module, settings)
            except OSError as error:
                found[name] = Unavailable(*_refused(error))
    finally:
        module.release()
    return found


def _most_pids() -> int:
    """Above every pid that the kernel gives out."""
    return int(PID_MAX.read_text())


def _check_pids(room: int) -> None:
    """Raises OSError once the kernel may give out pids that a program opened for so many has no place for."""
    if (pids := _most_pids()) > room:
        raise OSError(f"{PID_MAX} has grown from {room} to {pids}, and tasks of larger pids are not seen")


def _threshold_ns(name: str, settings: Settings) -> int:
    return settings.threshold_ns.get(name, DEFAULT_THRESHOLD_NS[name])


def _check(names: Sequence[str], settings: Settings) -> None:
    if unknown := [name for name in names if name not in SOURCES]:
        raise PausetraceError(f"there is no program {unknown[0]}", f"choose from {', '.join(SOURCES)}")
    if settings.attach_mode not in ATTACH_MODES:
        raise PausetraceError(f"{settings.attach_mode} is no attach mode", f"choose from {', '.join(ATTACH_MODES)}")
    size = settings.ring_bytes
    if size < mmap.PAGESIZE or size & (size - 1):
        raise PausetraceError(
            f"a ring of {size} bytes cannot be made", f"choose a power of two from {mmap.PAGESIZE} on"
        )
    if not 1 <= settings.max_flows <= 1 << 20:
        raise PausetraceError(f"room for {settings.max_flows} flows cannot be made", "choose 1 to 1048576")


def _refused(error: OSError) -> tuple[str, str]:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "the kernel allows no BPF here (EPERM)", "look at lockdown, seccomp and the service's capabilities"
    return f"the kernel refuses it: {error}", ""


class _Module:
    """What the child handed over, shared by the probes of one compilation; the last that is closed closes the rest."""

    def __init__(self, compiled: Compiled, pids: int) -> None:
        self._compiled, self.pids = compiled, pids
        self._users = 1  # whoever opens the probes
        self._lock = threading.Lock()
        self._outliers: Outliers | None = None
        self._histograms: Map | None = None
        self.settings = self.map("settings", COUNT)

    def program(self, function: str) -> int:
        """The file descriptor of a function, which stays the module's."""
        return self._compiled.functions[function]

    def map(self, name: str, value: np.dtype[Any]) -> Map:
        """A map, which is the caller's from now on."""
        return Map(os.dup(self._compiled.maps[name]), value)

    def ring(self, name: str) -> Ring:
        """A ring and the count of its losses, which are the caller's from now on."""
        return Ring(os.dup(self._compiled.maps[name]), self.map(f"{name}_lost", COUNT))

    def histogram(self, source: str) -> Histogram:
        """The histogram of one of LATENCY_SOURCES."""
        if self._histograms is None:
            self._histograms = self.map("histograms", HISTOGRAM)
        return Histogram(self._histograms, LATENCY_SOURCES.index(source))

    def outliers(self) -> Outliers:
        """The ring of all latency programs of the module."""
        if self._outliers is None:
            self._outliers = Outliers(self.ring("outliers"))
        return self._outliers

    def use(self) -> Callable[[], None]:
        """One probe more; it calls what it gets when it is closed."""
        with self._lock:
            self._users += 1
        return self.release

    def release(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for each in (self._outliers, self._histograms, self.settings):
                if each is not None:
                    each.close()
            self._compiled.close()


def _open(name: str, module: _Module, settings: Settings) -> Probe:
    if name == "packets":
        return _open_packets(module, settings)
    attached: list[Attached] = []
    try:
        for each in SOURCES[name].functions:
            attached += [attach_tracepoint(module.program(each.name), each.tracepoint)]
    except OSError:
        for done in attached:
            done.close()
        raise
    window_ns = settings.window_ns
    if name in _LATENCIES:
        slots = [
            Slot(LATENCY_SOURCES.index(source), source.upper(), module.histogram(source)) for source in _LATENCIES[name]
        ]
        return LatencyProbe(
            slots, module.outliers(), module.settings, attached,
            threshold_ns=_threshold_ns(name, settings), window_ns=window_ns,
            per_cpu=settings.per_cpu, hit_ns=HIT_NS[name],
            napi_state=module.map("napi_state", NAPI_STATE) if name == "napi" else None, released=module.use(),
            check=functools.partial(_check_pids, module.pids) if name == "runqueue" else None,
        )  # fmt: skip
    if name == "tcp_retransmits":
        return TcpRetransmitsProbe(
            module.map("retransmits", RETRANSMITS), module.map("retransmit_segments", SEGMENTS), attached,
            _opened(settings), window_ns=window_ns, hit_ns=HIT_NS[name], released=module.use(),
        )  # fmt: skip
    reported = MEMORY if name == "memory_errors" else PCIE
    return HardwareErrorsProbe(
        reported, module.map(name, COUNT), attached, window_ns=window_ns, released=module.use()
    )  # fmt: skip


def _open_packets(module: _Module, settings: Settings) -> Probe:
    host = HostRoot()

    def find() -> dict[int, str]:
        names = [each.name for each in interfaces(host, settings.interfaces)]
        numbers = ((host.number(f"{NET}/{name}/ifindex"), name) for name in names)
        return {number: name for number, name in numbers if number is not None}

    def attach(name: str) -> list[Attached]:
        ingress, egress, xdp = (module.program(f"packets_{each}") for each in ("ingress", "egress", "xdp"))
        return attach_packets(ingress, egress, xdp, name, settings.attach_mode)

    dcb = DcbReader(host)

    def read_priorities() -> PriorityMaps | None:
        answers = (dcb.read(name) for name in watched.names if name)
        return priority_maps([answer for answer in answers if answer is not None])[0]

    leftovers(remove=True)
    tell_single_pauses(module.settings, 1)
    ports = module.map("ports", PORT)
    watched = WatchedPorts(ports, find, attach)
    ring = None
    release = module.use()

    def released() -> None:
        dcb.close()
        release()

    try:
        ring = module.ring("pauses")
        return PacketsProbe(
            ring, module.map("flows", FLOW), ports, module.settings, watched, _opened(settings),
            window_ns=settings.window_ns, read_priorities=read_priorities, hit_ns=HIT_NS["packets"],
            released=released,
        )  # fmt: skip
    except BaseException:
        for each in (watched, ring):
            if each is not None:
                each.close()
        released()
        raise


def _opened(settings: Settings) -> Opened:
    own = frozenset(text for each in addresses(HostRoot()).values() for text in each)
    return Opened(settings.fabric, settings.device, own)
