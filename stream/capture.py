"""Captures topics into a folder: whole messages by partition, in parts that are safe on disk one after another.

In: a source of messages (Kafka, or a trace) and a folder. Out: a manifest. A capture that was killed goes on where it
stopped; the memory that it takes is bounded by `BUFFER_BYTES` whatever its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

from stream.capture_manifest import FORMAT, VERSION, Gap, Manifest, Part, PartitionPlan, Plan, Range
from stream.capture_message import PRELUDE, Captured, Examined, examine
from stream.capture_part import PartBuffer
from stream.capture_store import CaptureStore
from stream.errors import CaptureError
from stream.offset_gaps import OffsetTracker, PartitionId

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
    buffer_bytes: int = BUFFER_BYTES,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Manifest:
    """Captures, or goes on with a capture of the same topics and range; raises CaptureError or BrokerError."""
    with CaptureStore(folder) as store:
        if store.plan is None:
            partitions = source.plan(topics, wanted)
            store.begin(
                Plan(
                    FORMAT, VERSION, f"pausetrace {version('pausetrace')}", clock_ns(), source.cluster_id,
                    source.embedded, prefix, tuple(topics), wanted, partitions,
                )
            )  # fmt: skip
        else:
            _require_same(store.plan, source, topics, prefix, wanted, folder)
        assert store.plan is not None
        writer = _Writer(store, store.plan, buffer_bytes)
        progress(writer.done())
        for received in source.read(writer.to_read()):
            for told in received:
                if isinstance(told, Captured):
                    writer.take(told)
                else:
                    writer.end(told)
            progress(writer.done())
        return store.finish(clock_ns())


def _require_same(
    plan: Plan, source: MessageSource, topics: Sequence[str], prefix: str, wanted: Range, folder: Path
) -> None:
    if (plan.prefix, plan.topics, plan.range) != (prefix, tuple(topics), wanted):
        raise CaptureError(
            f"{folder} holds an unfinished capture of something else: {describe(plan)}",
            "give the same options to go on with it, or choose another folder",
        )
    if plan.cluster_id != source.cluster_id:
        raise CaptureError(
            f"{folder} holds an unfinished capture of cluster {plan.cluster_id}, and this is {source.cluster_id}",
            "go on with it on the same cluster, or choose another folder",
        )


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


class _Partition:
    """One partition on its way: what waits to be written, and what was counted since its last part."""

    def __init__(self, plan: PartitionPlan, begun: Part | None) -> None:
        self.plan = plan
        self.next = plan.first if begun is None else begun.end
        self.number = 0 if begun is None else begun.number + 1
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
        self._range = plan.range
        self._buffer_bytes = buffer_bytes
        last: dict[PartitionId, Part] = {}
        for part in store.parts:
            last[part.id] = part
        self._partitions = {planned.id: _Partition(planned, last.get(planned.id)) for planned in plan.partitions}
        self._tracker = OffsetTracker(embedded=plan.embedded)
        for partition, state in self._partitions.items():
            self._tracker.begin(partition, state.next)
        self._written = Done(
            sum(state.next - state.plan.first for state in self._partitions.values()),
            sum(planned.end - planned.first for planned in plan.partitions),
            sum(part.events for part in store.parts),
            sum(file.bytes for part in store.parts for file in part.files),
        )
        self._waiting_bytes = 0

    def to_read(self) -> list[PartitionPlan]:
        """What is still to be read."""
        return [
            PartitionPlan(state.plan.topic, state.plan.partition, state.next, state.plan.end)
            for state in self._partitions.values()
            if state.next < state.plan.end
        ]

    def done(self) -> Done:
        """How far it has come."""
        return self._written

    def take(self, message: Captured) -> None:
        """Takes the next message of a partition."""
        state = self._partitions[PartitionId(message.topic, message.partition)]
        self._advance(state, message.offset)
        examined = examine(message)
        if is_wanted(self._range, examined):
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
            self._write(max(self._partitions.values(), key=lambda each: each.buffer.cost_bytes))

    def end(self, partition: PartitionId) -> None:
        """The partition has been read up to its end."""
        state = self._partitions[partition]
        self._advance(state, state.plan.end)
        self._written = self._written._replace(offsets=self._written.offsets + state.plan.end - state.next)
        state.next = state.plan.end
        if state.first < state.next:
            self._write(state)

    def _advance(self, state: _Partition, offset: int) -> None:
        gap = self._tracker.saw(state.plan.id, offset)
        if gap is None:
            return
        if gap.loss:
            state.gaps.append(Gap(gap.first_missing, gap.next_offset, gap.reason))
        else:
            state.natural += gap.missing

    def _write(self, state: _Partition) -> None:
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
        state.number += 1
        state.clear()


def is_wanted(wanted: Range, examined: Examined) -> bool:
    """Whether a message is in the range; by Kafka's time and by offset, what was planned is what is wanted.

    A message is kept whole if any of its rows is in the range. Facts and the roster count from their beginning.
    """
    if wanted.by != "event":
        return True
    if examined.message.topic in PRELUDE:
        return examined.first_ns < wanted.to_ns
    return examined.last_ns >= wanted.from_ns and examined.first_ns < wanted.to_ns
