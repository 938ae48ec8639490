"""The Kafka calls that Pausetrace makes, in one table: what must pass and what must refuse clearly, broker by broker.

A clear refusal is a PausetraceError in one line with a next step, within its deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stream import topic_admin
from stream.acls import acls_of, apply_acls
from stream.capture_manifest import Range
from stream.capture_source import KafkaSource
from stream.errors import PausetraceError
from stream.kafka_settings import (
    BrokerInfo,
    KafkaSettings,
    connect,
    consumer_config,
    look,
    producer_config,
    require_topics,
)
from stream.messages import Encoded
from stream.offset_gaps import PartitionId
from stream.outbox import Outbox
from stream.subscriber import Received, Subscriber
from stream.topics import TOPICS
from stream.transactions import FencedError, Placed, Transactions
from tests.kafka_brokers import fresh_prefix

PASS, REFUSE = "must pass", "must refuse clearly"


class Case(NamedTuple):
    """A broker with topics of the case's own."""

    settings: KafkaSettings
    broker: BrokerInfo

    def produce(self, *messages: Encoded) -> None:
        with Outbox(self.settings) as outbox:
            for message in messages:
                outbox.send_or_wait(message)
            outbox.flush()
            if failure := outbox.take_failure():
                raise failure

    def read(self, topic: str, group: str | None = None) -> list[Received]:
        with Subscriber(self.settings, [topic], group=group) as subscriber:
            while not subscriber.assigned:
                subscriber.consume()
            early = subscriber.counters["messages"]
            received = subscriber.read_up_to_now(30)
            assert early == 0 or group is not None
            return received


def connects(case: Case) -> None:
    assert connect(case.settings) == case.broker
    assert case.broker.cluster_id


def lists_topics_with_partitions(case: Case) -> None:
    listed = topic_admin.list_topics(case.settings)
    assert {entry.name: entry.partitions for entry in listed} == {topic.name: topic.partitions for topic in TOPICS}


def creates_missing_topics_only(case: Case) -> None:
    fresh = KafkaSettings(case.settings.bootstrap_servers, fresh_prefix())
    made = topic_admin.create_topics(fresh)
    assert all(entry.created and not entry.differences for entry in made)
    assert len(made) == len(TOPICS)
    again = topic_admin.create_topics(fresh)
    assert not any(entry.created or entry.differences for entry in again)
    require_topics(fresh, look(fresh), [topic.name for topic in TOPICS])


def creates_with_other_partitions(case: Case) -> None:
    fresh = KafkaSettings(case.settings.bootstrap_servers, fresh_prefix())
    topic_admin.create_topics(fresh, partitions=2)
    partitions = {entry.name: entry.partitions for entry in topic_admin.list_topics(fresh)}
    assert (partitions["pfc"], partitions["control"]) == (2, 1)


def reports_what_exists_otherwise_and_leaves_it(case: Case) -> None:
    made = {entry.name: entry for entry in topic_admin.create_topics(case.settings, partitions=7)}
    assert made["pfc"].differences == ("has 4 partitions, not 7",)
    assert not made["control"].differences
    assert look(case.settings).partitions[made["pfc"].topic] == 4


def describes_topics(case: Case) -> None:
    link, pfc = topic_admin.describe_topics(case.settings, ["link", "pfc"])
    assert (link.configs["cleanup.policy"], link.configs["retention.ms"]) == ("compact", "-1")
    assert (pfc.partitions, pfc.replication, pfc.configs["retention.ms"]) == (4, 1, "86400000")
    assert pfc.differences == link.differences == ()


def keeps_key_value_order_and_time(case: Case) -> None:
    case.produce(*[Encoded("pfc", b"lab/leaf1", b"%d" % number) for number in range(50)])
    received = case.read("pfc")
    assert [message.value for message in received] == [b"%d" % number for number in range(50)]
    assert {message.key for message in received} == {b"lab/leaf1"}
    assert [message.offset for message in received] == list(range(50))
    assert all(message.timestamp_ms > 1_600_000_000_000 for message in received)


