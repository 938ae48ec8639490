"""Edges and blame of a closed cascade where the bytes of flows by port are known: mode 2, beside that of depths.

In: the engine and a closed cascade. Out: the cascade with other tallies of edges and blame. Of each stop the bytes
held (analytics.flow_edges) say what caused it; a cause that was stopped itself, or was within the last W, passes the
blame on to what stopped it then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analytics import layout, told_pauses
from analytics.compiled import inlined, kernel
from analytics.engine import Closed, Engine
from analytics.flow_edges import MAX_LOOKS, Held, Stops, Ways, held_bytes
from analytics.layout import (
    MAX_ROOTS,
    MEMORY_NS,
    ROOT_CYCLE,
    ROOT_EGRESS,
    ROOT_HOST,
    ROOT_OTHER,
    ROOT_UNKNOWN,
    Floats,
    Ints,
)
from analytics.ledger import EdgeTally, Ledger, bounded_sum
from analytics.port_edges import alone_bytes, parts_by_ports
from analytics.port_windows import IS_DEPTH
from analytics.tallies import sums
from analytics.thresholds import bytes_at_stops, parts_of_one_alone
from analytics.topology import PRIORITIES, Topology
from analytics.victims import FlowRows

PPM = 1_000_000
SEEN_SHARE_PPM = int(layout.ACTIVE_SHARE * PPM)
"""Bytes that seem to be held in a queue of a smaller part by its depths are what a window's even flow leaves over:
the resolution of the report. Without it the mean distance is .0112 instead of .0086 (NS-3, blame by flows alone)."""


MAX_READ = 1_000
"""Stops by which the buffers of a kind of device are known: their median is of one in thirty of what one of them errs.
A cascade of more needs no others."""
MAX_BESIDE = 4 * MAX_READ
"""Stops around from which those are taken, the newest: a large fabric has a hundred thousand a second."""


class _Causes(NamedTuple):
    """Of each stop, from first[stop] to first[stop + 1], the queues that caused it, with shares that sum to 1."""

    first: Ints
    stop: Ints
    egress: Ints
    share: Floats


def with_flow_bytes(engine: Engine, closed: Closed) -> Closed:
    """The cascade with edges that weigh by bytes held, and with the mean of the blame by depths and by flows.

    The two err in ways of their own: a depth tells not whose bytes they are, bytes of a window not when they flowed.
    Where no flow tells the blame is as it was, and an edge's XOFFs weigh by how many ports were stopped at once.
    """
    ledger, topology = closed.ledger, engine.topology
    if not ledger.stops:
        return closed
    stops = _stops(ledger, topology)
    rows = _rows(engine, closed, stops.pauser)
    if not len(rows.flow):
        return dataclasses.replace(closed, ledger=_weighed_by_ports(engine, closed, stops, 0))
    by_depth = _shares_by_depth(ledger)
    seen = {told: {q for q, ppm in causes.items() if ppm >= SEEN_SHARE_PPM} for told, causes in by_depth.items()}
    unplaced = engine.logs.clocks.unplaced(len(topology.devices))
    held = held_bytes(stops, rows, _ways(engine, closed), seen, topology, unplaced)
    if not len(held.stop):
        return dataclasses.replace(closed, ledger=_weighed_by_ports(engine, closed, stops, held.not_looked_at))
    causes = _causes(held, stops, by_depth, topology)
    blamed, passed = _pass_on(stops, causes, topology)
    beside = _stops_beside(engine, closed, stops)
    near = _rows(engine, closed, beside.pauser)
    more = held_bytes(beside, near, _ways(engine, closed), {}, topology, unplaced).readings
    mass = bytes_at_stops(
        held.readings, stops.queue, stops.begin_ns, stops.end_ns, _pausers(stops, topology),
        (more, _pausers(beside, topology)), topology,
    )  # fmt: skip
    edges = _edges(ledger, stops, causes, passed, mass)
    weighed = dataclasses.replace(
        ledger, edges=edges, in_bytes=True, blamed_ns=_mean(ledger, stops, blamed), stops_not_weighed=held.not_looked_at
    )
    return dataclasses.replace(closed, ledger=weighed)


def _weighed_by_ports(engine: Engine, closed: Closed, stops: Stops, not_weighed: int) -> Ledger:
    """The ledger with edges by the bytes of whole ports; by depths alone where those tell of no stop."""
    ledger, topology = closed.ledger, engine.topology
    around = _ports_around(stops.pauser, topology)
    windows = engine.port_windows.near(closed.start_ns, closed.end_ns, around)
    if not windows[:, IS_DEPTH].any():
        # What a stop found is asked of depths first.
        return _weighed_by_count(ledger, stops, topology, not_weighed)
    near = engine.told_pauses.near(closed.start_ns, closed.end_ns)
    near = near[around[near[:, told_pauses.QUEUE] // PRIORITIES]]
    pauses = np.concatenate(
        (np.stack(stops[:3], axis=1), near[:, [told_pauses.QUEUE, told_pauses.START, told_pauses.TIME]])
    )
    found = parts_by_ports(stops, pauses, windows, topology)
    if not len(found.stop):
        return _weighed_by_count(ledger, stops, topology, max(not_weighed, found.not_looked_at))
    causes = _with_depths(stops, found.stop, found.egress, found.part, _shares_by_depth(ledger), topology)
    _, passed = _pass_on(stops, causes, topology)
    alone = _alone(engine, closed, stops)
    parts = parts_of_one_alone(stops.queue, stops.begin_ns, stops.end_ns, _pausers(stops, topology))
    mass = (parts * (alone or PPM)).astype(np.int64)
    edges = _edges(ledger, stops, causes, passed, mass)
    return dataclasses.replace(
        ledger, edges=edges, in_bytes=alone > 0, stops_not_weighed=max(not_weighed, found.not_looked_at)
    )


def _alone(engine: Engine, closed: Closed, stops: Stops) -> float:
    """What an ingress that is stopped alone holds, as all ports around tell it, or of many the cascade's own."""
    topology = engine.topology
    if not engine.port_windows.tell_of_bytes:
        return 0.0
    beside = _stops_beside(engine, closed, stops)
    every = Stops(*(np.concatenate(both) for both in zip(stops, beside, strict=True)))
    around = _ports_around(every.pauser, topology)
    sent = engine.port_windows.near(closed.start_ns, closed.end_ns, around, depths=False)
    if len(sent) * len(np.unique(_pausers(every, topology))) > MAX_LOOKS:
        every = stops
    return alone_bytes(every, sent, topology)


