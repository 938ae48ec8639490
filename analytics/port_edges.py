"""What stood in which egress queue of the pauser when a pause was sent, where only whole ports are counted.

In: a cascade's stops, the windows of all ports of the pausers, and all pauses around. Out: of each stop the parts of
the egress queues in what its ingress held. A queue's depth does not tell whose bytes it holds. What came by each
ingress in a window and what left by each egress does so in part: of all tables of bytes by ingress and egress with
these sums, the nearest to what is known of the routes is found by iterative proportional fitting (Deming and Stephan,
Annals of Mathematical Statistics 1940; that it converges, Sinkhorn, American Mathematical Monthly 1967). Routes hold
for longer than a window, so that each pass over the windows begins from what the last one found of them (as expectation
and maximization find the flows of a network from loads of its links: Vardi, JASA 1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analytics.compiled import kernel
from analytics.flow_edges import DeviceBytes, Stops
from analytics.layout import Bools, Floats, Ints
from analytics.port_windows import AMOUNT, END, IS_DEPTH, QUEUE, START
from analytics.thresholds import FREE_PARTS, MOST_BYTES, parts_of_one_alone
from analytics.topology import PRIORITIES, Topology
from analytics.victims import FlowRows

PASSES = 5
"""Passes over the windows. One alone: F1 of edges .953 instead of .960 (10 recorded cases, a prototype), ten .960,
twenty .958."""
ROUNDS = 2
"""Rounds of fitting in each pass, whose next one goes on from them. Twenty: F1 of edges as with two to .001."""
LEAST_PART = 1e-12
"""Bytes of any pair that is possible: one that has sent nothing may stand still, which no sum can tell."""
MAX_STEPS = 200_000_000
"""Ingress by egress by window by round for one cascade, half a second of work; the devices beyond it (the last by
name) are left to the evidence of depths."""


class Parts(NamedTuple):
    """By stop and, within it, name of the egress queue: its part of what the ingress held, each stop's summing to 1.

    `not_looked_at`: stops of devices beyond MAX_STEPS.
    """

    stop: Ints
    egress: Ints
    part: Floats
    not_looked_at: int


class _Spans(NamedTuple):
    """Windows or stops: those of queue q are the rows from first[q] to before last[q], in order of their starts."""

    first: Ints
    last: Ints
    start_ns: Ints
    end_ns: Ints
    amount: Ints


def parts_by_ports(stops: Stops, pauses: Ints, windows: Ints, topology: Topology) -> Parts:
    """What the stops found, by bytes of ports.

    `pauses`, of all queues, any of them twice or more: columns queue, begin and end; `windows`: those of PortWindows.
    """
    found: list[tuple[Ints, Ints, Floats]] = []
    steps = not_looked_at = 0
    # The link that a stop came by may have gone by the time that its cascade closes: then no ingress is known.
    linked = (stops.pauser >= 0) & (topology.port_local[stops.pauser] >= 0)
    pauser = np.where(linked, topology.port_device[stops.pauser], -1)
    devices = [device for device in np.unique(pauser[pauser >= 0]).tolist() if not topology.is_host[device]]
    place = _places(devices, topology)
    depths_of, bytes_of = _spans(windows, 1, place), _spans(windows, 0, place)
    stops_of = _spans(_as_windows(pauses[np.argsort(pauses[:, 1], kind="stable")]), 0, place)
    of_group = np.where(np.isin(pauser, devices), pauser * PRIORITIES + stops.queue % PRIORITIES, -1)
    groups = [divmod(group, PRIORITIES) for group in np.unique(of_group[of_group >= 0]).tolist()]
    for device, priority in sorted(groups, key=lambda group: (topology.devices[group[0]], group[1])):
        which = np.flatnonzero(of_group == device * PRIORITIES + priority)
        ports = topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]]
        queues = ports * PRIORITIES + priority
        sent_ns = stops.begin_ns[which] - topology.port_delay_ns[stops.queue[which] // PRIORITIES]
        ingress = topology.port_local[stops.pauser[which]]
        may = topology.feasible[topology.feasible_start[device] : topology.feasible_start[device + 1]]
        may = may.reshape(len(ports), len(ports))
        depths = _of_queues(depths_of, place[queues])
        held = np.zeros((len(which), len(ports)))
        _held(sent_ns, depths, _of_queues(stops_of, place[queues]), topology.port_speed_mbps[ports], held)
        held *= may[ingress]
        if (np.count_nonzero(held, axis=1) > 1).any():
            cells = _cells(bytes_of, place, queues, topology)
            needed = len(cells.came) * len(ports) ** 2 * (PASSES + 1) * ROUNDS
            if steps + needed > MAX_STEPS:
                not_looked_at += len(which)
                continue
            steps += needed
            if len(cells.came):
                order = np.argsort(sent_ns, kind="stable")
                held[order] *= _mixed(cells, depths, may, sent_ns[order], ingress[order], held[order])
        total = held.sum(axis=1)
        at, local = np.nonzero(held)
        found.append((which[at], queues[local], held[at, local] / total[at]))
    if not found:
        none = np.zeros(0, np.int64)
        return Parts(none, none, np.zeros(0), not_looked_at)
    stop, egress, part = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((topology.port_rank[egress // PRIORITIES], stop))
    return Parts(stop[order], egress[order], part[order], not_looked_at)


def alone_bytes(stops: Stops, windows: Ints, topology: Topology) -> float:
    """What an ingress that is stopped alone holds, by the law of dynamic thresholds; 0 where nothing tells.

    It is the median over all devices: what stands at a device when the window that holds an XOFF ends, if the ingress
    is stopped still, shared out evenly among those that are stopped.
    """
    pauser = np.where(stops.pauser >= 0, topology.port_device[stops.pauser], -1)
    sent = windows[windows[:, IS_DEPTH] == 0]
    rows = FlowRows(np.zeros(len(sent), np.uint64), sent[:, QUEUE], sent[:, START], sent[:, END], sent[:, AMOUNT])
    parts = parts_of_one_alone(stops.queue, stops.begin_ns, stops.end_ns, pauser)
    sharing = (FREE_PARTS + 1) / parts - FREE_PARTS
    told = np.unique(stops.queue)
    place = np.full(len(topology.ports) * PRIORITIES, -1, np.int64)
    place[told] = np.arange(len(told))
    ends = np.zeros(len(stops.queue), np.int64)
    sent_ns = stops.begin_ns - topology.port_delay_ns[stops.queue // PRIORITIES]
    _ends_of_windows(sent_ns, place[stops.queue], _spans(sent, 0, place), ends)
    read = (ends > 0) & (ends <= stops.end_ns)
    found = [np.zeros(0)]
    for device in np.unique(pauser[read & (pauser >= 0)]).tolist():
        here = np.flatnonzero(read & (pauser == device))
        if not topology.is_host[device]:
            stands = DeviceBytes(device, rows, topology).held(ends[here])
            found.append((stands / sharing[here] / parts[here])[stands > 0])
    every = np.concatenate(found)
    return min(float(np.median(every)), float(MOST_BYTES)) if len(every) else 0.0


class _Cells(NamedTuple):
    """The time of a device cut at the ends of its windows: in each piece what came and what left by each port."""

    bounds_ns: Ints
    came: Floats
    left: Floats


def _cells(sent: _Spans, place: Ints, queues: Ints, topology: Topology) -> _Cells:
    """Bytes of a window are taken to flow evenly; what came is what left the other ends of the links, and their delay
    later."""
    port = queues // PRIORITIES
    peers = topology.port_peer[port] * PRIORITIES + queues % PRIORITIES
    left, came = _of_queues(sent, place[queues]), _of_queues(sent, np.where(peers >= 0, place[peers], -1))
    own = [slice(*ends) for ends in zip(left.first.tolist(), left.last.tolist(), strict=True)]
    bounds = np.unique(np.concatenate([times[rows] for times in (left.start_ns, left.end_ns) for rows in own]))
    tables = []
    for spans, delay_ns in ((came, topology.port_delay_ns[port]), (left, np.zeros_like(port))):
        table = np.zeros((max(len(bounds) - 1, 0), len(queues)))
        if len(table):
            _spread(spans, delay_ns, bounds, table)
        tables.append(table)
    return _Cells(bounds, tables[0], tables[1])


def _as_windows(pauses: Ints) -> Ints:
    """Pauses as rows of windows of no bytes, so that they can be looked up alike."""
    nothing = np.zeros(len(pauses), np.int64)
    return np.stack((pauses[:, 2], pauses[:, 1], pauses[:, 0], nothing, nothing), axis=1)


def _places(devices: Sequence[int], topology: Topology) -> Ints:
    """By queue, a number from 0 on for those of some devices and for those that send to them; -1 for all others."""
    place = np.full(len(topology.ports) * PRIORITIES, -1, np.int64)
    ports = [topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]] for device in devices]
    own = np.concatenate([np.zeros(0, np.int64), *ports])
    peers = topology.port_peer[own]
    asked = np.unique(np.concatenate((own, peers[peers >= 0])))
    place.reshape(-1, PRIORITIES)[asked] = np.arange(len(asked) * PRIORITIES).reshape(-1, PRIORITIES)
    return place


def _spans(rows: Ints, is_depth: int, place: Ints) -> _Spans:
    """Rows by the place of their queue, alike ones in an order that does not tell in which one they came."""
    bounds, spans = np.zeros(int(place.max(initial=-1)) + 2, np.int64), np.empty((3, len(rows)), np.int64)
    if not _by_place(rows, is_depth, place, bounds, bounds.copy(), spans):
        # Windows come in order of time, but not where they are of several lengths, or from a snapshot.
        rows = rows[np.lexsort((rows[:, AMOUNT], rows[:, END], rows[:, START]))]
        bounds[:] = 0
        _by_place(rows, is_depth, place, bounds, bounds.copy(), spans)
    return _Spans(bounds[:-1], bounds[1:], *spans)


def _of_queues(spans: _Spans, places: Ints) -> _Spans:
    """Those of the queues at some places alone; of a place of -1 there are none."""
    first, last = spans.first[places], spans.last[places]
    return spans._replace(first=first, last=np.where(places >= 0, last, first))


@kernel
def _by_place(rows: Ints, is_depth: int, place: Ints, bounds: Ints, at: Ints, spans: Ints) -> bool:
    """Fills `spans` (starts, ends, amounts) by place, the rows of each as they came; False if they are not in order.

    Those of place p are from bounds[p] to bounds[p + 1]; `bounds` and `at` are 0 to begin with.
    """
    for row in range(len(rows)):
        here = place[rows[row, QUEUE]]
        if here >= 0 and rows[row, IS_DEPTH] == is_depth:
            bounds[here + 1] += 1
    for here in range(1, len(bounds)):
        bounds[here] += bounds[here - 1]
        at[here - 1] = bounds[here - 1]
    start_ns, end_ns, amount = spans
    for row in range(len(rows)):
        here = place[rows[row, QUEUE]]
        if here < 0 or rows[row, IS_DEPTH] != is_depth:
            continue
        to = at[here]
        start_ns[to], end_ns[to], amount[to] = rows[row, START], rows[row, END], rows[row, AMOUNT]
        if to > bounds[here]:
            later, longer = start_ns[to] - start_ns[to - 1], end_ns[to] - end_ns[to - 1]
            if later < 0 or (later == 0 and (longer < 0 or (longer == 0 and amount[to] < amount[to - 1]))):
                return False
        at[here] += 1
    return True


def _mixed(cells: _Cells, depths: _Spans, may: Bools, sent_ns: Ints, ingress: Ints, held: Floats) -> Floats:
    """By stop and egress, the part of the stop's ingress in what stood there; all 1 where that leaves nothing."""
    highest = np.zeros_like(cells.left)
    _highest(depths, cells.bounds_ns, highest)
    cell = np.clip(np.searchsorted(cells.bounds_ns, sent_ns, "right") - 1, 0, len(cells.came) - 1)
    count = len(may)
    split, table, room = np.zeros((count, count)), np.zeros((count, count)), np.zeros((count, count))
    fit_split(cells.came, cells.left, may, split, table, room)
    mix = np.zeros((len(cell), count))
    follow(cells.came, cells.left, highest, may, split, cell, ingress, table, room, np.zeros((count, count)), mix)
    mix[(mix * held).sum(axis=1) == 0] = 1.0
    return mix


