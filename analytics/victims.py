"""Flows that a cascade held up: for how long each one's own bytes stood in queues that were stopped.

In: a closed cascade's stops, and the bytes of flows that left by ports, in windows. Out: the exposure of each flow. A
flow is present in a stopped queue of a switch if more bytes of it had come to the device by the end of the stop than
had left by the queue at its beginning; at the port of its own host, if it had bytes left to send. Bytes of a window are
taken to flow evenly. (Present-bytes rule; rows are kept for as long as an open cascade may ask for them.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.compiled import kernel
from analytics.flows import Known
from analytics.layout import FOREVER, NEVER, Ints
from analytics.topology import PRIORITIES, Topology
from stream.kinds import INT64_MAX

Ids = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

PRESENT_BYTES = 1_000
"""Less than a packet of 1,024 bytes and its headers: half a packet is not a packet that waits."""
MAX_ROWS = 1_000_000
"""Windows of flows kept; where there are more, the oldest go, counted, and what was before them holds up nobody."""
MAX_SENT_BYTES = INT64_MAX // (4 * MAX_ROWS)
"""Of one window, terabytes: only absurd rows say more, and sums of them must not overflow."""


class FlowRows(NamedTuple):
    """Windows in which a flow's bytes left by an egress queue."""

    flow: Ids
    queue: Ints
    start_ns: Ints
    end_ns: Ints
    sent: Ints

    def where(self, wanted: Any) -> FlowRows:
        """Some of the windows."""
        return FlowRows(*(column[wanted] for column in self))


_NO_ROWS = FlowRows(np.zeros(0, np.uint64), *(np.zeros(0, np.int64) for _ in range(4)))


class _Part(NamedTuple):
    """Windows that came together, never changed, and when the first and the last of them end."""

    rows: FlowRows
    first_ns: int
    last_ns: int

    @classmethod
    def of(cls, rows: FlowRows) -> _Part:
        return cls(rows, int(rows.end_ns.min()), int(rows.end_ns.max()))


class Exposure(NamedTuple):
    """A time in which a flow was held up in a queue."""

    begin_ns: int
    end_ns: int
    queue: int


