"""TLS, mTLS, SASL/SCRAM and the rights of the roles, on a real Kafka that lets nobody in without them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from stream.acls import ROLES, acls_of, apply_acls
from stream.errors import BrokerError, ConfigError
from stream.kafka_settings import KafkaSettings, connect, look, require_topics
from stream.messages import Encoded
from stream.outbox import Outbox
from stream.subscriber import Subscriber
from stream.topic_admin import create_topics, describe_topics
from stream.transactions import Placed, Transactions
from tests.secure_kafka import ADMIN, INSIDE, KEY_PASSWORD, PASSWORD, SecureKafka

pytestmark = pytest.mark.kafka

PREFIX = "guarded"


@pytest.fixture(scope="module")
def guarded(secure_kafka: SecureKafka) -> SecureKafka:
    """The broker with topics `guarded.*`, and a SCRAM user for each role with that role's rights; `nobody` has none."""
    admin = secure_kafka.mtls(ADMIN, PREFIX)
    create_topics(admin)
    secure_kafka.add_users([*ROLES, "nobody", ADMIN])
    apply_acls(admin, [acl for role in ROLES for acl in acls_of(role, PREFIX, f"User:{role}")])
    return secure_kafka


def changed(settings: KafkaSettings, **librdkafka: str | None) -> KafkaSettings:
    """The settings with others of librdkafka, whose names have `_` for a dot; None leaves one out."""
    given = settings.librdkafka | {key.replace("_", "."): value for key, value in librdkafka.items()}
    return msgspec.structs.replace(settings, librdkafka={k: v for k, v in given.items() if v is not None})


def told(call: Callable[[], object]) -> str:
    """The error of a call in one line, which has a next step and no secret."""
    with pytest.raises((BrokerError, ConfigError)) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    assert caught.value.next_step
    assert PASSWORD not in said
    assert KEY_PASSWORD not in said
    return said


def write(settings: KafkaSettings, topic: str, value: bytes = b"x") -> None:
    with Outbox(settings, hold_s=10.0) as outbox:
        outbox.send(Encoded(topic, b"lab/leaf1", value))
        outbox.flush(20)
        if failure := outbox.take_failure():
            raise failure


def read(settings: KafkaSettings, topic: str) -> list[bytes | None]:
    with Subscriber(settings, [topic]) as subscriber:
        return [message.value for message in subscriber.read_up_to_now(20)]


def test_a_user_gets_in_by_scram_over_tls_and_a_program_by_its_certificate(guarded: SecureKafka) -> None:
    for settings in (guarded.scram("viewer"), guarded.mtls("anybody-with-a-certificate")):
        assert connect(settings).cluster_id


def test_a_key_under_a_password_opens_with_it_alone(guarded: SecureKafka) -> None:
    certificate, key = guarded.fabric.issue("locked", KEY_PASSWORD)
    locked = changed(guarded.mtls("viewer"), ssl_certificate_location=str(certificate), ssl_key_location=str(key))
    assert connect(changed(locked, ssl_key_password=KEY_PASSWORD)).cluster_id
    assert "ssl.key.location failed" in told(partial(connect, locked))
    assert "ssl.key.location failed" in told(partial(connect, changed(locked, ssl_key_password="other")))


class Wrong(NamedTuple):
    """What is wrong with the way in, and what is said of it."""

    settings: Callable[[SecureKafka], KafkaSettings]
    said: str
    next_step: str


def _with_strangers_certificate(kafka: SecureKafka) -> KafkaSettings:
    certificate, key = kafka.stranger.issue("stranger")
    return changed(kafka.mtls("viewer"), ssl_certificate_location=str(certificate), ssl_key_location=str(key))


