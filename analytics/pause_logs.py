"""Pauses as the devices of a fabric have logged them, until they are one sequence a queue on one clock.

In: settled rows of pauses, with the ports that they mean. Out: rows of the kernel up to a time, and the clocks by which
all other rows have to be shifted. Rows are held for LAG_NS, so that what is said of a time rests on what came after it:
the clocks of a bucket of time on the edges of this bucket and the next, a lost edge on what the next ones show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from analytics import layout
from analytics.announced import Announced
from analytics.clocks import (
    E_DELAY,
    E_DEVICE,
    E_KIND,
    E_OTHER,
    E_PAUSED,
    E_QUEUE,
    E_REPORTS,
    E_SIDE,
    E_START,
    E_TIME,
    EDGE_COLUMNS,
    MAX_OFFSET_NS,
    RX,
    TOLERANCE_NS,
    TX,
    XOFF,
    XON,
    Clocks,
    told_times,
)
from analytics.layout import Ints
from analytics.reconcile import (
    LOOK_NS,
    M_COLUMNS,
    M_FILLS,
    M_LAST,
    M_OPEN,
    M_QUEUE,
    MOST_WINDOW_NS,
    N_COUNTED_ENDS,
    N_COUNTED_PAUSES,
    N_COUNTS,
    N_LOST_XOFFS,
    N_LOST_XONS,
    N_ONE_END,
    N_REPEATED,
    N_ROWS,
    REMEMBERED,
    W_DONE,
    W_END,
    W_PAUSED,
    W_QUEUE,
    W_START,
    WINDOW_COLUMNS,
    Grid,
    reconcile,
)
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.batch import MARK_END
from stream.record import Events, picked

BUCKET_NS = 10_000_000
"""Clocks are looked at this often: one that is 50 ppm off moves by half a microsecond meanwhile."""
LONGEST_WINDOW_NS = 2 * BUCKET_NS
"""What longer windows count is known too late to say anything."""
LAG_NS = 2 * BUCKET_NS + MAX_OFFSET_NS + 3 * LOOK_NS
"""Rows up to so much later are there when pauses are told of: two buckets by any clock, and what was lost before."""

COUNTED = {
    N_LOST_XONS: "pauses_ended_by_next_xoff",
    N_LOST_XOFFS: "pauses_begun_before_xon",
    N_COUNTED_ENDS: "pauses_ended_by_counters",
    N_COUNTED_PAUSES: "pauses_known_by_counters",
    N_ONE_END: "pauses_logged_at_one_end",
    N_REPEATED: "edges_of_no_pause",
}
"""The counter of each place in the counts of `reconcile`."""


class PauseLogs:
    """What waits of one fabric's pauses."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self._edges: Ints = np.zeros((0, EDGE_COLUMNS), np.int64)
        self._new: list[Ints] = []
        self._windows: Ints = np.zeros((0, WINDOW_COLUMNS), np.int64)
        self._state: Ints = np.zeros((0, M_COLUMNS), np.int64)
        self._grid: Ints = np.zeros((0, 2), np.int64)
        """By device, the length of its first window of paused time and where that began."""
        self._logged_since: dict[int, int] = {}
        """By device that logs pauses, or of whose queues somebody does, the first such stamp."""
        self._rows: Ints = np.zeros((0, layout.ROW_COLUMNS), np.int64)
        """What has been told of times that are not due."""
        self.newest_ns = layout.FOREVER
        """Counters are there up to this time at most: for a run ahead, which goes on to the end of time."""
        self._bucket = -1
        """The bucket of time that clocks have been looked at for."""

    def take(
        self, events: Events, ports: Ints, topology: Topology, announced: Announced, counters: Counter[str]
    ) -> None:
        """Takes settled rows in: pauses as logged at either end, and counters of paused time at the stopped one."""
        self._grow(topology)
        kind = events["kind"]
        pause = np.flatnonzero((kind == kinds.PAUSE_OPEN) | (kind == kinds.PAUSE_INTERVAL))
        if len(pause):
            self._take_edges(picked(events, pause), ports[pause], topology, announced, counters)
        paused = np.flatnonzero((kind == kinds.PFC_PAUSED) & (events["side"] != kinds.SIDE_TX))
        if len(paused):
            self._take_windows(picked(events, paused), ports[paused], topology)

    def turns(self, until_ns: int, topology: Topology) -> Iterator[int]:
        """Times up to which clocks are as they were, each just before they change; then the time itself."""
        self._join()
        while True:
            # Rows are made up to LOOK_NS ahead, by the clocks that hold then. An edge just behind that may be gone, as
            # one with another end's, so that buckets begin a tolerance later.
            times = told_times(self._edges, self.clocks.table(len(topology.devices))) - TOLERANCE_NS
            ahead = times[times >= (self._bucket + 1) * BUCKET_NS]
            if not len(ahead):
                break
            bucket = int(ahead.min()) // BUCKET_NS
            begin_ns = bucket * BUCKET_NS
            if begin_ns - LOOK_NS >= until_ns:
                break
            near = self._edges[(times >= begin_ns) & (times < begin_ns + 2 * BUCKET_NS)]
            clocks = self.clocks.copy()
            if clocks.follow(near, topology.devices):
                yield begin_ns - LOOK_NS
            self.clocks, self._bucket = clocks, bucket
        yield until_ns

    def release(self, until_ns: int, topology: Topology, counters: Counter[str]) -> Ints:
        """The kernel's rows of all pauses up to a time, in no order."""
        self._join()
        self._grow(topology)
        self._reconcile(until_ns, topology, counters)
        due = self._rows[:, layout.ROW_TIME] < until_ns
        rows, self._rows = self._rows[due], self._rows[~due]
        return rows

    def copy(self) -> PauseLogs:
        """A copy that further rows change alone."""
        self._join()
        twin = PauseLogs()
        twin.clocks, twin._bucket, twin.newest_ns = self.clocks.copy(), self._bucket, self.newest_ns
        twin._logged_since = dict(self._logged_since)
        for name in _ARRAYS:
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def carry(self, topology: Topology) -> None:
        """Moves what is kept by port and device to what their names now mean."""
        self._grow(topology)
        meant = np.arange(len(topology.ports))
        meant[list(topology.moved_ports)] = list(topology.moved_ports.values())
        self._join()
        for rows, column in ((self._edges, E_QUEUE), (self._windows, W_QUEUE), (self._rows, layout.ROW_QUEUE)):
            rows[:, column] = meant[rows[:, column] // PRIORITIES] * PRIORITIES + rows[:, column] % PRIORITIES
        self._move_queues(topology.moved_ports)
        devices = np.arange(len(topology.devices))
        devices[list(topology.moved_devices)] = list(topology.moved_devices.values())
        self._edges[:, [E_DEVICE, E_OTHER]] = devices[self._edges[:, [E_DEVICE, E_OTHER]]]
        self.clocks.carry(topology.moved_devices)
        for device, other in topology.moved_devices.items():
            if (since_ns := self._logged_since.pop(device, None)) is not None:
                self._logged_since[other] = min(since_ns, self._logged_since.get(other, since_ns))
            if not self._grid[other, 0]:
                self._grid[other] = self._grid[device]

    def _move_queues(self, moved_ports: dict[int, int]) -> None:
        """Lets the state of queues be that of what they are now; a pause that is open goes before one that is not."""
        kept = {int(row[M_QUEUE]): row for row in self._state}
        for port, other in moved_ports.items():
            for priority in range(PRIORITIES):
                old, new = kept.pop(port * PRIORITIES + priority, None), other * PRIORITIES + priority
                if old is not None and (new not in kept or kept[new][M_OPEN] == layout.NEVER != old[M_OPEN]):
                    old[M_QUEUE] = new
                    kept[new] = old
        if kept:
            self._state = np.stack([kept[queue] for queue in sorted(kept)])

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot."""
        self._join()
        since = [list(entry) for entry in sorted(self._logged_since.items())]
        return [self.clocks.state(), since, self._bucket, [getattr(self, name) for name in _ARRAYS]]

    @classmethod
    def of_state(cls, state: list[Any]) -> PauseLogs:
        """Continues from `state()`."""
        logs = cls()
        clocks, since, logs._bucket, arrays = state
        logs.clocks, logs._logged_since = Clocks.of_state(clocks), dict(since)
        for name, array in zip(_ARRAYS, arrays, strict=True):
            setattr(logs, name, array)
        return logs

    def _join(self) -> None:
        if self._new:
            self._edges = np.concatenate((self._edges, *self._new))
            self._new = []

    def _grow(self, topology: Topology) -> None:
        missing = len(topology.devices) - len(self._grid)
        if missing > 0:
            self._grid = np.concatenate((self._grid, np.zeros((missing, 2), np.int64)))

    def _take_edges(
        self, events: Events, ports: Ints, topology: Topology, announced: Announced, counters: Counter[str]
    ) -> None:
        sent = events["side"] == kinds.SIDE_TX
        peer = topology.port_peer[ports]
        told = np.where(sent, peer, ports)
        known = told >= 0
        counters["pauses_sent_on_unknown_links"] += int(len(known) - known.sum())
        events, told, sent, peer, ports = picked(events, known), told[known], sent[known], peer[known], ports[known]
        edges = np.zeros((len(events), EDGE_COLUMNS), np.int64)
        ends = events["kind"] == kinds.PAUSE_INTERVAL
        orphan = ends & (events["value"] == kinds.UNKNOWN) & (events["span_ns"] == 0)
        edges[:, E_KIND] = np.where(ends, XON, XOFF)
        edges[:, E_TIME] = events["time_ns"]
        edges[:, E_START] = np.where(orphan, layout.NEVER, events["time_ns"] - events["span_ns"])
        edges[:, E_PAUSED] = np.where(events["value"] < 0, events["span_ns"], events["value"])
        edges[:, E_SIDE] = np.where(sent, TX, RX)
        edges[:, E_DEVICE] = topology.port_device[ports]
        edges[:, E_OTHER] = np.where(peer >= 0, topology.port_device[peer], edges[:, E_DEVICE])
        edges[:, E_DELAY] = topology.port_delay_ns[told]
        begun_ns = np.where(orphan, edges[:, E_TIME], edges[:, E_START]) + np.where(sent, edges[:, E_DELAY], 0)
        told_device = topology.port_device[told]
        edges[:, E_REPORTS] = announced.reporting(told_device, begun_ns, topology.devices, topology.names)
        # Whoever logs that it stops others logs that it is stopped itself.
        for logging in (told_device, edges[:, E_DEVICE]):
            devices, place = np.unique(logging, return_inverse=True)
            first_ns = np.full(len(devices), layout.FOREVER)
            np.minimum.at(first_ns, place, edges[:, E_TIME])
            for device, since_ns in zip(devices.tolist(), first_ns.tolist(), strict=True):
                self._logged_since[device] = min(since_ns, self._logged_since.get(device, since_ns))
        # A pause that names no priority stops all of them.
        every = events["priority"] == kinds.NO_PRIORITY
        repeat = np.where(every, PRIORITIES, 1)
        index = np.repeat(np.arange(len(events)), repeat)
        within = np.arange(len(index)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        edges = edges[index]
        edges[:, E_QUEUE] = told[index] * PRIORITIES + np.where(
            every[index], within, events["priority"][index] % PRIORITIES
        )
        self._new.append(edges)

    def _take_windows(self, events: Events, ports: Ints, topology: Topology) -> None:
        usable = (
            (events["span_ns"] > 0) & (events["span_ns"] <= LONGEST_WINDOW_NS)
            & (events["value"] != 0) & (events["priority"] < PRIORITIES)
        )  # fmt: skip
        events, ports = picked(events, usable), ports[usable]
        span_ns, unknown = events["span_ns"].astype(np.int64), events["value"] < 0
        windows = np.zeros((len(events), WINDOW_COLUMNS), np.int64)
        windows[:, W_QUEUE] = ports * PRIORITIES + events["priority"]
        windows[:, W_START] = events["time_ns"] - span_ns
        windows[:, W_END] = events["time_ns"]
        windows[:, W_PAUSED] = np.where(unknown, span_ns, np.minimum(events["value"], span_ns))
        # One that counts too long a time, or that cannot be read, says at most that a queue may have been stopped.
        windows[:, W_DONE] = unknown | (span_ns > MOST_WINDOW_NS)
        device = topology.port_device[ports]
        order = np.lexsort((span_ns, windows[:, W_END], device))
        devices, first = np.unique(device[order], return_index=True)
        new = self._grid[devices, 0] == 0
        firsts = order[first[new]]
        self._grid[devices[new], 0] = np.minimum(span_ns[firsts], MOST_WINDOW_NS)
        self._grid[devices[new], 1] = windows[firsts, W_START]
        # So does one that is longer than its device's first: several that are known lie in it.
        windows[:, W_DONE] |= span_ns > self._grid[device, 0] + TOLERANCE_NS
        self._windows = np.concatenate((self._windows, _in_pieces(windows)))

    def _reconcile(self, until_ns: int, topology: Topology, counters: Counter[str]) -> None:
        # Rows are made ahead: a window in which pauses are missed is known when it is over.
        made_until_ns = until_ns if until_ns == MARK_END else until_ns + LOOK_NS
        known_ns = until_ns if until_ns == MARK_END else until_ns + 3 * LOOK_NS
        offsets = self.clocks.table(len(topology.devices))
        times = told_times(self._edges, offsets)
        near = np.flatnonzero(times < known_ns)
        edges, times = self._edges[near], times[near]
        edges[:, E_TIME] = times
        begun = edges[:, E_START] != layout.NEVER
        edges[begun, E_START] += times[begun] - self._edges[near[begun], E_TIME]
        use = np.ones(len(edges), np.bool_)
        if self.clocks.apart:
            # Where both ends do not agree whatever the clocks, the stopped side is believed, if it logs.
            pairs = np.sort(edges[:, [E_DEVICE, E_OTHER]], axis=1)
            apart = np.array([tuple(pair) in self.clocks.apart for pair in pairs.tolist()], np.bool_)
            use = ~(apart & (edges[:, E_SIDE] == TX) & (edges[:, E_REPORTS] == 1))
        # At one instant what was open ends, then others open, then those end that have lasted no time at all.
        turn = np.where(edges[:, E_KIND] == XOFF, 1, np.where(edges[:, E_START] == edges[:, E_TIME], 2, 0))
        order = np.lexsort((edges[:, E_SIDE], turn, edges[:, E_TIME], edges[:, E_QUEUE]))
        order = order[use[order]]
        sorted_edges = np.zeros((len(order), 7), np.int64)
        sorted_edges[:, :6] = edges[order][:, [E_QUEUE, E_KIND, E_TIME, E_START, E_PAUSED, E_SIDE]]
        windows = self._windows
        device = topology.port_device[windows[:, W_QUEUE] // PRIORITIES]
        since_ns = np.full(len(topology.devices), layout.FOREVER)
        since_ns[list(self._logged_since)] = list(self._logged_since.values())
        # Without a log nothing is missing in it; nor is what lies long before its beginning.
        logged = since_ns[device] <= windows[:, W_START] + 2 * BUCKET_NS
        shift = offsets[device]
        windows[:, W_START] -= shift
        windows[:, W_END] -= shift
        early, windows, shift = windows[~logged], windows[logged], shift[logged]
        early_shift = offsets[device[~logged]]
        by_end = np.lexsort((windows[:, W_PAUSED], windows[:, W_START], windows[:, W_END], windows[:, W_QUEUE]))
        windows, shift = windows[by_end], shift[by_end]
        queues = np.unique(np.concatenate((self._state[:, M_QUEUE], sorted_edges[:, 0], windows[:, W_QUEUE])))
        self._know(queues)
        counts = np.zeros(N_COUNTS, np.int64)
        rows = np.zeros((4 * len(sorted_edges) + 3 * len(windows) + 2 * len(queues), layout.ROW_COLUMNS), np.int64)
        reconcile(
            sorted_edges,
            windows,
            np.searchsorted(sorted_edges[:, 0], np.append(queues, layout.FOREVER)),
            np.searchsorted(windows[:, W_QUEUE], np.append(queues, layout.FOREVER)),
            topology.port_device[queues // PRIORITIES],
            Grid(self._grid[:, 0].copy(), self._grid[:, 1] - offsets[: len(self._grid)]),
            made_until_ns,
            min(known_ns, self.newest_ns),
            self._state,
            rows,
            np.zeros(REMEMBERED, np.int64),
            counts,
        )
        for place, name in COUNTED.items():
            counters[name] += int(counts[place])
        self._rows = _set_right(np.concatenate((self._rows, rows[: counts[N_ROWS]])), len(self._rows))
        used = np.zeros(len(self._edges), np.bool_)
        used[near[order[sorted_edges[:, 6] == 1]]] = True
        used[near[~use & (times < made_until_ns)]] = True
        self._edges = self._edges[~used]
        windows = np.concatenate((windows, early))
        # What a pause that is still open may ask for stays.
        recent = windows[:, W_END] > made_until_ns - LOOK_NS
        undone = (windows[:, W_DONE] == 0) & (np.arange(len(windows)) < len(windows) - len(early))
        shift = np.concatenate((shift, early_shift))
        windows[:, W_START] += shift
        windows[:, W_END] += shift
        self._windows = windows[recent | undone]

    def _know(self, queues: Ints) -> None:
        """Makes the state that of these queues, in their order; it has others not."""
        if len(queues) == len(self._state):
            return
        state = np.zeros((len(queues), M_COLUMNS), np.int64)
        state[:, M_QUEUE] = queues
        state[:, [M_OPEN, M_LAST, M_FILLS]] = layout.NEVER
        state[np.searchsorted(queues, self._state[:, M_QUEUE])] = self._state
        self._state = state


def _set_right(rows: Ints, known: int) -> Ints:
    """Counters say how long, logs say when: what they count beyond a window's pauses, or less, goes to the last in it.

    It has to have ended there: whether a later end is known yet depends on how far rows are made. What is less goes to
    guesses alone. `known` rows were there before: no pause is released before its window is over.
    """
    missed = known + np.flatnonzero(rows[known:, layout.ROW_TYPE] == layout.MISSED)
    closes = np.flatnonzero(rows[:, layout.ROW_TYPE] == layout.CLOSE) if len(missed) else missed
    for window in rows[missed].tolist():
        begin_ns, end_ns, missed_ns = (window[c] for c in (layout.ROW_START, layout.ROW_END, layout.ROW_AMOUNT))
        near = closes[
            (rows[closes, layout.ROW_QUEUE] == window[layout.ROW_QUEUE])
            & (rows[closes, layout.ROW_ORDER] > 0)  # not one that counters alone tell of
            & (rows[closes, layout.ROW_END] > begin_ns) & (rows[closes, layout.ROW_END] < end_ns)
            & ((missed_ns > 0) | (rows[closes, layout.ROW_ID] & layout.MARK_GUESSED != 0))
        ]  # fmt: skip
        if len(near):
            last = near[np.argmax(rows[near, layout.ROW_END])]
            rows[last, layout.ROW_AMOUNT] = max(rows[last, layout.ROW_AMOUNT] + missed_ns, 0)
    less = np.zeros(len(rows), np.bool_)
    less[missed] = rows[missed, layout.ROW_AMOUNT] < 0
    return rows[~less] if less.any() else rows


def _in_pieces(windows: Ints) -> Ints:
    """Windows, those that are too long cut into pieces, each of which may hold as much as the whole."""
    pieces = -(-(windows[:, W_END] - windows[:, W_START]) // MOST_WINDOW_NS)
    if not (pieces > 1).any():
        return windows
    number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    windows = np.repeat(windows, pieces, axis=0)
    windows[:, W_START] += number * MOST_WINDOW_NS
    windows[:, W_END] = np.minimum(windows[:, W_END], windows[:, W_START] + MOST_WINDOW_NS)
    windows[:, W_PAUSED] = np.minimum(windows[:, W_PAUSED], windows[:, W_END] - windows[:, W_START])
    return windows


_ARRAYS = ("_edges", "_windows", "_state", "_grid", "_rows")
