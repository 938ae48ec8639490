"""A subscriber reads in order from where it is told, shares with its group and reports what was truncated."""

import os

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings, producer_config
from stream.messages import Encoded
from stream.offset_gaps import TRUNCATED, OffsetGap, PartitionId
from stream.outbox import Outbox
from stream.subscriber import Received, Subscriber


def publish(settings: KafkaSettings, messages: list[Encoded]) -> None:
    with Outbox(settings) as outbox:
        for message in messages:
            outbox.send_or_wait(message)
        outbox.flush()
        assert outbox.take_failure() is None


def numbered(topic: str, count: int, size_bytes: int = 0) -> list[Encoded]:
    return [Encoded(topic, b"lab/leaf1", b"%d" % n + os.urandom(size_bytes)) for n in range(count)]


def test_topics_that_do_not_exist_are_named(embedded_broker: EmbeddedBroker) -> None:
    other = KafkaSettings(embedded_broker.bootstrap_servers, "other")
    with pytest.raises(BrokerError, match=r"no topic other\.pfc; make them: pausetrace topics create"):
        Subscriber(other, ["pfc"])


def test_the_latest_start_is_fixed_when_the_subscriber_is_made(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    publish(settings, numbered("pfc", 3))
    with Subscriber(settings, ["pfc"], start="latest") as latest, Subscriber(settings, ["pfc"]) as earliest:
        publish(settings, [Encoded("pfc", b"lab/leaf1", b"new")])
        assert [message.value for message in latest.read_up_to_now()] == [b"new"]
        assert [message.value for message in earliest.read_up_to_now()] == [b"0", b"1", b"2", b"new"]


def test_a_message_knows_its_place(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, numbered("control", 2))
    with Subscriber(embedded_broker.settings, ["control"]) as subscriber:
        _, second = subscriber.read_up_to_now()
    assert second.place == "control[0]@1"
    assert (second.topic, second.key, second.value) == ("control", b"lab/leaf1", b"1")
    assert second.timestamp_ms > 1_600_000_000_000


def test_at_most_so_many_messages_come_at_once(embedded_broker: EmbeddedBroker) -> None:
    publish(embedded_broker.settings, numbered("pfc", 10))
    with Subscriber(embedded_broker.settings, ["pfc"]) as subscriber:
        while not (first := subscriber.consume(4)):
            pass
        assert len(first) <= 4
        assert len(first) + len(subscriber.read_up_to_now()) == 10


def test_an_overfilled_partition_of_the_embedded_broker_is_reported_as_truncated(
    embedded_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    # 5 MB is all that a partition holds, and noise does not compress.
    publish(embedded_broker.settings, numbered("control", 20, size_bytes=500_000))
    with Subscriber(embedded_broker.settings, ["control"]) as subscriber:
        received = subscriber.read_up_to_now(30)
        (gap,) = subscriber.take_gaps()
        assert subscriber.take_gaps() == []
        assert gap == OffsetGap("control", 0, 0, received[0].offset, TRUNCATED, loss=True)
        assert gap.missing + len(received) == 20
        assert subscriber.counters["missing_offsets"] == gap.missing > 0
    assert f"control[0]@0: {gap.missing} messages truncated by the embedded broker" in caplog.text


def test_a_slow_reader_hears_of_what_went_while_it_slept(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    publish(settings, numbered("control", 2))
    # Without this a background thread would fetch everything at once, and nothing would go unread.
    slow = KafkaSettings(
        settings.bootstrap_servers,
        librdkafka={
            "queued.min.messages": "1",
            "queued.max.messages.kbytes": "1",
            "fetch.max.bytes": "1000000",
            "fetch.queue.backoff.ms": "10",
        },
    )
    with Subscriber(slow, ["control"]) as subscriber:
        seen = subscriber.read_up_to_now()
        publish(settings, numbered("control", 30, size_bytes=500_000))
        seen += subscriber.read_up_to_now(30)
        gaps = subscriber.take_gaps()
        assert gaps
        assert len(seen) + sum(gap.missing for gap in gaps) == 32
        assert subscriber.counters["gaps"] == len(gaps)


def test_a_key_lies_on_the_partition_of_javas_murmur2(embedded_broker: EmbeddedBroker) -> None:
    # Java's Utils.murmur2 gives -790332482 for "foobar" and -973932308 for "21"; sign bit off, modulo 4 partitions.
    publish(embedded_broker.settings, [Encoded("pfc", b"foobar", b"x"), Encoded("pfc", b"21", b"y")])
    with Subscriber(embedded_broker.settings, ["pfc"]) as subscriber:
        partitions = {message.key: message.partition for message in subscriber.read_up_to_now()}
    assert partitions == {b"foobar": (-790332482 & 0x7FFFFFFF) % 4, b"21": (-973932308 & 0x7FFFFFFF) % 4}


def test_a_group_shares_partitions_and_hands_them_over(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    everything = {PartitionId("pfc", number) for number in range(4)}
    publish(settings, [Encoded("pfc", b"lab/leaf%d" % n, b"%d" % n) for n in range(40)])
    revoked: list[PartitionId] = []
    with Subscriber(settings, ["pfc"], group="detect", on_revoked=revoked.extend) as first:
        seen: list[Received] = []
        while len(seen) < 40:
            seen += first.consume()
        assert first.assigned == everything
        second = Subscriber(settings, ["pfc"], group="detect")
        share: list[int] = []
        while not (second.assigned and first.assigned and len(first.assigned) < 4):
            first.consume()
            share += [int(message.value or b"") for message in second.consume()]
        assert set(revoked) == everything
        assert first.assigned | second.assigned == everything
        assert not first.assigned & second.assigned
        share += [int(message.value or b"") for message in second.read_up_to_now()]
        # It reads its partitions from the start, although the first one had read them.
        expected = sorted(int(m.value or b"") for m in seen if PartitionId(m.topic, m.partition) in second.assigned)
        assert sorted(share) == expected
        second.close()
        while first.assigned != everything:
            first.consume()
        assert first.counters["gaps"] == 0


def test_a_group_reads_from_the_earliest_offset_whatever_was_committed(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    publish(settings, numbered("control", 5))
    meddler = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": "fabric.detect"})
    meddler.commit(offsets=[TopicPartition("fabric.control", 0, 4)], asynchronous=False)
    meddler.close()
    with Subscriber(settings, ["control"], group="detect") as subscriber:
        while not subscriber.assigned:
            subscriber.consume()
        subscriber.read_up_to_now()
        assert subscriber.counters["messages"] == 5


def test_a_group_cannot_start_at_the_latest(embedded_broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match="earliest"):
        Subscriber(embedded_broker.settings, ["pfc"], group="detect", start="latest")


def test_a_broker_that_went_away_is_trouble_and_a_query_ends_at_its_deadline(embedded_broker: EmbeddedBroker) -> None:
    with Subscriber(embedded_broker.settings, ["pfc"]) as subscriber:
        embedded_broker.stop()
        while not subscriber.trouble:
            assert subscriber.consume() == []
        with pytest.raises(BrokerError, match=r"no end offsets of pfc within 0.3 s.*refused"):
            subscriber.watermarks(0.3)


def test_a_value_of_none_arrives_as_none(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    producer = Producer(producer_config(settings, queue_bytes=1 << 20, message_timeout_ms=10_000))
    producer.produce("fabric.link", None, b"lab/link@0")
    assert producer.flush(10) == 0
    with Subscriber(settings, ["link"]) as subscriber:
        (message,) = subscriber.read_up_to_now()
    assert (message.key, message.value) == (b"lab/link@0", None)
