"""What tests of replays have in common: a capture, a target without a past, and what is on the target."""

from __future__ import annotations

from pathlib import Path

from stream.capture_manifest import PartitionPlan
from stream.capture_message import Captured
from stream.capture_source import KafkaSource
from stream.kafka_settings import KafkaSettings, look
from stream.offset_gaps import PartitionId
from stream.replay_check import HEADER
from stream.topics import TOPICS, full_name
from stream.watermarks import WatermarkQuery, Watermarks
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import capture_listed, in_place

MAX = 0.0


def make_capture(folder: Path, batches: int = 6, last_after_ms: int = 0) -> list[Captured]:
    """A capture of a small fabric, some of whose messages had headers; returns its messages as captured.

    Kafka got the last batches of rows so much later than the others.
    """
    listed = [
        message._replace(
            headers=(("trace", b"\x00\xff"), ("trace", None)) if message.offset % 2 else (),
            timestamp_ms=message.timestamp_ms + (last_after_ms if message.offset == batches - 1 else 0),
        )
        for message in fabric_messages(batches)
    ]
    capture_listed(listed, folder)
    return in_place(listed)


def on_kafka(settings: KafkaSettings) -> list[Captured]:
    """Every message of the fabric's topics by topic, partition and offset, as Kafka tells it."""
    plans = [PartitionPlan(*partition, *marks) for partition, marks in _watermarks(settings).items() if marks[1]]
    with KafkaSource(settings) as source:
        found = [message for told in source.read(plans) for message in told if isinstance(message, Captured)]
    return in_place(found)


class MessageCount:
    """How many messages that would be, without reading them; asks on one connection however often."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._query = WatermarkQuery(settings)

    def now(self) -> int:
        return sum(high - low for low, high in _watermarks(self._settings, self._query).values())


def _watermarks(settings: KafkaSettings, query: WatermarkQuery | None = None) -> Watermarks:
    counts = look(settings).partitions
    partitions = [
        PartitionId(topic.name, number)
        for topic in TOPICS
        for number in range(counts.get(full_name(settings.prefix, topic.name), 0))
    ]
    return (query or WatermarkQuery(settings)).ask(partitions, 10)


def without_origin(message: Captured) -> Captured:
    """The message as it was sent, its own offset and the replay's header aside."""
    return message._replace(
        offset=0,
        timestamp_type="create",
        headers=tuple((name, value) for name, value in message.headers if name != HEADER),
    )


def as_sent(messages: list[Captured]) -> list[Captured]:
    """The messages of each partition in their order."""
    return [without_origin(message) for message in messages]
