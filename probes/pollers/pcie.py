"""Width and speed of the PCIe links between each NIC and its root port, now and at most.

In: current_link_width, current_link_speed and their maxima of the NIC and of the bridges above it. Out: rows PCIE_WIDTH
and PCIE_SPEED of the narrowest and of the slowest link, when they change and every 10 s; the text names the bridge that
is at the upper end of the link, where that is not the NIC's own.

What a link could be at most is what both its ends can. Where even that way is too little for the port's speed, the
measure is what the NIC itself can: it sits in a slot that is too small for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from probes.host_root import HostRoot
from probes.interfaces import interfaces, no_interface, pci_path, speed_mbps
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Rows, Unavailable
from stream.kinds import PCIE_SPEED, PCIE_WIDTH
from stream.record import empty_events

MAX_LANES = 64
MAX_MTS = 1_000_000
AGAIN_NS = 10_000_000_000
"""So often each state is told though it has not changed: a reader may have come since."""
ENCODED_BELOW_MTS = 8_000
"""Slower links carry 8 bits in 10, from this speed on 128 in 130 (PCI Express Base Specification 3.0, 4.2)."""


class Link(NamedTuple):
    """One link of the way, named by the device at its lower end; 0 is unknown."""

    below: str
    above: str
    lanes: int
    max_lanes: int
    mts: int
    max_mts: int


class Way(NamedTuple):
    """What an interface's way to the root port allows."""

    lanes: int
    max_lanes: int
    mts: int
    max_mts: int
    narrowest: str
    """The address at the upper end of the narrowest link, "" if that is the NIC's own link."""
    slowest: str

    @property
    def rate_mbps(self) -> int:
        """What it carries at most as it is now."""
        return rate_mbps(self.lanes, self.mts)


def available(options: Options) -> Unavailable | None:
    """Whether a NIC tells of its PCIe link."""
    host = HostRoot(options.root)
    if missing := no_interface(host, options.interfaces):
        return missing
    if any(links(host, each.device) for each in interfaces(host, options.interfaces)):
        return None
    return Unavailable("no NIC tells of a PCIe link", "virtual NICs have none")


def make(options: Options) -> Probe:
    """The poller."""
    return PcieLinks(options)


def mts_of(text: str | None) -> int:
    """The speed in MT/s of a text such as "16.0 GT/s PCIe"; 0 for "Unknown" and anything else."""
    number, _, unit = (text or "").partition(" ")
    whole, dot, part = number.partition(".")
    if not unit.startswith("GT/s") or not whole.isascii() or not whole.isdigit() or len(whole) > 4:
        return 0
    if dot and not (part.isascii() and part.isdigit() and len(part) <= 3):
        return 0
    return int(whole) * 1000 + int(part.ljust(3, "0") or "0")


def rate_mbps(lanes: int, mts: int) -> int:
    """What so many lanes of this speed carry, in Mb/s, before the headers of packets."""
    return lanes * mts * 8 // 10 if mts < ENCODED_BELOW_MTS else lanes * mts * 128 // 130


def links(host: HostRoot, device: str) -> list[Link]:
    """The links from a device up to its root port, its own first; none that nobody tells of."""
    found = []
    path = pci_path(device)
    ends = [_End.of(host, each) for each in path]
    for at, (lower, upper) in enumerate(zip(ends, [*ends[1:], None][: len(ends)], strict=True)):
        # The uppermost is the root port: the link above it is inside the processor.
        if upper is None and len(ends) > 1:
            break
        lanes = lower.lanes or (upper.lanes if upper else 0)
        mts = lower.mts or (upper.mts if upper else 0)
        both = [lower] if upper is None else [lower, upper]
        max_lanes = min((end.max_lanes for end in both if end.max_lanes), default=0)
        max_mts = min((end.max_mts for end in both if end.max_mts), default=0)
        if lanes and mts and max_lanes and max_mts:
            above = path[at + 1].rpartition("/")[2] if upper else ""
            # A link that is better than it says it can be tells its maximum wrong.
            found.append(Link(path[at].rpartition("/")[2], above, lanes, max(max_lanes, lanes), mts, max(max_mts, mts)))
    return found


class _End(NamedTuple):
    """What one end of a link says of it; 0 is unknown."""

    lanes: int
    max_lanes: int
    mts: int
    max_mts: int

    @classmethod
    def of(cls, host: HostRoot, path: str) -> _End:
        lanes = [host.number(f"{path}/{name}_link_width") or 0 for name in ("current", "max")]
        mts = [mts_of(host.text(f"{path}/{name}_link_speed", 64)) for name in ("current", "max")]
        known = [lane if 0 < lane <= MAX_LANES else 0 for lane in lanes]
        return cls(*known, *(speed if speed <= MAX_MTS else 0 for speed in mts))


def way(host: HostRoot, device: str, port_mbps: int) -> Way | None:
    """What the way of a device to its root port allows; None if nobody tells."""
    path = links(host, device)
    if not path:
        return None
    # Of equal links the one that could be more.
    narrow = min(path, key=lambda link: (link.lanes, -link.max_lanes))
    slow = min(path, key=lambda link: (link.mts, -link.max_mts))
    max_lanes, max_mts = narrow.max_lanes, slow.max_mts
    if port_mbps and rate_mbps(narrow.lanes, slow.mts) < port_mbps:
        own = _End.of(host, pci_path(device)[0])
        max_lanes, max_mts = max(max_lanes, own.max_lanes), max(max_mts, own.max_mts)
    own_link = path[0].below
    return Way(
        narrow.lanes, max_lanes, slow.mts, max_mts,
        "" if narrow.below == own_link else narrow.above, "" if slow.below == own_link else slow.above,
    )  # fmt: skip


class PcieLinks(Poller):
    """Looks at the links of all NICs; they change so seldom that nothing is kept open."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._told: dict[str, tuple[Way, int]] = {}

    def poll(self, now_ns: int) -> Reading:
        """Looks."""
        due: list[tuple[str, Way]] = []
        gone = self._told.keys() - {each.name for each in interfaces(self.host, self.options.interfaces)}
        for each in interfaces(self.host, self.options.interfaces):
            found = way(self.host, each.device, speed_mbps(self.host, each.name))
            if found is None:
                continue
            before = self._told.get(each.name)
            if before is None or before[0] != found or not 0 <= now_ns - before[1] < AGAIN_NS:
                due.append((each.name, found))
                self._told[each.name] = found, now_ns
        for name in gone:
            del self._told[name]
        return Reading(rows=_rows(due, now_ns)) if due else Reading()


def _rows(due: Sequence[tuple[str, Way]], now_ns: int) -> list[Rows]:
    events = empty_events(2 * len(due))
    events["time_ns"] = events["seen_ns"] = now_ns
    texts = []
    for at, (_, found) in enumerate(due):
        width, speed = events[2 * at], events[2 * at + 1]
        width["kind"], width["value"], width["extra"] = PCIE_WIDTH, found.lanes, found.max_lanes
        speed["kind"], speed["value"], speed["extra"] = PCIE_SPEED, found.mts, found.max_mts
        width["port"] = speed["port"] = at
        texts += [(2 * at + offset, text) for offset, text in enumerate((found.narrowest, found.slowest)) if text]
    return [Rows("pcie", events, tuple(name for name, _ in due), texts)]
