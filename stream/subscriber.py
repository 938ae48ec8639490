"""Reads topics: all partitions of them, or a group's share, in batches that wait 50 ms at most.

In: Kafka. Out: `Received` messages with their place, and every gap in the offsets. It commits nothing by itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream.closing import Closing
from stream.errors import BrokerError, UnreachableError
from stream.group_members import stays_member, unread
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import (
    CONNECT_DEADLINE_S,
    KafkaSettings,
    consumer_config,
    look,
    look_through,
    require_topics,
    setting_error,
)
from stream.offset_gaps import OffsetGap, OffsetTracker, PartitionId
from stream.refusals import denied
from stream.sampled_log import SampledLog
from stream.topics import full_name
from stream.watermarks import WatermarkQuery, Watermarks

_log = logging.getLogger(__name__)

WAIT_S = 0.05
QUERY_DEADLINE_S = 10.0
STABLE_DEADLINE_S = 30.0
"""A transaction that its process left open holds its offsets back until the broker ends it: after its time, and after
up to 10 s more, since so often does a broker look for such ones by default."""

# What waiting does not mend: the reader stops with it. Everything else is retried by librdkafka, and counted.
_HOPELESS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError._FATAL,
    }
)


_SESSION_SLACK_S = 2.0
_LOOK_S, _LOOKS = 2.0, 3
"""So often, and so many times, a static member whose share has just changed looks whether all partitions are read."""
_PATIENCE = 3
"""So many times as long waits who has no share: most likely another one was killed, and is about to leave."""
_FENCED = "Static consumer fenced"
"""How librdkafka words FENCED_INSTANCE_ID, which it tells as a fatal error without that code."""


class Received(NamedTuple):
    """One message: its topic's bare name, its place, the time it was published and its bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def place(self) -> str:
        """topic[partition]@offset"""
        return f"{self.topic}[{self.partition}]@{self.offset}"


PartitionsCallback = Callable[[list[PartitionId]], None]
Starts = Callable[[list[PartitionId]], Mapping[PartitionId, int]]
"""From partitions that are about to be read to the offsets to begin at; one that is left out begins at the earliest."""


def _ignore(_partitions: list[PartitionId]) -> None:
    pass


