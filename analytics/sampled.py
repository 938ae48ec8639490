"""Cascades of polled devices: periods of counters, each blamed for itself, added up while they belong together.

In: settled rows, the roster's announcements, stops of devices that log them. Out: closed cascades, in the form in which
the engine tells its own. A device is exact if it logs its pauses, else sampled; both may meet in one cascade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xxhash

from analytics import layout
from analytics.announced import MAX_HORIZON_NS, Announced
from analytics.closed import Closed
from analytics.layout import Bools, Ints
from analytics.open_cascades import OpenCascades
from analytics.pause_logs import LAG_NS
from analytics.polls import MOST_PERIODS, Polls, Told
from analytics.sampled_blame import Blamed, blame_period
from analytics.sampled_cascade import SampledCascade, with_priority
from analytics.topology import PRIORITIES, Topology
from analytics.transit import Transit
from analytics.usual import Usual
from stream import kinds
from stream.record import Events

LOG_WINDOW_NS = 1_000_000
"""Windows up to this long may go with a log, to say what it lost (analytics.reconcile); longer ones are polls."""
LAG_PERIODS = 4
"""So many of the longest periods later a period is looked at: a poll may be lost or two, and what other devices polled
says when in its own poll a queue was stopped."""
LEAST_NS = layout.MEMORY_NS
"""No period is shorter: within the memory of a stop no order shows."""
LONGEST_PERIODS = 64
"""So many periods the longest poll may last: where few devices are polled far less often than most, their windows are
not followed in finer pieces than this."""
JITTER = 1.1
"""Polls that are so many times as long as a period count as of its length."""
LOGGED_PERIODS = 64
"""So many periods in which devices that log their pauses alone tell of any, and no cascade here follows them."""


class Sampled:
    """The polled devices of one fabric."""

    def __init__(self, fabric: str) -> None:
        self.fabric = fabric
        self.polls = Polls()
        self.cascades = OpenCascades()
        self._transit = Transit()
        self._period_ns = 0
        self._next_ns = layout.NEVER
        """Where the next period begins; NEVER while nothing is paused."""
        self._before_ns = layout.NEVER
        """Where the last period ended that was looked at."""
        self._waits_ns = layout.FOREVER
        """Where periods may begin for which not all is known yet."""
        self._since_ns = layout.FOREVER
        """When the first window of a polled device began."""
        self._logged_since: Ints = np.zeros(0, np.int64)
        """By device, when it first logged a pause."""
        self._usual = Usual()
        self._mixed: dict[int, list[tuple[int, int]]] = {}
        """By queue that a device logs, periods in which a cascade here tells of it."""
        self._weighed: dict[int, list[float]] = {}
        """Of the present period, by piece: paused ns, each by how much of its poll the period is, and in all."""

    def take(self, events: Events, ports: Ints, topology: Topology, announced: Announced, horizon_ns: int) -> None:
        """Takes settled rows in, in any order."""
        kind = events["kind"]
        logged = (kind == kinds.PAUSE_OPEN) | (kind == kinds.PAUSE_INTERVAL)
        if logged.any():
            self._grow(topology)
            np.minimum.at(self._logged_since, topology.port_device[ports[logged]], events["time_ns"][logged])
        polled = ((kind == kinds.PFC_PAUSED) | (kind == kinds.PFC_FRAMES)) & (events["span_ns"] > LOG_WINDOW_NS)
        if polled.any():
            self._since_ns = min(self._since_ns, int(events["time_ns"][polled].min()))
        self.take_windows(events, ports, topology, announced, horizon_ns)

    def take_windows(
        self, events: Events, ports: Ints, topology: Topology, announced: Announced, horizon_ns: int
    ) -> None:
        """Takes settled rows in of which none is of pauses."""
        self._since_ns = min(self._since_ns, announced.polled_since_ns())
        if self._since_ns != layout.FOREVER:
            most_ns = LAG_PERIODS * _reach_ns(horizon_ns)
            self.polls.take(events, ports, topology, self._since_ns, most_ns)

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
            if self._next_ns == layout.NEVER and not self._begin(until_ns, announced):
                self._forget(until_ns, announced)
                return
            lag_ns = _lag_ns(max(self._next_ns, 0), self._period_ns, announced)
            due_ns = self._next_ns + self._period_ns + lag_ns + LAG_NS
            if due_ns > until_ns or self._next_ns + self._period_ns > heard_ns:
                return
            yield due_ns

    def next_period_ns(self) -> tuple[int, int]:
        """Where the period that is looked at next begins and ends; FOREVER while nothing is paused."""
        if self._next_ns == layout.NEVER:
            return layout.FOREVER, layout.FOREVER
        return self._next_ns, self._next_ns + self._period_ns

    def _begin(self, until_ns: int, announced: Announced) -> bool:
        """Goes to the next window of pauses, if all that may begin before it is known.

        The grid of periods is laid by the end of the first window, so that polls that are aligned fit it.
        """
        self._waits_ns = layout.FOREVER
        first = self.polls.first_pause(self._before_ns)
        if first is None:
            return False
        met_ns, span_ns = first
        finest_ns = max(LEAST_NS, announced.longest_poll_ns(met_ns) // LONGEST_PERIODS)
        period_ns = max(announced.poll_ns(met_ns) or min(span_ns, _reach_ns(announced.horizon_ns(met_ns))), finest_ns)
        lag_ns = _lag_ns(met_ns, period_ns, announced)
        if met_ns + period_ns + lag_ns + LAG_NS > until_ns:
            self._waits_ns = max(met_ns - lag_ns, self._before_ns)
            return False
        # Windows that end later may have begun earlier.
        begin_ns = self.polls.begin_of_pauses(self._before_ns, met_ns + lag_ns + LAG_NS, MOST_PERIODS * period_ns)
        periods = min(-((begin_ns - met_ns) // period_ns), lag_ns // period_ns)
        self._period_ns, self._next_ns = period_ns, max(met_ns - periods * period_ns, self._before_ns)
        return True

    def _forget(self, until_ns: int, announced: Announced) -> None:
        """Drops what no window of pauses that is still to come can ask for."""
        first = self.polls.first_pause(self._before_ns)
        time_ns = until_ns if first is None else min(first[0], until_ns)
        # A period, and two beside it, may lie as far back as is waited for.
        self.polls.forget(time_ns - (LAG_PERIODS + 3) * _reach_ns(announced.horizon_ns(max(time_ns - 1, 0))))

    def step(self, due_ns: int, topology: Topology, announced: Announced, on_closed: Callable[[Closed], None]) -> None:
        """Looks at one period, then goes on to the next; where no cascade is open, to the next window of pauses."""
        begin_ns, end_ns = self._next_ns, self._next_ns + self._period_ns
        logs = self._logs(due_ns, topology)
        told = self.polls.told(begin_ns, end_ns, due_ns, topology, self._transit, logs)
        self._follow(told, begin_ns, end_ns)
        for priority in told:
            self._take_period(priority, begin_ns, end_ns, topology, logs)
        self._count_period()
        self._close(end_ns, on_closed, topology)
        self._settle(topology)
        self._before_ns = end_ns
        self.polls.forget(end_ns - 2 * self._period_ns)
        self._mixed = {
            queue: [span for span in spans if span[1] > end_ns - LOGGED_PERIODS * self._period_ns - layout.GAP_NS]
            for queue, spans in self._mixed.items()
        }
        self._next_ns = end_ns if self.cascades else layout.NEVER

    def _logs(self, known_ns: int, topology: Topology) -> Bools:
        self._grow(topology)
        logs: Bools = self._logged_since <= known_ns
        return logs

    def _grow(self, topology: Topology) -> None:
        missing = len(topology.devices) - len(self._logged_since)
        if missing > 0:
            self._logged_since = np.append(self._logged_since, np.full(missing, layout.FOREVER))

    def _follow(self, told: list[Told], begin_ns: int, end_ns: int) -> None:
        """Takes the share of the period that each queue was stopped into its baseline."""
        queues = [part.stops.ports * PRIORITIES + part.priority for part in told]
        shares = [part.stops.paused_ns / (end_ns - begin_ns) for part in told]
        quiet = 0
        if self._before_ns != layout.NEVER:
            quiet = max(0, (begin_ns - self._before_ns) // self._period_ns)
        self._usual.follow(
            np.concatenate([np.zeros(0, np.int64), *queues]), np.concatenate([np.zeros(0), *shares]), quiet
        )

    def _take_period(self, told: Told, begin_ns: int, end_ns: int, topology: Topology, logs: Bools) -> None:
        if told.stops.logged.all() and not len(self.cascades):
            return  # the engine tells of all of them
        for blamed in blame_period(told.period, topology, self._transit):
            for group in _groups(blamed):
                self._take_group(told, blamed, group, begin_ns, end_ns, topology, logs)

    def _take_group(
        self, told: Told, blamed: Blamed, group: Ints, begin_ns: int, end_ns: int, topology: Topology, logs: Bools
    ) -> None:
        ports = blamed.ports[group]
        queues = [int(port) * PRIORITIES + told.priority for port in ports.tolist()]
        logged = told.stops.logged[np.searchsorted(told.stops.ports, ports)]
        known = self.cascades.meeting(queues, _roots_of(blamed, group, told.priority))
        if logged.all():
            known = [number for number in known if self._is_polled(self.cascades[number], begin_ns)]
            if not known:
                return  # the engine tells of it
        owner = np.array([number if number in known else -1 for number in self.cascades.owners(queues)])
        if (owner < 0).any():
            first_queue = min(np.array(queues)[owner < 0].tolist(), key=lambda queue: _rank(topology, queue))
            polled_ns = max((self.cascades[number].polled_ns for number in known), default=layout.NEVER)
            known.append(self.cascades.open(SampledCascade(begin_ns, first_queue, polled_ns=polled_ns)))
            owner[owner < 0] = known[-1]
        usual = dict(zip(queues, self._usual.share(np.array(queues)).tolist(), strict=True))
        for number in known:
            piece, own = self.cascades[number], group[owner == number]
            if not logged.all():
                piece.polled_ns = end_ns
            if len(own):
                piece.add(told, blamed, own, begin_ns, end_ns, topology, logs, usual)
                self.cascades.note(number)
            # The oldest sees what ports did for all of them: together they know no more than one would.
            beside = group if number == known[0] else own
            if len(beside):
                piece.add_beside(told, blamed, beside, topology)
        paused_ns = told.period.paused_ns[ports]
        self.cascades.meet({number: float(paused_ns[owner == number].sum()) for number in known})
        self._weigh_period(known[0], told, ports, end_ns - begin_ns)
        for queue, is_logged in zip(queues, logged.tolist(), strict=True):
            if is_logged:
                self._mixed.setdefault(queue, []).append((begin_ns, end_ns))

    def _weigh_period(self, number: int, told: Told, ports: Ints, length_ns: int) -> None:
        """Notes how much of its polls a period was: longer ones tell of fewer periods; jitter makes none longer."""
        lengths_ns = told.stops.length_ns[np.searchsorted(told.stops.ports, ports)]
        parts = np.where(lengths_ns > JITTER * length_ns, length_ns / np.maximum(lengths_ns, length_ns), 1.0)
        paused_ns = told.period.paused_ns[ports]
        weighed = self._weighed.setdefault(number, [0.0, 0.0])
        weighed[0] += float((parts * paused_ns).sum())
        weighed[1] += float(paused_ns.sum())

    def _count_period(self) -> None:
        """Counts the period for all pieces of each cascade that was stopped in it."""
        for numbers in self.cascades.together():
            weighed = [self._weighed[number] for number in numbers if number in self._weighed]
            if weighed:
                part = sum(of_all for of_all, _ in weighed) / sum(paused_ns for _, paused_ns in weighed)
                for number in numbers:
                    self.cascades[number].periods += part
        self._weighed = {}

    def _close(self, now_ns: int, on_closed: Callable[[Closed], None], topology: Topology) -> None:
        for numbers in self.cascades.together():
            pieces = [self.cascades[number] for number in numbers]
            if now_ns - max(piece.last_ns for piece in pieces) >= layout.GAP_NS and not (
                any(self._is_polled(piece, now_ns) for piece in pieces) and any(map(self._persists, pieces))
            ):
                whole = self._whole(numbers, topology)
                for number in numbers:
                    self.cascades.remove(number)
                on_closed(self._closed(whole, topology, still_open=False))

    def _settle(self, topology: Topology) -> None:
        """Makes one piece of those that stay one cascade."""
        while (pair := self.cascades.for_good()) is not None:
            one, other = pair
            self.cascades.join(one, other, self.cascade_id(self.cascades[other], topology))

    def _whole(self, numbers: list[int], topology: Topology) -> SampledCascade:
        """The cascade that some pieces are."""
        whole = self.cascades[numbers[0]]
        if len(numbers) > 1:
            whole = whole.copy()
        for number in numbers[1:]:
            piece = self.cascades[number]
            whole.join(piece.copy(), self.cascade_id(piece, topology))
        return whole

    def _is_polled(self, cascade: SampledCascade, now_ns: int) -> bool:
        """Whether polled devices told of its stops lately."""
        return now_ns - cascade.polled_ns < LOGGED_PERIODS * self._period_ns

    def _persists(self, cascade: SampledCascade) -> bool:
        """Whether any of its queues was beyond what is usual for long enough that it may go on."""
        return bool(self._usual.beyond(np.array(list(cascade.queues), np.int64)).any())

    def still_open(self, topology: Topology) -> list[Closed]:
        """The cascades that have not closed."""
        wholes = [self._whole(numbers, topology) for numbers in self.cascades.together()]
        still = [self._closed(whole, topology, still_open=True) for whole in wholes]
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
        waiting_ns = self._waits_ns if self._next_ns == layout.NEVER else self._next_ns
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
        twin.cascades = OpenCascades((cascade.copy() for cascade in self.cascades), self.cascades.met())
        twin._transit = self._transit
        twin._period_ns, twin._next_ns, twin._before_ns = self._period_ns, self._next_ns, self._before_ns
        twin._waits_ns, twin._since_ns, twin._logged_since = self._waits_ns, self._since_ns, self._logged_since.copy()
        twin._usual = self._usual.copy()
        twin._mixed = {queue: list(spans) for queue, spans in self._mixed.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain structures and arrays for a snapshot."""
        return [
            self.fabric, self.polls.state(),
            [[cascade.state() for cascade in self.cascades], [list(met) for met in self.cascades.met()]],
            [self._period_ns, self._next_ns, self._before_ns, self._waits_ns, self._since_ns],
            self._logged_since, self._usual.state(),
            [[queue, [list(span) for span in spans]] for queue, spans in sorted(self._mixed.items())],
        ]  # fmt: skip

    @classmethod
    def of_state(cls, state: list[Any]) -> Sampled:
        """Continues from `state()`."""
        fabric, polls, (cascades, met), times, since, usual, mixed = state
        sampled = cls(fabric)
        sampled.polls = Polls.of_state(polls)
        pieces = [SampledCascade.of_state(each) for each in cascades]
        sampled.cascades = OpenCascades(pieces, [(one, other, met_ns) for one, other, met_ns in met])
        (sampled._period_ns, sampled._next_ns, sampled._before_ns, sampled._waits_ns, sampled._since_ns) = times
        sampled._logged_since = since.copy()
        sampled._usual = Usual.of_state(usual)
        sampled._mixed = {queue: [(begin, end) for begin, end in spans] for queue, spans in mixed}
        return sampled

    def carry(self, topology: Topology) -> None:
        """Moves all to the ports and devices that their names now mean."""
        self.polls.carry(topology)
        for cascade in self.cascades:
            cascade.carry(topology)
        self.cascades = OpenCascades(self.cascades, self.cascades.met())
        self._grow(topology)
        for device, other in topology.moved_devices.items():
            self._logged_since[other] = min(self._logged_since[device], self._logged_since[other])
            self._logged_since[device] = layout.FOREVER
        moved = topology.moved_ports

        def now(queue: int) -> int:
            port, priority = divmod(queue, PRIORITIES)
            return moved.get(port, port) * PRIORITIES + priority

        self._usual.carry(moved)
        self._mixed = {now(queue): spans for queue, spans in self._mixed.items()}


def _lag_ns(time_ns: int, period_ns: int, announced: Announced) -> int:
    """How much later than its end a period is looked at: polls may be lost, and other windows may be longer."""
    longest_ns = max(announced.longest_poll_ns(time_ns), period_ns)
    return max(LAG_PERIODS * longest_ns, announced.horizon_ns(time_ns))


def _reach_ns(horizon_ns: int) -> int:
    """How long a period, and a window without loss, can be at most where windows up to so long were announced."""
    return max(horizon_ns or MAX_HORIZON_NS, LEAST_NS)


def _rank(topology: Topology, queue: int) -> int:
    return int(topology.port_rank[queue // PRIORITIES]) * PRIORITIES + queue % PRIORITIES


def _groups(blamed: Blamed) -> list[Ints]:
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
