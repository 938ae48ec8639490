"""What `pausetrace doctor` looks at: whether this host can be watched, and what on it is not as it should be.

In: the host (or a recorded tree), and where Kafka is. Out: `Finding`s, each with what to do. A host that lacks what no
host needs to have, such as a GPU, is well. Nothing is changed, and every question has a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from probes.clock_offset import clock_offset
from probes.compile import bcc_directory
from probes.dcb import Dcb, DcbReader
from probes.drivers import DRIVERS
from probes.drivers.mapped import find
from probes.host_root import HostRoot
from probes.interfaces import Interface, interfaces, rdma_ports, speed_mbps
from probes.pollers.pcie import Way, way
from probes.probe import Unavailable
from probes.settings import AgentSettings
from probes.statistics import statistics
from probes.table import PROBES, PROGRAMS, module_of
from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings, look
from stream.kinds import UNKNOWN

OK, ABSENT, WARNING, MISSING = "ok", "absent", "warning", "missing"
"""As it should be; not here, and not needed; not as it should be; needed and not here."""
OLDEST_KERNEL = (5, 8)
"""The first with a BPF ring buffer, and with capabilities for BPF alone."""
TCX_KERNEL = (6, 6)
CHECKED_ELSEWHERE = ("clock", "pcie", "identity")
"""Probes of which more is told than whether they can run."""
CLOCK_NS = 5_000_000
"""Half of what the verdict allows hosts to differ by (analytics/host_evidence.py)."""


class Finding(msgspec.Struct, frozen=True):
    """What was found of one thing; `fix` says what to do about a state that is not well."""

    check: str
    state: str
    says: str
    fix: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What to examine; `kafka` is None where nobody said where Kafka is."""

    settings: AgentSettings
    kafka: KafkaSettings | None

    @property
    def host(self) -> HostRoot:
        """The host."""
        return HostRoot(self.settings.root)


def examine(asked: Asked) -> list[Finding]:
    """Everything that is to be said, in the order of the checks."""
    return [finding for check in CHECKS for finding in check(asked)]


def needs_something(findings: list[Finding]) -> bool:
    """Whether something is missing that is needed."""
    return any(finding.state == MISSING for finding in findings)


def kernel(asked: Asked) -> Iterator[Finding]:
    """Version, BTF, tracefs, headers."""
    host = asked.host
    release = host.text("/proc/sys/kernel/osrelease", 256) or ""
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None:
        yield Finding("kernel", WARNING, "its version is not told", "see that /proc is there, and --host-root is right")
    elif (known := (int(version[1]), int(version[2]))) < OLDEST_KERNEL:
        yield Finding(
            "kernel", MISSING, f"Linux {release} is too old for the eBPF programs", "run Linux 5.8 or later"
        )  # fmt: skip
    else:
        hook = "tcx" if known >= TCX_KERNEL else "clsact, since tcx came with 6.6"
        yield Finding("kernel", OK, f"Linux {release}; packets are looked at by {hook}")
    if host.exists("/sys/kernel/btf/vmlinux"):
        yield Finding("BTF", OK, "the kernel describes its types")
    else:
        yield Finding(
            "BTF", MISSING, "the kernel does not describe its types", "run a kernel with CONFIG_DEBUG_INFO_BTF=y"
        )  # fmt: skip
    if host.exists("/sys/kernel/tracing/events"):
        yield Finding("tracefs", OK, "mounted; no program needs it")
    else:
        yield Finding("tracefs", ABSENT, "not mounted, or not for this user; no program needs it")
    yield Finding("headers", OK, "none are needed: programs are compiled with the types that the kernel describes")