@kernel
def _last_from(start_ns: Ints, first: int, last: int, time_ns: int) -> int:
    """The last of the rows from `first` to before `last` that starts by a time; first - 1 if none does."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if start_ns[middle] <= time_ns:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def _spread(spans: _Spans, delay_ns: Ints, bounds_ns: Ints, table: Floats) -> None:
    """Adds the bytes of windows to the pieces of time that they cover."""
    for port in range(len(delay_ns)):
        for row in range(spans.first[port], spans.last[port]):
            start_ns, end_ns = spans.start_ns[row] + delay_ns[port], spans.end_ns[row] + delay_ns[port]
            cell = max(_last_from(bounds_ns, 0, len(bounds_ns), start_ns), 0)
            while cell < len(table) and bounds_ns[cell] < end_ns:
                inside_ns = min(end_ns, bounds_ns[cell + 1]) - max(start_ns, bounds_ns[cell])
                if inside_ns > 0:
                    table[cell, port] += spans.amount[row] * (inside_ns / (end_ns - start_ns))
                cell += 1


@kernel
def _highest(spans: _Spans, bounds_ns: Ints, table: Floats) -> None:
    """The greatest depth of the windows that meet each piece of time."""
    for port in range(len(spans.first)):
        for row in range(spans.first[port], spans.last[port]):
            cell = max(_last_from(bounds_ns, 0, len(bounds_ns), spans.start_ns[row]), 0)
            while cell < len(table) and bounds_ns[cell] < spans.end_ns[row]:
                if bounds_ns[cell + 1] > spans.start_ns[row]:
                    table[cell, port] = max(table[cell, port], float(spans.amount[row]))
                cell += 1


@kernel
def _ends_of_windows(instants: Ints, port: Ints, spans: _Spans, ends_ns: Ints) -> None:
    """When the window of each one's port that holds the instant ends; untouched where none does."""
    for i in range(len(instants)):
        row = _last_from(spans.start_ns, spans.first[port[i]], spans.last[port[i]], instants[i])
        if row >= spans.first[port[i]] and spans.end_ns[row] > instants[i]:
            ends_ns[i] = spans.end_ns[row]


