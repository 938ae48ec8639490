"""Outputs and offsets become visible together or not at all, and whoever has been replaced writes nothing more."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings, admin_client
from stream.messages import Encoded
from stream.outbox import Outbox
from stream.subscriber import Subscriber
from stream.topic_admin import describe_topics
from stream.transactions import FencedError, Placed, TransactionLostError, Transactions, attempt
from tests.stream.reading import messages_on

OUTSIDER = None
"""The membership of one who is in no group."""


class Reader:
    """A member of a group, with the memberships that it is said to have; the last one stays."""

    def __init__(self, subscriber: Subscriber, *memberships: Any) -> None:
        self._subscriber = subscriber
        self._memberships = list(memberships)

    def kafka_positions(self) -> list[TopicPartition]:
        return self._subscriber.kafka_positions()

    def group_metadata(self) -> Any:
        return self._memberships.pop(0) if self._memberships else self._subscriber.group_metadata()


def cascade(value: bytes) -> Placed:
    return Placed(Encoded("cascade", b"k", value))


def values(settings: KafkaSettings) -> list[bytes]:
    return [message.value or b"" for message in messages_on(settings, ["cascade"])]


def joined(settings: KafkaSettings) -> Subscriber:
    """A member that has read to the end of what it was given."""
    subscriber = Subscriber(settings, ["pfc"], group="detect")
    while not subscriber.positions():
        subscriber.consume()
    return subscriber


@pytest.mark.kafka
def test_what_is_committed_is_seen_and_offsets_with_it(real_settings: KafkaSettings) -> None:
    transactions = Transactions(real_settings, "detect.one")
    with Outbox(real_settings) as outbox:
        for _ in range(3):
            outbox.send_or_wait(Encoded("pfc", b"foobar", b""))
        outbox.flush()
    with joined(real_settings) as reader:
        reader.read_up_to_now()
        transactions.commit([cascade(b"1"), cascade(b"2")], reader)
        assert max(reader.committed(sorted(reader.assigned)).values()) == 3
    transactions.commit([cascade(b"3")])
    transactions.close()
    assert values(real_settings) == [b"1", b"2", b"3"]
    assert transactions.counters == {"commits": 2, "aborts": 0, "messages": 3, "too_large": 0}


@pytest.mark.kafka
def test_a_message_goes_to_the_partition_of_choice_or_of_its_key(real_settings: KafkaSettings) -> None:
    transactions = Transactions(real_settings, "detect.one")
    transactions.commit([Placed(Encoded("state", b"k", b"x"), partition) for partition in (2, 0, 3)])
    transactions.commit([Placed(Encoded("state", b"k", b"y"))] * 3)
    transactions.close()
    places = {message.value: message.partition for message in messages_on(real_settings, ["state"])}
    assert {m.partition for m in messages_on(real_settings, ["state"]) if m.value == b"x"} == {0, 2, 3}
    assert [m.partition for m in messages_on(real_settings, ["state"]) if m.value == b"y"] == [places[b"y"]] * 3


@pytest.mark.kafka
def test_what_was_aborted_is_never_seen_and_the_next_commit_works(real_settings: KafkaSettings) -> None:
    transactions = Transactions(real_settings, "detect.one")
    with joined(real_settings) as reader:
        for _ in range(3):
            with pytest.raises(TransactionLostError, match="not a member of the group any more"):
                transactions.commit([cascade(b"aborted")], Reader(reader, OUTSIDER))
    transactions.commit([cascade(b"right")])
    transactions.close()
    assert values(real_settings) == [b"right"]
    assert (transactions.counters["commits"], transactions.counters["aborts"]) == (1, 3)


@pytest.mark.kafka
def test_a_member_whose_partitions_another_one_has_commits_nothing(real_settings: KafkaSettings) -> None:
    zombie = joined(real_settings)
    membership = zombie.group_metadata()
    zombie.close()
    transactions = Transactions(real_settings, "detect.zombie")
    with joined(real_settings) as successor:
        with pytest.raises(TransactionLostError):
            transactions.commit([cascade(b"zombie's")], Reader(successor, *[membership] * 4))
        assert successor.committed(sorted(successor.assigned)) == {}
    transactions.close()
    assert values(real_settings) == []


@pytest.mark.kafka
def test_a_commit_follows_its_group_through_a_rebalance(real_settings: KafkaSettings) -> None:
    transactions = Transactions(real_settings, "detect.one")
    first = joined(real_settings)
    before = first.group_metadata()
    second = Subscriber(real_settings, ["pfc"], group="detect")
    while not (second.assigned and first.assigned):
        first.consume()
        second.consume()
    transactions.commit([cascade(b"once")], Reader(first, before))
    assert transactions.counters["aborts"] == 1
    assert values(real_settings) == [b"once"]
    for closing in (first, second, transactions):
        closing.close()


@pytest.mark.kafka
def test_a_second_process_of_the_same_name_fences_the_first(real_settings: KafkaSettings) -> None:
    first = Transactions(real_settings, "detect.one")
    first.commit([cascade(b"first")])
    second = Transactions(real_settings, "detect.one")
    with pytest.raises(FencedError, match=r"another process took over its name t\w+\.detect\.one"):
        first.commit([cascade(b"zombie's")])
    second.commit([cascade(b"second")])
    assert values(real_settings) == [b"first", b"second"]
    other = Transactions(real_settings, "detect.two")
    other.commit([cascade(b"other name")])
    for transactions in (first, second, other):
        transactions.close()


@pytest.mark.kafka
def test_what_a_killed_process_left_open_ends_when_it_begins_again(real_settings: KafkaSettings) -> None:
    killed = Producer(
        {"bootstrap.servers": real_settings.bootstrap_servers, "transactional.id": f"{real_settings.prefix}.detect.one"}
    )
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce(f"{real_settings.prefix}.cascade", b"left open", b"k")
    assert killed.flush(30) == 0
    again = Transactions(real_settings, "detect.one")
    again.commit([cascade(b"again")])
    assert values(real_settings) == [b"again"]
    again.close()


@pytest.mark.kafka
def test_a_value_that_no_producer_takes_is_left_out_and_counted(real_settings: KafkaSettings) -> None:
    transactions = Transactions(real_settings, "detect.one")
    transactions.commit([cascade(b"before"), cascade(bytes(2_000_000)), cascade(b"after")])
    transactions.close()
    assert values(real_settings) == [b"before", b"after"]
    assert transactions.counters["too_large"] == 1


@pytest.mark.kafka
def test_a_value_that_a_topic_does_not_take_says_which_setting_to_raise(real_settings: KafkaSettings) -> None:
    topic = f"{real_settings.prefix}.cascade"
    change = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    admin = admin_client(real_settings)
    (changed,) = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])]
    ).values()
    changed.result(30)
    while describe_topics(real_settings, ["cascade"])[0].configs["max.message.bytes"] != "1000":
        time.sleep(0.05)
    transactions = Transactions(real_settings, "detect.one")
    with pytest.raises(BrokerError, match=r"takes no value of \d+ bytes; raise its max.message.bytes"):
        transactions.commit([cascade(random.Random(1).randbytes(5000))])
    transactions.close()


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_what_a_cluster_says_that_has_just_started_is_asked_again_until_the_deadline(code: int) -> None:
    answers = [KafkaError(code), KafkaError(code), None]

    def call(_: float) -> None:
        if answer := answers.pop(0):
            raise KafkaException(answer)

    attempt(time.monotonic() + 30, call)
    assert answers == []
    answers = [KafkaError(code), None]
    with pytest.raises(KafkaException):
        attempt(time.monotonic(), call)
    answers = [KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), None]
    with pytest.raises(KafkaException):
        attempt(time.monotonic() + 30, call)


def test_the_embedded_broker_is_refused_since_its_transactions_mean_nothing(embedded_broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="exactly once needs a real Kafka"):
        Transactions(embedded_broker.settings, "detect.one")