def programs(asked: Asked) -> Iterator[Finding]:
    """Capabilities, bcc, and which eBPF programs can run."""
    if not asked.host.live:
        yield Finding("programs", ABSENT, "eBPF programs run in a live kernel, not in a recorded tree")
        return
    found = bcc_directory()
    if found is None:
        yield Finding(
            "bcc", MISSING, "not installed", "install it: apt-get install python3-bpfcc, dnf install python3-bcc"
        )
    else:
        yield Finding("bcc", OK, str(found))
    capabilities = asked.host.text("/proc/self/status") or ""
    told = re.search(r"^CapEff:\s*([0-9a-f]+)$", capabilities, re.MULTILINE)
    held = int(told[1], 16) if told else 0
    lacks = [name for bit, name in _CAPABILITIES.items() if not held >> bit & 1 and not held >> _SYS_ADMIN & 1]
    if lacks:
        yield Finding(
            "capabilities", MISSING, f"this process lacks {', '.join(lacks)}",
            "run as root, or give the service AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN",
        )  # fmt: skip
    else:
        yield Finding("capabilities", OK, ", ".join(_CAPABILITIES.values()))
    yield from _probes(asked, of_kernel=True)


_CAPABILITIES = {39: "CAP_BPF", 38: "CAP_PERFMON", 12: "CAP_NET_ADMIN"}
_SYS_ADMIN = 21


def nics(asked: Asked) -> Iterator[Finding]:
    """The NICs: driver, what is known of its counters, RDMA device, PFC."""
    host, patterns = asked.host, asked.settings.interfaces
    found = interfaces(host, patterns)
    if not found:
        named = f"called {' or '.join(patterns)}" if patterns else "with a device behind it"
        yield Finding("NIC", MISSING, f"there is no interface {named}", "name what to watch: --interface NAME")
    rdma: dict[str, list[str]] = {}
    for port in rdma_ports(host):
        rdma.setdefault(port.interface, []).append(port.device)
    reader = DcbReader(host)
    told: dict[str, Dcb] = {}
    try:
        for each in found:
            dcb = reader.read(each.name)
            if dcb is not None:
                told[each.name] = dcb
            yield _nic(host, each, rdma.get(each.name, []), dcb)
    finally:
        reader.close()
    maps = {(dcb.dscp_to_priority, dcb.priority_to_traffic_class) for dcb in told.values()}
    if len(maps) > 1:
        yield Finding(
            "priorities", WARNING, f"{', '.join(told)} sort packets differently",
            "give all NICs of a host the same DSCP and priority maps: dcb app show, dcb ets show",
        )  # fmt: skip


def _nic(host: HostRoot, each: Interface, rdma: list[str], dcb: Dcb | None) -> Finding:
    speed = speed_mbps(host, each.name)
    words = [each.driver or "no driver", f"{speed // 1000} Gb/s" if speed >= 1000 else "link down or speed unknown"]
    if rdma:
        words.append(f"RDMA {', '.join(rdma)}")
    if dcb is not None and dcb.pfc is not None:
        on = [str(priority) for priority in range(8) if dcb.pfc.enabled >> priority & 1]
        words.append(f"PFC on for priority {', '.join(on)}" if on else "PFC off")
    driver = DRIVERS.get(each.driver)
    if driver is None:
        counters = "by DCB" if dcb is not None and dcb.pfc is not None else "none are known"
        return Finding(f"NIC {each.name}", OK, f"{', '.join(words)}; counters: {counters}")
    shown = statistics(host, each.name)
    try:
        readable = shown.read() is not None
        known = len(find(driver.statistics, shown.names, each.name, 0).places)
    finally:
        shown.close()
    if not readable or not known:
        why = "cannot be read" if not readable else "has none that is known: an older or newer driver"
        return Finding(
            f"NIC {each.name}", WARNING, f"{', '.join(words)}; its statistics: {why}",
            f"compare `ethtool -S {each.name}` with the table of {each.driver} in probes/drivers",
        )  # fmt: skip
    return Finding(f"NIC {each.name}", OK, f"{', '.join(words)}; {known} of its counters are known")


def pcie(asked: Asked) -> Iterator[Finding]:
    """Links that are narrower or slower than they could be."""
    host = asked.host
    for each in interfaces(host, asked.settings.interfaces):
        port_mbps = speed_mbps(host, each.name)
        found = way(host, each.device, port_mbps)
        if found is not None:
            yield _pcie(each.name, found, port_mbps)


