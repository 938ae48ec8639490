"""Looks at what a replay has left on Kafka: what is there already when it goes on, and at the end whether all is.

In: a journal and the target. Out: places of messages found, or a list of what differs; no group is touched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
import xxhash

from stream.capture_manifest import PartitionPlan
from stream.capture_message import Captured
from stream.capture_source import KafkaSource
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId
from stream.replay_journal import Confirmed, Journal
from stream.watermarks import WatermarkQuery

HEADER = "pausetrace.replay"
_QUERY_S = 10.0


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the header of a replayed message says: where it was, its times then, and the replay that it belongs to."""

    run: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    time_ns: int
    shift_ns: int = 0

    @property
    def place(self) -> str:
        """Partition of the capture."""
        return f"{self.topic}/{self.partition}"

    @property
    def partition_kept(self) -> int:
        """The partition of the target where partitions are kept: what is not in the capture is on the first."""
        return max(self.partition, 0)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Origin)


def origin_header(origin: Origin) -> tuple[str, bytes]:
    """The header."""
    return HEADER, _encoder.encode(origin)


def said_origin(message: Captured) -> Origin | None:
    """Where a message comes from, if a replay sent it."""
    # The last one counts: a capture of a replay has the header of that one, too.
    for name, value in reversed(message.headers):
        if name == HEADER and value is not None:
            try:
                return _decoder.decode(value)
            except msgspec.DecodeError:
                return None
    return None


def origin_of(message: Captured, run: str) -> Origin | None:
    """Where a message comes from, if this replay sent it."""
    origin = said_origin(message)
    return origin if origin is not None and origin.run == run else None


def digest(origin: Origin, message: Captured) -> int:
    """A hash of a replayed message: where it comes from, its key, its value and the headers that it was captured with.

    Not of Kafka's time, which a topic may be set to stamp itself.
    """
    hashed = xxhash.xxh3_64()
    headers = [part for name, value in message.headers for part in (name.encode(), value)]
    for part in (f"{origin.place}/{origin.offset}".encode(), message.key, message.value, *headers):
        hashed.update(b"-" if part is None else b"%d:" % len(part) + part)
    return hashed.intdigest()


def replayed(
    settings: KafkaSettings, journal: Journal, since: dict[str, int]
) -> Iterator[tuple[PartitionId, Captured, Origin]]:
    """The messages of this replay on its target from these offsets on, up to where the target ends now."""
    partitions = [PartitionId(topic, int(number)) for topic, _, number in (place.partition("/") for place in since)]
    marks = WatermarkQuery(settings).ask(partitions, _QUERY_S)
    plans = [
        PartitionPlan(*partition, max(since[f"{partition.topic}/{partition.partition}"], marks[partition][0]),
                      marks[partition][1])
        for partition in partitions
    ]  # fmt: skip
    plans = [plan for plan in plans if plan.first < plan.end]
    with KafkaSource(settings) as source:
        for told in source.read(plans):
            for message in told:
                if isinstance(message, Captured) and (origin := origin_of(message, journal.run)) is not None:
                    yield PartitionId(message.topic, message.partition), message, origin


def check(settings: KafkaSettings, journal: Journal) -> list[str]:
    """What of the replay is not on Kafka as it was confirmed; nothing if all is well."""
    found: defaultdict[str, Confirmed] = defaultdict(Confirmed)
    astray: Counter[str] = Counter()
    disordered: Counter[str] = Counter()
    latest: dict[tuple[PartitionId, str], int] = {}
    for partition, message, origin in replayed(settings, journal, journal.first):
        # The last header is our own.
        found[origin.place].add(origin.offset, digest(origin, message._replace(headers=message.headers[:-1])))
        if not journal.replay.by_key and (partition.topic, partition.partition) != (
            origin.topic,
            origin.partition_kept,
        ):
            astray[origin.place] += 1
        before = latest.get((partition, origin.place), -1)
        disordered[origin.place] += origin.offset < before
        latest[partition, origin.place] = max(origin.offset, before)
    problems = []
    for place in sorted(journal.confirmed.keys() | found.keys()):
        sent, there = journal.confirmed.get(place, Confirmed()), found[place]
        if there.count != sent.count:
            problems.append(f"{place}: {there.count:,} messages on Kafka, {sent.count:,} were sent")
        elif there.digest != sent.digest:
            problems.append(f"{place}: the messages on Kafka are not those that were sent")
        if astray[place]:
            problems.append(f"{place}: {astray[place]:,} messages are on another partition")
        if disordered[place]:
            problems.append(f"{place}: {disordered[place]:,} messages are out of order")
    return problems