@kernel
def _held(instants: Ints, depths: _Spans, stops: _Spans, speed_mbps: Ints, held: Floats) -> None:
    """The bytes to be met in each queue at each instant.

    A stopped queue cannot drain: it holds the most that it did since the window in which its stop began, or in the one
    before. Another one holds its window's peak for as long as that takes to drain at line rate, of the window's time.
    """
    for port in range(len(speed_mbps)):
        first, last = depths.first[port], depths.last[port]
        for i in range(len(instants)):
            time_ns = instants[i]
            row = _last_from(depths.start_ns, first, last, time_ns)
            stop = _last_from(stops.start_ns, stops.first[port], stops.last[port], time_ns)
            if stop >= stops.first[port] and stops.end_ns[stop] >= time_ns:
                begin_ns = stops.start_ns[stop]
                height = 0
                while row >= first and depths.end_ns[row] > begin_ns:
                    height = max(height, depths.amount[row])
                    row -= 1
                if height == 0 and row >= first:
                    long_ns = depths.end_ns[row] - depths.start_ns[row]
                    if begin_ns - depths.end_ns[row] < long_ns:
                        height = depths.amount[row]
                held[i, port] = height
            elif row >= first and time_ns < depths.end_ns[row]:
                height = depths.amount[row]
                could = speed_mbps[port] * (depths.end_ns[row] - depths.start_ns[row]) / 8_000
                held[i, port] = height * min(1.0, height / could) if could > 0 else height