def keeps_headers(case: Case) -> None:
    producer = Producer(producer_config(case.settings, queue_bytes=1 << 20, message_timeout_ms=10_000))
    topic = f"{case.settings.prefix}.control"
    producer.produce(topic, b"x", headers=[("original", b"1"), ("original", b"2")])
    assert producer.flush(10) == 0
    consumer = Consumer(consumer_config(case.settings, case.broker, None))
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, 10)
    assert message.headers() == [("original", b"1"), ("original", b"2")]
    consumer.close()


def keeps_a_value_of_none(case: Case) -> None:
    producer = Producer(producer_config(case.settings, queue_bytes=1 << 20, message_timeout_ms=10_000))
    producer.produce(f"{case.settings.prefix}.link", None, b"lab/link@0")
    assert producer.flush(10) == 0
    (message,) = case.read("link")
    assert (message.key, message.value) == (b"lab/link@0", None)


def compresses_with(codec: str) -> Callable[[Case], None]:
    def compresses(case: Case) -> None:
        settings = KafkaSettings(
            case.settings.bootstrap_servers, case.settings.prefix, {"compression.type": codec, "linger.ms": "50"}
        )
        Case(settings, case.broker).produce(*[Encoded("pfc", b"lab/leaf1", bytes(5000)) for _ in range(20)])
        assert [message.value for message in case.read("pfc")] == [bytes(5000)] * 20

    return compresses


def puts_a_key_where_java_puts_it(case: Case) -> None:
    case.produce(Encoded("pfc", b"foobar", b""), Encoded("pfc", b"21", b""))
    places = {message.key: message.partition for message in case.read("pfc")}
    assert places == {b"foobar": (-790332482 & 0x7FFFFFFF) % 4, b"21": (-973932308 & 0x7FFFFFFF) % 4}


def produces_idempotently(case: Case) -> None:
    assert producer_config(case.settings, queue_bytes=1, message_timeout_ms=1)["enable.idempotence"]
    for _ in range(2):
        case.produce(*[Encoded("control", b"", b"%d" % number) for number in range(200)])
    assert [message.value for message in case.read("control")] == [b"%d" % number for number in range(200)] * 2


def produces_to_a_topic_that_does_not_exist(case: Case) -> None:
    nowhere = KafkaSettings(
        case.settings.bootstrap_servers, fresh_prefix(), {"topic.metadata.propagation.max.ms": "500"}
    )
    try:
        Case(nowhere, case.broker).produce(Encoded("pfc", b"", b""))
    finally:
        assert f"{nowhere.prefix}.pfc" not in look(nowhere).partitions


def produces_a_value_that_is_too_large(case: Case) -> None:
    case.produce(Encoded("pfc", b"", bytes(2_000_000)))


def subscribes_to_a_topic_that_does_not_exist(case: Case) -> None:
    Subscriber(KafkaSettings(case.settings.bootstrap_servers, fresh_prefix()), ["pfc"])


def waits_for_nothing_and_returns(case: Case) -> None:
    with Subscriber(case.settings, ["pfc"]) as subscriber:
        assert subscriber.consume(10) == []
        assert subscriber.trouble == ""


def reads_again_from_the_earliest_after_a_restart(case: Case) -> None:
    case.produce(*[Encoded("pfc", b"lab/leaf%d" % number, b"") for number in range(20)])
    assert [m.place for m in sorted(case.read("pfc"))] == [m.place for m in sorted(case.read("pfc"))]


def starts_at_the_latest(case: Case) -> None:
    case.produce(Encoded("control", b"", b"old"))
    with Subscriber(case.settings, ["control"], start="latest") as subscriber:
        case.produce(Encoded("control", b"", b"new"))
        assert [message.value for message in subscriber.read_up_to_now(30)] == [b"new"]


