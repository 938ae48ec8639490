"""Counters of the last few periods, as collectors and probes poll them, and what they say of one period.

In: settled rows with the ports that they mean, and stops of devices that log them. Out: `Period`s of analytics.
sampled_blame, by priority. All is held by event time alone, so that how rows arrived cannot matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analytics import layout
from analytics.layout import Bools, Floats, Ints
from analytics.poll_grid import MAX_EDGES, OUT_COLUMNS, OUT_CUT, OUT_LENGTH, OUT_PAUSED, OUT_STOPS, locate
from analytics.sampled_blame import Period
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.record import Events

CODES = PRIORITIES + 1
"""A key is port * CODES + priority; the last code is a row of all priorities together."""

# Columns of a window: key, start, end, two measures. OWN: stops and paused ns of the stopped end, -1 where not known.
# OTHER: by the key of the stopped queue, the pause frames that the other end of its link sent. Others: one measure.
KEY, START, END, FIRST, SECOND = range(5)
OWN, OTHER, DEPTH, SENT, RECEIVED, MARKED = range(6)
TABLES = 6
STOPS_OF_LOGS = 3
MOST_PERIODS = 256
"""So many periods one window may tell of: what it says of each is less than its share of them anyway."""
"""Columns of a stop that a device logged: key, start, end (FOREVER while it lasts)."""


class Told(NamedTuple):
    """Stops of one priority in one period: arrays by stopped port (n,), beside the `Period` that they are part of.

    `length_ns`: of the polls that tell of them. `logged`, `estimated`, `repaired`: from a log; without a known
    duration; known from the other end of the link alone.
    """

    priority: int
    ports: Ints
    length_ns: Floats
    logged: Bools
    estimated: Bools
    repaired: Bools
    period: Period
    aligned: bool
    """Whether no poll that tells of stops goes beyond the period."""


_Entry = tuple[int, float, float, float, bool, bool, bool]
"""Stops of one port: port, stops, paused ns, length of its polls, and whether logged, estimated, repaired."""


class Polls:
    """What waits of one fabric."""

    def __init__(self) -> None:
        self._tables: list[Ints] = [np.zeros((0, 5), np.int64) for _ in range(TABLES)]
        self._new: list[list[Ints]] = [[] for _ in range(TABLES)]
        self._logged: Ints = np.zeros((0, STOPS_OF_LOGS), np.int64)
        self._tells_since: Ints = np.zeros((0, TABLES), np.int64)
        """By device and table, the end of the first row that it told."""
        self._held: dict[int, tuple[int, int]] = {}
        """By stopped queue (port * 8 + priority), the depth that it still has to drain, and the end of that period."""
        self._usual_ns = float(layout.MEMORY_NS)
        """How long a stop of the fabric lasted, when last some were counted and timed."""

    def __len__(self) -> int:
        self._join()
        return sum(len(table) for table in self._tables)

    def take(self, events: Events, ports: Ints, topology: Topology, lag_ns: int) -> None:
        """Takes settled rows in; one longer than `lag_ns` counts as if it had begun so long before its end."""
        self._grow(topology)
        kind, sent = events["kind"], events["side"] == kinds.SIDE_TX
        value, extra = events["value"].astype(np.int64), events["extra"].astype(np.int64)
        paused = (kind == kinds.PFC_PAUSED) & (events["span_ns"] > 0)
        frames = (kind == kinds.PFC_FRAMES) & (events["span_ns"] > 0)
        told = paused | frames
        if told.any():
            stops = np.where(paused, extra, value)
            stops = np.where(stops < 0, -1, stops)
            times = np.where(paused & (value >= 0), value, -1)
            self._add(OWN, told & ~sent, events, ports, topology, lag_ns, stops, times)
            peers = np.where(sent, topology.port_peer[ports], -1)
            by_others = told & sent & (peers >= 0) & (stops >= 0)
            self._add(OTHER, by_others, events, peers, topology, lag_ns, stops, stops, ports)
        for table, code, side in (
            (DEPTH, kinds.QUEUE_DEPTH, None), (SENT, kinds.PORT_BYTES, True), (RECEIVED, kinds.PORT_BYTES, False),
            (MARKED, kinds.ECN_MARKED, True),
        ):  # fmt: skip
            chosen = (kind == code) & (value > 0)
            if side is not None:
                chosen &= sent == side
            else:
                chosen &= events["side"] != kinds.SIDE_RX
            if chosen.any():
                self._add(table, chosen, events, ports, topology, lag_ns, value, value)

    def _add(
        self, table: int, chosen: Bools, events: Events, ports: Ints, topology: Topology, lag_ns: int, first: Ints,
        second: Ints, tellers: Ints | None = None,
    ) -> None:  # fmt: skip
        at = np.flatnonzero(chosen)
        if not len(at):
            return
        priority = events["priority"][at].astype(np.int64)
        end_ns = events["time_ns"][at].astype(np.int64)
        rows = np.empty((len(at), 5), np.int64)
        rows[:, KEY] = ports[at] * CODES + np.where(priority == kinds.NO_PRIORITY, PRIORITIES, priority % PRIORITIES)
        rows[:, START] = end_ns - np.clip(events["span_ns"][at], 1, lag_ns)
        rows[:, END] = end_ns
        rows[:, FIRST], rows[:, SECOND] = first[at], second[at]
        self._new[table].append(rows)
        by = topology.port_device[(ports if tellers is None else tellers)[at]]
        np.minimum.at(self._tells_since[:, table], by, end_ns)

    def take_stops(self, rows: Ints) -> None:
        """Takes the kernel's rows of logged pauses in (columns ROW_* of analytics.layout)."""
        opens = rows[rows[:, layout.ROW_TYPE] == layout.OPEN]
        closes = rows[rows[:, layout.ROW_TYPE] == layout.CLOSE]
        if not len(opens) and not len(closes):
            return
        begun = {(key, start): end for key, start, end in self._logged.tolist()}
        for row in opens.tolist():
            begun.setdefault((_key(row[layout.ROW_QUEUE]), row[layout.ROW_START]), layout.FOREVER)
        for row in closes.tolist():
            begun[_key(row[layout.ROW_QUEUE]), row[layout.ROW_START]] = row[layout.ROW_END]
        ordered = [(key, start, end) for (key, start), end in sorted(begun.items())]
        self._logged = np.array(ordered, np.int64).reshape(-1, STOPS_OF_LOGS)

    def begin_of_pauses(self, from_ns: int, until_ns: int, most_ns: int) -> int:
        """When the first window of pauses begins, of those that end between two times; a longer one as if `most_ns`."""
        self._join()
        begins = [until_ns]
        for table in (OWN, OTHER):
            rows = self._tables[table]
            rows = rows[(rows[:, END] > from_ns) & (rows[:, END] <= until_ns)]
            begins.append(int(np.maximum(rows[:, START], rows[:, END] - most_ns).min(initial=until_ns)))
        return min(begins)

    def first_pause(self, from_ns: int) -> tuple[int, int] | None:
        """Of the windows of pauses that end after a time, when the first ends and how long it is; None for none."""
        self._join()
        found = []
        for table in (OWN, OTHER):
            rows = self._tables[table][self._tables[table][:, END] > from_ns]
            if len(rows):
                first = rows[np.lexsort((rows[:, KEY], -rows[:, START], rows[:, END]))[0]]
                found.append((int(first[END]), int(first[END] - first[START])))
        return min(found, default=None)

    def told(
        self, begin_ns: int, end_ns: int, known_ns: int, topology: Topology, logs: Bools, silent: Bools
    ) -> list[Told]:
        """The stops of a period and what was counted in it, by priority, by rows that end up to `known_ns`.

        `logs` and `silent`, bool (N,) by device: whether it logs its pauses, and whether it tells of none at all.
        """
        self._join()
        length_ns = end_ns - begin_ns
        # Sums of floats depend on their order, and rows came in any.
        near_own, near_other = (
            _apart(_near(self._tables[table], begin_ns, end_ns, known_ns)) for table in (OWN, OTHER)
        )
        keys, at = _located(near_own, near_other, begin_ns, end_ns)
        columns = [OUT_STOPS, OUT_PAUSED, OUT_LENGTH]
        found = dict(zip(keys.tolist(), at[:, columns].tolist()))
        around: dict[int, float] = {}
        aligned = not at[:, OUT_CUT].any()
        if not aligned:
            wide_keys, wide = _located(near_own, near_other, begin_ns - length_ns, end_ns + length_ns)
            around = dict(zip(wide_keys.tolist(), wide[:, OUT_PAUSED].tolist()))
        own, other = (_stops_by_key(rows, begin_ns, end_ns) for rows in (near_own, near_other))
        self._repair(found, own, other, topology, logs, silent, length_ns)
        logged = self._by_logs(begin_ns, end_ns)
        entries = self._entries(found, own, other, logged, topology, logs, length_ns)
        return [
            self._of_priority(priority, entries[priority], around, begin_ns, end_ns, known_ns, topology, aligned)
            for priority in sorted(entries)
        ]

    def _repair(
        self, found: dict[int, list[float]], own: dict[int, float], other: dict[int, float], topology: Topology,
        logs: Bools, silent: Bools, length_ns: int,
    ) -> None:  # fmt: skip
        """Puts the stops of silent devices in, as the other ends count them; each as long as those that it sends."""
        timed: dict[int, list[float]] = {}
        for key, (stops, paused, _) in found.items():
            peer = int(topology.port_peer[key // CODES])
            if peer >= 0 and stops > 0 and paused > 0:
                timed.setdefault(int(topology.port_device[peer]), []).append(paused / stops)
        everywhere = [usual for device in sorted(timed) for usual in timed[device]]
        if everywhere:
            self._usual_ns = float(np.median(everywhere))
        for key, frames in sorted(other.items()):
            port = key // CODES
            if key in found or frames <= 0 or not silent[topology.port_device[port]]:
                continue
            by = timed.get(int(topology.port_device[topology.port_peer[port]]))
            usual = float(np.mean(by)) if by else self._usual_ns
            found[key] = [frames, min(frames * usual, float(length_ns)), -1.0]

    def _by_logs(self, begin_ns: int, end_ns: int) -> dict[int, tuple[float, float]]:
        logged: dict[int, tuple[float, float]] = {}
        near = self._logged[(self._logged[:, 1] < end_ns) & (self._logged[:, 2] > begin_ns)]
        for key, start, end in near.tolist():
            stops, paused = logged.get(key, (0.0, 0.0))
            logged[key] = stops + (start >= begin_ns), paused + min(end, end_ns) - max(start, begin_ns)
        return logged

    def _entries(
        self, found: dict[int, list[float]], own: dict[int, float], other: dict[int, float],
        logged: dict[int, tuple[float, float]], topology: Topology, logs: Bools, length_ns: int,
    ) -> dict[int, list[_Entry]]:  # fmt: skip
        """The stops of each priority, by port."""
        mass = np.zeros(CODES)
        for key, (_, paused, _) in found.items():
            mass[key % CODES] += max(paused, 0.0)
        main = int(np.argmax(mass[:PRIORITIES]))
        entries: dict[int, dict[int, _Entry]] = {}
        for key, (stops, paused, poll_ns) in sorted(found.items()):
            port, code = divmod(key, CODES)
            peer = int(topology.port_peer[port])
            if logs[topology.port_device[port]] or (peer >= 0 and logs[topology.port_device[peer]]):
                continue
            repaired = poll_ns < 0
            if stops <= 0 and paused > 0:
                # Time alone: the other end knows how often.
                stops = max(other.get(key, 0.0), 1.0)
            estimated = paused < 0
            if estimated:
                paused = min(stops * self._usual_ns, float(length_ns))
            if paused <= 0:
                continue
            priority = main if code == PRIORITIES else code
            length = float(length_ns) if repaired or poll_ns <= 0 else poll_ns
            paused = min(paused, float(length_ns))
            entry = (port, max(stops, 1e-3), paused, length, False, estimated or repaired, repaired)
            entries.setdefault(priority, {}).setdefault(port, entry)
        for key, (stops, paused) in sorted(logged.items()):
            port, code = divmod(key, CODES)
            entries.setdefault(code, {})[port] = (port, max(stops, 1e-3), paused, 0.0, True, False, False)
        return {priority: [by_port[port] for port in sorted(by_port)] for priority, by_port in entries.items()}

    def _of_priority(
        self, priority: int, entries: list[_Entry], around: dict[int, float], begin_ns: int, end_ns: int,
        known_ns: int, topology: Topology, aligned: bool,
    ) -> Told:  # fmt: skip
        count = len(topology.port_peer)
        ports = np.array([entry[0] for entry in entries], np.int64)
        stops, paused = np.zeros(count), np.zeros(count)
        stops[ports], paused[ports] = [entry[1] for entry in entries], [entry[2] for entry in entries]
        around_ns = paused.copy()
        for port in ports.tolist():
            around_ns[port] = max(paused[port], around.get(port * CODES + priority, 0.0))
        sent = self._sum(SENT, priority, begin_ns, end_ns, known_ns, count)
        received = self._sum(RECEIVED, priority, begin_ns, end_ns, known_ns, count)
        marked = self._sum(MARKED, priority, begin_ns, end_ns, known_ns, count)
        peak = self._most(priority, begin_ns, end_ns, known_ns, count)
        self._grow(topology)
        tells = (self._tells_since <= known_ns) & self._seen(begin_ns, end_ns, known_ns, topology)[:, None]
        counts = tells[:, SENT] | tells[:, RECEIVED]
        # What a device that counts no bytes has sent, the other ends of its links have received.
        peer = topology.port_peer
        linked = np.flatnonzero((peer >= 0) & ~counts[topology.port_device])
        sent[linked] = received[peer[linked]]
        counted = counts.copy()
        counted[topology.port_device[linked]] |= counts[topology.port_device[peer[linked]]]
        self._carry(priority, ports, begin_ns, end_ns, known_ns, peak, sent, count)
        period = Period(
            float(end_ns - begin_ns), paused, stops, sent, received, peak, marked, tells[:, DEPTH], tells[:, MARKED],
            counted, around_ns,
        )  # fmt: skip
        flags = np.array([entry[4:] for entry in entries], np.bool_).reshape(-1, 3)
        lengths = np.array([entry[3] for entry in entries])
        return Told(priority, ports, lengths, flags[:, 0], flags[:, 1], flags[:, 2], period, aligned)

    def _carry(
        self, priority: int, ports: Ints, begin_ns: int, end_ns: int, known_ns: int, peak: Floats, sent: Floats,
        count: int,
    ) -> None:  # fmt: skip
        """A stopped queue cannot drain but by what it sends: until then its last depth is there, whatever is told."""
        before: Floats | None = None
        for port in ports.tolist():
            queue = port * PRIORITIES + priority
            held, until_ns = self._held.get(queue, (0, -1))
            if until_ns != begin_ns:
                if before is None:
                    before = self._most(priority, 2 * begin_ns - end_ns, begin_ns, known_ns, count)
                held = int(before[port])
            depth = max(int(peak[port]), held)
            peak[port] = depth
            self._held[queue] = (depth if sent[port] < depth else int(peak[port] if peak[port] > held else 0), end_ns)

    def _seen(self, begin_ns: int, end_ns: int, known_ns: int, topology: Topology) -> Bools:
        """By device, whether any poll of it that has come tells of the period: counts of 0 are not told."""
        seen = np.zeros(len(topology.devices), np.bool_)
        for table in range(TABLES):
            ports = self._overlapping(table, begin_ns, end_ns, known_ns)[0][:, KEY] // CODES
            seen[topology.port_device[topology.port_peer[ports] if table == OTHER else ports]] = True
        return seen

    def _sum(self, table: int, priority: int, begin_ns: int, end_ns: int, known_ns: int, count: int) -> Floats:
        """What windows of one priority counted in a period, spread evenly; of all priorities where none tells."""
        rows, overlap = self._overlapping(table, begin_ns, end_ns, known_ns)
        # Whole numbers, whose sums do not depend on the order in which rows came.
        part = np.rint(rows[:, FIRST] * (overlap / np.maximum(rows[:, END] - rows[:, START], 1)))
        port, code = rows[:, KEY] // CODES, rows[:, KEY] % CODES
        own, every = code == priority, code == PRIORITIES
        total = np.bincount(port[own], part[own], minlength=count)
        of_all = np.bincount(port[every], part[every], minlength=count)
        return np.where(total > 0, total, of_all)

    def _most(self, priority: int, begin_ns: int, end_ns: int, known_ns: int, count: int) -> Floats:
        rows, _ = self._overlapping(DEPTH, begin_ns, end_ns, known_ns)
        chosen = (rows[:, KEY] % CODES == priority) | (rows[:, KEY] % CODES == PRIORITIES)
        peak = np.zeros(count)
        np.maximum.at(peak, rows[chosen, KEY] // CODES, rows[chosen, FIRST].astype(np.float64))
        return peak

    def _overlapping(self, table: int, begin_ns: int, end_ns: int, known_ns: int) -> tuple[Ints, Ints]:
        rows = self._tables[table]
        rows = rows[(rows[:, START] < end_ns) & (rows[:, END] > begin_ns) & (rows[:, END] <= known_ns)]
        return rows, np.minimum(rows[:, END], end_ns) - np.maximum(rows[:, START], begin_ns)

    def forget(self, before_ns: int) -> None:
        """Drops what is over by a time."""
        self._join()
        self._tables = [rows[rows[:, END] > before_ns] if len(rows) else rows for rows in self._tables]
        self._logged = self._logged[self._logged[:, 2] > before_ns]
        self._held = {queue: held for queue, held in self._held.items() if held[1] > before_ns}

    def copy(self) -> Polls:
        """A copy that further rows change alone."""
        self._join()
        twin = Polls()
        twin._tables, twin._logged, twin._tells_since = list(self._tables), self._logged, self._tells_since.copy()
        twin._held, twin._usual_ns = dict(self._held), self._usual_ns
        return twin

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot; the order in which rows came is of no matter."""
        self._join()
        tables = [rows[np.lexsort(rows.T)] for rows in self._tables]
        held = [[queue, *values] for queue, values in sorted(self._held.items())]
        return [tables, self._logged, self._tells_since, held, self._usual_ns]

    @classmethod
    def of_state(cls, state: list[Any]) -> Polls:
        """Continues from `state()`."""
        polls = cls()
        tables, polls._logged, polls._tells_since, held, polls._usual_ns = state
        polls._tables = list(tables)
        polls._tells_since = polls._tells_since.copy()
        polls._held = {queue: (depth, until_ns) for queue, depth, until_ns in held}
        return polls

    def carry(self, topology: Topology) -> None:
        """Moves all to the ports and devices that their names now mean."""
        self._join()
        self._grow(topology)
        meant = np.arange(len(topology.ports))
        meant[list(topology.moved_ports)] = list(topology.moved_ports.values())
        for number, rows in enumerate(self._tables):
            moved = rows.copy()
            moved[:, KEY] = meant[rows[:, KEY] // CODES] * CODES + rows[:, KEY] % CODES
            self._tables[number] = moved
        logged = self._logged.copy()
        logged[:, 0] = meant[logged[:, 0] // CODES] * CODES + logged[:, 0] % CODES
        self._logged = logged[np.lexsort((logged[:, 1], logged[:, 0]))]
        held = [(int(meant[queue // PRIORITIES]), queue % PRIORITIES, depth) for queue, depth in self._held.items()]
        self._held = {port * PRIORITIES + priority: depth for port, priority, depth in held}
        for device, other in topology.moved_devices.items():
            self._tells_since[other] = np.minimum(self._tells_since[other], self._tells_since[device])

    def tells_pauses(self, known_ns: int, topology: Topology) -> Bools:
        """By device, whether it has told of stops of its own, in windows that ended up to a time."""
        self._grow(topology)
        told: Bools = self._tells_since[:, OWN] <= known_ns
        return told

    def _grow(self, topology: Topology) -> None:
        missing = len(topology.devices) - len(self._tells_since)
        if missing > 0:
            none = np.full((missing, TABLES), layout.FOREVER)
            self._tells_since = np.concatenate((self._tells_since, none))

    def _join(self) -> None:
        for table, new in enumerate(self._new):
            if new:
                self._tables[table] = np.concatenate((self._tables[table], *new))
                self._new[table] = []


def _near(rows: Ints, begin_ns: int, end_ns: int, known_ns: int) -> Ints:
    """Windows that matter to a period; of one that is longer than MOST_PERIODS, the end counts for all of it."""
    length_ns = end_ns - begin_ns
    rows = rows[(rows[:, START] < end_ns + 2 * length_ns) & (rows[:, END] > begin_ns - 2 * length_ns)
                & (rows[:, END] <= known_ns)]  # fmt: skip
    rows[:, START] = np.maximum(rows[:, START], rows[:, END] - MOST_PERIODS * length_ns)
    return rows[rows[:, START] < end_ns + 2 * length_ns]


def _key(queue: int) -> int:
    return queue // PRIORITIES * CODES + queue % PRIORITIES


def _located(own: Ints, other: Ints, begin_ns: int, end_ns: int) -> tuple[Ints, Floats]:
    """Keys that have an own window in the period, and what `locate` says of each."""
    keys = np.unique(own[(own[:, START] < end_ns) & (own[:, END] > begin_ns), KEY])
    own, other = (rows[np.isin(rows[:, KEY], keys)] for rows in (own, other))
    out = np.zeros((len(keys), OUT_COLUMNS))
    bounds = np.append(keys, np.iinfo(np.int64).max)
    columns = [START, END, FIRST, SECOND]
    locate(
        begin_ns, end_ns,
        np.searchsorted(own[:, KEY], bounds), np.ascontiguousarray(own[:, columns]),
        np.searchsorted(other[:, KEY], bounds), np.ascontiguousarray(other[:, columns]),
        out, np.zeros(MAX_EDGES, np.int64), np.zeros(MAX_EDGES),
    )  # fmt: skip
    return keys, out


def _apart(rows: Ints) -> Ints:
    """Windows by key and time, without what a later one tells again: of two that overlap, the first ends counts.

    Of two of the same time, such as a device's PFC_PAUSED and PFC_FRAMES, the one with a duration does.
    """
    columns = (rows[:, SECOND], rows[:, FIRST], rows[:, SECOND] < 0, rows[:, START], rows[:, END], rows[:, KEY])
    rows = rows[np.lexsort(columns)]
    if len(rows) < 2:
        return rows
    kept = np.ones(len(rows), np.bool_)
    last_key, last_end = -1, 0
    clash = (rows[1:, KEY] == rows[:-1, KEY]) & (rows[1:, START] < rows[:-1, END])
    if not clash.any():
        return rows
    for at, (key, start, end) in enumerate(rows[:, [KEY, START, END]].tolist()):
        if key == last_key and start < last_end:
            kept[at] = False
        else:
            last_key, last_end = key, end
    return rows[kept]


def _stops_by_key(rows: Ints, begin_ns: int, end_ns: int) -> dict[int, float]:
    """What windows counted in a period, spread evenly."""
    rows = rows[(rows[:, START] < end_ns) & (rows[:, END] > begin_ns)]
    overlap = np.minimum(rows[:, END], end_ns) - np.maximum(rows[:, START], begin_ns)
    parts = np.maximum(rows[:, FIRST], 0) * (overlap / np.maximum(rows[:, END] - rows[:, START], 1))
    summed: dict[int, float] = {}
    for key, part in zip(rows[:, KEY].tolist(), parts.tolist()):
        summed[key] = summed.get(key, 0.0) + part
    return summed
