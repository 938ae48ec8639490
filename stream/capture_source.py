"""Reads topics for a capture: assigned partitions from fixed first to fixed last offset, without touching any group.

In: topics and a range. Out: a plan of offsets frozen at this moment, and every message in it with all that Kafka
tells of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from stream.capture_manifest import PartitionPlan, Range
from stream.capture_message import NO_TIMESTAMP_MS, NS_PER_MS, PRELUDE, Captured
from stream.closing import Closing
from stream.errors import BrokerError, ConfigError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import (
    CONNECT_DEADLINE_S,
    ClusterView,
    KafkaSettings,
    consumer_config,
    look,
    require_topics,
    setting_error,
)
from stream.offset_gaps import PartitionId
from stream.refusals import denied
from stream.topics import full_name
from stream.watermarks import WatermarkQuery, Watermarks

AT_ONCE = 64
"""Partitions read at a time: with more of them, each would have too few messages in memory to make a file worth it."""
SILENCE_S = 60.0
_MESSAGES = 500
_WAIT_S = 0.2
_FETCHED_KB = 32 << 10
_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}


class KafkaSource(Closing):
    """A cluster's topics, read for one capture."""

    def __init__(
        self, settings: KafkaSettings, *, deadline_s: float = CONNECT_DEADLINE_S, silence_s: float = SILENCE_S
    ) -> None:
        self._settings = settings
        self._prefix = f"{settings.prefix}."
        self._deadline_s = deadline_s
        self._silence_s = silence_s
        self._view: ClusterView = look(settings, deadline_s)
        self._last_error = LastError()
        config = consumer_config(settings, self._view.broker, None) | {
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": _FETCHED_KB,
            **self._last_error.callbacks,
        }
        try:
            self._consumer = Consumer(config)
        except KafkaException as err:
            raise setting_error(err) from err

    @property
    def cluster_id(self) -> str:
        """Which cluster it is."""
        return self._view.broker.cluster_id

    @property
    def embedded(self) -> bool:
        """Whether it is the embedded broker, where every missing offset is a loss."""
        return self._view.broker.embedded

    def plan(self, topics: Sequence[str], wanted: Range) -> tuple[PartitionPlan, ...]:
        """First and end offset of every partition as they are now, within the range.

        Raises ConfigError for a partition in the range that its topic does not have.
        """
        require_topics(self._settings, self._view, topics)
        partitions = [
            PartitionId(topic, number)
            for topic in topics
            for number in range(self._view.partitions[full_name(self._settings.prefix, topic)])
        ]
        marks = WatermarkQuery(self._settings).ask(partitions, self._deadline_s)
        if wanted.by == "kafka":
            return self._by_kafka_time(partitions, marks, wanted)
        plans = [PartitionPlan(*partition, *marks[partition]) for partition in partitions]
        if wanted.by == "offset":
            self._require_partitions(topics, wanted)
            return tuple(_within(plan, wanted) for plan in plans)
        return tuple(plans)

    def first_offsets(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """The first offset that each of these partitions still has."""
        marks = WatermarkQuery(self._settings).ask(list(partitions), self._deadline_s)
        return {partition: marks[partition][0] for partition in partitions}

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        """The messages of these partitions; after the last one of each, its id. Raises BrokerError if nothing comes."""
        for begin in range(0, len(partitions), AT_ONCE):
            yield from self._read_some(partitions[begin : begin + AT_ONCE])

    def close(self) -> None:
        """Closes the connections."""
        self._consumer.close()

    def _require_partitions(self, topics: Sequence[str], wanted: Range) -> None:
        for asked in wanted.offsets:
            if asked.topic not in topics:
                continue
            count = self._view.partitions[self._prefix + asked.topic]
            if asked.partition >= count:
                raise ConfigError(
                    f"{self._prefix}{asked.topic} has no partition {asked.partition}",
                    f"choose from 0 to {count - 1}" if count > 1 else "it has partition 0 alone",
                )

    def _by_kafka_time(
        self, partitions: Sequence[PartitionId], marks: Watermarks, wanted: Range
    ) -> tuple[PartitionPlan, ...]:
        if self.embedded:
            raise ConfigError(
                "the embedded broker cannot look up offsets by time", "select by event time: without --kafka-time"
            )
        first = self._offsets_at(partitions, wanted.from_ns, marks)
        end = self._offsets_at(partitions, wanted.to_ns, marks)
        return tuple(
            PartitionPlan(
                *partition,
                (low := marks[partition][0] if partition.topic in PRELUDE else first[partition]),
                max(low, end[partition]),
            )
            for partition in partitions
        )

    def _offsets_at(self, partitions: Sequence[PartitionId], time_ns: int, marks: Watermarks) -> dict[PartitionId, int]:
        """Offset of each partition's first message stamped at this time or later; its end if there is none."""
        # Rounded up: a message stamped in the millisecond of FROM may be from before it.
        time_ms = -(-time_ns // NS_PER_MS)
        asked = [TopicPartition(self._prefix + p.topic, p.partition, time_ms) for p in partitions]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=self._deadline_s)
        except KafkaException as err:
            raise BrokerError(
                f"offsets by time cannot be looked up: {error_text(err.args[0])}", "check that the broker runs"
            ) from err
        offsets = {}
        for partition, place in zip(partitions, found, strict=True):
            if place.error is not None:
                raise BrokerError(f"offsets of {place.topic} by time: {error_text(place.error)}", "try it again")
            offsets[partition] = marks[partition][1] if place.offset < 0 else min(place.offset, marks[partition][1])
        return offsets

    def _read_some(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        ends = {plan.id: plan.end for plan in partitions}
        places = [TopicPartition(self._prefix + p.topic, p.partition, p.first) for p in partitions]
        self._consumer.assign(places)
        heard_s = time.monotonic()
        while ends:
            try:
                messages = self._consumer.consume(1, _WAIT_S)
                messages += self._consumer.consume(_MESSAGES - 1, 0) if messages else []
            except (KafkaException, RuntimeError) as err:
                raise BrokerError(
                    f"cannot read from Kafka: {err}", "capture again: it goes on where it stopped"
                ) from err
            told: list[Captured | PartitionId] = []
            for message in messages:
                told += self._take(message, ends)
            if told:
                heard_s = time.monotonic()
                self._last_error.clear()
                yield told
                # Writing a part may take longer than Kafka may be silent.
                heard_s = time.monotonic()
            elif self._last_error.fatal or time.monotonic() - heard_s > self._silence_s:
                raise self._silent(ends)
        # A pause outlives the assignment.
        self._consumer.resume(places)
        self._consumer.unassign()

    def _take(self, message: Message[Any, Any], ends: dict[PartitionId, int]) -> list[Captured | PartitionId]:
        """What a message says: itself, the end of its partition, both or nothing."""
        topic, number, offset = message.topic(), message.partition(), message.offset()
        if topic is None or number is None:
            self._complain(message, "Kafka")
            return []
        partition = PartitionId(topic.removeprefix(self._prefix), number)
        end = ends.get(partition)
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._complain(message, f"{topic}[{number}]")
            return []
        if end is None or offset is None:
            return []
        told: list[Captured | PartitionId] = []
        if error is None and offset < end:
            told.append(_captured(partition, offset, message))
        # The last offsets before the end may be no messages: then the next one, or the end of the log, shows it.
        if offset >= end or (error is None and offset == end - 1):
            del ends[partition]
            self._consumer.pause([TopicPartition(topic, number)])
            told.append(partition)
        return told

    def _complain(self, message: Message[Any, Any], place: str) -> None:
        error = message.error()
        assert error is not None
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # librdkafka looks for the coordinator of a group, which nobody needs here
        if refused := denied(self._settings, error, "Read", place.split("[")[0]):
            raise refused
        if error.fatal() or error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise BrokerError(f"{place}: {error_text(error)}", "look at it by: pausetrace topics list")
        self._last_error(error)

    def _silent(self, ends: dict[PartitionId, int]) -> BrokerError:
        where = ", ".join(f"{p.topic}[{p.partition}]" for p in sorted(ends)[:3]) + ", ..." * (len(ends) > 3)
        why = self._last_error.fatal or self._last_error.text
        return BrokerError(
            f"nothing came from {where} for {self._silence_s:g} s{f' ({why})' if why else ''}",
            "see to Kafka, then run the same command again: it goes on where it stopped",
        )


def _within(plan: PartitionPlan, wanted: Range) -> PartitionPlan:
    """The plan cut to the offsets asked for; a topic of which none are asked for is whole."""
    asked = [each for each in wanted.offsets if each.topic == plan.topic]
    of_this = [each for each in asked if each.partition in (-1, plan.partition)]
    if not asked:
        return plan
    if not of_this:
        return PartitionPlan(plan.topic, plan.partition, plan.end, plan.end)
    first = max(plan.first, min(each.first for each in of_this))
    end = max(plan.end if each.end < 0 else each.end for each in of_this)
    first = min(first, plan.end)
    return PartitionPlan(plan.topic, plan.partition, first, max(first, min(end, plan.end)))


def _captured(partition: PartitionId, offset: int, message: Message[Any, Any]) -> Captured:
    kind, timestamp_ms = message.timestamp()
    timestamp_type = _TIMESTAMP_TYPES.get(kind, "")
    # Typed for any client; of a consumer they are pairs of a name and bytes.
    headers: Any = message.headers() or ()
    return Captured(
        partition.topic, partition.partition, offset, timestamp_ms if timestamp_type else NO_TIMESTAMP_MS,
        timestamp_type, message.key(), tuple(headers), message.value(),
    )  # fmt: skip