def tells_watermarks(case: Case) -> None:
    case.produce(*[Encoded("pfc", b"foobar", b"") for _ in range(3)])
    with Subscriber(case.settings, ["pfc"]) as subscriber:
        marks = subscriber.watermarks()
        assert not subscriber.has_read(marks)
        assert sorted(marks.values()) == [(0, 0), (0, 0), (0, 0), (0, 3)]
        assert len(subscriber.read_up_to_now(30)) == 3
        assert subscriber.has_read(marks)


def starts_a_group_at_the_earliest_again(case: Case) -> None:
    case.produce(*[Encoded("control", b"", b"%d" % number) for number in range(5)])
    for _ in range(2):
        with Subscriber(case.settings, ["control"], group="detect") as subscriber:
            while subscriber.counters["messages"] < 5:
                subscriber.consume()


def shares_partitions_in_a_group_and_takes_over(case: Case) -> None:
    case.produce(*[Encoded("pfc", b"lab/leaf%d" % number, b"") for number in range(40)])
    everything = {PartitionId("pfc", number) for number in range(4)}
    first = Subscriber(case.settings, ["pfc"], group="detect")
    while first.assigned != everything:
        first.consume()
    second = Subscriber(case.settings, ["pfc"], group="detect")
    while not (first.assigned and second.assigned and first.assigned | second.assigned == everything):
        first.consume()
        second.consume()
    assert not first.assigned & second.assigned
    second.close()
    while first.assigned != everything:
        first.consume()
    assert len({m.place for m in first.read_up_to_now(30)}) <= 40
    first.close()


def commits_a_transaction(case: Case) -> None:
    transactions = Transactions(case.settings, "detect.one")
    transactions.commit([Placed(Encoded("cascade", b"k", b"%d" % number)) for number in range(3)])
    transactions.close()
    assert [message.value for message in case.read("cascade")] == [b"0", b"1", b"2"]


def hides_what_is_open_or_aborted(case: Case) -> None:
    Transactions(case.settings, "detect.one").close()
    producer = _transactional(case, "raw")
    producer.begin_transaction()
    producer.produce(f"{case.settings.prefix}.control", b"aborted")
    assert producer.flush(10) == 0
    case.produce(Encoded("control", b"", b"behind it"))
    with Subscriber(case.settings, ["control"]) as reader:
        assert reader.consume(10, 2.0) == []
        producer.abort_transaction(10)
        while not (received := reader.consume()):
            pass
    assert [message.value for message in received] == [b"behind it"]


def shows_what_was_aborted_to_a_reader_that_asks_for_it(case: Case) -> None:
    Transactions(case.settings, "detect.one").close()
    producer = _transactional(case, "raw")
    producer.begin_transaction()
    producer.produce(f"{case.settings.prefix}.control", b"aborted")
    assert producer.flush(10) == 0
    producer.abort_transaction(10)
    everything = KafkaSettings(
        case.settings.bootstrap_servers, case.settings.prefix, {"isolation.level": "read_uncommitted"}
    )
    assert [message.value for message in Case(everything, case.broker).read("control")] == [b"aborted"]


def commits_offsets_with_a_transaction(case: Case) -> None:
    transactions = Transactions(case.settings, "detect.one")
    case.produce(*[Encoded("control", b"", b"%d" % number) for number in range(5)])
    with Subscriber(case.settings, ["control"], group="detect") as reader:
        while reader.counters["messages"] < 5:
            reader.consume()
        transactions.commit([], reader)
        assert reader.committed([PartitionId("control", 0)]) == {PartitionId("control", 0): 5}
    transactions.close()


def fences_an_older_process_of_the_same_name(case: Case) -> None:
    older = Transactions(case.settings, "detect.one")
    newer = Transactions(case.settings, "detect.one")
    with pytest.raises(FencedError):
        older.commit([Placed(Encoded("cascade", b"k", b"older"))])
    newer.commit([Placed(Encoded("cascade", b"k", b"newer"))])
    assert [message.value for message in case.read("cascade")] == [b"newer"]
    for transactions in (older, newer):
        transactions.close()