def _pcie(name: str, found: Way, port_mbps: int) -> Finding:
    check = f"PCIe {name}"
    whole = f"x{found.max_lanes} at {found.max_mts / 1000:g} GT/s"
    if found.lanes == found.max_lanes and found.mts == found.max_mts:
        return Finding(check, OK, whole)
    place = found.narrowest if found.lanes < found.max_lanes else found.slowest
    where = f" below the bridge {place}" if place else ""
    needs = f" for a port of {port_mbps // 1000}" if found.rate_mbps < port_mbps else ""
    now = f"x{found.lanes} at {found.mts / 1000:g} GT/s{where}, {found.rate_mbps // 1000} Gb/s{needs}"
    return Finding(
        check, WARNING, f"{now}; it could be {whole}",
        "reseat the card, riser or cable, look for its errors in dmesg, and check the slot's bifurcation",
    )  # fmt: skip


def pollers(asked: Asked) -> Iterator[Finding]:
    """Which pollers have something to read here."""
    yield from _probes(asked, of_kernel=False)


def _probes(asked: Asked, *, of_kernel: bool) -> Iterator[Finding]:
    from probes.opening import TableOpener

    opener = TableOpener()
    for kind in PROBES:
        if (kind.module == PROGRAMS) != of_kernel or kind.name in CHECKED_ELSEWHERE:
            continue
        options = asked.settings.options(kind)
        missing: Unavailable | None = (
            opener.available(kind, options) if of_kernel else module_of(kind).available(options)
        )
        if missing is None:
            yield Finding(f"probe {kind.name}", OK, kind.sees)
        else:
            yield Finding(f"probe {kind.name}", ABSENT, missing.reason, missing.fix)


def clock(asked: Asked) -> Iterator[Finding]:
    """Who keeps the clock, and how well."""
    found = clock_offset(asked.host)
    if found is None:
        yield Finding(
            "clock", WARNING, "nobody keeps it: chrony and ptp4l do not answer, and the kernel's is not synchronised",
            "run chrony or ptp4l: what hosts report is joined by time",
        )  # fmt: skip
        return
    bound = f", within {found.error_ns / 1000:,.0f} µs" if found.error_ns != UNKNOWN else ""
    says = f"{found.source} says {found.offset_ns / 1000:+,.1f} µs{bound}"
    if abs(found.offset_ns) + max(found.error_ns, 0) > CLOCK_NS:
        yield Finding("clock", WARNING, says, f"bring it below {CLOCK_NS // 1_000_000} ms: see `chronyc sources`")
    else:
        yield Finding("clock", OK, says)


def kafka(asked: Asked) -> Iterator[Finding]:
    """Whether Kafka answers."""
    if asked.kafka is None:
        yield Finding("Kafka", ABSENT, "nobody said where it is", "give --bootstrap-servers to have it tried")
        return
    try:
        cluster = look(asked.kafka)
    except PausetraceError as err:
        yield Finding("Kafka", MISSING, err.message, err.next_step)
        return
    missing = [
        topic for topic in ("device", "pcie", "host") if f"{asked.kafka.prefix}.{topic}" not in cluster.partitions
    ]
    if missing:
        yield Finding(
            "Kafka", MISSING, f"{asked.kafka.bootstrap_servers} answers, without the topics of {asked.kafka.prefix}",
            "make them: pausetrace topics create",
        )  # fmt: skip
    else:
        yield Finding("Kafka", OK, f"{asked.kafka.bootstrap_servers} answers")


def leftovers(asked: Asked) -> Iterator[Finding]:
    """What agents left in the kernel that were killed; a running agent's filters are none of it."""
    if not asked.host.live:
        return
    from probes.attach import leftovers as of_attachments

    try:
        found = of_attachments()
    except OSError as err:
        yield Finding("leftovers", WARNING, f"cannot be looked for: {err.strerror or err}", "run as root")
        return
    if not found:
        yield Finding("leftovers", OK, "none")
    for leftover in found:
        yield Finding(
            "leftovers",
            WARNING,
            str(leftover),
            "its agent was killed: start any, and it is removed",
        )


CHECKS: tuple[Callable[[Asked], Iterator[Finding]], ...] = (
    kernel, programs, nics, pcie, pollers, clock, kafka, leftovers,
)  # fmt: skip
