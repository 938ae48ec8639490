"""An outbox delivers in order, waits no longer than told, and tells every loss with its topic and reason."""

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, ConfigError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded
from stream.outbox import DELIVERY_FAILED, QUEUE_FULL, Outbox
from tests.stream.reading import messages_on


@contextlib.contextmanager
def hanging(broker: EmbeddedBroker) -> Iterator[None]:
    """The broker takes connections and answers nothing."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def numbered(count: int, size_bytes: int = 1000) -> list[Encoded]:
    return [Encoded("control", b"lab/a", b"%d" % number + bytes(size_bytes)) for number in range(count)]


def numbers_on(settings: KafkaSettings) -> list[int]:
    return [int((message.value or b"").rstrip(b"\0")) for message in messages_on(settings, ["control"])]


def test_what_was_held_arrives_in_order_once_the_broker_answers_again(embedded_broker: EmbeddedBroker) -> None:
    with Outbox(embedded_broker.settings, queue_bytes=5000) as outbox:
        with hanging(embedded_broker):
            for message in numbered(50):
                outbox.send(message)
            assert outbox.counters["held"] > 0
            assert outbox.waiting == 50
        outbox.flush()
        assert outbox.take_failure() is None
        assert outbox.counters["delivered"] == 50
    assert numbers_on(embedded_broker.settings) == list(range(50))


def test_what_is_held_too_long_is_dropped_oldest_first(embedded_broker: EmbeddedBroker) -> None:
    now_s = 0.0
    lost: list[tuple[int, int]] = []
    with Outbox(embedded_broker.settings, queue_bytes=5000, monotonic_s=lambda: now_s) as outbox:
        with hanging(embedded_broker):
            for number, message in enumerate(numbered(20)):
                now_s = float(number)
                outbox.send(message, lambda reason, number=number: lost.append((number, reason)))  # type: ignore[misc]
            now_s = 71.5
            outbox.poll()
        held_first = 20 - outbox.counters["held"]
        assert lost == [(number, QUEUE_FULL) for number in range(held_first, 12)]
        failure = outbox.take_failure()
        assert failure is not None
        assert f"{len(lost)} messages to fabric.control lost: the queue was full" in str(failure)
        assert outbox.take_failure() is None
        outbox.flush()
    assert numbers_on(embedded_broker.settings) == [*range(held_first), *range(12, 20)]


def test_a_sender_that_waits_gives_up_at_its_deadline(embedded_broker: EmbeddedBroker) -> None:
    outbox = Outbox(embedded_broker.settings, queue_bytes=5000)
    message = numbered(1)[0]
    with hanging(embedded_broker):
        while not outbox.counters["held"]:
            outbox.send(message)
        with pytest.raises(BrokerError, match=r"could not be delivered .* within 0.2 s"):
            outbox.send_or_wait(message, deadline_s=0.2)
    outbox.flush()
    outbox.close()


def test_what_is_given_up_at_the_end_is_counted(embedded_broker: EmbeddedBroker) -> None:
    reasons: list[int] = []
    outbox = Outbox(embedded_broker.settings, queue_bytes=5000)
    with hanging(embedded_broker):
        for message in numbered(20):
            outbox.send(message, reasons.append)
        outbox.close()
    assert len(reasons) == 20
    assert set(reasons) == {QUEUE_FULL, DELIVERY_FAILED}


def test_a_topic_that_does_not_exist_loses_the_message_with_the_next_step(embedded_broker: EmbeddedBroker) -> None:
    settings = KafkaSettings(embedded_broker.bootstrap_servers, "other", {"topic.metadata.propagation.max.ms": "200"})
    reasons: list[int] = []
    with Outbox(settings) as outbox:
        outbox.send(Encoded("pfc", b"", b""), reasons.append)
        outbox.flush()
        failure = outbox.take_failure()
    assert str(failure) == (
        "1 message to other.pfc lost: Broker: Unknown topic or partition; make the topics: pausetrace topics create"
    )
    assert reasons == [DELIVERY_FAILED]


def test_a_message_larger_than_kafka_takes_is_lost_at_once(embedded_broker: EmbeddedBroker) -> None:
    reasons: list[int] = []
    with Outbox(embedded_broker.settings) as outbox:
        outbox.send(Encoded("control", b"", bytes(2_000_000)), reasons.append)
        assert reasons == [DELIVERY_FAILED]
        assert "too large" in str(outbox.take_failure())


def test_a_setting_that_librdkafka_does_not_take_is_a_configuration_error(embedded_broker: EmbeddedBroker) -> None:
    settings = KafkaSettings(embedded_broker.bootstrap_servers, librdkafka={"acks": "some"})
    with pytest.raises(ConfigError, match="acks"):
        Outbox(settings)


def test_a_refusal_that_the_client_remembers_says_as_much_as_kafka_s_own(
    embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself refuses what goes to a topic of which Kafka has just said that we may not write."""

    class Refusing:
        def produce(self, *_args: object, **_more: object) -> None:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    reasons: list[int] = []
    with Outbox(embedded_broker.settings) as outbox:
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "_producer", Refusing())
            outbox._hand_over(numbered(1)[0], reasons.append)
        failure = outbox.take_failure()
    assert failure is not None
    assert "this client has no right to Write on topic" in failure.message
    assert "pausetrace topics acls" in failure.next_step
    assert reasons == [DELIVERY_FAILED]