def looks_up_offsets_by_time(case: Case) -> None:
    producer = Producer(producer_config(case.settings, queue_bytes=1 << 20, message_timeout_ms=10_000))
    for second in range(10):
        producer.produce(f"{case.settings.prefix}.control", b"", timestamp=1_700_000_000_000 + 1000 * second)
        assert producer.flush(10) == 0
    from_ns = 1_700_000_003_000_000_000
    with KafkaSource(case.settings) as source:
        (plan,) = source.plan(["cascade"], Range("kafka", from_ns, from_ns + 4_000_000_000))
        assert (plan.first, plan.end) == (0, 0)
        # The roster is captured from its beginning, whatever the range.
        (plan,) = source.plan(["control"], Range("kafka", from_ns, from_ns + 4_000_000_000))
        assert (plan.first, plan.end) == (0, 7)


def makes_rights_without_an_authorizer(case: Case) -> None:
    apply_acls(case.settings, acls_of("viewer", case.settings.prefix, "User:viewer"))


def _transactional(case: Case, name: str) -> Producer:
    servers, transactional_id = case.settings.bootstrap_servers, f"{case.settings.prefix}.{name}"
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(30)
    return producer


class Row(NamedTuple):
    """One call, and what either broker makes of it."""

    call: Callable[[Case], None]
    embedded: str
    real: str
    name: str = ""


MATRIX = (
    Row(connects, PASS, PASS),
    Row(lists_topics_with_partitions, PASS, PASS),
    Row(creates_missing_topics_only, REFUSE, PASS),
    Row(creates_with_other_partitions, REFUSE, PASS),
    Row(reports_what_exists_otherwise_and_leaves_it, REFUSE, PASS),
    Row(describes_topics, REFUSE, PASS),
    Row(keeps_key_value_order_and_time, PASS, PASS),
    Row(keeps_headers, PASS, PASS),
    Row(keeps_a_value_of_none, PASS, PASS),
    Row(compresses_with("lz4"), PASS, PASS, "compresses_with_lz4"),
    Row(compresses_with("zstd"), PASS, PASS, "compresses_with_zstd"),
    Row(puts_a_key_where_java_puts_it, PASS, PASS),
    Row(produces_idempotently, PASS, PASS),
    Row(produces_to_a_topic_that_does_not_exist, REFUSE, REFUSE),
    Row(produces_a_value_that_is_too_large, REFUSE, REFUSE),
    Row(subscribes_to_a_topic_that_does_not_exist, REFUSE, REFUSE),
    Row(waits_for_nothing_and_returns, PASS, PASS),
    Row(reads_again_from_the_earliest_after_a_restart, PASS, PASS),
    Row(starts_at_the_latest, PASS, PASS),
    Row(tells_watermarks, PASS, PASS),
    Row(starts_a_group_at_the_earliest_again, PASS, PASS),
    Row(shares_partitions_in_a_group_and_takes_over, PASS, PASS),
    Row(commits_a_transaction, REFUSE, PASS),
    Row(hides_what_is_open_or_aborted, REFUSE, PASS),
    Row(shows_what_was_aborted_to_a_reader_that_asks_for_it, REFUSE, PASS),
    Row(commits_offsets_with_a_transaction, REFUSE, PASS),
    Row(fences_an_older_process_of_the_same_name, REFUSE, PASS),
    Row(looks_up_offsets_by_time, REFUSE, PASS),
    Row(makes_rights_without_an_authorizer, REFUSE, REFUSE),
)


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.name or row.call.__name__)
def test_a_call_does_on_each_broker_what_the_table_says(row: Row, any_kafka: KafkaSettings) -> None:
    broker = connect(any_kafka)
    expected = row.embedded if broker.embedded else row.real
    if expected == PASS:
        row.call(Case(any_kafka, broker))
        return
    with pytest.raises(PausetraceError) as caught:
        row.call(Case(any_kafka, broker))
    assert "\n" not in str(caught.value)
    assert caught.value.next_step
