"""Cascades of polled devices: periods of counters, each blamed for itself, added up while they belong together.

In: settled rows, the roster's announcements, stops of devices that log them. Out: closed cascades, in the form in which
the engine tells its own. A device is exact if it logs its pauses, else sampled; both may meet in one cascade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xxhash

from analytics import baselines, layout
from analytics.announced import Announced
from analytics.closed import Closed
from analytics.layout import Bools, Ints
from analytics.pause_logs import LAG_NS
from analytics.polls import Polls, Told
from analytics.sampled_blame import Blamed, blame_period
from analytics.sampled_cascade import SampledCascade, with_priority
from analytics.topology import PRIORITIES, Topology
from analytics.transit import Transit
from stream import kinds
from stream.record import Events, picked

LOG_WINDOW_NS = 1_000_000
"""Windows up to this long may go with a log, to say what it lost (analytics.reconcile); longer ones are polls."""
LAG_PERIODS = 4
"""So many of the longest periods later a period is looked at: a poll may be lost or two, and what other devices polled
says when in its own poll a queue was stopped."""
MAX_SERIES = 65_536
"""Stopped queues whose past is kept, 280 bytes each; more are taken as having none."""


class Sampled:
    """The polled devices of one fabric."""

    def __init__(self, fabric: str) -> None:
        self.fabric = fabric
        self.polls = Polls()
        self.cascades: list[SampledCascade] = []
        self._transit = Transit()
        self._period_ns = 0
        self._next_ns = layout.NEVER
        """Where the next period begins; NEVER while nothing is paused."""
        self._before_ns = layout.NEVER
        """Where the last period ended that was looked at."""
        self._met_ns = layout.NEVER
        """Where the first window of pauses ended, by which the grid of periods was laid."""
        self._since_ns = layout.FOREVER
        """When the first window of a polled device began."""
        self._logged_since: dict[int, int] = {}
        """By device, when it first logged a pause."""
        self._series: dict[int, int] = {}
        """By queue, the row of its baseline."""
        self._baselines = np.zeros((0, baselines.COLUMNS))
        self._mixed: dict[int, list[tuple[int, int]]] = {}
        """By queue that a device logs, periods in which a cascade here tells of it."""

    def take(self, events: Events, ports: Ints, topology: Topology, announced: Announced, horizon_ns: int) -> None:
        """Takes settled rows in, in any order."""
        self._since_ns = min(self._since_ns, announced.polled_since_ns())
        kind = events["kind"]
        logged = (kind == kinds.PAUSE_OPEN) | (kind == kinds.PAUSE_INTERVAL)
        if logged.any():
            devices = topology.port_device[ports[logged]]
            for device, time_ns in zip(devices.tolist(), events["time_ns"][logged].tolist(), strict=True):
                self._logged_since[device] = min(time_ns, self._logged_since.get(device, time_ns))
        polled = ((kind == kinds.PFC_PAUSED) | (kind == kinds.PFC_FRAMES)) & (events["span_ns"] > LOG_WINDOW_NS)
        if polled.any():
            self._since_ns = min(self._since_ns, int(events["time_ns"][polled].min()))
        if self._since_ns == layout.FOREVER:
            return
        chosen = events["time_ns"] >= self._since_ns
        if not chosen.all():
            events, ports = picked(events, chosen), ports[chosen]
        self.polls.take(events, ports, topology, LAG_PERIODS * horizon_ns if horizon_ns else layout.FOREVER)

    def take_windows(
        self, events: Events, ports: Ints, topology: Topology, announced: Announced, horizon_ns: int
    ) -> None:
        """Takes settled rows in of which none is of pauses."""
        self._since_ns = min(self._since_ns, announced.polled_since_ns())
        if self._since_ns != layout.FOREVER:
            self.take(events, ports, topology, announced, horizon_ns)

    def take_stops(self, rows: Ints) -> None:
        """Takes the kernel's rows of logged pauses in, where there are polled devices that they may stop."""
        if self._since_ns != layout.FOREVER:
            self.polls.take_stops(rows[rows[:, layout.ROW_START] >= self._since_ns])

    def keep_ns(self, horizon_ns: int) -> int:
        """For how much longer a cascade of logged pauses is kept, until it is known whether polled devices share it."""
        return 0 if self._since_ns == layout.FOREVER else (LAG_PERIODS + 1) * horizon_ns

    def due(self, until_ns: int, announced: Announced, heard_ns: int) -> Iterator[int]:
        """Times up to which all rows have to be there, of the periods that are due by then; `step` takes each on.

        None of them ends after `heard_ns`.
        """
        while True:
            if self._next_ns == layout.NEVER and not self._begin(announced):
                return
            lag_ns = LAG_PERIODS * max(announced.horizon_ns(max(self._next_ns, 0)), self._period_ns)
            due_ns = self._next_ns + self._period_ns + lag_ns + LAG_NS
            if due_ns > until_ns or self._next_ns + self._period_ns > heard_ns:
                return
            yield due_ns

    def next_period_ns(self) -> tuple[int, int]:
        """Where the period that is looked at next begins and ends; FOREVER while nothing is paused."""
        if self._next_ns == layout.NEVER:
            return layout.FOREVER, layout.FOREVER
        return self._next_ns, self._next_ns + self._period_ns

    def _begin(self, announced: Announced) -> bool:
        """Lays the grid of periods by the first window of pauses, so that polls that are aligned fit it."""
        first = self.polls.first_pause(self._before_ns)
        if first is None:
            return False
        self._met_ns, span_ns = first
        self._period_ns = announced.poll_ns(self._met_ns) or span_ns
        # Windows that end later may have begun earlier.
        periods = LAG_PERIODS * max(announced.horizon_ns(self._met_ns), self._period_ns) // self._period_ns
        self._next_ns = max(self._met_ns - periods * self._period_ns, self._before_ns)
        return True

    def step(self, due_ns: int, topology: Topology, announced: Announced, on_closed: Callable[[Closed], None]) -> None:
        """Looks at one period, then goes on to the next; where nothing is paused, until something is."""
        begin_ns, end_ns = self._next_ns, self._next_ns + self._period_ns
        logs = self._logs(due_ns, topology)
        silent = self._silent(begin_ns, end_ns, due_ns, topology, announced, logs)
        told = self.polls.told(begin_ns, end_ns, due_ns, topology, logs, silent)
        self._follow(told, begin_ns, end_ns, topology)
        for priority in told:
            self._take_period(priority, begin_ns, end_ns, topology, logs)
        self._close(end_ns, on_closed, topology)
        self._before_ns = end_ns
        self.polls.forget(end_ns - 2 * self._period_ns)
        self._mixed = {
            queue: [span for span in spans if span[1] > end_ns - 64 * self._period_ns - layout.GAP_NS]
            for queue, spans in self._mixed.items()
        }
        self._next_ns = end_ns if told or self.cascades or end_ns < self._met_ns else layout.NEVER

    def _logs(self, known_ns: int, topology: Topology) -> Bools:
        logs = np.zeros(len(topology.devices), np.bool_)
        logs[[device for device, since_ns in self._logged_since.items() if since_ns <= known_ns]] = True
        return logs

    def _silent(
        self, begin_ns: int, end_ns: int, known_ns: int, topology: Topology, announced: Announced, logs: Bools
    ) -> Bools:
        silent = ~(self.polls.tells_pauses(known_ns, topology) | logs)
        for device in np.flatnonzero(silent).tolist():
            silent[device] = not announced.reports(topology.devices[device], begin_ns, end_ns, topology.names)
        return silent

    def _follow(self, told: list[Told], begin_ns: int, end_ns: int, topology: Topology) -> None:
        """Takes the share of the period that each queue was stopped into its baseline."""
        values = np.zeros(len(self._baselines))
        for part in told:
            for port in part.ports.tolist():
                queue = port * PRIORITIES + part.priority
                row = self._series.get(queue)
                if row is None and len(self._series) < MAX_SERIES:
                    row = self._series[queue] = len(self._baselines)
                    fresh = np.zeros((1, baselines.COLUMNS))
                    # It was not stopped for as long as it is known: so much is usual for it.
                    fresh[0, baselines.COUNT] = float(baselines.PERIODS)
                    self._baselines = np.concatenate((self._baselines, fresh))
                    values = np.append(values, 0.0)
                if row is not None:
                    values[row] = part.period.paused_ns[port] / part.period.length_ns
        quiet = 0
        if self._before_ns != layout.NEVER:
            quiet = max(0, (begin_ns - self._before_ns) // self._period_ns)
        baselines.follow(self._baselines, values, quiet, np.zeros(baselines.PERIODS))
        over = (self._baselines[:, baselines.CUSUM] == 0) & (self._baselines[:, 3:] == 0).all(axis=1)
        if over.sum() > 1024 and not told:
            kept = np.flatnonzero(~over)
            place = {int(row): number for number, row in enumerate(kept.tolist())}
            self._series = {queue: place[row] for queue, row in self._series.items() if row in place}
            self._baselines = self._baselines[kept]

    def _take_period(self, told: Told, begin_ns: int, end_ns: int, topology: Topology, logs: Bools) -> None:
        blamed = blame_period(told.period, topology, self._transit)
        for group in _groups(told, blamed):
            queues = [int(port) * PRIORITIES + told.priority for port in blamed.ports[group].tolist()]
            logged = told.logged[np.searchsorted(told.ports, blamed.ports[group])]
            roots = _roots_of(blamed, group, told.priority)
            known = [cascade for cascade in self.cascades if cascade.meets(queues, roots)]
            if not known:
                if logged.all():
                    continue  # the engine tells of it
                known = [SampledCascade(begin_ns, min(queues, key=lambda queue: _rank(topology, queue)))]
                self.cascades += known
            cascade = known[0]
            for other in known[1:]:
                cascade.join(other, self.cascade_id(other, topology))
                self.cascades.remove(other)
            usual = {queue: self._usual(queue) for queue in queues}
            cascade.add(told, blamed, group, begin_ns, end_ns, topology, logs, usual)
            for queue, is_logged in zip(queues, logged.tolist(), strict=True):
                if is_logged:
                    self._mixed.setdefault(queue, []).append((begin_ns, end_ns))

    def _usual(self, queue: int) -> float:
        row = self._series.get(queue)
        return 0.0 if row is None else float(self._baselines[row, baselines.USUAL])

    def _close(self, now_ns: int, on_closed: Callable[[Closed], None], topology: Topology) -> None:
        for cascade in list(self.cascades):
            if now_ns - cascade.last_ns >= layout.GAP_NS and not self._persists(cascade):
                self.cascades.remove(cascade)
                on_closed(self._closed(cascade, topology, still_open=False))

    def _persists(self, cascade: SampledCascade) -> bool:
        """Whether any of its queues was beyond what is usual for long enough that it may go on."""
        rows = [self._series[queue] for queue in cascade.queues if queue in self._series]
        return bool(rows) and bool((self._baselines[rows, baselines.CUSUM] > 0).any())

    def still_open(self, topology: Topology) -> list[Closed]:
        """The cascades that have not closed."""
        still = [self._closed(cascade, topology, still_open=True) for cascade in self.cascades]
        return sorted(still, key=lambda closed: (closed.start_ns, closed.id))

    def tells(self, closed: Closed) -> bool:
        """Whether a cascade of logged pauses is part of one here, which tells of it."""
        for queue in closed.ledger.queues:
            for begin_ns, end_ns in self._mixed.get(queue, ()):
                if begin_ns <= closed.end_ns and closed.start_ns < end_ns:
                    return True
        return False

    def beginnings(self) -> set[tuple[int, int]]:
        """When and with which stopped queue each cascade began that is not over."""
        return {(cascade.start_ns, cascade.first_queue) for cascade in self.cascades}

    def oldest_ns(self) -> int:
        """When the oldest of the cascades began that are not over; FOREVER where there is none."""
        waiting_ns = layout.FOREVER if self._next_ns == layout.NEVER else self._next_ns
        return min((cascade.start_ns for cascade in self.cascades), default=waiting_ns)

    def cascade_id(self, cascade: SampledCascade, topology: Topology) -> str:
        """The id of a cascade: a hash of the fabric, its first queue and the beginning of its first period."""
        device, port, priority = topology.queue_name(cascade.first_queue)
        text = "\0".join((self.fabric, "sampled", device, port, str(priority), str(cascade.start_ns)))
        return f"{xxhash.xxh3_64_intdigest(text.encode()):016x}"

    def _closed(self, cascade: SampledCascade, topology: Topology, *, still_open: bool) -> Closed:
        ledger, part = cascade.told(topology)
        name = self.cascade_id(cascade, topology)
        return Closed(-1, name, cascade.start_ns, cascade.last_ns, ledger, still_open, part)

    def copy(self) -> Sampled:
        """A copy that further rows change alone."""
        twin = Sampled(self.fabric)
        twin.polls = self.polls.copy()
        twin.cascades = [cascade.copy() for cascade in self.cascades]
        twin._transit = self._transit
        twin._period_ns, twin._next_ns, twin._before_ns = self._period_ns, self._next_ns, self._before_ns
        twin._met_ns, twin._since_ns, twin._logged_since = self._met_ns, self._since_ns, dict(self._logged_since)
        twin._series, twin._baselines = dict(self._series), self._baselines.copy()
        twin._mixed = {queue: list(spans) for queue, spans in self._mixed.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot."""
        return [
            self.fabric, self.polls.state(), [cascade.state() for cascade in self.cascades],
            [self._period_ns, self._next_ns, self._before_ns, self._met_ns, self._since_ns],
            [list(entry) for entry in sorted(self._logged_since.items())],
            [list(entry) for entry in self._series.items()], self._baselines,
            [[queue, [list(span) for span in spans]] for queue, spans in sorted(self._mixed.items())],
        ]  # fmt: skip

    @classmethod
    def of_state(cls, state: list[Any]) -> Sampled:
        """Continues from `state()`."""
        fabric, polls, cascades, times, since, series, known, mixed = state
        sampled = cls(fabric)
        sampled.polls = Polls.of_state(polls)
        sampled.cascades = [SampledCascade.of_state(each) for each in cascades]
        (sampled._period_ns, sampled._next_ns, sampled._before_ns, sampled._met_ns, sampled._since_ns) = times
        sampled._logged_since = dict(since)
        sampled._series, sampled._baselines = dict(series), known.copy()
        sampled._mixed = {queue: [(begin, end) for begin, end in spans] for queue, spans in mixed}
        return sampled

    def carry(self, topology: Topology) -> None:
        """Moves all to the ports and devices that their names now mean."""
        self.polls.carry(topology)
        for cascade in self.cascades:
            cascade.carry(topology)
        for device, other in topology.moved_devices.items():
            if (since_ns := self._logged_since.pop(device, None)) is not None:
                self._logged_since[other] = min(since_ns, self._logged_since.get(other, since_ns))
        moved = topology.moved_ports

        def now(queue: int) -> int:
            port, priority = divmod(queue, PRIORITIES)
            return moved.get(port, port) * PRIORITIES + priority

        self._series = {now(queue): row for queue, row in self._series.items()}
        self._mixed = {now(queue): spans for queue, spans in self._mixed.items()}


def _rank(topology: Topology, queue: int) -> int:
    return int(topology.port_rank[queue // PRIORITIES]) * PRIORITIES + queue % PRIORITIES


def _groups(told: Told, blamed: Blamed) -> list[Ints]:
    """Places in `blamed.ports` of stops that belong together: one caused the other, or both blame one root."""
    count = len(blamed.ports)
    parent = list(range(count))

    def find(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    def unite(one: int, other: int) -> None:
        one, other = find(one), find(other)
        parent[max(one, other)] = min(one, other)

    place = {port: number for number, port in enumerate(blamed.ports.tolist())}
    strong = np.flatnonzero(blamed.edge_weight * blamed.edge_pass >= layout.JOIN_SHARE)
    for of, port in zip(blamed.edge_of[strong].tolist(), blamed.edge_port[strong].tolist(), strict=True):
        if port in place:
            unite(of, place[port])
    stops, columns = np.nonzero(blamed.shares[0] >= layout.JOIN_SHARE)
    first: dict[int, int] = {}
    for stop, column in zip(stops.tolist(), columns.tolist(), strict=True):
        if blamed.roots[column] & 3 != layout.ROOT_SPECIAL:
            unite(stop, first.setdefault(column, stop))
    groups: dict[int, list[int]] = {}
    for number in range(count):
        groups.setdefault(find(number), []).append(number)
    return [np.array(groups[root], np.int64) for root in sorted(groups)]


def _roots_of(blamed: Blamed, group: Ints, priority: int) -> set[int]:
    """Roots (with priority, as the engine numbers them) that some stop of the group blames."""
    columns = np.flatnonzero((blamed.shares[0][group] >= layout.JOIN_SHARE).any(axis=0))
    return {with_priority(int(root), priority) for root in blamed.roots[columns] if root & 3 != layout.ROOT_SPECIAL}