@kernel
def fit(came: Floats, left: Floats, may: Bools, split: Floats, table: Floats) -> None:
    """Fills a table of bytes by ingress (rows) and egress: `came` by each row split as `split` says, then fitted.

    came, left: (n,), in bytes; may, split, table: (n, n). Each round scales rows, then columns, to their sums.
    """
    count = len(came)
    for i in range(count):
        for j in range(count):
            table[i, j] = came[i] * split[i, j] + LEAST_PART if may[i, j] else 0.0
    for _ in range(ROUNDS):
        for i in range(count):
            total = 0.0
            for j in range(count):
                total += table[i, j]
            for j in range(count):
                table[i, j] *= came[i] / total if total > 0.0 else 0.0
        for j in range(count):
            total = 0.0
            for i in range(count):
                total += table[i, j]
            for i in range(count):
                table[i, j] *= left[j] / total if total > 0.0 else 0.0


@kernel
def fit_split(came: Floats, left: Floats, may: Bools, split: Floats, table: Floats, room: Floats) -> None:
    """Fills `split` with the part of what comes by each ingress (rows) that leaves by each egress.

    came, left: (pieces of time, n); the others (n, n), of which `table` and `room` are to work in.
    """
    count = may.shape[0]
    for i in range(count):
        ways = 0
        for j in range(count):
            ways += may[i, j]
        for j in range(count):
            split[i, j] = may[i, j] / ways if ways else 0.0
    for _ in range(PASSES):
        for i in range(count):
            for j in range(count):
                room[i, j] = 0.0
        for cell in range(len(came)):
            fit(came[cell], left[cell], may, split, table)
            for i in range(count):
                for j in range(count):
                    room[i, j] += table[i, j]
        for i in range(count):
            total = 0.0
            for j in range(count):
                total += room[i, j]
            if total > 0.0:
                for j in range(count):
                    split[i, j] = room[i, j] / total