def _from_the_beginning(_partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
    return {}


class Subscriber(Closing):
    """A reader of topics (bare names); raises BrokerError at once if no broker answers or a topic does not exist.

    Without a group it reads all partitions, or those given. With one it shares them with the group's other members:
    `starts`, `on_assigned` and `on_revoked` are called inside `consume` when the share changes. `instance` makes it a
    static member of the group, whose share waits for it while it restarts. One that is killed between giving up
    partitions and saying so (KIP-429) comes back without a rebalance (KIP-345), and nobody would ever be given those:
    it sees that, and `consume` raises UnreachableError; `close` then waits until the group has given its share away.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        group: str | None = None,
        instance: str = "",
        partitions: Collection[int] | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        starts: Starts = _from_the_beginning,
        on_assigned: PartitionsCallback = _ignore,
        on_revoked: PartitionsCallback = _ignore,
        deadline_s: float = CONNECT_DEADLINE_S,
    ) -> None:
        view = look(settings, deadline_s)
        require_topics(settings, view, topics)
        if group is not None and start != "earliest":
            raise ValueError("a group reads from the earliest offset")
        self.broker = view.broker
        self.counters: dict[str, int] = {
            "messages": 0, "gaps": 0, "missing_offsets": 0, "natural_gaps": 0, "kafka_errors": 0
        }  # fmt: skip
        self._settings = settings
        self._prefix = f"{settings.prefix}."
        self._starts = starts
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._gaps: list[OffsetGap] = []
        self._gap_log = SampledLog(_log)
        self._tracker = OffsetTracker(embedded=view.broker.embedded)
        self._assigned: set[PartitionId] = set()
        self._partition_ids: dict[tuple[str, int], PartitionId] = {}
        self._query = WatermarkQuery(settings)
        self._last_error = LastError()
        config = consumer_config(settings, view.broker, group)
        self._instance = instance
        if instance:
            config["group.instance.id"] = instance
        self._session_s = int(config["session.timeout.ms"]) / 1000
        self._leaves = False
        self._group = config["group.id"] if group is not None else None
        self._cooperative = "cooperative" in config["partition.assignment.strategy"]
        self._shared = {
            (full, number)
            for full in (full_name(settings.prefix, name) for name in topics)
            for number in range(view.partitions[full])
        }
        self._looks, self._look_s = 0, float("inf")
        self._look_again()
        try:
            self._consumer = Consumer(config | self._last_error.callbacks)
        except KafkaException as err:
            raise setting_error(err) from err
        look_through(self._consumer, settings, self._last_error, deadline_s)
        if group is None:
            everything = [
                PartitionId(name, number)
                for name in topics
                for number in range(view.partitions[full_name(settings.prefix, name)])
                if partitions is None or number in partitions
            ]
            self._assign(everything, at_end=start == "latest")
        else:
            self._consumer.subscribe(
                [full_name(settings.prefix, name) for name in topics],
                on_assign=self._assigned_by_group,
                on_revoke=self._revoked_by_group,
                on_lost=self._revoked_by_group,
            )

    @property
    def assigned(self) -> frozenset[PartitionId]:
        """The partitions that are read now."""
        return frozenset(self._assigned)

    @property
    def trouble(self) -> str:
        """What Kafka last complained of since the last message; "" if nothing."""
        return self._last_error.text

    def forget_trouble(self) -> None:
        """The trouble is known to be over, though no message has come."""
        self._last_error.clear()

    def consume(self, max_messages: int = 500, wait_s: float = WAIT_S) -> list[Received]:
        """What has come, at most so many; waits for the first one only, and never longer than wait_s."""
        if time.monotonic() >= self._look_s:
            self._leave_if_some_are_unread()
        try:
            # consume(n) would wait until all n are there, so that a slow topic always took the whole time.
            messages = self._consumer.consume(1, wait_s)
            if messages and max_messages > 1:
                messages += self._consumer.consume(max_messages - 1, 0)
        except (KafkaException, RuntimeError) as err:
            raise BrokerError(f"cannot read from Kafka: {_reason(err)}") from err
        received = [taken for message in messages if (taken := self._take(message)) is not None]
        if received:
            self.counters["messages"] += len(received)
            self._last_error.clear()
        if self._last_error.fatal:
            self._refuse_if_replaced(self._last_error.fatal)
            raise BrokerError(f"cannot read from Kafka: {self._last_error.fatal}", "start the reader again")
        return received

    def take_gaps(self) -> list[OffsetGap]:
        """The gaps found since the last call; natural ones are among them, with `loss` false."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def watermarks(self, deadline_s: float = QUERY_DEADLINE_S) -> Watermarks:
        """First and end offset of every partition read, as the broker has it now; raises UnreachableError."""
        try:
            return self._query.ask(self._assigned, deadline_s)
        except UnreachableError as err:
            if not self.trouble:
                raise
            raise UnreachableError(f"{err.message} ({self.trouble})", err.next_step) from err

    def has_read(self, marks: Watermarks, *, asked: bool = False) -> bool:
        """Whether everything up to these watermarks has been consumed, in the partitions read.

        With `asked`, also whether Kafka has told the end of those that are empty: who may not read them hears of it.
        """
        for partition in self._assigned & marks.keys():
            low, high = marks[partition]
            position = self._tracker.next_offset(partition)
            if (low < high or asked) and (position is None or position < high):
                return False
        return True

    def read_up_to_now(self, deadline_s: float = QUERY_DEADLINE_S) -> list[Received]:
        """Everything up to the end offsets of this moment; raises UnreachableError if that takes longer."""
        end_s = time.monotonic() + deadline_s
        marks = self.watermarks(deadline_s)
        received: list[Received] = []
        while not self.has_read(marks):
            received += self.consume()
            if time.monotonic() >= end_s:
                raise self._not_read(marks, deadline_s)
        return received

    def up_to_now(self, silence_s: float) -> Iterator[Received]:
        """The same one by one, for topics that may be long: raises UnreachableError if nothing comes for so long."""
        marks = self.watermarks()
        heard_s = time.monotonic()
        while not self.has_read(marks):
            received = self.consume()
            yield from received
            now_s = time.monotonic()
            if received:
                heard_s = now_s
            elif now_s - heard_s >= silence_s:
                raise self._not_read(marks, silence_s)

    def committed(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """The group's committed offsets, once no transaction holds them back; raises UnreachableError."""
        try:
            found = self._consumer.committed([self._kafka_partition(p) for p in partitions], timeout=STABLE_DEADLINE_S)
        except KafkaException as err:
            raise UnreachableError(f"cannot read the committed offsets: {_reason(err)}") from err
        if failed := next((place.error for place in found if place.error is not None), None):
            raise UnreachableError(f"cannot read the committed offsets: {error_text(failed)}")
        return {
            PartitionId(place.topic.removeprefix(self._prefix), place.partition): place.offset
            for place in found
            if place.offset >= 0
        }

    def positions(self) -> dict[PartitionId, int]:
        """Offset after the last message consumed, of every partition read of which that is known."""
        return {p: offset for p in self._assigned if (offset := self._tracker.next_offset(p)) is not None}

    def lag(self) -> dict[PartitionId, int]:
        """Messages not read yet in each partition as of its last fetch, where that is known; asks nobody."""
        lag = {}
        for partition in self._assigned:
            low, high = self._consumer.get_watermark_offsets(self._kafka_partition(partition), cached=True)
            position = self._tracker.next_offset(partition)
            if high >= 0:
                lag[partition] = max(0, high - (max(low, 0) if position is None else position))
        return lag

    def kafka_positions(self) -> list[TopicPartition]:
        """The same in the client's own terms, for a transaction."""
        return [self._kafka_partition(partition, offset) for partition, offset in sorted(self.positions().items())]

    def group_metadata(self) -> Any:
        """Membership in the group as it is now, by which Kafka fences members of the past; None if there is none."""
        metadata = self._consumer.consumer_group_metadata()
        return metadata if self._consumer.memberid() else None

    def close(self) -> None:
        """Leaves the group, if there is one, and closes the connections."""
        self._consumer.close()
        if self._leaves and self._group is not None:
            # A static member that closes keeps its share until its session is over.
            stays_member(self._settings, self._group, self._instance, self._session_s + _SESSION_SLACK_S)

    def _take(self, message: Message[Any, Any]) -> Received | None:
        error = message.error()
        topic, number, offset = message.topic(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            self._complain(error, f"{topic}[{number}]@{offset}" if topic else "Kafka")
            return None
        assert topic is not None
        assert number is not None
        assert offset is not None
        partition = self._partition_ids.get((topic, number))
        if partition is None:
            partition = self._partition_ids[topic, number] = PartitionId(topic.removeprefix(self._prefix), number)
        if error is not None:
            # Markers of transactions take offsets that no message has: only the end itself tells that it was reached.
            self._tracker.reached_end(partition, offset)
            return None
        if partition not in self._assigned:
            return None  # fetched before it was taken from us: its new reader has it
        gap = self._tracker.saw(partition, offset)
        if gap is not None:
            self._report(gap)
        return Received(*partition, offset, message.timestamp()[1], message.key(), message.value())

    def _complain(self, error: KafkaError, place: str) -> None:
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and self._group is None:
            return  # librdkafka looks for the group's coordinator, whom who reads without a group does not need
        resource = self._group or "" if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else place.split("[")[0]
        if refused := denied(self._settings, error, "Read", resource):
            raise refused
        if error.fatal() or error.code() in _HOPELESS:
            self._refuse_if_replaced(error_text(error))
            raise BrokerError(f"{place}: {error_text(error)}", "look at it by: pausetrace topics list")
        self.counters["kafka_errors"] += 1
        self._last_error(error)
        _log.info("%s: %s", place, error_text(error))

    def _refuse_if_replaced(self, fatal: str) -> None:
        """Raises BrokerError if the fatal error is that another process is the static member that this one was.

        A broker that was silent for long may say so to one that only asked twice: UnreachableError.
        """
        if not self._instance or self._group is None or _FENCED not in fatal:
            return
        if not stays_member(self._settings, self._group, self._instance, self._session_s + _SESSION_SLACK_S):
            raise UnreachableError("the membership in the group ended while Kafka did not answer")
        raise BrokerError(
            f"another process has taken over the instance {self._instance!r}",
            "give every process an --instance of its own, or none",
        )

    def _look_again(self) -> None:
        """A share that has changed is looked at anew."""
        if self._instance and self._group is not None and self._cooperative:
            self._looks, self._look_s = 0, time.monotonic() + _LOOK_S

    def _leave_if_some_are_unread(self) -> None:
        assert self._group is not None
        self._look_s = time.monotonic() + _LOOK_S
        try:
            left = unread(self._settings, self._group, self._shared, _LOOK_S)
        except UnreachableError as err:
            _log.info("%s", err.message)
            return
        if not left:
            self._look_s = float("inf")
            return
        self._looks += 1
        if self._looks >= _LOOKS * (1 if self._assigned else _PATIENCE):
            self._leaves = True
            raise UnreachableError(f"{len(left)} partitions have had no reader since this member came back")

    def _not_read(self, marks: Watermarks, deadline_s: float) -> UnreachableError:
        return UnreachableError(
            f"{', '.join(sorted({p.topic for p in marks}))} not read to the end within {deadline_s:g} s"
            f"{': ' * bool(self.trouble)}{self.trouble}"
        )

    def _report(self, gap: OffsetGap) -> None:
        if gap.loss:
            self.counters["gaps"] += 1
            self.counters["missing_offsets"] += gap.missing
            self._gap_log.warning("%s", gap)
        else:
            self.counters["natural_gaps"] += 1
        self._gaps.append(gap)

    def _kafka_partition(self, partition: PartitionId, offset: int = OFFSET_BEGINNING) -> TopicPartition:
        return TopicPartition(self._prefix + partition.topic, partition.partition, offset)

    def _assign(self, partitions: list[PartitionId], *, at_end: bool) -> None:
        self._assigned = set(partitions)
        starts = self._starts(partitions)
        # The end is fixed here and now, so that what is published after this call is read for certain.
        ends = {partition: high for partition, (_, high) in self.watermarks().items()} if at_end else starts
        for partition in partitions:
            self._tracker.begin(partition, ends.get(partition))
        self._consumer.assign([self._kafka_partition(p, ends.get(p, OFFSET_BEGINNING)) for p in partitions])

    def _assigned_by_group(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        taken = [PartitionId(p.topic.removeprefix(self._prefix), p.partition) for p in partitions]
        starts = self._starts(taken)
        places = [self._kafka_partition(partition, starts.get(partition, OFFSET_BEGINNING)) for partition in taken]
        if self._cooperative:
            consumer.incremental_assign(places)
        else:
            consumer.assign(places)
        for partition in taken:
            self._tracker.begin(partition, starts.get(partition))
        self._assigned.update(taken)
        self._look_again()
        self._on_assigned(taken)

    def _revoked_by_group(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost = [PartitionId(p.topic.removeprefix(self._prefix), p.partition) for p in partitions]
        # First, so that it may still commit where we stand.
        self._on_revoked(lost)
        for partition in lost:
            self._tracker.forget(partition)
        self._assigned.difference_update(lost)
        self._look_again()


def _reason(err: Exception) -> str:
    first = err.args[0] if err.args else err
    return error_text(first) if isinstance(first, KafkaError) else str(first)
