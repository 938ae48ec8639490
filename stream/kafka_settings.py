"""How to reach Kafka: the settings, the clients' configurations that follow from them, and the first contact.

Everything that talks to Kafka takes a `KafkaSettings`; `connect` says once, clearly, that no broker answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream.errors import BrokerError, ConfigError, UnreachableError
from stream.kafka_log import LastError, QuietLog, error_text
from stream.masking import masked_settings
from stream.refusals import denied, ends_at_once, no_answer, not_let_in, wrong_kind_of_port
from stream.topics import DEFAULT_PREFIX, full_name

CONNECT_DEADLINE_S = 10.0
START_A_BROKER = "check --bootstrap-servers, or start one: docker compose up -d --wait kafka"

_EMBEDDED_CLUSTER_ID = "mockCluster"
"""librdkafka's mock cluster names itself so, with its address behind it."""


class KafkaSettings(msgspec.Struct, frozen=True):
    """Where Kafka is and how our topics there begin; `librdkafka` goes to every client untouched and wins over ours."""

    bootstrap_servers: str
    prefix: str = DEFAULT_PREFIX
    librdkafka: dict[str, str] = {}

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = masked_settings(self.librdkafka)
        return [("bootstrap_servers", self.bootstrap_servers), ("prefix", self.prefix), ("librdkafka", shown)]

    def __repr__(self) -> str:
        return f"KafkaSettings({', '.join(f'{key}={value!r}' for key, value in self.__rich_repr__())})"


class BrokerInfo(msgspec.Struct, frozen=True):
    """What answered: a cluster's id, and whether it is the embedded broker with its limits."""

    cluster_id: str
    embedded: bool


class ClusterView(msgspec.Struct, frozen=True):
    """A cluster, and how many partitions its topics have and how many replicas those, by their full names.

    `leaderless` are topics of which some partition cannot be used now: new, or with its brokers down.
    """

    broker: BrokerInfo
    partitions: dict[str, int]
    replication: dict[str, int]
    leaderless: frozenset[str]


class KafkaClient(Protocol):
    """What every client can do: ask for metadata, and serve its callbacks."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Metadata of the cluster."""
        ...

    def poll(self, timeout: float = -1) -> Any:
        """Serves callbacks."""
        ...


def client_config(settings: KafkaSettings) -> dict[str, Any]:
    """What every client has in common."""
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": "pausetrace",
        # The default of 10 s would outlast our own deadlines while a broker starts.
        "reconnect.backoff.max.ms": 1000,
        # A topic exists because `pausetrace topics create` made it with its retention and partitions.
        "allow.auto.create.topics": False,
        "logger": QuietLog(),
        **settings.librdkafka,
    }


def for_one_reading(settings: KafkaSettings) -> KafkaSettings:
    """Settings for a reader that stops at the end of its topics, of which a broker tells at once, not after 0.5 s."""
    return msgspec.structs.replace(settings, librdkafka={"fetch.wait.max.ms": "10", **settings.librdkafka})


def admin_config(settings: KafkaSettings) -> dict[str, Any]:
    """Configuration of an admin client."""
    return client_config(settings)


