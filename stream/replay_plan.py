"""What a replay sends: topics, rows, times and pace as asked for, and what the capture has of them.

In: a finished capture and `Options`. Out: a `Plan`, whose messages come in the order in which they are to be sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from stream.capture_message import NO_TIMESTAMP_MS, NS_PER_MS, PRELUDE
from stream.capture_reader import CaptureFolder, read_messages
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context, captured_streams, read_context
from stream.errors import ConfigError
from stream.record import MAX_TIME_NS
from stream.replay_order import Due, in_order
from stream.replay_rewrite import SHIFTABLE
from stream.topics import PACKED, RAW

Shift = Literal["now"] | int
"""How far times move, in ns; "now" puts the first event at the present."""


class Options(NamedTuple):
    """What is replayed and how. `speed` 0 is as fast as Kafka takes it; topics () are the raw ones with their facts.

    `any_prefix` allows topics whose names do not tell of a replay, `into_source` those that were captured; `again`
    begins anew whatever was sent before, `beside_others` sends where something else lies already.
    """

    topics: tuple[str, ...] = ()
    wanted: RowFilter = RowFilter()
    shift: Shift = 0
    speed: float = 1.0
    by_key: bool = False
    any_prefix: bool = False
    into_source: bool = False
    again: bool = False
    beside_others: bool = False


class Plan(NamedTuple):
    """What a capture gives for a replay; `messages` is how many there are to send."""

    folder: CaptureFolder
    topics: tuple[str, ...]
    wanted: RowFilter
    streams: CapturedStreams
    context: Context
    messages: int
    oldest_ms: dict[str, int]
    """Kafka's time of each topic's first message, where it has one."""
    empty_topics: tuple[str, ...]
    """Topics asked for of which there is no message to send."""
    newest_ms: int
    """Kafka's time of the last message; 0 if none has one."""

    @staticmethod
    def of(folder: CaptureFolder, options: Options) -> Plan:
        """Looks through the capture; raises ConfigError for topics that it has not or that cannot be shifted."""
        captured = folder.manifest.plan.topics
        topics = options.topics or tuple(topic for topic in RAW if topic in captured)
        absent = [topic for topic in topics if topic not in captured]
        if absent or not topics:
            raise ConfigError(
                f"the capture has no topic {', '.join(absent) or 'of events'}", f"choose from: {', '.join(captured)}"
            )
        # Without the roster and the facts, nobody could make anything of the rows.
        topics = tuple(dict.fromkeys((*(topic for topic in PRELUDE if topic in captured), *topics)))
        fixed = [topic for topic in topics if topic not in SHIFTABLE]
        if options.shift and fixed:
            raise ConfigError(f"topic {fixed[0]} holds results, whose times cannot be shifted", "leave it out")
        wanted = options.wanted
        packed = [topic for topic in topics if topic in PACKED]
        streams = captured_streams(folder, packed, wanted)
        context = read_context(folder, streams, packed, wanted)
        messages, oldest_ms = _of_packed(folder, packed, wanted, streams)
        newest_ms = streams.end_ms
        empty = [topic for topic in options.topics if topic in PACKED and not _has_any(folder, topic, wanted, streams)]
        for topic in topics:
            if topic == "control":
                told = [each for each in context.told if each.is_roster]
                messages += len(told) + len(context.cut)
                oldest_ms |= {topic: told[0].timestamp_ms} if told else {}
            elif topic not in PACKED:
                count, times_ms = _of_json(folder, topic, wanted)
                empty += [topic] if topic in options.topics and not count else []
                messages += count
                oldest_ms |= {topic: min(times_ms)} if times_ms else {}
                newest_ms = max(newest_ms, *times_ms, 0)
        return Plan(folder, topics, wanted, streams, context, messages, oldest_ms, tuple(empty), newest_ms)

    def due(self) -> Iterator[Due]:
        """The messages in order."""
        return in_order(self.folder, self.topics, self.wanted, self.streams, self.context)

    def shift_ns(self, shift: Shift, now_ns: int) -> int:
        """How far times move; raises ConfigError where that would be beyond what a time can be."""
        spans = self.streams.spans.values()
        first_ns = min((span.first_ns for span in spans), default=None)
        if first_ns is None:
            return 0 if shift == "now" else shift
        # Whole milliseconds, so that Kafka's times move by just as much.
        shift_ns = (now_ns - first_ns) // NS_PER_MS * NS_PER_MS if shift == "now" else shift
        if first_ns + shift_ns < 0 or max(span.last_ns for span in spans) + shift_ns > MAX_TIME_NS:
            raise ConfigError("the shift would put events before 1970 or after 2116", "shift by less, or to now")
        return shift_ns

    def notes(self) -> list[str]:
        """What a reader of the replay should know of the capture, in sentences."""
        notes = self.context.notes()
        if self.messages == 0:
            notes.append("there is nothing to replay: the capture has no message of what was asked for")
        elif self.empty_topics:
            notes.append(f"the capture has no message of {', '.join(self.empty_topics)}")
        if count := self.folder.manifest.gaps:
            notes.append(f"Kafka had lost {count:,} messages of the capture's range before they were read")
        return notes


def _of_packed(
    folder: CaptureFolder, packed: list[str], wanted: RowFilter, streams: CapturedStreams
) -> tuple[int, dict[str, int]]:
    """How many messages, and when Kafka got the first of each topic."""
    oldest_ms: dict[str, int] = {}
    for (partition, _), span in streams.spans.items():
        if span.first_ms != NO_TIMESTAMP_MS:
            oldest_ms[partition.topic] = min(oldest_ms.get(partition.topic, span.first_ms), span.first_ms)
    # What does not decode belongs to no stream; it goes along where nothing is chosen.
    count = sum(part.messages for part in folder.parts(packed)) if wanted.everything else streams.messages
    return count, oldest_ms


def _has_any(folder: CaptureFolder, topic: str, wanted: RowFilter, streams: CapturedStreams) -> bool:
    if wanted.everything:
        return any(part.messages for part in folder.parts([topic]))
    return any(partition.topic == topic for partition, _ in streams.spans)


def _of_json(folder: CaptureFolder, topic: str, wanted: RowFilter) -> tuple[int, list[int]]:
    """How many messages, and the first and last of Kafka's times of each part."""
    count = 0
    found_ms: list[int] = []
    for part in folder.parts([topic]):
        messages = read_messages(folder, part)
        chosen = messages.first_ns < wanted.to_ns
        times_ms = messages.timestamp_ms[chosen & (messages.timestamp_ms != NO_TIMESTAMP_MS)]
        count += int(np.count_nonzero(chosen))
        found_ms += [int(times_ms.min()), int(times_ms.max())] if len(times_ms) else []
    return count, found_ms
