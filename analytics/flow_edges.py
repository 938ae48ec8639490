"""What stood in which egress queue of the pauser when a pause was sent: conservation of the bytes of flows.

In: a cascade's stops, and the bytes of flows that left by ports, in windows. Out: of each stop the bytes that had come
by the stopped link and were still held, by egress queue. What came to a device and has not left is held there, in the
queue by which it leaves later; where it never leaves, in those that the flow is routed by. Bytes of a window are taken
to flow evenly. (Hawkeye, SIGCOMM 2025, has P4 switches tell of what their buffers are made up at an XOFF; here it is
worked out from counters.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from analytics.compiled import kernel
from analytics.layout import MAX_POLL_NS, Bools, Floats, Ints
from analytics.thresholds import Readings
from analytics.topology import PRIORITIES, Topology
from analytics.victims import FlowRows, Sums

MAX_LOOKS = 20_000_000
"""Pairs of an instant and a flow that are looked at for one cascade, a few seconds of work; what is beyond it (the last
queues by name) is left to the evidence of depths."""
STOPS_AT_ONCE = 4_096
"""Stops of one queue that are looked at together: it bounds the room for a wide fan-out, 100 MB at 1,024 ports."""

Ways = Callable[[int, int], list[int]]
"""Of a flow and a device, the ports by which it is routed on."""


class Stops(NamedTuple):
    """A cascade's stops in order of time, at one time by name: who was told, from when to when, by which port (-1)."""

    queue: Ints
    begin_ns: Ints
    end_ns: Ints
    pauser: Ints


class Held(NamedTuple):
    """Bytes by stop and, within it, name of the egress queue; and what flows show of the device's buffer at each stop.

    `not_looked_at`: stops of queues with more of them, and flows, than MAX_LOOKS leaves room for.
    """

    stop: Ints
    egress: Ints
    amount: Ints
    readings: Readings
    not_looked_at: int


class _Tracks(NamedTuple):
    """Flows that came by a link: windows by which each came and left, as ranges of rows (-1: it never left).

    Of track t, `come_first[t]` to `come_first[t + 1]` are the ways in; `leave_*` the ways out with their columns.
    """

    part: Floats
    come_first: Ints
    come_rows: Ints
    come_delay: Ints
    leave_first: Ints
    leave_rows: Ints
    leave_column: Ints
    leave_part: Floats