def producer_config(settings: KafkaSettings, *, queue_bytes: int, message_timeout_ms: int) -> dict[str, Any]:
    """Configuration of an idempotent producer with a queue bounded in bytes; messages expire, unless the time is 0."""
    config = {
        "enable.idempotence": True,
        "compression.type": "lz4",
        # Every client of any language puts a key on the same partition (Java's default partitioner).
        "partitioner": "murmur2_random",
        # Batches are made by the publisher; this only joins what different streams send in the same moment.
        "linger.ms": 5,
        "queue.buffering.max.kbytes": max(queue_bytes // 1024, 1),
        "queue.buffering.max.messages": 100_000,
        "message.timeout.ms": message_timeout_ms,
        # A topic that does not exist fails after this and not after 30 s.
        "topic.metadata.propagation.max.ms": 5000,
    }
    return client_config(settings) | config | settings.librdkafka


def consumer_config(settings: KafkaSettings, broker: BrokerInfo, group: str | None) -> dict[str, Any]:
    """Configuration of a consumer that commits nothing: of a group, or for assigned partitions where group is None."""
    config: dict[str, Any] = {
        # librdkafka wants an id even where no group is joined.
        "group.id": f"{settings.prefix}.{group or 'reader'}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # Where retention has removed the next record: go on with the oldest that is left (the gap is counted).
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        # A killed member's partitions are taken over after 6 s, the least that a broker allows by default.
        "session.timeout.ms": 6000,
        # The others hear of that by their next heartbeat.
        "heartbeat.interval.ms": 500,
        # Messages that wait in memory, of each partition. Whoever reads slowly for a moment must not be punished for
        # it: by default librdkafka fetches nothing for a second once so many wait.
        "queued.max.messages.kbytes": 16_384,
        "fetch.queue.backoff.ms": 5,
    }
    if broker.embedded:
        # It does not wake a waiting fetch: the default of 500 ms would be the latency. Its groups only work by range.
        config |= {
            "fetch.wait.max.ms": 20,
            "partition.assignment.strategy": "range",
            # A rebalance waits for the session's time less one second.
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
        }
    return client_config(settings) | config | settings.librdkafka


def admin_client(settings: KafkaSettings) -> AdminClient:
    """An admin client; raises ConfigError for a setting that librdkafka does not take."""
    return _admin(settings, LastError())


def setting_error(err: KafkaException) -> ConfigError:
    """The error of a client that could not be made."""
    text = error_text(err.args[0])
    next_step = "correct [kafka.librdkafka]"
    if "sasl.password must be set" in text:
        next_step = "set sasl.username in [kafka.librdkafka], and kafka.password_file or PAUSETRACE_KAFKA_PASSWORD"
    return ConfigError(f"librdkafka does not take a setting: {text}", next_step)


def connect(settings: KafkaSettings, deadline_s: float = CONNECT_DEADLINE_S) -> BrokerInfo:
    """Waits for a broker until the deadline and says which it is; raises BrokerError where none answers."""
    return look(settings, deadline_s).broker


def look(settings: KafkaSettings, deadline_s: float = CONNECT_DEADLINE_S) -> ClusterView:
    """Cluster and topics as a broker tells them; raises BrokerError where none answers by the deadline."""
    last_error = LastError()
    return look_through(_admin(settings, last_error), settings, last_error, deadline_s)


def look_through(
    client: KafkaClient, settings: KafkaSettings, last_error: LastError, deadline_s: float = CONNECT_DEADLINE_S
) -> ClusterView:
    """The same through a client made already, whose first message or fetch then need not wait 0.5 s for metadata."""
    end_s = time.monotonic() + deadline_s
    while True:
        try:
            # In slices, since a broker that comes up late is found by the next one.
            cluster = client.list_topics(timeout=max(min(end_s - time.monotonic(), 2.0), 0.1))
        except KafkaException as err:
            client.poll(0)
            error: KafkaError = err.args[0]
            if refused := not_let_in(settings, last_error.text):
                raise refused from err  # it does not get better by waiting
            hopeless = not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
            if hopeless or time.monotonic() >= end_s:
                if last_error.unanswered:
                    raise no_answer(settings, deadline_s) from err
                if last_error.mute or ends_at_once(last_error.text):
                    raise wrong_kind_of_port(settings, deadline_s) from err
                why = last_error.text or error_text(error)
                raise UnreachableError(
                    f"no Kafka broker answers at {settings.bootstrap_servers} within {deadline_s:g} s ({why})",
                    START_A_BROKER,
                ) from err
            continue
        last_error.clear()
        cluster_id = str(cluster.cluster_id or "")
        found = {name: topic.partitions for name, topic in cluster.topics.items() if topic.error is None}
        return ClusterView(
            BrokerInfo(cluster_id, cluster_id.startswith(_EMBEDDED_CLUSTER_ID)),
            {name: len(partitions) for name, partitions in found.items()},
            {
                name: min((len(p.replicas) for p in partitions.values()), default=0)
                for name, partitions in found.items()
            },
            frozenset(name for name, partitions in found.items() if any(p.leader < 0 for p in partitions.values())),
        )


def require_topics(settings: KafkaSettings, view: ClusterView, names: Iterable[str]) -> None:
    """Raises BrokerError that names the missing topics, if any of these bare names has none that we can see."""
    missing = [topic for name in names if (topic := full_name(settings.prefix, name)) not in view.partitions]
    if missing:
        # Kafka leaves out of its list what we have no right to see; asked for by name, it says so.
        if refused := _right_to_see(settings, missing[0]):
            raise refused
        raise BrokerError(
            f"{settings.bootstrap_servers} has no topic {', '.join(missing)}", "make them: pausetrace topics create"
        )


def _right_to_see(settings: KafkaSettings, topic: str) -> BrokerError | None:
    try:
        found = admin_client(settings).list_topics(topic, timeout=CONNECT_DEADLINE_S).topics.get(topic)
    except KafkaException:
        return None
    error = found.error if found is not None else None
    return denied(settings, error, "Describe", topic) if error is not None else None


def _admin(settings: KafkaSettings, last_error: LastError) -> AdminClient:
    try:
        return AdminClient(admin_config(settings) | last_error.callbacks)
    except KafkaException as err:
        raise setting_error(err) from err
