"""Keeps streams that hold up the others out of the roster until they have caught up (docs/decisions/0006).

In: the step of the one active correlate and its readers. Out: SOURCE_SUSPENDED and SOURCE_RESUMED. A stream is taken
for late only after everything that was published when it looked so has been read by detect and by correlate: a detect
that is behind, or away, makes no source late.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from stream.batch import StreamKey
from stream.deadlines import Deadlines, Waiting
from stream.errors import BrokerError, UnreachableError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import KafkaSettings, admin_client, client_config, setting_error
from stream.offset_gaps import PartitionId
from stream.partitioner import partition_of
from stream.ranges import MAX_STREAMS
from stream.refusals import denied
from stream.roster import RosterChange, SourceResumed, SourceSuspended, StreamName
from stream.sampled_log import SampledLog
from stream.subscriber import Subscriber
from stream.topics import RAW, full_name
from stream.watermarks import WatermarkQuery, Watermarks

SOURCE_DEADLINE_S = 10.0
LOOK_S = 0.25
ASK_S = 0.5
_QUERY_S = 2.0


class _Asked(NamedTuple):
    """A question whether some streams are late: up to where detect has to have read, and correlate after it."""

    streams: frozenset[StreamKey]
    raw: Mapping[PartitionId, int]
    data: Watermarks | None = None


class RosterKeeper:
    """Looks at the step now and then; `take_changes` never waits longer than a query of offsets takes."""

    def __init__(
        self,
        settings: KafkaSettings,
        step: Waiting,
        deadline_s: float = SOURCE_DEADLINE_S,
        *,
        detect_group: str = "detect",
        detect_commits: bool = True,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = {"suspended_streams": 0, "resumed_streams": 0, "late_checks_failed": 0}
        self._log = SampledLog(logging.getLogger(__name__))
        self._settings = settings
        self._step = step
        self._group = full_name(settings.prefix, detect_group)
        self._detect_commits = detect_commits
        self._monotonic_s = monotonic_s
        self._deadlines = Deadlines(deadline_s, monotonic_s)
        self._asked: _Asked | None = None
        self._query = WatermarkQuery(settings)
        self._next_look_s = self._next_ask_s = 0.0

    @functools.cached_property
    def _admin(self) -> AdminClient:
        return admin_client(self._settings)

    @functools.cached_property
    def _offsets(self) -> Consumer:
        """Names the group without joining it. An admin client must not ask a coordinator (stream.group_members)."""
        try:
            return Consumer(client_config(self._settings) | {"group.id": self._group} | LastError().callbacks)
        except KafkaException as err:
            raise setting_error(err) from err

    def take_changes(self, data: Subscriber) -> list[RosterChange]:
        """What the roster is to be told now; the caller applies it to the step and publishes it, both or neither."""
        now_s = self._monotonic_s()
        if now_s < self._next_look_s:
            return []
        self._next_look_s = now_s + LOOK_S
        judged = self._deadlines.look(self._step)
        changes: list[RosterChange] = []
        for fabric, judgement in judged.items():
            if judgement.caught_up:
                changes += _resumed(judgement.caught_up, self._step.resumable_from_ns(fabric))
        late = {stream: mark_ns for judgement in judged.values() for stream, mark_ns in judgement.late.items()}
        certain = self._certain(late, data, now_s) if late else frozenset()
        if not late:
            self._asked = None
        changes += _suspended({stream: mark_ns for stream, mark_ns in late.items() if stream in certain})
        self.counters["suspended_streams"] += len(certain)
        self.counters["resumed_streams"] += sum(len(c.streams) for c in changes if isinstance(c, SourceResumed))
        return changes

    def _certain(self, late: Mapping[StreamKey, int], data: Subscriber, now_s: float) -> frozenset[StreamKey]:
        """Those of the streams that are late although everything published when this was asked has been read."""
        if now_s < self._next_ask_s and (self._asked is None or self._asked.data is None):
            return frozenset()
        self._next_ask_s = now_s + ASK_S
        try:
            if self._asked is None:
                raw = self._published(late) if self._detect_commits else {}
                self._asked = _Asked(frozenset(late), raw)
            if self._asked.data is None and self._read_by_detect(self._asked.raw):
                self._asked = self._asked._replace(data=data.watermarks(_QUERY_S))
        except BrokerError as err:
            # Nobody is late while Kafka is away; a missing right is for people to mend, and no reason to stop.
            self.counters["late_checks_failed"] += 1
            self._log.warning("cannot tell whether streams are late: %s", err)
            return frozenset()
        if self._asked.data is None or not data.has_read(self._asked.data):
            return frozenset()
        certain = self._asked.streams & late.keys()
        self._asked = None
        return certain

    def _published(self, late: Mapping[StreamKey, int]) -> dict[PartitionId, int]:
        """Where the partitions end that these streams are on."""
        raw = [stream for stream in late if stream.topic in RAW]
        if not raw:
            return {}
        try:
            described = self._admin.list_topics(timeout=_QUERY_S).topics
        except KafkaException as err:
            raise UnreachableError(f"cannot read the topics: {error_text(err.args[0])}") from err
        places = set()
        for stream in raw:
            topic = described.get(full_name(self._settings.prefix, stream.topic))
            if topic is not None and topic.partitions:
                key = f"{stream.fabric}/{stream.device}".encode()
                places.add(PartitionId(stream.topic, partition_of(key, len(topic.partitions))))
        return {place: high for place, (low, high) in self._query.ask(places, _QUERY_S).items() if high > low}

    def _read_by_detect(self, ends: Mapping[PartitionId, int]) -> bool:
        if not ends:
            return True
        places = [TopicPartition(full_name(self._settings.prefix, p.topic), p.partition) for p in ends]
        try:
            found = self._offsets.committed(places, timeout=_QUERY_S)
        except KafkaException as err:
            if refused := denied(self._settings, err.args[0], "Describe", self._group):
                raise refused from err
            raise UnreachableError(f"cannot read the offsets of {self._group}: {error_text(err.args[0])}") from err
        read = {(place.topic, place.partition): place.offset for place in found}
        prefix = self._settings.prefix
        return all(read.get((full_name(prefix, p.topic), p.partition), -1) >= end for p, end in ends.items())


def _suspended(late: Mapping[StreamKey, int]) -> list[RosterChange]:
    """One change for all streams of a source that stand at the same time."""
    groups: dict[tuple[str, str, str, int], list[StreamName]] = {}
    for stream, mark_ns in sorted(late.items()):
        name = StreamName(stream.topic, stream.device)
        groups.setdefault((stream.fabric, stream.source, stream.epoch, mark_ns), []).append(name)
    return [
        SourceSuspended(fabric, source, epoch, max(at_ns, 0), tuple(names[first : first + MAX_STREAMS]))
        for (fabric, source, epoch, at_ns), names in groups.items()
        for first in range(0, len(names), MAX_STREAMS)
    ]


def _resumed(caught_up: Mapping[StreamKey, int], least_ns: int) -> list[RosterChange]:
    """From behind everything that the streams of a source have told while nobody counted it."""
    groups: dict[tuple[str, str, str], list[StreamKey]] = {}
    for stream in sorted(caught_up):
        groups.setdefault((stream.fabric, stream.source, stream.epoch), []).append(stream)
    changes: list[RosterChange] = []
    for source, streams in groups.items():
        from_ns = max(least_ns, *(caught_up[stream] + 1 for stream in streams))
        names = [StreamName(stream.topic, stream.device) for stream in streams]
        changes += [
            SourceResumed(*source, from_ns, tuple(names[first : first + MAX_STREAMS]))
            for first in range(0, len(names), MAX_STREAMS)
        ]
    return changes


def told(change: RosterChange) -> str:
    """What people are told of a change."""
    streams = ", ".join(f"{stream.topic} {stream.device}".strip() for stream in change.streams[:3])
    more = f" and {len(change.streams) - 3} more" if len(change.streams) > 3 else ""
    source = f"source {change.source} of fabric {change.fabric} ({streams}{more})"
    if isinstance(change, SourceResumed):
        return f"{source} has caught up and counts again"
    return f"{source} holds up the others: nobody waits for it until it has caught up"
