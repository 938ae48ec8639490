"""Who may have caused the stops of one period of counters, and with which weight: the edges of the pause graph.

In: a `Period` of one priority. Out: its `Graph`: from each stopped queue the egresses of its pauser that held what came
in there, by the byte-time that they held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analytics import layout
from analytics.compiled import kernel
from analytics.layout import MEMORY_NS, Bools, Floats, Ints
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

UNKNOWN_ROOT, HOST = layout.ROOT_UNKNOWN, layout.ROOT_HOST


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


class Fan(NamedTuple):
    """Edges from stopped ports to the egresses that may have caused their stops, one behind the other.

    `start` (n + 1,): where those of each begin; `target`: place of the egress among the stopped ports, -1 if it is not;
    `height`: depth of the egress; `share`: part of its bytes that came in by the ingress that stops; `waves`, bool:
    whether waves of that depth bound the time in which it drains. One that is a guess drains in a time that nobody
    knows; but where stops do not fill the period, what was sent says less still.
    """

    start: Ints
    port: Ints
    target: Ints
    height: Floats
    share: Floats
    waves: Bools


class Graph(NamedTuple):
    """The stops of a period and what may have caused them.

    `ports` (n,), in the order of their names; `fan`: their edges; `ends` (n,): the root where blame that meets no edge
    ends, -1 where there are some; `weight` float64 (RULES, edges), by stop summing to 1. By port of the topology,
    float64 (P,): `reach_ns`, how long stops and what they leave behind lasted; `stops`, at least 1; `busy_ns`, how long
    what was sent takes at line rate; `speed`, bytes per ns.
    """

    ports: Ints
    fan: Fan
    ends: Ints
    weight: Floats
    reach_ns: Floats
    stops: Floats
    busy_ns: Floats
    speed: Floats


def pause_graph(period: Period, topology: Topology, transit: Transit) -> Graph:
    """The edges of the stops of one period.

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
    stops = np.maximum(period.stops, 1.0)
    weight = np.zeros((RULES, len(fan.port)))
    _weigh(ports, fan, period.length_ns, reach, stops, busy, speed, weight)
    fan, weight = _without_faint(fan, weight)
    return Graph(ports, fan, ends, weight, reach, stops, busy, speed)


def _without_faint(fan: Fan, weight: Floats) -> tuple[Fan, Floats]:
    """The edges that count, with their weights: those of each stop still sum to 1."""
    kept = np.maximum(weight[MAIN], weight[CAPPED]) >= FAINT
    if kept.all():
        return fan, weight
    counts = np.concatenate(([0], np.cumsum(kept)))
    start = counts[fan.start]
    weight = weight[:, kept]
    _to_one(start, weight)
    return Fan(start, fan.port[kept], fan.target[kept], fan.height[kept], fan.share[kept], fan.waves[kept]), weight


@kernel
def _to_one(start: Ints, weight: Floats) -> None:
    for rule in range(len(weight)):
        for k in range(len(start) - 1):
            total = 0.0
            for e in range(start[k], start[k + 1]):
                total += weight[rule, e]
            for e in range(start[k], start[k + 1]):
                weight[rule, e] = weight[rule, e] / total if total > 0 else 1.0 / (start[k + 1] - start[k])


def _fan_out(
    period: Period, topology: Topology, transit: Transit, ports: Ints, place: Ints, reach: Floats
) -> tuple[Fan, Ints]:
    """The edges of each stopped port, and where blame that meets none ends: its host, or a switch without evidence."""
    ends = np.full(len(ports), -1, np.int64)
    start = np.zeros(len(ports) + 1, np.int64)
    found: list[tuple[Ints, Floats, Floats, Bools]] = []
    fed: dict[int, tuple[Floats, bool]] = {}
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
            told = period.depths[device] or period.marks[device]
            fed[device] = _fed(period, shares, egresses) if fills else shares, bool(told or not fills)
        shares, waves = fed[device]
        share = shares[int(topology.port_local[peer])]
        height = _heights(period, device, egresses)
        holds = (share > 0) & (height > 0)
        if not holds.any():
            ends[number] = device * 4 + UNKNOWN_ROOT
            continue
        found.append((egresses[holds], height[holds], share[holds], np.full(int(holds.sum()), waves)))
        start[number + 1] += int(holds.sum())
    port, height, share, bounded = (np.concatenate(part) for part in zip(*found)) if found else (
        np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.bool_)
    )  # fmt: skip
    return Fan(start, port, place[port], height, share, bounded), ends


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
    ports: Ints, fan: Fan, length_ns: float, reach: Floats, stops: Floats, busy: Floats, speed: Floats,
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
                drain = depth / speed[egress] if speed[egress] > 0 and fan.waves[e] else length_ns
                time = min(length_ns, reach[egress] + min(busy[egress], (1.0 + stops[ports[k]]) * drain))
                if rule == CAPPED:
                    depth = min(depth, CAP_BYTES)
                weight[rule, e] = fan.share[e] * depth * depth * time * time
                total += weight[rule, e]
            for e in range(first, last):
                weight[rule, e] = weight[rule, e] / total if total > 0 else 1.0 / (last - first)
        for e in range(first, last):
            weight[LOW, e] = weight[HIGH, e] = weight[COUNTS, e] = weight[MAIN, e]
