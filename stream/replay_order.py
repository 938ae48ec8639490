"""The messages of a capture in the order in which Kafka got them, partition by partition and merged by their times.

In: a capture, and which topics and rows are wanted. Out: messages as they were, each with the time at which it is due;
changes of the roster are due a little before their time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stream.capture_message import NO_TIMESTAMP_MS, PRELUDE, Captured
from stream.capture_reader import CaptureFolder, load_part
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context, Told
from stream.capture_values import ALL_ROW_COLUMNS, MESSAGE_COLUMNS, captured_message
from stream.messages import decode, encode
from stream.offset_gaps import PartitionId
from stream.roster import SourceDown
from stream.topics import PACKED

AFTER_ALL_MS = (1 << 63) - 1
OWN = -1
ROSTER_LEAD_MS = 3_000
"""Changes of the roster go so much ahead of the rows: one that is early harms nobody, one that is late lets readers
settle what it would have held back."""


class Due(NamedTuple):
    """A message and Kafka's time of it, which never goes back within a partition; first_ns is its first event time.

    Changes of the roster are due ROSTER_LEAD_MS before their time.

    A message that is not in the capture (the end of a stream that has none there) is on partition OWN.
    """

    at_ms: int
    rank: int
    message: Captured
    first_ns: int

    def order(self) -> tuple[int, int, int, int]:
        """By time, then by topic, partition and offset."""
        return self.at_ms, self.rank, self.message.partition, self.message.offset


def in_order(
    folder: CaptureFolder, topics: Sequence[str], wanted: RowFilter, streams: CapturedStreams, context: Context
) -> Iterator[Due]:
    """All messages of these topics that are wanted; the roster as `context` has it. One part a partition is in memory.

    Where nothing is left out, values are what they were byte for byte.
    """
    sources = []
    # The roster first, then facts: they come before rows of the same moment.
    for rank, topic in enumerate(sorted(topics, key=lambda topic: (topic not in PRELUDE, topic != "control"))):
        partitions = sorted({part.id for part in folder.parts([topic])})
        sources += [_of_partition(folder, partition, rank, wanted, streams, context) for partition in partitions]
    if "control" in topics:
        sources.append(_not_in_the_capture(context))
    return heapq.merge(*sources, key=Due.order)


def _of_partition(
    folder: CaptureFolder,
    partition: PartitionId,
    rank: int,
    wanted: RowFilter,
    streams: CapturedStreams,
    context: Context,
) -> Iterator[Due]:
    changed = {told.offset: told for told in context.told if told.is_roster}
    lead_ms = ROSTER_LEAD_MS if partition.topic == "control" else 0
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
                chosen = first_ns < wanted.to_ns and (partition.topic != "control" or offset in changed)
            if not chosen:
                continue
            message = captured_message(loaded, index)
            if partition.topic == "control":
                message = _as_told(message, changed[offset])
            yield Due(int(times_ms[index]) - lead_ms, rank, message, first_ns)


def _as_told(message: Captured, told: Told) -> Captured:
    """A roster change as the context has it; the very bytes where that is what it was."""
    if decode("control", message.key, message.value) == told.item:
        return message
    encoded = encode(told.item)
    return message._replace(key=encoded.key, value=encoded.value)


def _not_in_the_capture(context: Context) -> Iterator[Due]:
    """Ends of streams that the capture does not end: of silent ones when they fell silent, of the others at the end."""
    ends = [(told.timestamp_ms - ROSTER_LEAD_MS, told.item) for told in context.told if told.offset < 0]
    ends += [(AFTER_ALL_MS, change) for change in context.cut]
    for number, (at_ms, item) in enumerate(ends):
        assert isinstance(item, SourceDown)
        topic, key, value = encode(item)
        yield Due(at_ms, 0, Captured(topic, OWN, number, NO_TIMESTAMP_MS, "", key, (), value), item.at_ns)
