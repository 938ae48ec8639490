"""What a broker refuses for want of a certificate, a password or a right, said for people with the next step.

In: an error as librdkafka tells it, and the settings of whoever met it. Out: a `BrokerError` in one line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from stream.errors import BrokerError, UnreachableError

if TYPE_CHECKING:
    from stream.kafka_settings import KafkaSettings

GRANT = "an administrator grants it: pausetrace topics acls --role ROLE --apply"

_MAY_NOT = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "consumer group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}
"""What a right is denied on. CLUSTER_AUTHORIZATION_FAILED means several things and is told apart by its caller."""

_MECHANISMS = re.compile(r"supported mechanisms: ([\w, -]+)")


def principal(settings: KafkaSettings) -> str:
    """Whom Kafka takes us for, as far as the settings tell: a broker makes its own names out of certificates."""
    given = settings.librdkafka
    if user := given.get("sasl.username", ""):
        return f"User:{user}"
    if certificate := given.get("ssl.certificate.location", ""):
        return f"the principal of {certificate}"
    return "this client"


def denied(settings: KafkaSettings, error: KafkaError, operation: str, resource: str) -> BrokerError | None:
    """The error of a missing right; None for any other. `operation` is Kafka's word: Read, Write, Describe, Create.

    `resource` is the full name of the topic, group or transactional id that was asked for.
    """
    what = _MAY_NOT.get(error.code())
    if what is None:
        return None
    return BrokerError(f"{principal(settings)} has no right to {operation} on {what} {resource}", GRANT)


def no_right_to_write(settings: KafkaSettings) -> BrokerError:
    """The error of a producer that may write to no topic at all, which Kafka does not even give a number."""
    return BrokerError(f"{principal(settings)} has no right to Write on any topic", GRANT)


def not_let_in(settings: KafkaSettings, text: str) -> BrokerError | None:
    """The error of a connection that was made and then refused, from librdkafka's last words; None for another cause.

    By its words, since librdkafka has one code for all that can be wrong with TLS.
    """
    servers, given = settings.bootstrap_servers, settings.librdkafka
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "GSSAPI"))
    if "invalid credentials" in text:
        return BrokerError(
            f"Kafka at {servers} does not let {principal(settings)} in by {mechanism}: wrong user or password",
            "check sasl.username, and kafka.password_file or PAUSETRACE_KAFKA_PASSWORD",
        )
    if known := _MECHANISMS.search(text):
        return BrokerError(
            f"Kafka at {servers} does not take SASL mechanism {mechanism}, but {known[1].strip()}",
            "set sasl.mechanism in [kafka.librdkafka]",
        )
    if "SASL authentication error" in text:
        return BrokerError(f"Kafka at {servers} does not let {principal(settings)} in: {text}", "check the credentials")
    # librdkafka's own words, or OpenSSL's where it comes to know later.
    if "certificate could not be verified" in text or "certificate verify failed" in text:
        authority = given.get("ssl.ca.location", "")
        who = f"the authority in {authority}" if authority else "an authority that this system knows"
        return BrokerError(
            f"the certificate of Kafka at {servers} is not signed by {who}, or is for another name",
            "set ssl.ca.location in [kafka.librdkafka] to the certificate of the authority that signed it, and use a "
            "name that it holds in --bootstrap-servers",
        )
    if re.search(r"alert (certificate required|unknown ca|bad certificate|handshake failure|certificate)", text):
        return BrokerError(
            f"Kafka at {servers} wants a client's certificate that it can verify",
            "set ssl.certificate.location and ssl.key.location in [kafka.librdkafka] to one that its authority signed",
        )
    if "wrong version number" in text:
        return BrokerError(
            f"Kafka at {servers} does not speak TLS", "set security.protocol in [kafka.librdkafka] to PLAINTEXT"
        )
    return None


def ends_at_once(text: str) -> bool:
    """Whether connections end as soon as they begin: a port of another protocol, or a broker that is just starting."""
    # librdkafka guesses at the first where the connection ends within a moment, and says the second of slower ones.
    return "PLAINTEXT broker listener" in text or "SSL connection closed by peer" in text


def no_answer(settings: KafkaSettings, deadline_s: float) -> UnreachableError:
    """The error of connections that are taken and then not answered, until the deadline."""
    return UnreachableError(
        f"no Kafka broker answers at {settings.bootstrap_servers} within {deadline_s:g} s: what listens there takes "
        "connections and says nothing",
        "check --bootstrap-servers; if it is Kafka: see its log, and whether its host hangs",
    )


def wrong_kind_of_port(settings: KafkaSettings, deadline_s: float) -> UnreachableError:
    """The error of connections that ended as soon as they began, until the deadline."""
    protocol = settings.librdkafka.get("security.protocol", "PLAINTEXT")
    return UnreachableError(
        f"Kafka at {settings.bootstrap_servers} ended every connection by {protocol} within {deadline_s:g} s",
        "check --bootstrap-servers, and security.protocol in [kafka.librdkafka] (PLAINTEXT, SSL or SASL_SSL)",
    )
