"""Capacity: which link, PCIe slot or headroom limits first as load grows, from bytes against rates.

In: rows of bytes, PCIe states and headroom; nominal speeds. Out: `Limit`s, the first to be full first. Pure, in
whatever order rows come.

If all load grows by a factor, so does what each resource has to carry, and the one of the highest use is full first:
at 1 / use (the utilization law, and the bottleneck of Denning and Buzen, "The Operational Analysis of Queueing Network
Models", ACM Computing Surveys 10, 1978). Use is bytes over what the rate carries in all the time looked at: a mean that
a barrier does not change, since what waits is sent later. The direction that carries more counts. A slot has the rate
that it came up with, not the one that it could have, and its use is that of the time since then; a link that sent less
than its speed while it had a queue has the rate that it sent at, and the use of the time from the first of these
windows to the last. What carried more than its rate allows had it for a part of the time, which nobody told: it is
full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from stream import kinds
from stream.batch import Batch
from stream.kinds import BY_NAME, UNKNOWN

LINK, SLOT, HEADROOM = "link", "PCIe slot", "headroom"
PortName = tuple[str, str]

SHORT_NS = 1_000_000
"""Longer windows are not looked at: no buffer holds what a link sends in them."""
QUEUED_BYTES = 20_000
"""Of a peak: what stands behind a packet or two of each of several senders."""
QUEUED_WINDOWS = 5
SLOWER = 0.8
"""What a queued link sent must be below this part of its speed to be its rate: pauses of a peer apart."""
MAX_ENCODED = {2_500: 0.8, 5_000: 0.8}
"""Of PCIe 1 and 2, 8b/10b; from PCIe 3 on 128b/130b."""


class Limit(msgspec.Struct, frozen=True):
    """One resource: what it can carry and how much of that is used; at `times` the load it is full.

    `rate_mbps` is 0 for a headroom, whose use is its peak over its size. `nominal_mbps` is larger where the resource
    is slower than it could be.
    """

    resource: str
    device: str
    port: str
    rate_mbps: int
    nominal_mbps: int
    use: float
    times: float


class _Window(NamedTuple):
    sent: int
    peak: int
    stopped: int
    span_ns: int


class _Held(NamedTuple):
    """At most how fast a link sent while it had a queue; what it sent from the first such window to the last."""

    rate_mbps: int
    sent_bytes: int
    span_ns: int


class _State(NamedTuple):
    """What was told of a slot: when, its rate, lanes or speed then, and at most."""

    time_ns: int
    now: int
    most: int


class Capacity:
    """The resources of one fabric."""

    def __init__(self, speeds_mbps: Mapping[PortName, int]) -> None:
        self._speeds = speeds_mbps
        self._bytes: defaultdict[tuple[PortName, int], list[tuple[int, int]]] = defaultdict(list)
        """By port and side: the beginnings of windows, and the bytes in them."""
        self._slot: defaultdict[PortName, dict[int, list[_State]]] = defaultdict(dict)
        self._headroom: dict[PortName, tuple[int, int]] = {}
        self._short: defaultdict[PortName, dict[int, list[int]]] = defaultdict(dict)
        """By port and the end of a short window: sent, peak, stopped, span."""
        self._from_ns: int | None = None
        self._to_ns = 0

    def take(self, batch: Batch) -> None:
        """Rows of one device."""
        events = batch.events[batch.events["value"] != UNKNOWN]
        events = events[np.isin(events["kind"], _KINDS)]
        names = ("kind", "time_ns", "span_ns", "value", "extra", "port", "side")
        for kind, time_ns, span_ns, value, extra, port, side in zip(*(events[n].tolist() for n in names), strict=True):
            name = (batch.stream.device, batch.ports[port])
            if kind == kinds.PORT_BYTES:
                begin_ns = time_ns - span_ns
                self._bytes[name, side].append((begin_ns, value))
                self._from_ns = begin_ns if self._from_ns is None else min(self._from_ns, begin_ns)
                self._to_ns = max(self._to_ns, time_ns)
            if kind in _SLOT:
                self._slot[name].setdefault(kind, []).append(_State(time_ns, value, extra))
            elif kind == _HEADROOM and extra > 0:
                peak, size = self._headroom.get(name, (0, extra))
                self._headroom[name] = (max(peak, value), max(size, extra))
            elif 0 < span_ns <= SHORT_NS and not (side == kinds.SIDE_RX and kind != kinds.PFC_PAUSED):
                window = self._short[name].setdefault(time_ns, [0, 0, 0, span_ns])
                place = {kinds.PORT_BYTES: 0, kinds.QUEUE_DEPTH: 1, kinds.PFC_PAUSED: 2}[kind]
                if not (kind == kinds.PFC_PAUSED and side != kinds.SIDE_RX):
                    window[place] += value

    def finish(self) -> list[Limit]:
        """All resources of known rates that carry anything, the first to be full first."""
        from_ns = self._from_ns or 0
        found = [
            Limit(HEADROOM, *name, 0, 0, peak / size, size / peak)
            for name, (peak, size) in self._headroom.items()
            if peak
        ]
        for name in {name for name, _ in self._bytes}:
            nominal = self._speeds.get(name, 0)
            # The far end tells of the other direction.
            sent = self._carried(name, kinds.SIDE_TX, from_ns)
            link = self._held(name) or _Held(nominal, sent, self._to_ns - from_ns)
            found += _limit(LINK, name, link.rate_mbps, nominal, link.sent_bytes, link.span_ns)
            if name in self._slot:
                now, most = _slot_mbps({kind: max(states) for kind, states in self._slot[name].items()})
                since_ns = max(from_ns, *map(_since_ns, self._slot[name].values()))
                carried = max(self._carried(name, side, since_ns) for side in (kinds.SIDE_TX, kinds.SIDE_RX))
                found += _limit(SLOT, name, now, most, carried, self._to_ns - since_ns)
        return sorted(found, key=lambda limit: (limit.times, limit.resource, limit.device, limit.port))

    def _carried(self, name: PortName, side: int, since_ns: int) -> int:
        """Bytes in windows that began no earlier."""
        return sum(value for begin_ns, value in self._bytes.get((name, side), ()) if begin_ns >= since_ns)

    def _held(self, name: PortName) -> _Held | None:
        """A link that had a queue and was not stopped, and sent less than its speed; None where it did not."""
        windows = [(end_ns, _Window(*each)) for end_ns, each in sorted(self._short.get(name, {}).items())]
        queued = [
            at
            for at, ((before_ns, before), (end_ns, now), (after_ns, after)) in enumerate(
                zip(windows, windows[1:], windows[2:], strict=False), 1
            )
            # Just before, in it and just behind it as deep as all that it sent: such a queue was not empty meanwhile.
            if min(before.peak, now.peak, after.peak) >= max(now.sent, QUEUED_BYTES)
            and (before_ns, after_ns) == (end_ns - now.span_ns, end_ns + after.span_ns)
            and not now.stopped
        ]
        most = max((windows[at][1].sent * 8_000 // windows[at][1].span_ns for at in queued), default=0)
        if len(queued) < QUEUED_WINDOWS or not 0 < most < SLOWER * self._speeds.get(name, 0):
            return None
        slow = windows[queued[0] : queued[-1] + 1]
        begin_ns = slow[0][0] - slow[0][1].span_ns
        return _Held(most, sum(window.sent for _, window in slow), slow[-1][0] - begin_ns)


_HEADROOM = BY_NAME["HEADROOM"].code
_SLOT = (kinds.PCIE_RATE, kinds.PCIE_WIDTH, kinds.PCIE_SPEED)
_KINDS = (*_SLOT, _HEADROOM, kinds.PORT_BYTES, kinds.QUEUE_DEPTH, kinds.PFC_PAUSED)


def _limit(what: str, name: PortName, rate: int, nominal: int, carried: int, span_ns: int) -> list[Limit]:
    if not rate or not carried or span_ns <= 0:
        return []
    use = carried * 8_000 / (rate * span_ns)
    if rate < nominal:
        use = min(use, 1.0)
    return [Limit(what, *name, rate, nominal, use, 1 / use)]


def _since_ns(states: Sequence[_State]) -> int:
    """When a slot came to be as it is; 0 where nobody tells that it was ever otherwise."""
    last = max(states)
    before = max((state for state in states if state[1:] != last[1:]), default=None)
    return min(state.time_ns for state in states if state > before) if before is not None else 0


def _slot_mbps(state: Mapping[int, _State]) -> tuple[int, int]:
    """The rate of a slot now and at most, without its packets' headers; 0 where it is not known."""
    if kinds.PCIE_RATE in state:
        return state[kinds.PCIE_RATE].now, state[kinds.PCIE_RATE].most
    if kinds.PCIE_WIDTH not in state or kinds.PCIE_SPEED not in state:
        return 0, 0
    width, speed = state[kinds.PCIE_WIDTH], state[kinds.PCIE_SPEED]
    return _rate_mbps(width.now, speed.now), _rate_mbps(width.most, speed.most)


def _rate_mbps(lanes: int, speed_mts: int) -> int:
    return round(max(lanes, 0) * max(speed_mts, 0) * MAX_ENCODED.get(speed_mts, 128 / 130))
