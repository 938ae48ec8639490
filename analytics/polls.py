"""Counters of the last few periods, as collectors and probes poll them, and what they say of one period.

In: settled rows with the ports that they mean, and stops of devices that log them. Out: `Period`s of analytics.
pause_graph, by priority. All is held by event time alone, so that how rows arrived cannot matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analytics import layout
from analytics.layout import Bools, Floats, Ints
from analytics.pause_graph import Period
from analytics.poll_windows import (
    CODES,
    COUNT_COLUMNS,
    DEPTH,
    END,
    KEY,
    MARKED,
    PAUSE_COLUMNS,
    RECEIVED,
    SENT,
    START,
    TABLES,
    Counts,
    Windows,
    by_queue,
    count_up,
    sort_out,
)
from analytics.told_stops import LEAST_STOPS, LOG_END, LOG_KEY, Located, Stops, located, spread, told_stops
from analytics.topology import PRIORITIES, Topology
from analytics.transit import Transit
from analytics.untold_stops import paused_ns_of_untold
from stream.record import Events, words

LOG_COLUMNS = 3
MOST_PERIODS = 256
"""So many periods one window of pauses may tell of: of each it would say next to nothing."""
HELD_QUEUE, HELD_BYTES, HELD_UNTIL = range(3)
"""Columns of what is left in stopped queues, by queue (port * 8 + priority): bytes, and the end of that period."""


class Told(NamedTuple):
    """Stops of one priority in one period, in the order of their ports, beside the `Period` that they are part of."""

    priority: int
    stops: Stops
    period: Period
    aligned: bool
    """Whether no poll that tells of stops goes beyond the period."""


class Polls:
    """What waits of one fabric."""

    def __init__(self) -> None:
        self._own, self._other = Windows(PAUSE_COLUMNS), Windows(PAUSE_COLUMNS)
        self._counts = Windows(COUNT_COLUMNS)
        self._logged: Ints = np.zeros((0, LOG_COLUMNS), np.int64)
        self._tells_since: Ints = np.zeros((0, TABLES), np.int64)
        """By device and table, the end of the first row that it told."""
        self._held: Ints = np.zeros((0, 3), np.int64)
        self._untold: Ints = np.zeros((0, 2), np.int64)
        """Keys of stopped queues of devices that tell none, and where the period ended in which they were."""
        self._usual_ns = float(layout.MEMORY_NS)
        """How long a stop of the fabric lasted, when last some were counted and timed."""

    def __len__(self) -> int:
        return len(self._own) + len(self._other) + len(self._counts)

    def take(self, events: Events, ports: Ints, topology: Topology, since_ns: int, most_ns: int) -> None:
        """Takes settled rows from a time on in; one longer than `most_ns` counts as if it had begun later."""
        self._grow(topology)
        own, other, counts = (table.room(len(events)) for table in (self._own, self._other, self._counts))
        filled = sort_out(
            words(events), ports, since_ns, most_ns, topology.port_peer, topology.port_device, own, other, counts,
            self._tells_since,
        )  # fmt: skip
        for table, count in zip((self._own, self._other, self._counts), filled, strict=True):
            table.fill(count)

    def take_stops(self, rows: Ints) -> None:
        """Takes the kernel's rows of logged pauses in (columns ROW_* of analytics.layout)."""
        rows = rows[(rows[:, layout.ROW_TYPE] == layout.OPEN) | (rows[:, layout.ROW_TYPE] == layout.CLOSE)]
        if not len(rows):
            return
        queue = rows[:, layout.ROW_QUEUE]
        end_ns = np.where(rows[:, layout.ROW_TYPE] == layout.OPEN, layout.FOREVER, rows[:, layout.ROW_END])
        key = queue // PRIORITIES * CODES + queue % PRIORITIES
        self._logged = _known(
            np.concatenate((self._logged, np.stack((key, rows[:, layout.ROW_START], end_ns), axis=1)))
        )

    def first_pause(self, from_ns: int) -> tuple[int, int] | None:
        """Of the windows of pauses that end after a time, when the first ends and how long it is; None for none."""
        found = []
        for table in (self._own, self._other):
            rows = table.between(from_ns, layout.FOREVER)
            if len(rows):
                first = rows[np.lexsort((rows[:, KEY], -rows[:, START], rows[:, END]))[0]]
                found.append((int(first[END]), int(first[END] - first[START])))
        return min(found, default=None)

    def begin_of_pauses(self, from_ns: int, until_ns: int, most_ns: int) -> int:
        """When the first window of pauses begins, of those that end between two times; a longer one as if `most_ns`."""
        begins = [until_ns]
        for table in (self._own, self._other):
            rows = table.between(from_ns, until_ns)
            begins.append(int(np.maximum(rows[:, START], rows[:, END] - most_ns).min(initial=until_ns)))
        return min(begins)

    def told(
        self, begin_ns: int, end_ns: int, known_ns: int, topology: Topology, transit: Transit, logs: Bools
    ) -> list[Told]:
        """The stops of a period and what was counted in it, by priority, by rows that end up to `known_ns`.

        `logs`, bool (N,) by device: whether it logs its pauses.
        """
        self._grow(topology)
        length_ns = end_ns - begin_ns
        near = (begin_ns - 2 * length_ns, end_ns + 2 * length_ns, known_ns, MOST_PERIODS * length_ns)
        count = len(topology.port_peer)
        own, other = (by_queue(table, *near, count) for table in (self._own, self._other))
        found = located(own, other, begin_ns, end_ns)
        # Whether its streams are up or not: both ends count the same frames, so that who is stopped has counted some.
        silent = ~logs
        silent[topology.port_device[own.keys // CODES]] = False
        stops, self._usual_ns = told_stops(
            found, (other.keys, spread(other, begin_ns, end_ns)), self._logged, begin_ns, end_ns, self._usual_ns,
            topology, logs, silent, self._untold[self._untold[:, 1] == begin_ns, 0],
        )  # fmt: skip
        if not len(stops.ports):
            return []
        around = None if found.aligned else located(own, other, begin_ns - length_ns, end_ns + length_ns)
        priorities = np.unique(stops.priority).tolist()
        devices = len(topology.devices)
        counts = count_up(self._counts, begin_ns, end_ns, known_ns, priorities, topology.port_device, devices)
        for table, device in (
            (self._own, topology.port_device), (self._other, topology.port_device[topology.port_peer]),
        ):  # fmt: skip
            rows = table.between(begin_ns, known_ns)
            counts.seen[device[rows[rows[:, START] < end_ns, KEY] // CODES]] = True
        tells = (self._tells_since <= known_ns) & counts.seen[:, None]
        every = [
            _timed(
                self._of_priority(place, priority, stops, counts, around, begin_ns, end_ns, tells, topology),
                topology, transit,
            )
            for place, priority in enumerate(priorities)
        ]  # fmt: skip
        untold = [each.stops.ports[each.stops.repaired] * CODES + each.priority for each in every]
        keys = np.sort(np.concatenate([np.zeros(0, np.int64), *untold]))
        self._untold = np.stack((keys, np.full(len(keys), end_ns)), axis=1)
        return [each for each in every if len(each.stops.ports)]

    def _of_priority(
        self, place: int, priority: int, every: Stops, counts: Counts, around: Located | None, begin_ns: int,
        end_ns: int, tells: Bools, topology: Topology,
    ) -> Told:  # fmt: skip
        stops = every.where(every.priority == priority)
        ports, count = stops.ports, len(topology.port_peer)
        number, paused_ns = np.zeros(count), np.zeros(count)
        number[ports], paused_ns[ports] = stops.stops, stops.paused_ns
        around_ns = paused_ns.copy()
        if around is not None:
            around_ns[ports] = np.maximum(stops.paused_ns, around.paused_ns(ports * CODES + priority))
        sent, received, marked = (
            np.where(sums[place] > 0, sums[place], sums[-1])
            for sums in (counts.sums[SENT], counts.sums[RECEIVED], counts.sums[MARKED])
        )
        tells_bytes = tells[:, SENT] | tells[:, RECEIVED]
        # What a device that counts no bytes has sent, the other ends of its links have received.
        peer = topology.port_peer
        linked = np.flatnonzero((peer >= 0) & ~tells_bytes[topology.port_device])
        sent[linked] = received[peer[linked]]
        counted = tells_bytes.copy()
        told_by = tells_bytes[topology.port_device[peer[linked]]]
        counted[topology.port_device[linked[told_by]]] = True
        peak = np.maximum(counts.peak[place], counts.peak[-1])
        before = np.maximum(counts.before[place, ports], counts.before[-1, ports])
        self._carry(ports * PRIORITIES + priority, ports, begin_ns, end_ns, before, peak, sent)
        period = Period(
            float(end_ns - begin_ns), paused_ns, number, sent, received, peak, marked, tells[:, DEPTH],
            tells[:, MARKED], counted, around_ns,
        )  # fmt: skip
        return Told(priority, stops, period, around is None)

    def _carry(
        self, queues: Ints, ports: Ints, begin_ns: int, end_ns: int, before: Floats, peak: Floats, sent: Floats
    ) -> None:
        """A stopped queue cannot drain but by what it sends: until then its last depth is there, whatever is told."""
        most = float(layout.FOREVER)
        held = np.minimum(before, most).astype(np.int64)
        if len(self._held):
            at = np.minimum(np.searchsorted(self._held[:, HELD_QUEUE], queues), len(self._held) - 1)
            known = (self._held[at, HELD_QUEUE] == queues) & (self._held[at, HELD_UNTIL] == begin_ns)
            held = np.where(known, self._held[at, HELD_BYTES], held)
        depth = np.maximum(np.minimum(peak[ports], most).astype(np.int64), held)
        peak[ports] = depth
        left = np.where((sent[ports] < depth) | (depth > held), depth, 0)
        gone = np.isin(self._held[:, HELD_QUEUE], queues)
        now = np.concatenate((self._held[~gone], np.stack((queues, left, np.full(len(queues), end_ns)), axis=1)))
        self._held = now[np.argsort(now[:, HELD_QUEUE])]

    def forget(self, before_ns: int) -> None:
        """Drops what is over by a time."""
        for table in (self._own, self._other, self._counts):
            table.forget(before_ns)
        self._logged = self._logged[self._logged[:, LOG_END] > before_ns]
        self._held = self._held[self._held[:, HELD_UNTIL] > before_ns]

    def copy(self) -> Polls:
        """A copy that further rows change alone."""
        twin = Polls()
        twin._own, twin._other, twin._counts = self._own.copy(), self._other.copy(), self._counts.copy()
        twin._logged, twin._tells_since = self._logged, self._tells_since.copy()
        twin._held, twin._usual_ns, twin._untold = self._held, self._usual_ns, self._untold
        return twin

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot; the order in which rows came is of no matter."""
        tables = [table.state() for table in (self._own, self._other, self._counts)]
        return [tables, self._logged, self._tells_since, self._held, self._usual_ns, self._untold]

    @classmethod
    def of_state(cls, state: list[Any]) -> Polls:
        """Continues from `state()`."""
        polls = cls()
        tables, polls._logged, polls._tells_since, polls._held, polls._usual_ns, polls._untold = state
        polls._own, polls._other, polls._counts = (Windows.of_state(table) for table in tables)
        polls._tells_since = polls._tells_since.copy()
        return polls

    def carry(self, topology: Topology) -> None:
        """Moves all to the ports and devices that their names now mean."""
        self._grow(topology)
        meant = np.arange(len(topology.ports))
        meant[list(topology.moved_ports)] = list(topology.moved_ports.values())

        for table, codes in ((self._own, CODES), (self._other, CODES), (self._counts, CODES * TABLES)):
            table.rename(meant, codes)
        logged, held = self._logged.copy(), self._held.copy()
        logged[:, LOG_KEY] = meant[logged[:, LOG_KEY] // CODES] * CODES + logged[:, LOG_KEY] % CODES
        self._logged = _known(logged)
        held[:, HELD_QUEUE] = meant[held[:, HELD_QUEUE] // PRIORITIES] * PRIORITIES + held[:, HELD_QUEUE] % PRIORITIES
        held = held[np.lexsort((held[:, HELD_BYTES], held[:, HELD_UNTIL], held[:, HELD_QUEUE]))]
        self._held = held[
            np.append(held[1:, HELD_QUEUE] != held[:-1, HELD_QUEUE], np.ones(min(len(held), 1), np.bool_))
        ]
        untold = self._untold.copy()
        untold[:, 0] = meant[untold[:, 0] // CODES] * CODES + untold[:, 0] % CODES
        self._untold = np.unique(untold, axis=0)
        for device, other in topology.moved_devices.items():
            self._tells_since[other] = np.minimum(self._tells_since[other], self._tells_since[device])

    def _grow(self, topology: Topology) -> None:
        missing = len(topology.devices) - len(self._tells_since)
        if missing > 0:
            none = np.full((missing, TABLES), layout.FOREVER)
            self._tells_since = np.concatenate((self._tells_since, none))


def _timed(told: Told, topology: Topology, transit: Transit) -> Told:
    """The same, with the stops of devices that tell none as long as what their neighbours tell makes them."""
    repaired, period = told.stops.repaired, told.period
    if not repaired.any():
        return told
    ports = told.stops.ports[repaired]
    lasted_ns = paused_ns_of_untold(period, ports, topology, transit)
    paused_ns, around_ns = period.paused_ns.copy(), period.around_ns.copy()
    paused_ns[ports] = lasted_ns
    around_ns[ports] = np.maximum(around_ns[ports], lasted_ns) if not told.aligned else lasted_ns
    # One of which no frame tells went on only if that explains what its device stopped others for.
    over = ports[(period.stops[ports] <= LEAST_STOPS) & (lasted_ns < layout.MEMORY_NS)]
    number = period.stops.copy()
    number[over] = paused_ns[over] = around_ns[over] = 0.0
    stops = told.stops._replace(paused_ns=paused_ns[told.stops.ports])
    period = period._replace(paused_ns=paused_ns, stops=number, around_ns=around_ns)
    return told._replace(stops=stops.where(~np.isin(stops.ports, over)), period=period)


def _known(logged: Ints) -> Ints:
    """Stops in order, those told twice once, with their end if it is told."""
    logged = logged[np.lexsort(logged.T[::-1])]
    again = (logged[1:, :LOG_END] == logged[:-1, :LOG_END]).all(axis=1)
    return logged[np.append(np.ones(min(len(logged), 1), np.bool_), ~again)]
