"""Captures from both brokers: everything that Kafka tells of a message, ranges, frozen ends, and no group touched."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from stream.capture import capture
from stream.capture_manifest import Manifest, OffsetRange, PartitionPlan, Range
from stream.capture_message import Captured
from stream.capture_source import KafkaSource
from stream.capture_verify import verify
from stream.errors import BrokerError, CaptureError, ConfigError
from stream.kafka_settings import KafkaSettings, look
from stream.messages import encode
from stream.topics import full_name
from tests.kafka_brokers import fresh_prefix
from tests.stream.capture_samples import START_NS, STEP_NS, rows
from tests.stream.listed_source import ALL_TOPICS, in_place, messages_in
from tests.stream.sample_items import SAMPLES

MS = 1_000_000
START_MS = START_NS // MS


class Sender:
    """Puts messages on topics and remembers them as Kafka should tell them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.sent: list[Captured] = []
        self._producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
        self._offsets: dict[tuple[str, int], int] = {}

    def send(self, topic: str, key: bytes | None, value: bytes | None, partition: int = 0, after_ms: int = 0) -> None:
        offset = self._offsets.get((topic, partition), 0)
        self._offsets[topic, partition] = offset + 1
        headers = (("trace", b"\x00\xff"), ("trace", None)) if offset % 2 else ()
        message = Captured(topic, partition, offset, START_MS + after_ms, "create", key, headers, value)
        self._producer.produce(
            full_name(self.settings.prefix, topic), value, key, partition, headers=list(headers) or None,
            timestamp=message.timestamp_ms,
        )  # fmt: skip
        assert self._producer.flush(30) == 0
        self.sent.append(message)

    def send_rows(self, number: int, partition: int = 0) -> None:
        """Five rows of one device, one batch after another."""
        batch = rows("pfc", "leaf-1", 5, START_NS + number * 5 * STEP_NS, number * 5)
        topic, key, value = encode(batch)
        self.send(topic, key, value, partition, after_ms=number * 5 * STEP_NS // MS)


def captured(settings: KafkaSettings, folder: Path, wanted: Range = Range()) -> Manifest:  # noqa: B008
    with KafkaSource(settings) as source:
        return capture(source, folder, ALL_TOPICS, settings.prefix, wanted)


def test_everything_that_kafka_tells_of_a_message_is_kept(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    for number in range(3):
        sender.send_rows(number)
        sender.send_rows(number, partition=3)
    for item in SAMPLES.values():
        sender.send(*encode(item))
    sender.send("device", b"dc-1/leaf-1@7", None)
    sender.send("health", None, b"no JSON \xff")
    sender.send("state", b"detect", b"\x00\x01")
    sender.send("pfc", b"dc-1/leaf-1", b"PTB1 no packed value")
    manifest = captured(any_kafka, tmp_path / "c")
    assert messages_in(tmp_path / "c") == in_place(sender.sent)
    assert manifest.gaps == 0
    assert verify(tmp_path / "c", rows=True).whole


def test_the_end_is_where_the_topics_ended_when_it_began(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    sender.send_rows(0)
    with KafkaSource(any_kafka) as source:

        class Late:
            """The source, with a message that comes between the plan and the reading."""

            cluster_id, embedded, read = source.cluster_id, source.embedded, source.read
            first_offsets = source.first_offsets

            def plan(self, topics: Sequence[str], wanted: Range) -> tuple[PartitionPlan, ...]:
                frozen = source.plan(topics, wanted)
                sender.send_rows(1)
                sender.send_rows(0, partition=2)
                return frozen

        capture(Late(), tmp_path / "c", ALL_TOPICS, any_kafka.prefix, Range())
    assert messages_in(tmp_path / "c") == sender.sent[:1]


def test_a_range_of_offsets_is_taken_from_the_partitions_named(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    for number in range(6):
        sender.send_rows(number)
        sender.send_rows(number, partition=1)
    sender.send(*encode(SAMPLES["link"]))
    wanted = Range("offset", offsets=(OffsetRange("pfc", 0, 1, 3), OffsetRange("pfc", 1, 4, -1)))
    captured(any_kafka, tmp_path / "c", wanted)
    assert [(m.topic, m.partition, m.offset) for m in messages_in(tmp_path / "c")] == [
        ("pfc", 0, 1), ("pfc", 0, 2), ("pfc", 1, 4), ("pfc", 1, 5), ("link", 0, 0),
    ]  # fmt: skip


def test_a_partition_that_the_topic_does_not_have_is_told(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    count = look(any_kafka, 10).partitions[full_name(any_kafka.prefix, "pfc")]
    with pytest.raises(ConfigError, match=rf"pfc has no partition {count}; choose from 0 to {count - 1}"):
        captured(any_kafka, tmp_path / "c", Range("offset", offsets=(OffsetRange("pfc", count, 0, 1),)))


def test_a_range_of_event_time_is_found_wherever_kafka_put_it(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    for number in (3, 0, 2, 1):
        sender.send_rows(number)
    begin_ns = START_NS + 5 * STEP_NS
    captured(any_kafka, tmp_path / "c", Range("event", begin_ns, begin_ns + 5 * STEP_NS))
    assert messages_in(tmp_path / "c") == [sender.sent[3]]


def test_kafkas_time_is_looked_up_by_kafka(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    for number in range(4):
        sender.send_rows(number)
    sender.send(*encode(SAMPLES["link"]))
    wanted = Range("kafka", START_NS + 1, START_NS + 15 * STEP_NS)
    with KafkaSource(any_kafka) as source:
        if source.embedded:
            with pytest.raises(ConfigError, match="cannot look up offsets by time; select by event time"):
                source.plan(ALL_TOPICS, wanted)
            return
    captured(any_kafka, tmp_path / "c", wanted)
    assert messages_in(tmp_path / "c") == [*sender.sent[1:3], sender.sent[4]]


def test_a_broker_that_falls_silent_is_an_error_that_says_how_to_go_on(any_kafka: KafkaSettings) -> None:
    Sender(any_kafka).send_rows(0)
    with KafkaSource(any_kafka, silence_s=1.0) as source:
        # Kafka has no message at the end that is asked for, and none comes.
        reading = source.read([PartitionPlan("pfc", 0, 0, 1), PartitionPlan("pfc", 1, 0, 1)])
        begun_s = time.monotonic()
        with pytest.raises(BrokerError, match=r"nothing came from pfc\[1\] for 1 s.*run the same command again"):
            list(reading)
        assert time.monotonic() - begun_s < 30


@pytest.mark.kafka
def test_a_capture_touches_no_group(real_settings: KafkaSettings, tmp_path: Path) -> None:
    Sender(real_settings).send_rows(0)
    client = AdminClient({"bootstrap.servers": real_settings.bootstrap_servers})
    before = {group.group_id for group in client.list_consumer_groups().result().valid}
    captured(real_settings, tmp_path / "c")
    after = {group.group_id for group in client.list_consumer_groups().result().valid}
    assert after == before


@pytest.mark.kafka
def test_timestamps_that_the_broker_gave_are_told_as_such(real_kafka: str, tmp_path: Path) -> None:
    settings = KafkaSettings(real_kafka, fresh_prefix())
    client = AdminClient({"bootstrap.servers": real_kafka})
    topic = full_name(settings.prefix, "pfc")
    new = NewTopic(topic, 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    client.create_topics([new])[topic].result(30)
    Sender(settings).send_rows(0)
    with KafkaSource(settings) as source:
        capture(source, tmp_path / "c", ["pfc"], settings.prefix, Range())
    (message,) = messages_in(tmp_path / "c")
    assert message.timestamp_type == "append"
    assert message.timestamp_ms != START_MS


@pytest.mark.kafka
def test_messages_deleted_while_the_capture_was_away_are_a_gap(real_settings: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(real_settings)
    for number in range(5):
        sender.send_rows(number)
    topic = full_name(real_settings.prefix, "pfc")
    with KafkaSource(real_settings) as source:
        planned = source.plan(ALL_TOPICS, Range())
        client = AdminClient({"bootstrap.servers": real_settings.bootstrap_servers})
        client.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0)].result(30)

        class Planned:
            """The source with the plan of before."""

            cluster_id, embedded, read = source.cluster_id, source.embedded, source.read
            first_offsets = source.first_offsets

            def plan(self, topics: Sequence[str], wanted: Range) -> tuple[PartitionPlan, ...]:
                return planned

        manifest = capture(Planned(), tmp_path / "c", ALL_TOPICS, real_settings.prefix, Range())
    assert messages_in(tmp_path / "c") == sender.sent[3:]
    assert manifest.gaps == 3
    assert verify(tmp_path / "c").gaps[0].startswith("pfc[0]@0: 3 messages removed by retention")


def damage(folder: Path) -> Path:
    """Flips a bit of the rows' file."""
    (path,) = folder.rglob("events/**/p0-*.parquet")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    return path


def test_damaged_files_are_captured_again_from_kafka(any_kafka: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(any_kafka)
    sender.send_rows(0)
    sender.send_rows(0, partition=1)
    captured(any_kafka, tmp_path / "c")
    damage(tmp_path / "c")
    # What came since is not in the plan.
    sender.send_rows(1)
    captured(any_kafka, tmp_path / "c")
    assert verify(tmp_path / "c", rows=True).whole
    assert messages_in(tmp_path / "c") == sender.sent[:2]
    with pytest.raises(CaptureError, match="holds a finished capture"):
        captured(any_kafka, tmp_path / "c")


@pytest.mark.kafka
def test_damaged_files_whose_messages_kafka_has_removed_are_left(real_settings: KafkaSettings, tmp_path: Path) -> None:
    sender = Sender(real_settings)
    sender.send_rows(0)
    captured(real_settings, tmp_path / "c")
    path = damage(tmp_path / "c")
    topic = full_name(real_settings.prefix, "pfc")
    client = AdminClient({"bootstrap.servers": real_settings.bootstrap_servers})
    client.delete_records([TopicPartition(topic, 0, 1)])[TopicPartition(topic, 0)].result(30)
    with pytest.raises(CaptureError, match="is damaged, and Kafka no longer has what was in its 1 damaged parts"):
        captured(real_settings, tmp_path / "c")
    assert [problem.split(" is ")[0] for problem in verify(tmp_path / "c").problems] == [str(path)]
