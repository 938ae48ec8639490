"""Blame of one period of counters: where the paused time of each stopped queue began.

An absorbing Markov chain on the pause graph. The stop of queue k is sent by its link's other end X, at ingress q. A
host absorbs it. At a switch the egress queues P of X share it by the byte-time that they held of q's bytes; of that
part, what P's own stops can have caused is passed on to them, the rest stays at P. In: a `Period` of one priority.
Out: by stopped queue its blame, under several rules that bound each other (RULES).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analytics import layout
from analytics.compiled import kernel
from analytics.layout import CAUSE_MIN_SHARE, MEMORY_NS, Bools, Floats, Ints
from analytics.topology import Topology
from analytics.transit import Transit

MAIN, LOW, CAPPED, HIGH, COUNTS = range(5)
RULES = 5
"""MAIN: stopped time of P bounds what it passes on, and burst time of P counts in waves. LOW: no more is passed on than
chance would have it. CAPPED: watermarks count up to CAP_BYTES. HIGH: whatever is stopped passes all on. COUNTS: stops
of P bound what it passes on by their number, or by their time."""
HEDGE = (MAIN, LOW, CAPPED)
"""Whose mean stands where fewer than three periods carry pause."""
MIN_STOPPED_BYTES = 1_500
"""A queue that is stopped holds a packet, whatever its watermark says."""
CAP_BYTES = 500_000.0
"""Some XOFF thresholds: above them more depth causes no more XOFFs."""
SILENT_BYTES = 200_000.0
"""Depth of the queues of a switch that tells none: one XOFF threshold at 100 Gb/s (160-300 KB)."""
MARKED_BYTES = 1_048.0
"""A marked packet of 1,000 bytes with its headers; the size of packets is known to nobody here, and matters little."""
PASSED_THROUGH = 4.0
"""Where an egress sent so many times its depth, most of what the period brought has left, so that bytes in and out say
who fed it; in shorter periods what is held came before."""
FILLED = 0.25
"""Of a period that stops fill less of, bytes say more of other traffic."""
FAINT = 1e-4
"""An egress that held less than this part of the byte-time behind a stop had nothing to do with it: what idle queues
hold. The others take its part, or every stop would blame every port of the switch."""
FIT_ROUNDS = 20
ROUNDS = 120
"""The longest way that blame is followed, in stops; what goes on after that goes in a circle."""

HOST, EGRESS, UNKNOWN_ROOT, CYCLE = layout.ROOT_HOST, layout.ROOT_EGRESS, layout.ROOT_UNKNOWN, layout.ROOT_CYCLE


class Period(NamedTuple):
    """What was counted in one period at one priority, by port of the topology, float64 (P,) each.

    `paused_ns`, `stops`, `sent_bytes`, `peak_bytes` and `marked_packets` of the egress, `received_bytes`. `depths` and
    `marks`, bool (N,) by device: whether it tells depths, or marks. `counted`, bool (N,): whether anybody tells how
    much its egresses sent.
    """

    length_ns: float
    paused_ns: Floats
    stops: Floats
    sent_bytes: Floats
    received_bytes: Floats
    peak_bytes: Floats
    marked_packets: Floats
    depths: Bools
    marks: Bools
    counted: Bools
    around_ns: Floats
    """Paused time, where polls are not aligned that of the periods before and after too: when it was is not sure."""


class Blamed(NamedTuple):
    """Blame of the stopped ports of one part of the pause graph.

    `ports` (n,), their `roots` (r,) without priority, `shares` float64 (RULES, n, r).
    A root is port * 4 + ROOT_EGRESS, device * 4 + ROOT_HOST or ROOT_UNKNOWN, or ROOT_CYCLE; the shares of a port sum
    to 1. Edges: of a stopped port (place in `ports`) an egress port of its pauser, its weight, and the part that it
    passes on, by MAIN.
    """

    ports: Ints
    roots: Ints
    shares: Floats
    edge_of: Ints
    edge_port: Ints
    edge_weight: Floats
    edge_pass: Floats


class _Fan(NamedTuple):
    """Edges from stopped ports to the egresses that may have caused their stops, one behind the other.

    `start` (n + 1,): where those of each begin; `target`: place of the egress among the stopped ports, -1 if it is not;
    `height`: depth of the egress; `share`: part of its bytes that came in by the ingress that stops.
    """

    start: Ints
    port: Ints
    target: Ints
    height: Floats
    share: Floats


def blame_period(period: Period, topology: Topology, transit: Transit) -> list[Blamed]:
    """Blames the stops of one period, those that may have a cause in common together.

    Ports of unknown links blame their own device, as one without evidence.
    """
    ports = np.flatnonzero(period.paused_ns > 0)
    ports = ports[np.argsort(topology.port_rank[ports])]
    place = np.full(len(topology.port_peer), -1, np.int64)
    place[ports] = np.arange(len(ports))
    speed = topology.port_speed_mbps / 8_000.0
    reach = np.minimum(period.length_ns, period.paused_ns + np.maximum(period.stops, 1.0) * MEMORY_NS)
    reach = np.where(period.paused_ns > 0, reach, 0.0)
    fan, ends = _fan_out(period, topology, transit, ports, place, reach)
    busy = np.where(speed > 0, period.sent_bytes / np.where(speed > 0, speed, 1.0), period.length_ns)
    # Memory lasts W after each stop; but of stops that follow each other sooner it counts each to the full. A queue
    # drains by what it sends, so that it lasts no longer than that; where other traffic fills the period, that says
    # nothing, and only the stops themselves are left. Stops can have caused what the largest of the three allows.
    memory = np.minimum(np.maximum(period.stops, 1.0) * MEMORY_NS, np.maximum(busy, MEMORY_NS))
    short = np.where(period.paused_ns > 0, np.minimum(period.length_ns, period.paused_ns + memory), 0.0)
    stops = np.maximum(period.stops, 1.0)
    weight = np.zeros((RULES, len(fan.port)))
    _weigh(ports, fan, period.length_ns, reach, stops, busy, speed, weight)
    fan, weight = _without_faint(fan, weight)
    part, first = np.zeros(len(ports), np.int64), np.full(4 * max(len(place), len(topology.is_host)), -1, np.int64)
    _parts(fan.start, fan.port, fan.target, ends, first, part)
    ports, fan, ends, weight, part = _by_part(ports, fan, ends, weight, part)
    passed = np.zeros_like(weight)
    ring, length = np.full(len(ports), -1, np.int64), np.zeros(len(ports))
    work = np.zeros((5, len(ports) + 1), np.int64)
    _rings(fan.start, fan.target, weight[MAIN], ring, work)
    _lengths(ports, fan.start, fan.target, weight[MAIN], reach, length, work[0])
    _pass_on(ports, fan, period.length_ns, reach, short, period.paused_ns, period.around_ns, stops, busy, speed, ring,
             length, weight, passed)  # fmt: skip
    bounds = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1], [True]))) if len(ports) else np.zeros(1, int)
    return [
        _blamed(slice(first, last), ports, fan, ends, weight, passed, np.argsort(ring[first:last], kind="stable"))
        for first, last in zip(bounds.tolist(), bounds[1:].tolist(), strict=False)
    ]


def _blamed(stops: slice, ports: Ints, fan: _Fan, ends: Ints, weight: Floats, passed: Floats, order: Ints) -> Blamed:
    """Blames the stops of one part of the pause graph; in `order` causes come before what they cause, but in rings."""
    start = fan.start[stops.start : stops.stop + 1]
    edges = slice(int(start[0]), int(start[-1]))
    start, target = start - edges.start, fan.target[edges]
    target = np.where(target >= 0, target - stops.start, -1)
    ports, ends, egress, weight, passed = ports[stops], ends[stops], fan.port[edges], weight[:, edges], passed[:, edges]
    roots = np.unique(np.concatenate((egress * 4 + EGRESS, ends[ends >= 0], [CYCLE])))
    column = np.searchsorted(roots, egress * 4 + EGRESS)
    end_column = np.where(ends >= 0, np.searchsorted(roots, np.maximum(ends, 0)), -1)
    shares = np.zeros((RULES, len(ports), len(roots)))
    row = np.zeros(len(roots))
    for rule in range(RULES):
        _absorb(start, target, column, end_column, weight[rule], passed[rule], order, shares[rule], row)
    shares[:, :, np.searchsorted(roots, CYCLE)] += np.maximum(1.0 - shares.sum(axis=2), 0.0)
    edge_of = np.repeat(np.arange(len(ports)), np.diff(start))
    return Blamed(ports, roots, shares, edge_of, egress, weight[MAIN], passed[MAIN])


def _without_faint(fan: _Fan, weight: Floats) -> tuple[_Fan, Floats]:
    """The edges that count, with their weights: those of each stop still sum to 1."""
    kept = np.maximum(weight[MAIN], weight[CAPPED]) >= FAINT
    if kept.all():
        return fan, weight
    counts = np.concatenate(([0], np.cumsum(kept)))
    start = counts[fan.start]
    weight = weight[:, kept]
    _to_one(start, weight)
    return _Fan(start, fan.port[kept], fan.target[kept], fan.height[kept], fan.share[kept]), weight


@kernel
def _to_one(start: Ints, weight: Floats) -> None:
    for rule in range(len(weight)):
        for k in range(len(start) - 1):
            total = 0.0
            for e in range(start[k], start[k + 1]):
                total += weight[rule, e]
            for e in range(start[k], start[k + 1]):
                weight[rule, e] = weight[rule, e] / total if total > 0 else 1.0 / (start[k + 1] - start[k])


@kernel
def _parts(start: Ints, port: Ints, target: Ints, ends: Ints, first: Ints, part: Ints) -> None:
    """Numbers stops that may have a cause in common, or of which one may cause the other, by the first of them.

    `first` is room for a number by root, all -1.
    """
    for k in range(len(part)):
        part[k] = k
    for k in range(len(part)):
        for e in range(start[k] - 1, start[k + 1]):
            root = port[e] * 4 + EGRESS if e >= start[k] else ends[k]
            if root < 0:
                continue
            others = (target[e] if e >= start[k] else -1, first[root])
            first[root] = k
            for other in others:
                if other < 0:
                    continue
                one = k
                while part[one] != one:
                    part[one] = part[part[one]]
                    one = part[one]
                while part[other] != other:
                    part[other] = part[part[other]]
                    other = part[other]
                part[max(one, other)] = min(one, other)
    for k in range(len(part)):
        part[k] = part[part[k]]


def _by_part(ports: Ints, fan: _Fan, ends: Ints, weight: Floats, part: Ints) -> tuple[Ints, _Fan, Ints, Floats, Ints]:
    """The same, with the stops of each part one behind the other."""
    order = np.argsort(part, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    counts = np.diff(fan.start)
    edges = np.argsort(np.repeat(place, counts), kind="stable")
    target = fan.target[edges]
    target = np.where(target >= 0, place[np.maximum(target, 0)], -1)
    start = np.concatenate(([0], np.cumsum(counts[order])))
    fan = _Fan(start, fan.port[edges], target, fan.height[edges], fan.share[edges])
    return ports[order], fan, ends[order], np.ascontiguousarray(weight[:, edges]), part[order]


def _fan_out(
    period: Period, topology: Topology, transit: Transit, ports: Ints, place: Ints, reach: Floats
) -> tuple[_Fan, Ints]:
    """The edges of each stopped port, and where blame that meets none ends: its host, or a switch without evidence."""
    ends = np.full(len(ports), -1, np.int64)
    start = np.zeros(len(ports) + 1, np.int64)
    found: list[tuple[Ints, Floats, Floats]] = []
    fed: dict[int, Floats] = {}
    for number, port in enumerate(ports.tolist()):
        peer = int(topology.port_peer[port])
        start[number + 1] = start[number]
        if peer < 0:
            ends[number] = int(topology.port_device[port]) * 4 + UNKNOWN_ROOT
            continue
        device = int(topology.port_device[peer])
        if topology.is_host[device]:
            ends[number] = device * 4 + HOST
            continue
        egresses = topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]]
        if device not in fed:
            shares = transit.of(topology, device)
            stopped = reach[np.maximum(topology.port_peer[egresses], 0)].max()
            fills = stopped >= FILLED * period.length_ns
            fed[device] = _fed(period, shares, egresses) if fills else shares
        share = fed[device][int(topology.port_local[peer])]
        height = _heights(period, device, egresses)
        holds = (share > 0) & (height > 0)
        if not holds.any():
            ends[number] = device * 4 + UNKNOWN_ROOT
            continue
        found.append((egresses[holds], height[holds], share[holds]))
        start[number + 1] += int(holds.sum())
    port, height, share = (np.concatenate(part) for part in zip(*found)) if found else (
        np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    )  # fmt: skip
    return _Fan(start, port, place[port], height, share), ends


def _fed(period: Period, shares: Floats, ports: Ints) -> Floats:
    """Of each egress (columns), the part that came in by each ingress: equal-cost paths, fitted to bytes in and out.

    Iterative proportional fitting (Deming and Stephan, 1940), where PASSED_THROUGH lets it hold.
    """
    sent, received = period.sent_bytes[ports], period.received_bytes[ports]
    fits = (sent > 0) & (sent >= PASSED_THROUGH * period.peak_bytes[ports])
    if not fits.any() or not received.any():
        return shares
    fitted = shares.copy()
    _fit(fitted, received, sent, np.zeros((2, len(ports))))
    total = fitted.sum(axis=0)
    fits &= total > 0
    return np.where(fits[None, :], fitted / np.where(total > 0, total, 1.0), shares)


@kernel
def _fit(table: Floats, rows: Floats, columns: Floats, scale: Floats) -> None:
    """Scales rows, then columns, of a table to their sums, again and again; `scale` is room for two numbers a row."""
    by_row, by_column = scale[0], scale[1]
    by_column[:] = 1.0
    for _ in range(FIT_ROUNDS):
        for i in range(len(rows)):
            total = 0.0
            for j in range(len(columns)):
                total += table[i, j] * by_column[j]
            by_row[i] = rows[i] / total if total > 0.0 else 0.0
        by_column[:] = 0.0
        for i in range(len(rows)):
            for j in range(len(columns)):
                by_column[j] += table[i, j] * by_row[i]
        for j in range(len(columns)):
            by_column[j] = columns[j] / by_column[j] if by_column[j] > 0.0 else 0.0
    for i in range(len(rows)):
        for j in range(len(columns)):
            table[i, j] *= by_row[i] * by_column[j]


def _heights(period: Period, device: int, egresses: Ints) -> Floats:
    """Depths of a switch's egresses: watermarks, else marks, else alike for all that sent or are stopped."""
    stopped = period.paused_ns[egresses] > 0
    if period.depths[device]:
        height = period.peak_bytes[egresses]
    elif period.marks[device]:
        height = period.marked_packets[egresses] * MARKED_BYTES
    elif period.counted[device]:
        height = np.where(period.sent_bytes[egresses] > 0, SILENT_BYTES, 0.0)
        return np.where(stopped, SILENT_BYTES, height)
    else:
        return np.where(stopped, SILENT_BYTES, 0.0)
    return np.where(stopped, np.maximum(height, MIN_STOPPED_BYTES), height)


