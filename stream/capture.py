"""Captures topics into a folder: whole messages by partition, in parts that are safe on disk one after another.

In: a source of messages (Kafka, or a trace) and a folder. Out: a manifest. A capture that was killed goes on where it
stopped, one with damaged files takes their messages again; its memory is bounded by `BUFFER_BYTES` whatever its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

from stream.capture_manifest import FORMAT, VERSION, Gap, Manifest, OffsetRange, Part, PartitionPlan, Plan, Range
from stream.capture_message import PRELUDE, Captured, Examined, examine
from stream.capture_part import PartBuffer
from stream.capture_store import CaptureStore
from stream.errors import CaptureError, ConfigError
from stream.offset_gaps import OffsetTracker, PartitionId
from stream.topics import PACKED

BUFFER_BYTES = 128 << 20
"""Messages of all partitions that wait to be written; while a part is written, as much again is in use."""
CHECKPOINT_MESSAGES = 200_000
"""After so many messages that nobody asked for, the journal is told how far it has come."""


class Done(NamedTuple):
    """How far a capture has come, in offsets, and what it has written so far."""

    offsets: int
    of_offsets: int
    events: int
    bytes: int


Progress = Callable[[Done], None]


class MessageSource(Protocol):
    """Where messages come from."""

    @property
    def cluster_id(self) -> str:
        """Which cluster it is."""
        ...

    @property
    def embedded(self) -> bool:
        """Whether every missing offset is a loss."""
        ...

    def plan(self, topics: Sequence[str], wanted: Range) -> tuple[PartitionPlan, ...]:
        """The partitions and their offsets, frozen now."""
        ...

    def first_offsets(self, partitions: Sequence[PartitionId]) -> Mapping[PartitionId, int]:
        """The first offset that each of these partitions still has."""
        ...

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        """The messages of these partitions, each partition's in its order; after its last one, the partition's id."""
        ...


def capture(
    source: MessageSource,
    folder: Path,
    topics: Sequence[str],
    prefix: str,
    wanted: Range,
    *,
    progress: Progress = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
    buffer_bytes: int = BUFFER_BYTES,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Manifest:
    """Captures, or goes on with a capture of the same topics and range; raises CaptureError or BrokerError.

    `tell` hears of damaged files, whether what was in them is captured again, and of offsets that Kafka does not have,
    and where the range holds nothing.
    """
    with CaptureStore(folder) as store:
        if store.plan is None:
            partitions = source.plan(topics, wanted)
            _require_offsets(wanted, partitions)
            store.begin(
                Plan(
                    FORMAT, VERSION, f"pausetrace {version('pausetrace')}", clock_ns(), source.cluster_id,
                    source.embedded, prefix, tuple(topics), wanted, partitions,
                )
            )  # fmt: skip
        else:
            _require_same(store, store.plan, source, topics, prefix, wanted)
            _drop_damaged(store, source, tell)
        assert store.plan is not None
        for note in narrowed(wanted, store.plan.partitions):
            tell(note)
        writer = _Writer(store, store.plan, buffer_bytes)
        progress(writer.done())
        while to_read := writer.next_to_read():
            for received in source.read(to_read):
                for told in received:
                    if isinstance(told, Captured):
                        writer.take(told)
                    else:
                        writer.end(told)
                progress(writer.done())
        manifest = store.finish(clock_ns())
    if wanted != Range(wanted.by) and not manifest.events and any(topic in PACKED for topic in topics):
        tell("no event lies in the range asked for")
    return manifest


def _require_same(
    store: CaptureStore, plan: Plan, source: MessageSource, topics: Sequence[str], prefix: str, wanted: Range
) -> None:
    what = f"{store.folder} holds {'a finished' if store.finished else 'an unfinished'} capture"
    if (plan.prefix, plan.topics, plan.range) != (prefix, tuple(topics), wanted):
        raise CaptureError(
            f"{what} of something else: {describe(plan)}",
            "give the same options to go on with it, or choose another folder",
        )
    if plan.cluster_id != source.cluster_id:
        raise CaptureError(
            f"{what} of cluster {plan.cluster_id}, and this is {source.cluster_id}",
            "go on with it on the same cluster, or choose another folder",
        )


def _drop_damaged(store: CaptureStore, source: MessageSource, tell: Callable[[str], None]) -> None:
    """Forgets the parts with damaged files whose messages the source still has; the others stay as they are.

    Raises CaptureError if the capture is finished and nothing of it can be captured again.
    """
    damaged = store.damaged()
    if not damaged and store.finished:
        raise CaptureError(f"{store.folder} holds a finished capture", "choose another folder, or remove it first")
    first = source.first_offsets(sorted({part.id for part, _ in damaged})) if damaged else {}
    again = [part for part, _ in damaged if part.first >= first[part.id]]
    for part, wrong in damaged:
        place = f"{part.topic}[{part.partition}], offsets {part.first} to {part.end - 1}"
        if part in again:
            tell(f"{wrong}: {place} are captured again")
        else:
            tell(f"{wrong}: {place} cannot be captured again, since Kafka has them from {first[part.id]} on")
    if again:
        store.drop(again)
    elif store.finished:
        raise CaptureError(
            f"{store.folder} is damaged, and Kafka no longer has what was in its {len(damaged)} damaged parts",
            "restore the files from a copy; `pausetrace capture verify` names them",
        )


def narrowed(wanted: Range, partitions: Iterable[PartitionPlan]) -> list[str]:
    """Where Kafka had fewer offsets than were asked for when the capture began, in sentences."""
    notes = []
    for plan in partitions:
        asked = _asked(wanted, plan)
        if not asked:
            continue
        first, ends = min(each.first for each in asked), [each.end for each in asked]
        place = f"{plan.topic}[{plan.partition}]"
        if plan.first == plan.end:
            notes.append(f"{place} has none of the offsets asked for: it ends at {plan.end}")
            continue
        if first < plan.first:
            notes.append(f"{place} begins at offset {plan.first}, and {first} was asked for")
        if min(ends) >= 0 and max(ends) > plan.end:
            notes.append(f"{place} ends at offset {plan.end}, and up to {max(ends)} were asked for")
    return notes


def _require_offsets(wanted: Range, partitions: Sequence[PartitionPlan]) -> None:
    chosen = [plan for plan in partitions if _asked(wanted, plan)]
    if chosen and all(plan.first == plan.end for plan in chosen):
        raise ConfigError(
            f"Kafka has no message of the offsets asked for: {'; '.join(narrowed(wanted, chosen[:3]))}",
            "give other --offsets, or leave out their end",
        )


def _asked(wanted: Range, plan: PartitionPlan) -> list[OffsetRange]:
    return [each for each in wanted.offsets if each.topic == plan.topic and each.partition in (-1, plan.partition)]


def describe(plan: Plan) -> str:
    """The topics and range of a plan in words."""
    wanted = plan.range
    if wanted.by == "offset":
        what = "offsets " + ", ".join(
            f"{r.topic}{f'[{r.partition}]' if r.partition >= 0 else ''}:{r.first}-{r.end if r.end >= 0 else ''}"
            for r in wanted.offsets
        )
    elif wanted == Range(wanted.by):
        what = "all times"
    else:
        what = f"{'event' if wanted.by == 'event' else 'Kafka'} time {wanted.from_ns} to {wanted.to_ns} ns"
    return f"prefix {plan.prefix}, topics {', '.join(plan.topics)}, {what}"


class _Stretch:
    """Offsets of a partition that are to be read: what of them waits to be written, what was counted since the last."""

    def __init__(self, plan: PartitionPlan, number: int) -> None:
        self.plan = plan
        self.next = plan.first
        self.number = number
        self.clear()

    def clear(self) -> None:
        """Begins a part."""
        self.first = self.next
        self.buffer = PartBuffer()
        self.unselected = 0
        self.natural = 0
        self.gaps: list[Gap] = []


class _Writer:
    def __init__(self, store: CaptureStore, plan: Plan, buffer_bytes: int) -> None:
        self._store = store
        self._plan = plan
        self._buffer_bytes = buffer_bytes
        self._missing = {planned.id: list(_missing(planned, store.parts)) for planned in plan.partitions}
        self._number = {part.id: part.number for part in sorted(store.parts, key=lambda part: part.number)}
        self._stretches: dict[PartitionId, _Stretch] = {}
        self._tracker = OffsetTracker(embedded=plan.embedded)
        all_offsets = sum(planned.end - planned.first for planned in plan.partitions)
        self._written = Done(
            all_offsets - sum(each.end - each.first for missing in self._missing.values() for each in missing),
            all_offsets,
            sum(part.events for part in store.parts),
            sum(file.bytes for part in store.parts for file in part.files),
        )
        self._waiting_bytes = 0

    def next_to_read(self) -> list[PartitionPlan]:
        """The next offsets to be read of each partition; most are missing in one stretch."""
        self._stretches = {
            partition: _Stretch(missing.pop(0), self._number.get(partition, -1) + 1)
            for partition, missing in self._missing.items()
            if missing
        }
        for partition, stretch in self._stretches.items():
            self._tracker.begin(partition, stretch.next)
        return [stretch.plan for stretch in self._stretches.values()]

    def done(self) -> Done:
        """How far it has come."""
        return self._written

    def take(self, message: Captured) -> None:
        """Takes the next message of a partition."""
        state = self._stretches[PartitionId(message.topic, message.partition)]
        self._advance(state, message.offset)
        examined = examine(message)
        if is_wanted(self._plan.range, examined):
            before = state.buffer.cost_bytes
            state.buffer.add(examined)
            self._waiting_bytes += state.buffer.cost_bytes - before
        else:
            state.unselected += 1
        self._written = self._written._replace(offsets=self._written.offsets + message.offset + 1 - state.next)
        state.next = message.offset + 1
        if state.buffer.full or state.unselected >= CHECKPOINT_MESSAGES:
            self._write(state)
        while self._waiting_bytes > self._buffer_bytes:
            self._write(max(self._stretches.values(), key=lambda each: each.buffer.cost_bytes))

    def end(self, partition: PartitionId) -> None:
        """The partition has been read up to its end."""
        state = self._stretches[partition]
        self._advance(state, state.plan.end)
        self._written = self._written._replace(offsets=self._written.offsets + state.plan.end - state.next)
        state.next = state.plan.end
        if state.first < state.next:
            self._write(state)

    def _advance(self, state: _Stretch, offset: int) -> None:
        gap = self._tracker.saw(state.plan.id, offset)
        if gap is None:
            return
        if gap.loss:
            state.gaps.append(Gap(gap.first_missing, gap.next_offset, gap.reason))
        else:
            state.natural += gap.missing

    def _write(self, state: _Stretch) -> None:
        buffer = state.buffer
        part = self._store.write_part(
            Part(
                state.plan.topic, state.plan.partition, state.number, state.first, state.next, len(buffer.messages),
                buffer.events, state.unselected, state.natural, tuple(state.gaps), (),
            ),
            buffer.files() if buffer.messages else (),
        )  # fmt: skip
        self._waiting_bytes -= buffer.cost_bytes
        self._written = self._written._replace(
            events=self._written.events + part.events,
            bytes=self._written.bytes + sum(file.bytes for file in part.files),
        )
        self._number[state.plan.id] = state.number
        state.number += 1
        state.clear()


def _missing(planned: PartitionPlan, parts: Sequence[Part]) -> Iterator[PartitionPlan]:
    """The stretches of a partition that no part holds."""
    reached = planned.first
    for part in sorted((part for part in parts if part.id == planned.id), key=lambda part: part.first):
        if part.first > reached:
            yield PartitionPlan(*planned.id, reached, part.first)
        reached = part.end
    if reached < planned.end:
        yield PartitionPlan(*planned.id, reached, planned.end)


def is_wanted(wanted: Range, examined: Examined) -> bool:
    """Whether a message is in the range; by Kafka's time and by offset, what was planned is what is wanted.

    A message is kept whole if any of its rows is in the range. Facts and the roster count from their beginning.
    """
    if wanted.by != "event":
        return True
    if examined.message.topic in PRELUDE:
        return examined.first_ns < wanted.to_ns
    return examined.last_ns >= wanted.from_ns and examined.first_ns < wanted.to_ns
