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
from analytics.layout import CAUSE_MIN_SHARE, MEMORY_NS, Floats, Ints
from analytics.pause_graph import CAPPED, COUNTS, HIGH, LOW, MAIN, RULES, Fan, Period, pause_graph
from analytics.topology import Topology
from analytics.transit import Transit

ROUNDS = 120
"""The longest way that blame is followed, in stops; what goes on after that goes in a circle."""

EGRESS, CYCLE = layout.ROOT_EGRESS, layout.ROOT_CYCLE


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


def blame_period(period: Period, topology: Topology, transit: Transit) -> list[Blamed]:
    """Blames the stops of one period, those that may have a cause in common together.

    Ports of unknown links blame their own device, as one without evidence.
    """
    ports, fan, ends, weight, reach, stops, busy, speed = pause_graph(period, topology, transit)
    # Memory lasts W after each stop; but of stops that follow each other sooner it counts each to the full. A queue
    # drains by what it sends, so that it lasts no longer than that; where other traffic fills the period, that says
    # nothing, and only the stops themselves are left. Stops can have caused what the largest of the three allows.
    memory = np.minimum(stops * MEMORY_NS, np.maximum(busy, MEMORY_NS))
    short = np.where(period.paused_ns > 0, np.minimum(period.length_ns, period.paused_ns + memory), 0.0)
    part, first = (
        np.zeros(len(ports), np.int64),
        np.full(4 * max(len(topology.port_peer), len(topology.is_host)), -1, np.int64),
    )
    _parts(fan.start, fan.port, fan.target, ends, first, part)
    ports, fan, ends, weight, part = _by_part(ports, fan, ends, weight, part)
    passed = np.zeros_like(weight)
    ring, length = np.full(len(ports), -1, np.int64), np.zeros(len(ports))
    work = np.zeros((5, len(ports) + 1), np.int64)
    _rings(fan.start, fan.target, weight[MAIN], ring, work)
    # Rings are of causes that count; blame goes over all edges.
    loop = np.full(len(ports), -1, np.int64)
    _rings(fan.start, fan.target, np.ones(len(fan.port)), loop, work)
    _lengths(ports, fan.start, fan.target, weight[MAIN], reach, length, work[0])
    _pass_on(ports, fan, period.length_ns, reach, short, period.paused_ns, period.around_ns, stops, busy, speed, ring,
             length, weight, passed)  # fmt: skip
    bounds = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1], [True]))) if len(ports) else np.zeros(1, int)
    return [
        _blamed(slice(first, last), ports, fan, ends, weight, passed, loop[first:last])
        for first, last in zip(bounds.tolist(), bounds[1:].tolist(), strict=False)
    ]


def _blamed(stops: slice, ports: Ints, fan: Fan, ends: Ints, weight: Floats, passed: Floats, loop: Ints) -> Blamed:
    """Blames the stops of one part of the pause graph; by `loop` causes come before what they cause."""
    order = np.argsort(loop, kind="stable")
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
        _absorb(start, target, column, end_column, weight[rule], passed[rule], order, loop, shares[rule], row)
    shares[:, :, np.searchsorted(roots, CYCLE)] += np.maximum(1.0 - shares.sum(axis=2), 0.0)
    edge_of = np.repeat(np.arange(len(ports)), np.diff(start))
    return Blamed(ports, roots, shares, edge_of, egress, weight[MAIN], passed[MAIN])


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


def _by_part(ports: Ints, fan: Fan, ends: Ints, weight: Floats, part: Ints) -> tuple[Ints, Fan, Ints, Floats, Ints]:
    """The same, with the stops of each part one behind the other."""
    order = np.argsort(part, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    counts = np.diff(fan.start)
    edges = np.argsort(np.repeat(place, counts), kind="stable")
    target = fan.target[edges]
    target = np.where(target >= 0, place[np.maximum(target, 0)], -1)
    start = np.concatenate(([0], np.cumsum(counts[order])))
    fan = Fan(start, fan.port[edges], target, fan.height[edges], fan.share[edges], fan.waves[edges])
    return ports[order], fan, ends[order], np.ascontiguousarray(weight[:, edges]), part[order]


@kernel
def _pass_on(
    ports: Ints, fan: Fan, length_ns: float, reach: Floats, short: Floats, paused: Floats, around: Floats,
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
    start: Ints, target: Ints, column: Ints, end_column: Ints, weight: Floats, passed: Floats, order: Ints, loop: Ints,
    shares: Floats, row: Floats,
) -> None:  # fmt: skip
    """By stopped port, the part of its blame that each root absorbs.

    In `order` causes come first and those of one loop lie together: each is looked at once, but those of a loop until
    nothing moves in it.
    """
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and loop[order[last]] == loop[order[first]]:
            last += 1
        again = last > first + 1
        for e in range(start[order[first]], start[order[first] + 1]):
            again = again or target[e] == order[first]
        for _ in range(ROUNDS if again else 1):
            moved = 0.0
            for at in range(first, last):
                k = order[at]
                row[:] = 0.0
                if end_column[k] >= 0:
                    row[end_column[k]] = 1.0
                for e in range(start[k], start[k + 1]):
                    row[column[e]] += weight[e] * (1.0 - passed[e])
                    part = weight[e] * passed[e]
                    if target[e] >= 0 and part > 0.0:
                        for root in range(len(row)):
                            row[root] += part * shares[target[e], root]
                for root in range(len(row)):
                    moved = max(moved, abs(row[root] - shares[k, root]))
                    shares[k, root] = row[root]
            if moved < 1e-9:
                break
        first = last
