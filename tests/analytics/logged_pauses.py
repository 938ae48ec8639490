"""Pauses of a small fabric as its devices log and count them, given to PauseLogs in any cuts of time.

What a device logs goes through the slow twin of detect (tests/reference/pauses.py); what comes out is told by names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from analytics import layout
from analytics.announced import Announced
from analytics.pause_logs import LAG_NS, PauseLogs
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.batch import MARK_END, StreamKey
from stream.facts import Device, FactStream, Link
from stream.record import Events, empty_events
from tests.analytics.story import BEGIN_NS, event
from tests.reference.pauses import Frame, Queue, pair

DELAY_NS = 1_000
MS, US = 1_000_000, 1_000
LINKS = {("leaf0", f"d{n}"): (f"h{n}", "nic") for n in range(3)} | {("leaf0", "up"): ("spine0", "d0")}
PEER = LINKS | {other: one for one, other in LINKS.items()}
DEVICES = sorted({device for device, _ in PEER})
Port = tuple[str, str]


@dataclass(frozen=True)
class Pause:
    """What happened: a queue was stopped from one time to another."""

    queue: Queue
    start_ns: int
    end_ns: int


@dataclass
class Field:
    """What devices tell of pauses: `rows` are (device, port, row), times by their own clocks."""

    ahead: Callable[[str, int], int] = lambda device, time_ns: 0
    """How far a device's clock is ahead at a time."""
    reports: set[str] = field(default_factory=lambda: set(DEVICES))
    rows: list[tuple[str, str, Events]] = field(default_factory=list)

    def log(self, pauses: Sequence[Pause], lost: Callable[[Pause, bool, bool], bool] = lambda *_: False) -> None:
        """Both ends log each pause, but for edges that are `lost` (pause, whether the stopped end, whether XOFF)."""
        frames: defaultdict[tuple[Port, int, bool], list[Frame]] = defaultdict(list)
        for pause in pauses:
            told = pause.queue[:2]
            for stopped, port, late_ns in ((True, told, 0), (False, PEER[told], DELAY_NS)):
                for stops, time_ns in ((True, pause.start_ns), (False, pause.end_ns)):
                    if not lost(pause, stopped, stops) and port[0] in self.reports:
                        here_ns = time_ns - late_ns + self.ahead(port[0], time_ns)
                        key = port, pause.queue[2], stopped
                        frames[key].append(Frame(here_ns, key, stops, logged=True))
        for (port, priority, stopped), logged in frames.items():
            for episode in pair(sorted(logged, key=lambda frame: frame.time_ns)).episodes:
                known = episode.span_ns >= 0
                self.rows.append((*port, event(
                    kinds.PAUSE_INTERVAL if episode.ends else kinds.PAUSE_OPEN, episode.time_ns, priority=priority,
                    side=kinds.SIDE_RX if stopped else kinds.SIDE_TX, extra=episode.order,
                    span_ns=max(episode.span_ns, 0), value=episode.span_ns if known else kinds.UNKNOWN,
                )))  # fmt: skip

    def count(self, pauses: Sequence[Pause], device: str, period_ns: int, end_ns: int, phase_ns: int = 0) -> None:
        """A device counts how long its queues are stopped, in windows; a counter that stands still makes no row."""
        first_ns = BEGIN_NS - MS + phase_ns
        paused_ns: defaultdict[tuple[Queue, int], int] = defaultdict(int)
        for pause in pauses:
            if pause.queue[0] != device:
                continue
            for number in range((pause.start_ns - first_ns) // period_ns, (pause.end_ns - first_ns) // period_ns + 1):
                from_ns = first_ns + number * period_ns
                stopped_ns = min(pause.end_ns, from_ns + period_ns) - max(pause.start_ns, from_ns)
                paused_ns[pause.queue, from_ns + period_ns] += stopped_ns
        for (queue, to_ns), amount_ns in paused_ns.items():
            if first_ns < to_ns <= end_ns:
                self.window(queue, to_ns + self.ahead(device, to_ns), period_ns, amount_ns)

    def window(self, queue: Queue, end_ns: int, span_ns: int, paused_ns: int) -> None:
        """One window of paused time."""
        if paused_ns:
            self.rows.append((*queue[:2], event(kinds.PFC_PAUSED, end_ns, priority=queue[2], side=kinds.SIDE_RX,
                                                span_ns=span_ns, value=paused_ns)))  # fmt: skip

    def end_ns(self) -> int:
        """The newest row."""
        return max(int(row["time_ns"][0]) for *_, row in self.rows)


Row = tuple[int, Queue, int, int, int, int, int, int]
"""Type, queue, time, start, end, amount, order, marks."""


@dataclass
class Outcome:
    """All rows in order, the counters, and from when which clocks held."""

    rows: list[Row]
    counters: Counter[str]
    clocks: list[tuple[int, dict[str, int]]]
    late: int
    """Rows told of times that had been told of, while clocks were the same."""

    def pauses(self) -> list[Pause]:
        """Pauses that have ended; each has opened before, on its own."""
        opened: dict[Queue, tuple[int, int]] = {}
        made = []
        for kind, queue, _, start_ns, end_ns, _, order, _ in sorted(self.rows, key=_in_turn):
            if kind == layout.OPEN:
                assert queue not in opened
                opened[queue] = start_ns, order
            elif kind == layout.CLOSE:
                assert opened.pop(queue) == (start_ns, order)
                made.append(Pause(queue, start_ns, end_ns))
        return made


def _in_turn(row: Row) -> tuple[int, int, int]:
    """By time; at one instant what was open ends, others open, those that lasted no time at all end."""
    kind, _, time_ns, start_ns, _, _, order, _ = row
    ends_at_once = kind == layout.CLOSE and start_ns == time_ns
    return time_ns, 2 if ends_at_once else int(kind == layout.OPEN), order


def topology(names: Sequence[str] = DEVICES) -> Topology:
    """The fabric; indices of devices are in the order of `names`."""
    made = Topology()
    stream = FactStream("inventory", "e1", 0, 0)
    for name in names:
        made.device(name)
        made.add(Device("lab", name, "host" if name.startswith("h") else "switch", 0, stream))
    for one, other in LINKS.items():
        made.add(Link("lab", *one, *other, 100_000, 0, stream, DELAY_NS))
    made.rebuild()
    return made


def run(
    said: Field, cuts: Sequence[int] = (), seed: int = 0, between: Callable[[PauseLogs], PauseLogs] = lambda logs: logs
) -> Outcome:
    """What PauseLogs tells when rows are there up to each of some times, in no order; `between` may replace it."""
    random = Random(seed)
    fabric = topology(random.sample(DEVICES, len(DEVICES)))
    announced = Announced()
    for device in sorted(said.reports):
        announced.up(StreamKey("lab", "probe", "e1", "pfc", device), 0, 0)
    places = np.array([fabric.port(device, port) for device, port, _ in said.rows], np.int64)
    fabric.extend()
    events = np.concatenate([empty_events(0), *(row for *_, row in said.rows)])
    order = np.array(random.sample(range(len(events)), len(events)), np.int64)
    events, places = events[order], places[order]
    logs, counters = PauseLogs(), Counter[str]()
    outcome = Outcome([], counters, [], 0)
    told_ns = layout.NEVER
    for cut_ns in [*sorted(cuts), MARK_END]:
        due = events["time_ns"] < cut_ns
        logs.take(events[due], places[due], fabric, announced, counters)
        events, places = events[~due], places[~due]
        until_ns = cut_ns if cut_ns == MARK_END else cut_ns - LAG_NS
        for turn_ns in logs.turns(until_ns, fabric):
            offsets = {name: logs.clocks.offsets.get(place, 0) for place, name in enumerate(fabric.devices)}
            if not outcome.clocks or outcome.clocks[-1][1] != offsets:
                # From here on they hold.
                outcome.clocks.append((told_ns if outcome.clocks else layout.NEVER, offsets))
                told_ns = layout.NEVER
            rows = logs.release(turn_ns, fabric, counters)
            outcome.late += int((rows[:, layout.ROW_TIME] < told_ns).sum())
            told_ns = turn_ns
            outcome.rows += [named(fabric, row) for row in rows.tolist()]
        logs = between(logs)
    outcome.rows.sort()
    return outcome


def named(fabric: Topology, row: list[int]) -> Row:
    """A row of the kernel by names."""
    queue = fabric.queue_name(row[layout.ROW_QUEUE])
    columns = (layout.ROW_TIME, layout.ROW_START, layout.ROW_END, layout.ROW_AMOUNT, layout.ROW_ORDER, layout.ROW_ID)
    time_ns, start_ns, end_ns, amount, order, marks = (row[column] for column in columns)
    return row[layout.ROW_TYPE], queue, time_ns, start_ns, end_ns, amount, order, marks


def random_pauses(random: Random, span_ns: int, longest_ns: int = 300 * US, shortest_ns: int = 2 * US) -> list[Pause]:
    """Pauses of some queues, each several microseconds after the one before."""
    pauses = []
    for port in random.sample(sorted(PEER), random.randint(1, 4)):
        queue = (*port, random.randrange(PRIORITIES))
        now_ns = BEGIN_NS + random.randrange(MS)
        while True:
            now_ns += round(10 ** random.uniform(3.7, random.choice([5.5, 7.2])))
            end_ns = now_ns + random.randint(shortest_ns, random.choice([20 * US, longest_ns]))
            if end_ns > BEGIN_NS + span_ns:
                break
            pauses.append(Pause(queue, now_ns, end_ns))
            now_ns = end_ns
    return sorted(pauses, key=lambda pause: (pause.end_ns, pause.queue))