class SentByFlows:
    """The windows that an open cascade may ask for, and what each flow had sent from its host before them."""

    def __init__(self) -> None:
        self.sent_before: dict[int, int] = {}
        self._parts: list[_Part] = []

    def add(self, rows: FlowRows) -> None:
        """Takes settled windows in."""
        if len(rows.flow):
            self._parts.append(_Part.of(rows._replace(sent=np.minimum(rows.sent, MAX_SENT_BYTES))))

    def take(self, rows: Ints, flows: Ids) -> None:
        """Takes those of the kernel's rows in (columns ROW_* of analytics.layout) that are of flows."""
        of, room = np.empty(len(rows), np.uint64), np.empty((4, len(rows)), np.int64)
        count, first_ns, last_ns = map(int, _keep(rows, flows, of, room))
        if count:
            columns = (column[:count].copy() for column in room)
            self._parts.append(_Part(FlowRows(of[:count].copy(), *columns), first_ns, last_ns))

    def all_rows(self) -> FlowRows:
        """Everything that is kept."""
        if len(self._parts) > 1:
            self._parts = [_Part.of(_joined([part.rows for part in self._parts]))]
        return self._parts[0].rows if self._parts else _NO_ROWS

    def forget(self, before_ns: int, cursor_ns: int, topology: Topology) -> int:
        """Drops windows that ended before a time; bytes that left a host are remembered as a sum by flow.

        Returns how many more had to go since there were too many.
        """
        gone: list[FlowRows] = []
        kept: list[_Part] = []
        for part in self._parts:
            if part.first_ns >= before_ns:
                kept.append(part)
            elif part.last_ns < before_ns:
                gone.append(part.rows)
            else:
                old = part.rows.end_ns < before_ns
                gone.append(part.rows.where(old))
                kept.append(_Part.of(part.rows.where(~old)))
        self._parts = kept
        too_many = 0
        if sum(len(part.rows.flow) for part in kept) > MAX_ROWS:
            rows = self.all_rows()
            settled = np.flatnonzero(rows.end_ns < cursor_ns)
            too_many = max(len(settled) - MAX_ROWS, 0)
            if too_many:
                left = np.ones(len(rows.flow), np.bool_)
                left[settled[np.argsort(rows.end_ns[settled], kind="stable")[:too_many]]] = False
                gone.append(rows.where(~left))
                self._parts = [_Part.of(rows.where(left))]
        if gone:
            self._add_up(_joined(gone), topology)
        return too_many

    def _add_up(self, gone: FlowRows, topology: Topology) -> None:
        at_host = topology.is_host[topology.port_device[gone.queue // PRIORITIES]]
        flows, index = np.unique(gone.flow[at_host], return_inverse=True)
        sums = np.zeros(len(flows), np.int64)
        np.add.at(sums, index, gone.sent[at_host])
        for flow, sent in zip(flows.tolist(), sums.tolist(), strict=True):
            self.sent_before[flow] = min(self.sent_before.get(flow, 0) + sent, INT64_MAX)

    def copy(self) -> SentByFlows:
        """A copy that further rows change alone."""
        twin = SentByFlows()
        twin._parts, twin.sent_before = list(self._parts), dict(self.sent_before)
        return twin

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot."""
        rows, before = self.all_rows(), sorted(self.sent_before.items())
        # The order in which they came is of no matter, and may be another after a restart.
        rows = rows.where(np.lexsort((rows.sent, rows.end_ns, rows.queue, rows.flow)))
        flows = np.array([flow for flow, _ in before], np.uint64)
        return [list(rows), flows, np.array([sent for _, sent in before], np.int64)]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        rows, flows, sent = state
        self._parts = [_Part.of(FlowRows(*rows))] if len(rows[0]) else []
        self.sent_before = dict(zip(flows.tolist(), sent.tolist(), strict=True))


def _joined(parts: Sequence[FlowRows]) -> FlowRows:
    if len(parts) == 1:
        return parts[0]
    columns = zip(_NO_ROWS, *parts, strict=True)
    return FlowRows(*(np.concatenate(each) for each in columns))


@kernel
def _keep(rows: Ints, flows: Ids, of: Ids, room: Ints) -> tuple[int, int, int]:
    """Copies windows of flows (columns as in FlowRows); returns how many, and when the first and the last end."""
    count, first_ns, last_ns = 0, FOREVER, NEVER
    for row in range(len(rows)):
        if rows[row, layout.ROW_TYPE] != layout.FLOW:
            continue
        end_ns = rows[row, layout.ROW_END]
        of[count], room[0, count], room[1, count] = flows[row], rows[row, layout.ROW_QUEUE], rows[row, layout.ROW_START]
        room[2, count], room[3, count] = end_ns, min(rows[row, layout.ROW_AMOUNT], MAX_SENT_BYTES)
        first_ns, last_ns = min(first_ns, end_ns), max(last_ns, end_ns)
        count += 1
    return count, first_ns, last_ns


class FlowFacts(Protocol):
    """What is known of flows at one time."""

    def known(self, number: int) -> Known | None:
        """Of one flow."""
        ...

    def sent_by(self, host: int) -> set[int]:
        """The flows of a host."""
        ...


def exposures(
    sent: SentByFlows,
    stops: Mapping[tuple[int, int], int],
    from_ns: int,
    until_ns: int,
    facts: FlowFacts,
    topology: Topology,
) -> dict[int, list[Exposure]]:
    """By flow, the times in which it was held up, in order and without overlap; of two queues the first stop counts.

    `stops` are the cascade's, (queue, begin) to end; windows count that ended between the two times. What a host had
    sent of a flow before them counts as a sum.
    """
    by_queue: dict[int, list[tuple[int, int]]] = {}
    for (queue, begin_ns), end_ns in sorted(stops.items()):
        by_queue.setdefault(queue, []).append((begin_ns, end_ns))
    found: dict[int, list[Exposure]] = {}
    rows = sent.all_rows()
    rows = rows.where(_asked(rows, by_queue, topology) & (rows.end_ns <= until_ns))
    early = rows.end_ns < from_ns
    sums = Sums(_of_flows_at(rows.where(~early), by_queue))
    at_host = {queue for queue in by_queue if topology.is_host[topology.port_device[queue // PRIORITIES]]}
    before = _Before(rows.where(early) if at_host else rows.where(slice(0)), sent.sent_before, topology)
    for queue, times in by_queue.items():
        begin, end = (np.array(column, np.int64) for column in zip(*times, strict=True))
        if queue in at_host:
            held = _held_at_host(queue, begin, end, sums, before, facts, topology)
        else:
            held = _held_in_switch(queue, begin, end, sums, topology)
        for flow, which in held:
            found.setdefault(flow, []).extend(
                Exposure(b, e, queue) for b, e in zip(begin[which].tolist(), end[which].tolist(), strict=True)
            )
    return {flow: _disjoint(times, topology) for flow, times in sorted(found.items())}


def _asked(rows: FlowRows, by_queue: Mapping[int, Any], topology: Topology) -> npt.NDArray[np.bool_]:
    """Windows at the stopped queues, and at queues that lead to their devices."""
    wanted = np.zeros(len(topology.ports) * PRIORITIES, np.bool_)
    stopped = np.array(sorted(by_queue), np.int64)
    wanted[stopped] = True
    devices = np.unique(topology.port_device[stopped // PRIORITIES])
    peer = topology.port_peer
    leads = (peer >= 0) & np.isin(topology.port_device[peer], devices)
    for priority in np.unique(stopped % PRIORITIES).tolist():
        wanted[np.flatnonzero(leads) * PRIORITIES + priority] = True
    used: npt.NDArray[np.bool_] = wanted[rows.queue]
    return used


def _of_flows_at(rows: FlowRows, queues: Iterable[int]) -> FlowRows:
    """Windows of the flows that left by some of these queues: no other can be held up there."""
    there = np.unique(rows.flow[np.isin(rows.queue, list(queues))])
    if not len(there):
        return rows.where(slice(0))
    place = np.minimum(np.searchsorted(there, rows.flow), len(there) - 1)
    return rows.where(there[place] == rows.flow)


class Sums:
    """What each flow had sent by each queue, at any time: windows sorted by flow and queue."""

    def __init__(self, rows: FlowRows) -> None:
        order = np.lexsort((rows.end_ns, rows.queue, rows.flow))
        self.rows = rows.where(order)
        flow, queue = self.rows.flow, self.rows.queue
        first = np.ones(len(flow), np.bool_)
        first[1:] = (flow[1:] != flow[:-1]) | (queue[1:] != queue[:-1])
        starts = np.flatnonzero(first)
        bounds = np.append(starts, len(flow)).tolist()
        self.pairs = {
            (f, q): slice(bounds[i], bounds[i + 1])
            for i, (f, q) in enumerate(zip(flow[starts].tolist(), queue[starts].tolist(), strict=True))
        }
        self.flows_at: dict[int, list[int]] = {}
        self.queues_of: dict[int, list[int]] = {}
        for f, q in self.pairs:
            self.flows_at.setdefault(q, []).append(f)
            self.queues_of.setdefault(f, []).append(q)

    def at(self, flow: int, queue: int, times_ns: Ints) -> Floats:
        """Bytes sent by then, 0 at the first window's beginning."""
        where = self.pairs.get((flow, queue))
        if where is None:
            return np.zeros(len(times_ns))
        rows = self.rows
        begin, end = rows.start_ns[where], rows.end_ns[where]
        total = np.cumsum(rows.sent[where])
        times = np.empty(2 * len(begin), np.int64)
        times[0::2], times[1::2] = begin, end
        sums = np.empty(2 * len(begin))
        sums[0::2], sums[1::2] = total - rows.sent[where], total
        origin = int(times[0])
        return np.interp((times_ns - origin).astype(np.float64), (times - origin).astype(np.float64), sums)

    def total(self, flow: int, queue: int) -> int:
        where = self.pairs.get((flow, queue))
        return int(self.rows.sent[where].sum()) if where is not None else 0


class _Before:
    """What hosts had sent of each flow before the windows that count."""

    def __init__(self, rows: FlowRows, sums: Mapping[int, int], topology: Topology) -> None:
        at_host = topology.is_host[topology.port_device[rows.queue // PRIORITIES]]
        self._sums = sums
        self._since: Counter[int] = Counter()
        for flow, count in zip(rows.flow[at_host].tolist(), rows.sent[at_host].tolist(), strict=True):
            self._since[flow] += count

    def of(self, flow: int) -> int:
        return self._sums.get(flow, 0) + self._since[flow]


def _held_in_switch(
    queue: int, begin: Ints, end: Ints, sums: Sums, topology: Topology
) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    device = topology.port_device[queue // PRIORITIES]
    held = []
    for flow in sums.flows_at.get(queue, ()):
        come = np.zeros(len(begin))
        for other in sums.queues_of[flow]:
            port = other // PRIORITIES
            peer = int(topology.port_peer[port])
            if peer >= 0 and topology.port_device[peer] == device and other != queue:
                come += sums.at(flow, other, end - int(topology.port_delay_ns[port]))
        present = come - sums.at(flow, queue, begin) > PRESENT_BYTES
        if present.any():
            held.append((flow, present))
    return held


def _held_at_host(
    queue: int,
    begin: Ints,
    end: Ints,
    sums: Sums,
    before: _Before,
    facts: FlowFacts,
    topology: Topology,
) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    """Flows of this host with bytes left to send; of one whose size nobody knows, those that it sends later."""
    host = int(topology.port_device[queue // PRIORITIES])
    held = []
    for flow in sorted(facts.sent_by(host) | set(sums.flows_at.get(queue, ()))):
        told = facts.known(flow) or Known(-1, NEVER, -1)
        if told.src_device not in (-1, host):
            continue
        total = told.size_bytes - before.of(flow) if told.size_bytes >= 0 else sums.total(flow, queue)
        left = total - sums.at(flow, queue, begin)
        present = (left > PRESENT_BYTES) & (end > told.from_ns)
        if present.any():
            held.append((flow, present))
    return held


def _disjoint(times: list[Exposure], topology: Topology) -> list[Exposure]:
    def order(time: Exposure) -> tuple[int, int, int]:
        # By name: the numbers of queues depend on what was read first.
        port, priority = divmod(time.queue, PRIORITIES)
        return time.begin_ns, time.end_ns, int(topology.port_rank[port]) * PRIORITIES + priority

    out: list[Exposure] = []
    reached = NEVER
    for begin, end, queue in sorted(times, key=order):
        if end > reached:
            out.append(Exposure(max(begin, reached), end, queue))
            reached = end
    return out
