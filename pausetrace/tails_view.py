"""The tails of a fabric, and the stalls of its jobs: from a trace folder, a capture, or what Kafka holds.

In: a place, the period of a tick, and a range of time. Out: `FabricTails` by fabric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from analytics.capacity import Capacity, Limit
from analytics.host_bytes import inferred_jobs
from analytics.stalls import Stall, Stalls
from analytics.stragglers import StepRow
from analytics.tails.fleet import MEASURES, Fleet, Tail
from pausetrace.cascade_file import newest
from pausetrace.known_facts import items_in, known_facts
from pausetrace.reader import Reader
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.facts import Device, Flow, Link
from stream.flow_id import job_id
from stream.inventory import Inventory
from stream.kafka_settings import KafkaSettings
from stream.messages import Item
from stream.record import MAX_TIME_NS, Events, empty_events
from stream.topics import FACTS

EVENT_TOPICS = (*dict.fromkeys(kinds.BY_CODE[measure.kind].topic for measure in MEASURES), "flowbytes")
MOST_LIMITS = 20
_STEPS = (kinds.STEP_TIME, kinds.COMPUTE_TIME)


class Period(msgspec.Struct, frozen=True):
    """A job that no hook tells of: how long its steps are by the bytes of its hosts, in bins of what length.

    `steps`: so many of them were taken for steps; 0 where bins are too long to tell when a rank ended.
    """

    job: str
    hosts: int
    period_ns: int
    bin_ns: int
    steps: int


class FabricTails(msgspec.Struct, frozen=True):
    """What stood out in one fabric, the worst first, and the steps that lasted longer, by time."""

    fabric: str
    period_ns: int
    rows: int
    """So many were looked at."""
    periods: tuple[Period, ...]
    """Of the jobs that no hook tells of."""
    limits: tuple[Limit, ...]
    """What is full first as load grows."""
    stalls: tuple[Stall, ...]
    tails: tuple[Tail, ...]


@dataclass(slots=True)
class _Fabric:
    batches: list[Batch] = field(default_factory=list)
    facts: list[Device | Link] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    cascades: list[Cascade] = field(default_factory=list)


def fabric_tails(
    items: Iterable[Item], period_ns: int, from_ns: int = 0, to_ns: int = MAX_TIME_NS + 1
) -> list[FabricTails]:
    """The tails of each fabric that items tell of, in whatever order they come."""
    fabrics: dict[str, _Fabric] = {}
    for item in items:
        if isinstance(item, Batch):
            chosen = (item.events["time_ns"] >= from_ns) & (item.events["time_ns"] < to_ns)
            if item.stream.topic != "episode" and chosen.any():
                batch = item if chosen.all() else msgspec.structs.replace(item, events=item.events[chosen])
                of = fabrics.setdefault(item.stream.fabric, _Fabric())
                of.batches.append(batch)
                of.steps += _step_rows(batch)
        elif isinstance(item, Device | Link):
            fabrics.setdefault(item.fabric, _Fabric()).facts.append(item)
        elif isinstance(item, Flow):
            fabrics.setdefault(item.fabric, _Fabric()).flows.append(item)
        elif isinstance(item, Cascade) and item.end_ns >= from_ns and item.start_ns < to_ns:
            fabrics.setdefault(item.fabric, _Fabric()).cascades.append(item)
    return [_tails(name, fabrics[name], period_ns) for name in sorted(fabrics)]


def _tails(name: str, of: _Fabric, period_ns: int) -> FabricTails:
    roles = Roles(of.facts)
    jobs = [] if of.steps else inferred_jobs(of.batches, roles.hosts, of.flows)
    stalls = Stalls()
    stalls.take(of.steps or (row for job in jobs for row in job.steps))
    fleet = Fleet(period_ns, roles.role_of)
    capacity = Capacity(roles.speeds_mbps)
    for batch in of.batches:
        fleet.take(batch)
        capacity.take(batch)
    rows = sum(len(batch.events) for batch in of.batches)
    found = [roles.named(stall) for stall in stalls.finish(newest(of.cascades))]
    if jobs:
        found = [msgspec.structs.replace(stall, inferred=True) for stall in found]
    periods = tuple(
        Period(f"{job.job:x}", len(job.hosts), job.period_ns, job.bin_ns, len({row.step for row in job.steps}))
        for job in jobs
        if job.period_ns
    )
    limits = tuple(capacity.finish()[:MOST_LIMITS])
    return FabricTails(name, period_ns, rows, periods, limits, tuple(found), tuple(fleet.finish()))


class Roles:
    """Which ports are peers: those of devices of one role whose cables lead to devices of one role. And by which port
    of its host a rank sends.
    """

    def __init__(self, facts: Iterable[Device | Link]) -> None:
        inventory = Inventory.of(facts)
        self._names = inventory.names
        self._roles = inventory.roles()
        self.hosts = {name for name, role in self._roles.items() if role == "host"}
        self._ranks = inventory.ranks()
        self._jobs = {f"{job_id(job):x}": job for _, job in self._ranks.values() if job}
        self.speeds_mbps = inventory.speeds_mbps()
        self._peer: dict[tuple[str, str], str] = {}
        for cable in inventory.cables():
            if cable.speed_mbps:
                self.speeds_mbps |= dict.fromkeys((cable.a[:2], cable.b[:2]), cable.speed_mbps)
            self._peer[cable.a[:2]] = cable.b[0]
            self._peer[cable.b[:2]] = cable.a[0]

    def role_of(self, device: str, port: str) -> str:
        """The role for people: "leaf to host"; "" where no fact tells."""
        place = self._names.resolve(device, port)
        own = self._roles.get(place[0], "")
        peer = self._peer.get((place[0], place[1]))
        there = self._roles.get(peer, "") if peer is not None else ""
        return f"{own or 'device'} to {there}" if there else own

    def named(self, stall: Stall) -> Stall:
        """The stall with the name of its job, and with the NICs of the ranks behind it."""
        behind = []
        for rank in stall.ranks_behind:
            nic, _job = self._ranks.get(self._names.resolve(rank.device, rank.rank)[:2], ("", ""))
            behind.append(msgspec.structs.replace(rank, nic=nic))
        name = self._jobs.get(stall.job, "")
        return msgspec.structs.replace(stall, ranks_behind=tuple(behind), job_name=name)


def _step_rows(batch: Batch) -> list[StepRow]:
    events = batch.events[np.isin(batch.events["kind"], _STEPS)]
    return [
        StepRow(int(row["time_ns"]), int(row["flow"]), int(row["kind"]), batch.stream.device,
                batch.ports[int(row["port"])], int(row["extra"]), int(row["value"]))
        for row in events
    ]  # fmt: skip


def items_of_trace(path: Path) -> Iterator[Item]:
    """The rows and facts of a trace folder, and its final cascades."""
    from analytics.offline import final_cascades
    from simulation.trace import read_trace
    from simulation.trace_items import trace_items
    from simulation.trace_rows import trace_streams

    trace = read_trace(path)
    items = trace_items(trace_streams(trace, trace.name, "trace", "tails", 0))
    yield from items
    yield from final_cascades(items)


def items_of_capture(path: Path, from_ns: int, to_ns: int) -> Iterator[Item]:
    """The rows and facts of a capture, and the cascades that an analysis of it gives."""
    from pausetrace.capture_analysis import analyze_capture
    from pausetrace.captures import read_capture
    from stream.capture_reader import CaptureFolder
    from stream.capture_select import RowFilter

    for known in known_facts(items_in(path)).values():
        yield from known.facts
    for topic in EVENT_TOPICS:
        if topic in CaptureFolder(path).manifest.plan.topics:
            for columns in read_capture(path, topic, from_ns=from_ns, to_ns=to_ns):
                yield from _batches(columns, topic)
    analysis = analyze_capture(path, RowFilter(from_ns, to_ns))
    yield from (*analysis.cascades, *analysis.unfinished)


def items_on_kafka(settings: KafkaSettings) -> Iterator[Item]:
    """All rows, facts and cascades up to the present end of their topics."""
    with Reader(settings, (*EVENT_TOPICS, *FACTS, "cascade"), "earliest") as reader:
        end = reader.end()
        while not reader.has_reached(end):
            yield from (read.item for read in reader.read() if read.item is not None)


def _batches(columns: object, topic: str) -> Iterator[Batch]:
    """Columns of a capture as batches of one device each."""
    from pausetrace.columns import KIND_NAMES, SIDE_NAMES, Columns

    assert isinstance(columns, Columns)
    codes = {str(name): code for code, name in enumerate(KIND_NAMES) if name}
    sides = {str(name): code for code, name in enumerate(SIDE_NAMES)}
    kinds_, kind_at = np.unique(columns.kind, return_inverse=True)
    sides_, side_at = np.unique(columns.side, return_inverse=True)
    kind = np.array([codes.get(str(name), 0) for name in kinds_], np.uint8)[kind_at]
    side = np.array([sides[str(name)] for name in sides_], np.uint8)[side_at]
    pairs, pair_at = np.unique(np.stack((columns.fabric, columns.device)), axis=1, return_inverse=True)
    for number, (fabric, device) in enumerate(pairs.T.tolist()):
        at = np.flatnonzero(pair_at == number)
        ports, port = np.unique(columns.port[at], return_inverse=True)
        events: Events = empty_events(len(at))
        for name in ("time_ns", "span_ns", "value", "extra", "flow", "priority", "quality"):
            events[name] = getattr(columns, name)[at]
        events["kind"], events["side"], events["port"] = kind[at], side[at], port
        yield Batch(StreamKey(fabric, "capture", "-", topic, device), 0, 0, tuple(ports.tolist()), events)