@kernel
def _weigh(
    ports: Ints, fan: _Fan, length_ns: float, reach: Floats, stops: Floats, busy: Floats, speed: Floats,
    weight: Floats,
) -> None:  # fmt: skip
    """Byte-time that each egress held of what the ingress brought: share * (depth * (stopped time + burst time))^2.

    A burst of height Q drains in Q / C, and a queue that is not stopped itself causes one XOFF a wave, so that its
    burst time is that of (1 + stops of k) waves at most, and of what it sent.
    """
    for k in range(len(ports)):
        first, last = fan.start[k], fan.start[k + 1]
        for rule in (MAIN, CAPPED):
            total = 0.0
            for e in range(first, last):
                egress = fan.port[e]
                depth = fan.height[e]
                drain = depth / speed[egress] if speed[egress] > 0 else length_ns
                time = min(length_ns, reach[egress] + min(busy[egress], (1.0 + stops[ports[k]]) * drain))
                if rule == CAPPED:
                    depth = min(depth, CAP_BYTES)
                weight[rule, e] = fan.share[e] * depth * depth * time * time
                total += weight[rule, e]
            for e in range(first, last):
                weight[rule, e] = weight[rule, e] / total if total > 0 else 1.0 / (last - first)
        for e in range(first, last):
            weight[LOW, e] = weight[HIGH, e] = weight[COUNTS, e] = weight[MAIN, e]