@kernel
def follow(
    came: Floats,
    left: Floats,
    highest: Floats,
    may: Bools,
    split: Floats,
    cell: Ints,
    ingress: Ints,
    table: Floats,
    stood: Floats,
    parts: Floats,
    mix: Floats,
) -> None:
    """Fills `mix` (stops, n): the part of each stop's ingress in what stood in each queue or came to it meanwhile.

    came, left, highest: (pieces of time, n), in bytes; may, split, and to work in table, stood and parts: (n, n);
    `cell` the piece of each stop, in order, and `ingress` its port's number. What came last stays: from piece
    to piece as much as the queue was high. Where nothing stood and nothing came, the parts are as they were.
    """
    count = may.shape[0]
    for j in range(count):
        ways = 0
        for i in range(count):
            ways += may[i, j]
            stood[i, j] = 0.0
        for i in range(count):
            parts[i, j] = may[i, j] / ways if ways else 0.0
    stop = 0
    for piece in range(len(came)):
        fit(came[piece], left[piece], may, split, table)
        for j in range(count):
            new = old = 0.0
            for i in range(count):
                new += table[i, j]
                old += stood[i, j]
            new_stays = min(highest[piece, j], new)
            old_stays = min(highest[piece, j] - new_stays, old)
            for i in range(count):
                if new + old > 0.0:
                    parts[i, j] = (table[i, j] + stood[i, j]) / (new + old)
                stood[i, j] *= old_stays / old if old > 0.0 else 0.0
                stood[i, j] += table[i, j] * (new_stays / new) if new > 0.0 else 0.0
        while stop < len(cell) and cell[stop] == piece:
            for j in range(count):
                mix[stop, j] = parts[ingress[stop], j]
            stop += 1
        if stop == len(cell):
            return