def held_bytes(
    stops: Stops, rows: FlowRows, ways: Ways, seen: Mapping[int, set[int]], topology: Topology,
    unplaced: Bools | None = None,
) -> Held:  # fmt: skip
    """What the stops found held; `seen` are the egress queues that depths speak for, by told queue (none: any may).

    Flows by way of devices that are `unplaced` in time count for nothing in what stands at a device in all.
    """
    rows = rows.where((rows.end_ns > rows.start_ns) & (rows.end_ns - rows.start_ns <= MAX_POLL_NS))
    sums = Sums(rows)
    rows = sums.rows
    before = np.cumsum(rows.sent) - rows.sent
    # A device that tells of no flow at all may well have sent some on.
    telling = set(np.unique(topology.port_device[rows.queue // PRIORITIES]).tolist())
    parts: list[tuple[Ints, Ints, Ints]] = []
    readings = Readings(*np.zeros((4, len(stops.queue)), np.int64))
    buffers: dict[int, DeviceBytes] = {}
    in_time = rows
    if unplaced is not None and unplaced.any():
        # Of such a flow many windows may seem to stand at a device that has sent them on long ago.
        out_of_time = np.unique(rows.flow[unplaced[topology.port_device[rows.queue // PRIORITIES]]])
        in_time = rows.where(~np.isin(rows.flow, out_of_time))
    looks = not_looked_at = 0
    for told, which in _by_queue(stops, topology):
        pauser = int(stops.pauser[which[0]])
        device = int(topology.port_device[pauser]) if pauser >= 0 else -1
        if device < 0 or topology.is_host[device] or device not in telling or told not in sums.flows_at:
            continue
        columns, tracks = _tracks(told, device, sums, ways, topology)
        needed = 2 * len(which) * len(tracks.part)
        if looks + needed > MAX_LOOKS:
            not_looked_at += len(which)
            continue
        looks += needed
        allowed = np.array([told not in seen or queue in seen[told] for queue in columns.tolist()], np.bool_)
        sent_ns = stops.begin_ns[which] - int(topology.port_delay_ns[told // PRIORITIES])
        window_ns = _window_end(sent_ns, told, sums)
        stopped = (window_ns > sent_ns) & (window_ns <= stops.end_ns[which])
        if device not in buffers:
            buffers[device] = DeviceBytes(device, in_time, topology)
        for first in range(0, len(which), STOPS_AT_ONCE):
            some = slice(first, first + STOPS_AT_ONCE)
            looked = []
            for instants, own, others in (
                (sent_ns[some], readings.own, readings.others),
                (window_ns[some], readings.own_at_end, readings.others_at_end),
            ):
                found = np.zeros((len(instants), len(columns)), np.int64)
                _look(instants, *tracks, rows.start_ns, rows.end_ns, rows.sent, before, found)
                looked.append(found)
                own[which[some]] = found.sum(axis=1)
                others[which[some]] = np.maximum(buffers[device].held(instants) - found.sum(axis=1), 0)
            readings.own_at_end[which[some]] *= stopped[some]
            at, column = np.nonzero(looked[0] * allowed)
            parts.append((which[some][at], columns[column], looked[0][at, column]))
    if not parts:
        none = np.zeros(0, np.int64)
        return Held(none, none, none, readings, not_looked_at)
    stop, egress, amount = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((egress % PRIORITIES, topology.port_rank[egress // PRIORITIES], stop))
    return Held(stop[order], egress[order], amount[order], readings, not_looked_at)


def _by_queue(stops: Stops, topology: Topology) -> list[tuple[int, Ints]]:
    """The told queues by name, and the stops of each in order of time."""
    order = np.lexsort((stops.queue % PRIORITIES, topology.port_rank[stops.queue // PRIORITIES]))
    queue = stops.queue[order]
    groups = np.split(order, np.flatnonzero(queue[1:] != queue[:-1]) + 1)
    return [(int(stops.queue[group[0]]), group) for group in groups if len(group)]


def _tracks(told: int, device: int, sums: Sums, ways: Ways, topology: Topology) -> tuple[Ints, _Tracks]:
    """The egress queues by name that flows of the told queue left by, and the flows.

    Of a flow that comes or leaves by several ports each has its part of the bytes, as all its windows have them.
    """
    priority, peer = told % PRIORITIES, topology.port_peer
    part: list[float] = []
    come: list[list[tuple[slice, int]]] = []
    leave: list[list[tuple[int, slice | None, float]]] = []
    for flow in sorted(sums.flows_at[told]):
        queues = [q for q in sums.queues_of[flow] if q % PRIORITIES == priority]
        entered = [q for q in queues if peer[q // PRIORITIES] >= 0
                   and topology.port_device[peer[q // PRIORITIES]] == device]  # fmt: skip
        left = [q for q in queues if topology.port_device[q // PRIORITIES] == device]
        out: list[tuple[int, slice | None, float]]
        if left:
            total = sum(sums.total(flow, q) for q in left)
            out = [(q, sums.pairs[flow, q], sums.total(flow, q) / total if total else 0.0) for q in left]
        else:
            ports = ways(flow, device)
            out = [(port * PRIORITIES + priority, None, 1 / len(ports)) for port in ports]
        total = sum(sums.total(flow, q) for q in entered)
        part.append(sums.total(flow, told) / total if total else 0.0)
        come.append([(sums.pairs[flow, q], int(topology.port_delay_ns[q // PRIORITIES])) for q in entered])
        leave.append(out)
    used = sorted({queue for out in leave for queue, _, _ in out},
                  key=lambda q: (int(topology.port_rank[q // PRIORITIES]), q % PRIORITIES))  # fmt: skip
    column = {queue: number for number, queue in enumerate(used)}
    come_flat, leave_flat = [each for one in come for each in one], [each for one in leave for each in one]
    return np.array(used, np.int64), _Tracks(
        np.array(part),
        np.cumsum([0, *map(len, come)], dtype=np.int64),
        np.array([(rows.start, rows.stop) for rows, _ in come_flat], np.int64).reshape(-1, 2),
        np.array([delay for _, delay in come_flat], np.int64),
        np.cumsum([0, *map(len, leave)], dtype=np.int64),
        np.array([(-1, -1) if rows is None else (rows.start, rows.stop) for _, rows, _ in leave_flat],
                 np.int64).reshape(-1, 2),
        np.array([column[queue] for queue, _, _ in leave_flat], np.int64),
        np.array([share for _, _, share in leave_flat]),
    )  # fmt: skip


def _window_end(times_ns: Ints, told: int, sums: Sums) -> Ints:
    """When the windows of the told queue that hold the times ended; the times themselves where none does."""
    pairs = [sums.pairs[flow, told] for flow in sums.flows_at[told]]
    starts = np.concatenate([sums.rows.start_ns[pair] for pair in pairs])
    ends = np.concatenate([sums.rows.end_ns[pair] for pair in pairs])
    longest = int((ends - starts).max())
    bounds = np.unique(np.concatenate((starts, ends)))
    at = np.searchsorted(bounds, times_ns, "right")
    earlier = bounds[np.maximum(at - 1, 0)]
    later = bounds[np.minimum(at, len(bounds) - 1)]
    inside = (earlier <= times_ns) & (times_ns <= later) & (later - earlier <= longest)
    return np.where(inside, later, times_ns)


class DeviceBytes:
    """All bytes that stand at a device at some instants: what has come by any link less what has left."""

    def __init__(self, device: int, rows: FlowRows, topology: Topology) -> None:
        port = rows.queue // PRIORITIES
        peer = topology.port_peer[port]
        came = rows.where((peer >= 0) & (topology.port_device[peer] == device))
        delay_ns = topology.port_delay_ns[came.queue // PRIORITIES]
        left = rows.where(topology.port_device[port] == device)
        self._came = _windows(came.start_ns + delay_ns, came.end_ns + delay_ns, came.sent)
        self._left = _windows(left.start_ns, left.end_ns, left.sent)

    def held(self, instants: Ints) -> Ints:
        sums = np.zeros((2, len(instants)), np.int64)
        for windows, found in zip((self._came, self._left), sums, strict=True):
            ended = np.searchsorted(windows.end_ns, instants, "right")
            _sum_until(instants, ended, windows.start_ns, windows.end_ns, windows.sent, windows.before,
                       windows.longest_ns, found)  # fmt: skip
        return sums[0] - sums[1]


class _Windows(NamedTuple):
    """Windows in order of their ends, alike ones as one, each with what was sent in those before; and the longest."""

    start_ns: Ints
    end_ns: Ints
    sent: Ints
    before: Ints
    longest_ns: int


def _windows(start_ns: Ints, end_ns: Ints, sent: Ints) -> _Windows:
    spans, index = np.unique(np.stack((end_ns, start_ns), axis=1), axis=0, return_inverse=True)
    summed = np.zeros(len(spans), np.int64)
    np.add.at(summed, index.reshape(-1), sent)
    longest = int((spans[:, 0] - spans[:, 1]).max(initial=0))
    return _Windows(spans[:, 1].copy(), spans[:, 0].copy(), summed, np.cumsum(summed) - summed, longest)


@kernel
def _sum_until(
    instants: Ints, ended: Ints, start_ns: Ints, end_ns: Ints, sent: Ints, before: Ints, longest_ns: int, found: Ints
) -> None:
    """Bytes of the windows that are over by the instants, and the even part of those that are not."""
    if len(sent) == 0:
        return
    total = before[-1] + sent[-1]
    for i in range(len(instants)):
        row = ended[i]
        found[i] = before[row] if row < len(sent) else total
        while row < len(sent) and end_ns[row] - longest_ns < instants[i]:
            if start_ns[row] < instants[i]:
                found[i] += int(sent[row] * ((instants[i] - start_ns[row]) / (end_ns[row] - start_ns[row])))
            row += 1


@kernel
def _look(
    instants: Ints,
    part: Floats,
    come_first: Ints,
    come_rows: Ints,
    come_delay: Ints,
    leave_first: Ints,
    leave_rows: Ints,
    leave_column: Ints,
    leave_part: Floats,
    start_ns: Ints,
    end_ns: Ints,
    sent: Ints,
    before: Ints,
    found: Ints,
) -> None:
    """Adds to `found`, by instant and column, what had come by then and not left."""
    for track in range(len(part)):
        for i in range(len(instants)):
            held = 0
            for way in range(come_first[track], come_first[track + 1]):
                time_ns = instants[i] - come_delay[way]
                held += _sent_until(time_ns, come_rows[way, 0], come_rows[way, 1], start_ns, end_ns, sent, before)
            if held == 0:
                continue
            for way in range(leave_first[track], leave_first[track + 1]):
                if leave_rows[way, 0] >= 0:
                    first, last = leave_rows[way, 0], leave_rows[way, 1]
                    held -= _sent_until(instants[i], first, last, start_ns, end_ns, sent, before)
            if held > 0:
                for way in range(leave_first[track], leave_first[track + 1]):
                    found[i, leave_column[way]] += int(held * part[track] * leave_part[way])


@kernel
def _sent_until(time_ns: int, first: int, last: int, start_ns: Ints, end_ns: Ints, sent: Ints, before: Ints) -> int:
    """Bytes that left by a time in the rows from `first` to before `last`; `before` are sums over all rows before."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if start_ns[middle] < time_ns:
            low = middle + 1
        else:
            high = middle
    if low == first:
        return 0
    row = low - 1
    whole = before[row] - before[first]
    if time_ns >= end_ns[row]:
        return whole + sent[row]
    return whole + int(sent[row] * ((time_ns - start_ns[row]) / (end_ns[row] - start_ns[row])))