@kernel
def _pass_on(
    ports: Ints, fan: _Fan, length_ns: float, reach: Floats, short: Floats, paused: Floats, around: Floats,
    stops: Floats, busy: Floats, speed: Floats, ring: Ints, length: Floats, weight: Floats, passed: Floats,
) -> None:  # fmt: skip
    """The part of each edge's weight that the stops of its egress caused."""
    for k in range(len(ports)):
        own = ports[k]
        for e in range(fan.start[k], fan.start[k + 1]):
            target = fan.target[e]
            if target < 0:
                continue
            egress = fan.port[e]
            count = min(1.0, stops[egress] / stops[own])
            time = max(reach[egress] / reach[own], short[egress] / short[own], around[egress] / around[own])
            if ring[target] == ring[k]:
                for rule in range(RULES):
                    passed[rule, e] = 1.0 if rule == HIGH else count
                continue
            for rule in (MAIN, CAPPED):
                # Only the part of the stop that this edge is charged with.
                passed[rule, e] = min(1.0, time / weight[rule, e]) if weight[rule, e] > 0 else 1.0
            drain = fan.height[e] / speed[egress] if speed[egress] > 0 else length_ns
            burst = min(busy[egress], max(length[target] - paused[egress], 0.0), (1.0 + stops[own]) * drain)
            at_random = reach[egress] / (paused[egress] + burst) if burst > 0 else 1.0
            low = min(passed[MAIN, e], at_random)
            passed[LOW, e] = min(1.0, low)
            passed[HIGH, e] = 1.0
            passed[COUNTS, e] = min(1.0, max(count, time))


