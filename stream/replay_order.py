"""The messages of a capture in the order in which Kafka got them, partition by partition and merged by their times.

In: a capture, and which topics and rows are wanted. Out: messages as they were, each with the time at which it is due;
changes of the roster are due a little before their time.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stream.batch import StreamKey
from stream.capture_message import NO_TIMESTAMP_MS, PRELUDE, Captured
from stream.capture_reader import CaptureFolder, load_part, read_messages
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context, Told
from stream.capture_values import ALL_ROW_COLUMNS, MESSAGE_COLUMNS, captured_message, captured_messages
from stream.facts import Idle, fact_stream
from stream.messages import decode, encode
from stream.offset_gaps import PartitionId
from stream.roster import RosterChange, SourceResumed, SourceSuspended, change_ns
from stream.topics import PACKED

AFTER_ALL_MS = (1 << 63) - 1
OWN = -1
ROSTER_LEAD_MS = 3_000
"""Changes of the roster go so much ahead of the rows: one that is early harms nobody, one that is late lets readers
settle what it would have held back."""


class Due(NamedTuple):
    """A message and Kafka's time of it, which never goes back within a partition; first_ns is its first event time.

    Changes of the roster are due ROSTER_LEAD_MS before their time, or earlier; `is_gap` says of one that a stream is
    suspended or resumed.

    A message that is not in the capture (the end of a stream that has none there) is on partition OWN.
    """

    at_ms: int
    rank: int
    message: Captured
    first_ns: int
    is_gap: bool = False

    def order(self) -> tuple[int, int, int, int]:
        """By time, then by topic, partition and offset."""
        return self.at_ms, self.rank, self.message.partition, self.message.offset


def in_order(
    folder: CaptureFolder, topics: Sequence[str], wanted: RowFilter, streams: CapturedStreams, context: Context
) -> Iterator[Due]:
    """All messages of these topics that are wanted; the roster as `context` has it. One part a partition is in memory.

    Where nothing is left out, values are what they were byte for byte.
    """
    sources: list[Iterable[Due]] = []
    if "control" in topics:
        sources.append(_roster(folder, context))
    # Facts come before rows of the same moment.
    others = sorted((topic for topic in topics if topic != "control"), key=lambda topic: topic not in PRELUDE)
    for rank, topic in enumerate(others, 1):
        partitions = sorted({part.id for part in folder.parts([topic])})
        sources += [_of_partition(folder, partition, rank, wanted, streams) for partition in partitions]
    return heapq.merge(*sources, key=Due.order)


def _roster(folder: CaptureFolder, context: Context) -> list[Due]:
    """The roster's changes in their own order, each ahead of its time, and of all that it must be known for.

    The ends of streams that the capture does not end are among them, or at the end of all where they were alive then.
    """
    captured = {
        message.offset: message for part in folder.parts(["control"]) for message in captured_messages(folder, part)
    }
    needed_ms = _needed_by(folder, context)
    found: list[Due] = []
    for number, told in enumerate(each for each in context.told if each.is_roster):
        assert isinstance(told.item, RosterChange)
        message = _not_captured(told.item, number) if told.offset < 0 else _as_told(captured[told.offset], told)
        at_ms = min(told.timestamp_ms, needed_ms.get(told.offset, told.timestamp_ms)) - ROSTER_LEAD_MS
        is_gap = isinstance(told.item, SourceSuspended | SourceResumed)
        found.append(Due(at_ms, 0, message, change_ns(told.item), is_gap))
    for at in reversed(range(len(found) - 1)):
        found[at] = found[at]._replace(at_ms=min(found[at].at_ms, found[at + 1].at_ms))
    cut = [
        Due(AFTER_ALL_MS, 0, _not_captured(down, len(found) + at), down.at_ns) for at, down in enumerate(context.cut)
    ]
    return found + cut


def _needed_by(folder: CaptureFolder, context: Context) -> dict[int, int]:
    """By offset of a suspension or its end: when Kafka got the first value that it is about.

    The clock of a source that is suspended may be behind, or it has waited for the network with its rows: they may
    bear times of long before the roster was told.
    """
    asked: defaultdict[StreamKey, list[tuple[int, int]]] = defaultdict(list)
    for told in context.told:
        if isinstance(told.item, SourceSuspended | SourceResumed):
            for key in told.item.stream_keys():
                asked[key].append((change_ns(told.item), told.offset))
    needed_ms: dict[int, int] = {}
    for part in folder.parts({key.topic for key in asked if key.topic in PACKED}):
        messages = read_messages(folder, part)
        for index, stream in enumerate(messages.streams):
            for time_ns, offset in asked.get(stream, ()):
                reaches = np.maximum(messages.last_ns, messages.mark_ns) >= time_ns
                times_ms = messages.timestamp_ms[(messages.stream == index) & reaches]
                if len(times_ms):
                    needed_ms[offset] = min(needed_ms.get(offset, AFTER_ALL_MS), int(times_ms.min()))
    for told in context.facts:
        assert not isinstance(told.item, RosterChange)
        reached_ns = max(told.item.stream.mark_ns, 0 if isinstance(told.item, Idle) else told.item.valid_from_ns)
        for time_ns, offset in asked.get(fact_stream(told.item), ()):
            if reached_ns >= time_ns:
                needed_ms[offset] = min(needed_ms.get(offset, AFTER_ALL_MS), told.timestamp_ms)
    return needed_ms


def _not_captured(change: RosterChange, number: int) -> Captured:
    topic, key, value = encode(change)
    return Captured(topic, OWN, number, NO_TIMESTAMP_MS, "", key, (), value)


def _of_partition(
    folder: CaptureFolder,
    partition: PartitionId,
    rank: int,
    wanted: RowFilter,
    streams: CapturedStreams,
) -> Iterator[Due]:
    at_ms = NO_TIMESTAMP_MS
    for part in folder.parts([partition.topic]):
        if part.id != partition or part.messages == 0:
            continue
        loaded = load_part(folder, part, MESSAGE_COLUMNS, ALL_ROW_COLUMNS)
        messages = loaded.messages
        times_ms = np.maximum.accumulate(np.maximum(messages.timestamp_ms, at_ms))
        at_ms = int(times_ms[-1])
        for index in range(len(messages)):
            first_ns = int(messages.first_ns[index])
            offset = int(messages.offset[index])
            if partition.topic in PACKED:
                stream = messages.streams[messages.stream[index]] if messages.stream[index] >= 0 else None
                span = streams.spans.get((partition, stream)) if stream is not None else None
                if span is None:
                    # What does not decode is of no stream; it is passed on where nothing is chosen.
                    chosen = stream is None and wanted.everything
                else:
                    chosen = span.first_offset <= offset <= span.last_offset
            else:
                chosen = first_ns < wanted.to_ns
            if not chosen:
                continue
            yield Due(int(times_ms[index]), rank, captured_message(loaded, index), first_ns)


def _as_told(message: Captured, told: Told) -> Captured:
    """A roster change as the context has it; the very bytes where that is what it was."""
    if decode("control", message.key, message.value) == told.item:
        return message
    encoded = encode(told.item)
    return message._replace(key=encoded.key, value=encoded.value)