def _weighed_by_count(ledger: Ledger, stops: Stops, topology: Topology, not_weighed: int) -> Ledger:
    """The ledger with edges whose XOFFs weigh by what each found, as the ports that are stopped share the buffer."""
    parts = parts_of_one_alone(stops.queue, stops.begin_ns, stops.end_ns, _pausers(stops, topology))
    queues, place = np.unique(stops.queue, return_inverse=True)
    mean = np.bincount(place, weights=parts) / np.bincount(place)
    part_of = dict(zip(queues.tolist(), mean.tolist(), strict=True))
    edges = {
        (told, egress): EdgeTally(int(edge.weight * part), int(edge.passed_weight * part), edge.ingress)
        for (told, egress), edge in ledger.edges.items() for part in [part_of.get(told, 1.0)]
    }  # fmt: skip
    return dataclasses.replace(ledger, edges=edges, stops_not_weighed=not_weighed)


def _rows(engine: Engine, closed: Closed, pausers: Ints) -> FlowRows:
    """Windows at the switches that paused and at the links to them, from as long as they are kept in any case."""
    rows = engine.sent.all_rows()
    if not len(rows.flow):
        return rows
    wanted = _ports_around(pausers, engine.topology)
    near = (rows.end_ns >= closed.start_ns - layout.GAP_NS) & (rows.end_ns <= closed.end_ns + layout.GAP_NS)
    return rows.where(near & wanted[rows.queue // PRIORITIES])


def _ports_around(pausers: Ints, topology: Topology) -> npt.NDArray[np.bool_]:
    """By port, whether it is one of the switches that paused, or linked to one."""
    asked = np.zeros(len(topology.devices) + 1, np.bool_)
    asked[topology.port_device[pausers[pausers >= 0]]] = True
    asked[:-1] &= ~topology.is_host
    peer = topology.port_peer
    around: npt.NDArray[np.bool_] = (
        asked[topology.port_device] | asked[np.where(peer >= 0, topology.port_device[peer], -1)]
    )
    return around


def _stops(ledger: Ledger, topology: Topology) -> Stops:
    count = len(ledger.stops)
    begun = np.fromiter(chain.from_iterable(ledger.stops), np.int64, 2 * count).reshape(count, 2)
    table = np.column_stack((begun, np.fromiter(ledger.stops.values(), np.int64, count)))
    queue = table[:, 0]
    table = table[np.lexsort((queue % PRIORITIES, topology.port_rank[queue // PRIORITIES], table[:, 1]))]
    told, place = np.unique(table[:, 0], return_inverse=True)
    pauser = np.array([ledger.queues[queue].pauser for queue in told.tolist()], np.int64)[place]
    return Stops(table[:, 0], table[:, 1], table[:, 2], pauser)


def _stops_beside(engine: Engine, closed: Closed, stops: Stops) -> Stops:
    """Stops around that are not the cascade's own, as many as are of use: they tell of the same buffers as its own."""
    topology = engine.topology
    room = max(MAX_READ - len(stops.queue), 0)
    table = engine.told_pauses.near(closed.start_ns, closed.end_ns, MAX_BESIDE)[
        :, [told_pauses.QUEUE, told_pauses.START, told_pauses.TIME]
    ]
    own = np.lexsort((stops.queue, stops.begin_ns))
    beside = np.zeros(len(table) if room else 0, np.bool_)
    _not_among(table[: len(beside)], stops.queue[own], stops.begin_ns[own], beside)
    table = table[: len(beside)][beside]
    by_name = topology.port_rank[table[:, 0] // PRIORITIES] * PRIORITIES + table[:, 0] % PRIORITIES
    table = table[np.lexsort((by_name, table[:, 2], table[:, 1]))]
    table = table[:: max(1, -(-len(table) // max(room, 1)))]
    return Stops(table[:, 0], table[:, 1], table[:, 2], topology.port_peer[table[:, 0] // PRIORITIES])


def _pausers(stops: Stops, topology: Topology) -> Ints:
    """The devices that paused; -1 where no link leads to one."""
    return np.where(stops.pauser >= 0, topology.port_device[stops.pauser], -1)


def _shares_by_depth(ledger: Ledger) -> dict[int, dict[int, int]]:
    """By told queue, the part in ppm of each egress queue in its stops, as depths have it."""
    causes: dict[int, dict[int, int]] = {}
    for (told, egress), edge in ledger.edges.items():
        causes.setdefault(told, {})[egress] = edge.weight
    return {
        told: {egress: ppm * PPM // total for egress, ppm in each.items()}
        for told, each in causes.items() if (total := sum(each.values()))
    }  # fmt: skip


def _ways(engine: Engine, closed: Closed) -> Ways:
    """The port that a flow's path has at a device, or else those on the shortest paths to its destination."""
    topology, names = engine.topology, engine.topology.names
    until_ns = closed.end_ns + layout.GAP_NS
    # A storm holds thousands of flows to one host.
    next_hops = cache(topology.next_hops)

    def ways(number: int, device: int) -> list[int]:
        flow = engine.flows.at(number, until_ns)
        if flow is None:
            return []
        ports = topology.fan_ports[topology.fan_start[device] : topology.fan_start[device + 1]].tolist()
        for hop in flow.path:
            here, name = names.resolve(hop.device, hop.out_port)[:2]
            if hop.out_port and here == topology.devices[device]:
                given = [port for port in ports if topology.ports[port][1] == name]
                if given:
                    return given
        return next_hops(device, topology.find_device(names.device(flow.dst_device)))

    return ways


def _causes(held: Held, stops: Stops, by_depth: Mapping[int, Mapping[int, int]], topology: Topology) -> _Causes:
    """Shares by bytes held."""
    total = np.zeros(len(stops.queue), np.int64)
    np.add.at(total, held.stop, held.amount)
    return _with_depths(stops, held.stop, held.egress, held.amount / total[held.stop], by_depth, topology)


def _with_depths(
    stops: Stops, stop: Ints, egress: Ints, share: Floats, by_depth: Mapping[int, Mapping[int, int]], topology: Topology
) -> _Causes:
    """Shares of causes; of stops of which none is known, those of the told queue's depths."""
    count = len(stops.queue)
    known = np.bincount(stop, minlength=count) > 0
    others = [
        (stop, egress, ppm / PPM)
        for stop in np.flatnonzero(~known).tolist()
        for egress, ppm in by_depth.get(int(stops.queue[stop]), {}).items()
    ]
    stop = np.concatenate((stop, np.array([stop for stop, _, _ in others], np.int64)))
    egress = np.concatenate((egress, np.array([egress for _, egress, _ in others], np.int64)))
    share = np.concatenate((share, np.array([share for _, _, share in others], np.float64)))
    order = np.lexsort((egress % PRIORITIES, topology.port_rank[egress // PRIORITIES], stop))
    first = np.concatenate(([0], np.cumsum(np.bincount(stop, minlength=count)))).astype(np.int64)
    return _Causes(first, stop[order], egress[order], share[order])


def _pass_on(
    stops: Stops, causes: _Causes, topology: Topology
) -> tuple[tuple[Ints, Ints, Ints], npt.NDArray[np.bool_]]:
    """Pause ns by told queue and root, as three columns, and which causes passed the blame on."""
    count = len(stops.queue)
    device = _pausers(stops, topology)
    told = topology.port_device[stops.queue // PRIORITIES]
    alone = np.where(device >= 0, device * 4 + ROOT_UNKNOWN, told * 4 + ROOT_UNKNOWN)
    is_host = (device >= 0) & topology.is_host[device]
    alone = np.where(is_host, device * 4 + ROOT_HOST, alone)
    queues = len(topology.ports) * PRIORITIES
    roots = np.zeros((count, MAX_ROOTS), np.int64)
    shares = np.zeros((count, MAX_ROOTS))
    kept = np.full(count, -1, np.int64)
    passed = np.zeros(len(causes.egress), np.bool_)
    widest = int(np.diff(causes.first).max(initial=1))
    _blame(
        stops.queue, stops.begin_ns, stops.end_ns, alone, causes.first, causes.egress, causes.share,
        np.full(queues, -1, np.int64), np.zeros(count + 1, np.int64),
        np.zeros(widest * MAX_ROOTS + 1, np.int64), np.zeros(4 * max(queues, len(topology.devices), 2)),
        roots, shares, kept, passed,
    )  # fmt: skip
    stop, number = np.nonzero(np.arange(MAX_ROOTS) < kept[:, None])
    ppm = (shares[stop, number] * PPM + 0.5).astype(np.int64)
    pause_ns = (stops.end_ns - stops.begin_ns)[stop]
    # As the kernel books it: no product of the two may overflow.
    part_ns = pause_ns // PPM * ppm + (pause_ns % PPM * ppm + PPM // 2) // PPM
    keys, summed = sums(np.stack((stops.queue[stop], roots[stop, number]), axis=1), part_ns)
    return (keys[:, 0], keys[:, 1], summed), passed


def _mean(ledger: Ledger, stops: Stops, blamed: tuple[Ints, Ints, Ints]) -> dict[tuple[int, int], int]:
    """The mean of two blames of the stops that are known one by one; of the others that by depths stands alone."""
    followed: dict[int, int] = {}
    for queue, pause_ns in zip(stops.queue.tolist(), (stops.end_ns - stops.begin_ns).tolist(), strict=True):
        followed[queue] = followed.get(queue, 0) + pause_ns
    mean: dict[tuple[int, int], int] = {}
    for (queue, root), ns in ledger.blamed_ns.items():
        total = ledger.queues[queue].pause_ns
        known = min(followed.get(queue, 0), total)
        mean[queue, root] = ns - ns * known // (2 * total) if total else ns
    for queue, root, ns in zip(*(column.tolist() for column in blamed), strict=True):
        mean[queue, root] = bounded_sum((mean.get((queue, root), 0), ns // 2))
    return {key: ns for key, ns in mean.items() if ns}


def _edges(
    ledger: Ledger, stops: Stops, causes: _Causes, passed: npt.NDArray[np.bool_], mass: Ints
) -> dict[tuple[int, int], EdgeTally]:
    """Edges that weigh by bytes held; those of a queue of which no stop is known, as by depths."""
    weight = (mass[causes.stop] * causes.share).astype(np.int64)
    pairs = np.stack((stops.queue[causes.stop], causes.egress), axis=1)
    keys, whole, handed_on = sums(pairs, weight, weight * passed)
    edges = {
        (told, egress): EdgeTally(count, on, ledger.queues[told].pauser)
        for (told, egress), count, on in zip(keys.tolist(), whole.tolist(), handed_on.tolist(), strict=True)
    }
    known = {told for told, _ in edges}
    usual = int(np.median(mass))
    for (told, egress), edge in ledger.edges.items():
        if told not in known:
            edges[told, egress] = EdgeTally(edge.weight * usual // PPM, edge.passed_weight * usual // PPM, edge.ingress)
    return edges


@kernel
def _not_among(table: Ints, queue: Ints, begin_ns: Ints, found: npt.NDArray[np.bool_]) -> None:
    """Marks the rows of a table (queue, begin, ...) that are no stop of some, which are in order of begin and queue."""
    for row in range(len(table)):
        low, high = 0, len(queue)
        while low < high:
            middle = (low + high) // 2
            if begin_ns[middle] < table[row, 1] or (
                begin_ns[middle] == table[row, 1] and queue[middle] < table[row, 0]
            ):
                low = middle + 1
            else:
                high = middle
        found[row] = low == len(queue) or begin_ns[low] != table[row, 1] or queue[low] != table[row, 0]


@kernel
def _blame(
    queue: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    alone: Ints,
    first: Ints,
    egress: Ints,
    share: Floats,
    last: Ints,
    stack: Ints,
    met: Ints,
    scratch: Floats,
    roots: Ints,
    shares: Floats,
    kept: Ints,
    passed: npt.NDArray[np.bool_],
) -> None:
    """Fills the roots of each stop with shares; one without causes has the root `alone`.

    A stop of the same instant counts as a cause, so its blame is worked out first; those that cause each other are a
    cycle. `last` is each queue's last stop by now (-1: none).
    """
    group = 0
    while group < len(queue):
        end = group
        while end < len(queue) and begin_ns[end] == begin_ns[group]:
            last[queue[end]] = end
            end += 1
        for member in range(group, end):
            if kept[member] != -1:
                continue
            depth = 0
            stack[0] = member
            kept[member] = -2
            while depth >= 0:
                stop = stack[depth]
                pushed = False
                for at in range(first[stop], first[stop + 1]):
                    cause = last[egress[at]]
                    passed[at] = cause >= 0 and end_ns[cause] >= begin_ns[stop] - MEMORY_NS
                    if passed[at] and kept[cause] == -1:
                        depth += 1
                        stack[depth] = cause
                        kept[cause] = -2
                        pushed = True
                        break
                if not pushed:
                    _gather(stop, alone, first, egress, share, last, met, scratch, roots, shares, kept, passed)
                    depth -= 1
        group = end


@inlined
def _gather(
    stop: int,
    alone: Ints,
    first: Ints,
    egress: Ints,
    share: Floats,
    last: Ints,
    met: Ints,
    scratch: Floats,
    roots: Ints,
    shares: Floats,
    kept: Ints,
    passed: npt.NDArray[np.bool_],
) -> None:
    """The roots of one stop from those of its causes; the largest are kept, of equals the first met."""
    found = 0
    for at in range(first[stop], first[stop + 1]):
        cause = last[egress[at]]
        handed_on = passed[at] and kept[cause] >= 0
        for number in range(kept[cause] if handed_on else 1):
            root, part = egress[at] * 4 + ROOT_EGRESS, share[at]
            if handed_on:
                root, part = roots[cause, number], share[at] * shares[cause, number]
            elif passed[at]:
                root = ROOT_CYCLE
            if scratch[root] == 0.0:
                met[found] = root
                found += 1
            scratch[root] += part
    if found == 0:
        roots[stop, 0], shares[stop, 0], kept[stop] = alone[stop], 1.0, 1
        return
    count = found if found <= MAX_ROOTS else MAX_ROOTS - 1
    for number in range(count):
        best = number
        if found > MAX_ROOTS:
            best = 0
            for other in range(1, found):
                if scratch[met[other]] > scratch[met[best]]:
                    best = other
        roots[stop, number], shares[stop, number] = met[best], scratch[met[best]]
        scratch[met[best]] = 0.0
    rest = 0.0
    for number in range(found):
        rest += scratch[met[number]]
        scratch[met[number]] = 0.0
    if rest > 0.0:
        roots[stop, count], shares[stop, count] = ROOT_OTHER, rest
        count += 1
    kept[stop] = count