@kernel
def _lengths(
    ports: Ints, start: Ints, target: Ints, weight: Floats, reach: Floats, length: Floats, parent: Ints
) -> None:
    """By stopped port, the longest reach in its part of the pause graph, in place of how long the incident lasted."""
    for k in range(len(ports)):
        parent[k] = k
    for k in range(len(ports)):
        for e in range(start[k], start[k + 1]):
            if target[e] < 0 or weight[e] < CAUSE_MIN_SHARE:
                continue
            one, other = k, target[e]
            while parent[one] != one:
                one = parent[one]
            while parent[other] != other:
                other = parent[other]
            parent[max(one, other)] = min(one, other)
    for k in range(len(ports)):
        root = k
        while parent[root] != root:
            root = parent[root]
        parent[k] = root
        length[root] = max(length[root], reach[ports[k]])
    for k in range(len(ports)):
        length[k] = length[parent[k]]


@kernel
def _rings(start: Ints, target: Ints, weight: Floats, ring: Ints, work: Ints) -> None:
    """Numbers the strongly connected parts of the pause graph (Tarjan, 1972); who is alone has a number of its own."""
    index, low, path, calls, at = work[0], work[1], work[2], work[3], work[4]
    count = len(ring)
    for k in range(count):
        index[k], low[k] = -1, -1
    used = onpath = found = 0
    for begin in range(count):
        if index[begin] >= 0:
            continue
        depth = 0
        calls[0], at[begin] = begin, start[begin]
        index[begin] = low[begin] = used
        used += 1
        path[onpath] = begin
        onpath += 1
        while depth >= 0:
            k = calls[depth]
            if at[k] < start[k + 1]:
                step = target[at[k]] if weight[at[k]] >= CAUSE_MIN_SHARE else -1
                at[k] += 1
                if step >= 0 and index[step] < 0:
                    index[step] = low[step] = used
                    used += 1
                    path[onpath] = step
                    onpath += 1
                    at[step] = start[step]
                    depth += 1
                    calls[depth] = step
                elif step >= 0 and ring[step] < 0:
                    low[k] = min(low[k], index[step])
                continue
            depth -= 1
            if depth >= 0:
                low[calls[depth]] = min(low[calls[depth]], low[k])
            if low[k] == index[k]:
                while True:
                    onpath -= 1
                    ring[path[onpath]] = found
                    if path[onpath] == k:
                        break
                found += 1


@kernel
def _absorb(
    start: Ints, target: Ints, column: Ints, end_column: Ints, weight: Floats, passed: Floats, order: Ints,
    shares: Floats, row: Floats,
) -> None:  # fmt: skip
    """By stopped port, the part of its blame that each root absorbs: sweeps over the chain until nothing moves.

    In an order in which causes come first, one sweep is enough but for rings.
    """
    for _ in range(ROUNDS):
        moved = 0.0
        for k in order:
            row[:] = 0.0
            if end_column[k] >= 0:
                row[end_column[k]] = 1.0
            for e in range(start[k], start[k + 1]):
                row[column[e]] += weight[e] * (1.0 - passed[e])
                if target[e] >= 0 and weight[e] * passed[e] > 0.0:
                    part = weight[e] * passed[e]
                    for root in range(len(row)):
                        row[root] += part * shares[target[e], root]
            for root in range(len(row)):
                moved = max(moved, abs(row[root] - shares[k, root]))
                shares[k, root] = row[root]
        if moved < 1e-9:
            break
