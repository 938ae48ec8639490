"""The stops of one period, from what both ends of links counted and what devices logged.

In: windows of pauses by queue, stops that devices logged. Out: `Stops` of all priorities: how often and how long each
queue was stopped, and by what it is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from analytics.layout import Bools, Floats, Ints
from analytics.poll_grid import MAX_EDGES, OUT_COLUMNS, OUT_CUT, OUT_LENGTH, OUT_PAUSED, OUT_STOPS, locate
from analytics.poll_windows import CODES, END, FIRST, START, ByQueue
from analytics.topology import PRIORITIES, Topology

LEAST_STOPS = 1e-3
"""Of a queue that was stopped in a period, whatever was counted of its stops."""
LOG_KEY, LOG_START, LOG_END = range(3)
"""Columns of a stop that a device logged: key, start, end (FOREVER while it lasts)."""


class Located(NamedTuple):
    """Of each key that has an own window in a period: its row of OUT_* of analytics.poll_grid."""

    keys: Ints
    out: Floats

    @property
    def aligned(self) -> bool:
        """Whether no window goes beyond the period."""
        return not self.out[:, OUT_CUT].any()

    def paused_ns(self, keys: Ints) -> Floats:
        """Paused time of other keys; -1 where it is not known."""
        if not len(self.keys):
            return np.full(len(keys), -1.0)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.out[at, OUT_PAUSED], -1.0)


class Stops(NamedTuple):
    """By priority and port, in order: arrays (n,), times in ns.

    `length_ns`: of the polls that tell of them. `logged`, `estimated`, `repaired`: from a log; without a known
    duration; known from the other end of the link alone.
    """

    priority: Ints
    ports: Ints
    stops: Floats
    paused_ns: Floats
    length_ns: Floats
    logged: Bools
    estimated: Bools
    repaired: Bools

    def where(self, chosen: Bools | Ints) -> Stops:
        """Some of them."""
        return _stops(column[chosen] for column in self)


def _stops(columns: Iterable[Any]) -> Stops:
    return Stops(*columns)


def located(own: ByQueue, other: ByQueue, begin_ns: int, end_ns: int) -> Located:
    """When, within their windows, queues were stopped."""
    if not len(own.keys):
        return Located(own.keys, np.zeros((0, OUT_COLUMNS)))
    start, end = own.windows[:, START - 1], own.windows[:, END - 1]
    inside = np.logical_or.reduceat((start < end_ns) & (end > begin_ns), own.start[:-1])
    keys = own.keys[inside]
    out = np.zeros((len(keys), OUT_COLUMNS))
    locate(
        begin_ns, end_ns, np.stack((own.start[:-1], own.start[1:]), axis=1)[inside], own.windows, other.bounds(keys),
        other.windows, out, np.zeros(MAX_EDGES, np.int64), np.zeros(MAX_EDGES),
    )  # fmt: skip
    return Located(keys, out)


def spread(windows: ByQueue, begin_ns: int, end_ns: int) -> Floats:
    """What the windows of each key counted in a period, spread evenly."""
    if not len(windows.keys):
        return np.zeros(0)
    start, end = windows.windows[:, START - 1], windows.windows[:, END - 1]
    overlap = np.maximum(np.minimum(end, end_ns) - np.maximum(start, begin_ns), 0)
    parts = np.maximum(windows.windows[:, FIRST - 1], 0) * (overlap / np.maximum(end - start, 1))
    of = np.repeat(np.arange(len(windows.keys)), np.diff(windows.start))
    return np.bincount(of, parts).astype(np.float64)


def told_stops(
    found: Located, frames: tuple[Ints, Floats], logged: Ints, begin_ns: int, end_ns: int, usual_ns: float,
    topology: Topology, logs: Bools, silent: Bools, going_on: Ints,
) -> tuple[Stops, float]:  # fmt: skip
    """The stops of a period, and how long a stop of the fabric usually lasts by now.

    `frames`: keys and what the other ends sent; `logged`: stops with columns LOG_*; `usual_ns`: as of before.
    `logs` and `silent`, bool (N,) by device: whether it logs its pauses, and whether it tells of none at all.
    `going_on`: keys of queues of silent devices whose stops may go on from the period before, with no frame in this.
    """
    length_ns = float(end_ns - begin_ns)
    port_peer, port_device = topology.port_peer, topology.port_device
    keys, stops, paused_ns = found.keys, found.out[:, OUT_STOPS], found.out[:, OUT_PAUSED]
    lengths = found.out[:, OUT_LENGTH]
    peer = port_peer[keys // CODES]
    timed = np.flatnonzero((peer >= 0) & (stops > 0) & (paused_ns > 0))
    by, each_ns = port_device[peer[timed]], paused_ns[timed] / stops[timed]
    if len(timed):
        usual_ns = float(np.median(each_ns))
    # The stops of silent devices are those that the other ends count, each as long as those that these send else.
    missing = (frames[1] > 0) & silent[port_device[frames[0] // CODES]] & ~np.isin(frames[0], keys)
    put, sent = frames[0][missing], frames[1][missing]
    going_on = going_on[silent[port_device[going_on // CODES]] & ~np.isin(going_on, np.append(keys, put))]
    put, sent = np.append(put, going_on), np.append(sent, np.full(len(going_on), LEAST_STOPS))
    if len(put):
        senders = port_device[port_peer[put // CODES]]
        mean_ns = {int(s): float(np.mean(each_ns[by == s])) for s in np.unique(senders[np.isin(senders, by)])}
        put_ns = np.minimum(sent * np.array([mean_ns.get(s, usual_ns) for s in senders.tolist()]), length_ns)
        keys, stops, paused_ns = np.append(keys, put), np.append(stops, sent), np.append(paused_ns, put_ns)
        lengths = np.append(lengths, np.full(len(put), -1.0))
    repaired = lengths < 0
    mass = np.bincount(keys % CODES, np.maximum(paused_ns, 0.0), minlength=CODES)
    main = int(np.argmax(mass[:PRIORITIES]))
    # Time alone: the other end knows how often.
    of_other = np.zeros(len(keys))
    if len(frames[0]):
        at = np.minimum(np.searchsorted(frames[0], keys), len(frames[0]) - 1)
        of_other = np.where(frames[0][at] == keys, frames[1][at], 0.0)
    stops = np.where((stops <= 0) & (paused_ns > 0), np.maximum(of_other, 1.0), stops)
    estimated = paused_ns < 0
    paused_ns = np.minimum(np.where(estimated, stops * usual_ns, paused_ns), length_ns)
    ports, code = keys // CODES, keys % CODES
    peer = port_peer[ports]
    by_log = logs[port_device[ports]] | ((peer >= 0) & logs[port_device[np.maximum(peer, 0)]])
    polled = Stops(
        np.where(code == PRIORITIES, main, code), ports, np.maximum(stops, LEAST_STOPS), paused_ns,
        np.where(repaired | (lengths <= 0), length_ns, lengths), np.zeros(len(keys), np.bool_), estimated | repaired,
        repaired,
    )  # fmt: skip
    counts, of_all = (paused_ns > 0) & ~by_log, code == PRIORITIES
    # What a log tells counts before polls, and what is told of a priority before what is told of all together.
    ordered = (_by_logs(logged, begin_ns, end_ns), polled.where(counts & ~of_all), polled.where(counts & of_all))
    every = _stops(np.concatenate(columns) for columns in zip(*ordered, strict=True))
    every = every.where(np.lexsort((every.ports, every.priority)))
    first = np.ones(len(every.ports), np.bool_)
    first[1:] = (every.priority[1:] != every.priority[:-1]) | (every.ports[1:] != every.ports[:-1])
    return every.where(first), usual_ns


def _by_logs(logged: Ints, begin_ns: int, end_ns: int) -> Stops:
    near = logged[(logged[:, LOG_START] < end_ns) & (logged[:, LOG_END] > begin_ns)]
    keys, of = np.unique(near[:, LOG_KEY], return_inverse=True)
    inside = np.minimum(near[:, LOG_END], end_ns) - np.maximum(near[:, LOG_START], begin_ns)
    begun = np.bincount(of, near[:, LOG_START] >= begin_ns, minlength=len(keys))
    paused_ns = np.bincount(of, inside, minlength=len(keys)).astype(np.float64)
    no = np.zeros(len(keys), np.bool_)
    return Stops(
        keys % CODES, keys // CODES, np.maximum(begun, LEAST_STOPS), paused_ns, np.zeros(len(keys)), ~no, no, no
    )