WRONG = {
    "a wrong password": Wrong(
        lambda kafka: kafka.scram("viewer", password="other"),
        "does not let User:viewer in by SCRAM-SHA-512: wrong user or password",
        "kafka.password_file",
    ),
    "a user that does not exist": Wrong(
        lambda kafka: kafka.scram("zoe"), "does not let User:zoe in by SCRAM-SHA-512", "check sasl.username"
    ),
    "another mechanism": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), sasl_mechanism="PLAIN"),
        "does not take SASL mechanism PLAIN, but SCRAM-SHA-512",
        "set sasl.mechanism",
    ),
    "another authority": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), ssl_ca_location=str(kafka.stranger.file)),
        "is not signed by the authority in ",
        "set ssl.ca.location",
    ),
    "no authority": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), ssl_ca_location=None),
        "is not signed by an authority that this system knows",
        "set ssl.ca.location",
    ),
    "an authority's file that is not there": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), ssl_ca_location="/nowhere/ca.pem"), "ssl.ca.location", "correct"
    ),
    "a name that the broker's certificate does not hold": Wrong(
        lambda kafka: msgspec.structs.replace(
            kafka.mtls("viewer"), bootstrap_servers=kafka.mtls_servers.replace("127.0.0.1", "0.0.0.0")
        ),
        "or is for another name",
        "use a name that it holds",
    ),
    "no certificate of one's own": Wrong(
        lambda kafka: changed(kafka.mtls("viewer"), ssl_certificate_location=None, ssl_key_location=None),
        "wants a client's certificate that it can verify",
        "set ssl.certificate.location and ssl.key.location",
    ),
    "a certificate of another authority": Wrong(
        _with_strangers_certificate, "wants a client's certificate that it can verify", "one that its authority signed"
    ),
    "no TLS": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), security_protocol="PLAINTEXT"),
        "ended every connection by PLAINTEXT",
        "security.protocol",
    ),
    "no SASL": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), security_protocol="SSL"),
        "ended every connection by SSL",
        "security.protocol",
    ),
    "no password": Wrong(
        lambda kafka: changed(kafka.scram("viewer"), sasl_password=None),
        "sasl.username and sasl.password must be set",
        "kafka.password_file or PAUSETRACE_KAFKA_PASSWORD",
    ),
    "a key that is none": Wrong(
        lambda kafka: changed(kafka.mtls("viewer"), ssl_key_location=None, ssl_key_pem=KEY_PASSWORD),
        "ssl.key.pem failed",
        "correct",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_whoever_does_not_get_in_is_told_why_in_one_line(case: str, guarded: SecureKafka) -> None:
    wrong = WRONG[case]
    said = told(partial(connect, wrong.settings(guarded), 4.0))
    assert wrong.said in said
    assert wrong.next_step in said.partition("; ")[2]


def test_a_port_without_tls_is_told_as_such(real_kafka: str) -> None:
    settings = KafkaSettings(real_kafka, librdkafka={"security.protocol": "SSL"})
    assert f"Kafka at {real_kafka} ended every connection by SSL" in told(partial(connect, settings, 4.0))


def test_a_probe_writes_and_cannot_read(guarded: SecureKafka) -> None:
    probe = guarded.scram("probe", PREFIX)
    write(probe, "pcie", b"from a probe")
    assert b"from a probe" in read(guarded.scram("viewer", PREFIX), "pcie")
    said = told(partial(read, probe, "pcie"))
    assert f"User:probe has no right to Read on topic {PREFIX}.pcie" in said
    assert "pausetrace topics acls" in said


def test_a_probe_is_told_that_it_cannot_read_also_what_is_empty(guarded: SecureKafka) -> None:
    subscriber = Subscriber(guarded.scram("probe", PREFIX), ["ecn"])

    def read_to_the_end() -> None:
        marks = subscriber.watermarks()
        assert all(low == high for low, high in marks.values())
        while not subscriber.has_read(marks, asked=True):
            subscriber.consume()

    try:
        assert f"User:probe has no right to Read on topic {PREFIX}.ecn" in told(read_to_the_end)
    finally:
        subscriber.close()


def test_a_viewer_reads_and_cannot_write(guarded: SecureKafka) -> None:
    write(guarded.scram("collector", PREFIX), "queue", b"from a collector")
    viewer = guarded.scram("viewer", PREFIX)
    assert b"from a collector" in read(viewer, "queue")
    assert "User:viewer has no right to Write on any topic" in told(partial(write, viewer, "queue"))


@pytest.mark.parametrize("topic", ["cascade", "episode", "state", "deadletter"])
def test_a_source_cannot_write_what_the_steps_write(guarded: SecureKafka, topic: str) -> None:
    said = told(partial(write, guarded.scram("collector", PREFIX), topic))
    # Kafka does not let it see the topic either.
    assert f"User:collector has no right to Write on topic {PREFIX}.{topic}" in said


def test_a_viewer_does_not_see_the_state_of_the_steps(guarded: SecureKafka) -> None:
    assert f"{PREFIX}.state" not in look(guarded.scram("viewer", PREFIX)).partitions


def test_a_replay_writes_to_replay_topics_and_to_no_other(guarded: SecureKafka) -> None:
    create_topics(guarded.scram("replay", "replay.one"))
    write(guarded.scram("replay", "replay.one"), "pfc")
    assert read(guarded.scram("replay", "replay.one"), "pfc") == [b"x"]
    said = told(partial(write, guarded.scram("replay", PREFIX), "pfc"))
    assert f"User:replay has no right to Write on topic {PREFIX}.pfc" in said


def test_an_administrator_of_topics_makes_and_describes_them_and_reads_none(guarded: SecureKafka) -> None:
    admin = guarded.scram("admin", f"{PREFIX}.more")
    assert all(topic.created for topic in create_topics(admin))
    assert "cleanup.policy" in describe_topics(admin, ["pfc"])[0].configs
    write(guarded.scram(ADMIN, f"{PREFIX}.more"), "pfc")
    assert f"User:admin has no right to Read on topic {PREFIX}.more.pfc" in told(partial(read, admin, "pfc"))
    assert "User:admin has no right to Create it" in told(partial(create_topics, guarded.scram("admin", "elsewhere")))
    assert "User:viewer has no right to Create it" in told(partial(create_topics, guarded.scram("viewer", "other")))
    said = told(partial(describe_topics, guarded.scram("viewer", PREFIX), ["pfc"]))
    assert f"topic {PREFIX}.pfc cannot be described: User:viewer has no right to DescribeConfigs it" in said


def test_who_may_see_nothing_is_told_that_and_not_that_topics_are_missing(guarded: SecureKafka) -> None:
    for settings, who in ((guarded.scram("nobody", PREFIX), "User:nobody"), (guarded.mtls("none", PREFIX), "none.pem")):
        said = told(partial(require_topics, settings, look(settings), ["pfc"]))
        assert f"{who} has no right to Describe on topic {PREFIX}.pfc" in said


def test_a_group_and_a_transactional_id_belong_to_their_role(guarded: SecureKafka) -> None:
    def join_the_group() -> None:
        with Subscriber(guarded.scram("viewer", PREFIX), ["pfc"], group="detect") as subscriber:
            end_s = time.monotonic() + 20
            while time.monotonic() < end_s:
                subscriber.consume()

    assert f"User:viewer has no right to Read on consumer group {PREFIX}.detect" in told(join_the_group)
    said = told(lambda: Transactions(guarded.scram("correlate", PREFIX), "detect.one"))
    assert f"User:correlate has no right to Write on transactional id {PREFIX}.detect.one" in said


@pytest.mark.parametrize("known", [False, True])
def test_a_transaction_without_the_right_to_its_topic_ends_with_that_word(guarded: SecureKafka, known: bool) -> None:
    transactions = Transactions(guarded.scram("detect", PREFIX), "detect.one")
    if known:  # then the client says it where the message is handed over
        transactions._producer.list_topics(f"{PREFIX}.cascade", 10)
    said = told(lambda: transactions.commit([Placed(Encoded("cascade", b"k", b"v"))]))
    assert f"User:detect has no right to Write on topic {PREFIX}.cascade" in said
    transactions.close()


def test_kafkas_own_tool_takes_the_printed_lines(guarded: SecureKafka) -> None:
    lines = {acl.resource: acl.line for acl in acls_of("detect", "printed", "User:printed")}
    assert set(lines) == {"topic", "group", "transactional-id"}
    script = " & ".join(f"/opt/kafka/bin/kafka-acls.sh {INSIDE} --add {line}" for line in lines.values())
    said = guarded.run_inside(f"{script} & wait; /opt/kafka/bin/kafka-acls.sh {INSIDE} --list --principal User:printed")
    listed = said.partition("ACLs for principal")[2]
    for resource in ("TOPIC", "GROUP", "TRANSACTIONAL_ID"):
        assert f"resourceType={resource}" in listed


def test_no_secret_is_in_the_log_even_where_librdkafka_tells_everything(
    guarded: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        connect(changed(guarded.scram("viewer"), debug="all"))
        told(partial(connect, changed(guarded.scram("viewer", password=f"{PASSWORD}!"), debug="all"), 2.0))
    assert "sasl.password" in caplog.text, "librdkafka's configuration was not logged, so that this proves nothing"
    assert PASSWORD not in caplog.text


def test_any_setting_of_librdkafka_passes_through(guarded: SecureKafka, tmp_path: Path) -> None:
    certificate, key = guarded.fabric.issue("by-pem")
    settings = KafkaSettings(
        guarded.mtls_servers,
        librdkafka={
            "security.protocol": "SSL",
            "ssl.ca.pem": guarded.fabric.file.read_text(),
            "ssl.certificate.pem": certificate.read_text(),
            "ssl.key.pem": key.read_text(),
        },
    )
    assert connect(settings).cluster_id
