"""Brokers for tests: the embedded one, and a real Kafka in a container (marker `kafka`).

`any_kafka` runs a test on both; each test gets topics of its own.
"""

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings, connect
from stream.topic_admin import create_topics

KAFKA_START_DEADLINE_S = 90.0

# The image drops ALL its defaults as soon as one KAFKA_* variable is set, so this is a whole configuration.
KAFKA_ENVIRONMENT = {
    "CLUSTER_ID": "cGF1c2V0cmFjZS10ZXN0cw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    # A broker verifies transactions by a call to itself, which must not go by the port that only the host knows.
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,INTERNAL://localhost:29092,CONTROLLER://localhost:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LOG_DIRS": "/tmp/kafka-logs",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_DEFAULT_REPLICATION_FACTOR": "1",
    "KAFKA_MIN_INSYNC_REPLICAS": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
    # What a killed process left open is ended within a second of its time, not within ten.
    "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "1000",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    # Tests write event times of any year: retention, which looks every five minutes, would delete what they read.
    "KAFKA_LOG_RETENTION_CHECK_INTERVAL_MS": "86400000",
    "KAFKA_LOG_INITIAL_TASK_DELAY_MS": "86400000",
    "KAFKA_HEAP_OPTS": "-Xms256m -Xmx512m",
}


class RealKafka(NamedTuple):
    """A Kafka in a container (of the Docker SDK), which a test may pause, kill and start again: it keeps its port."""

    servers: str
    container: Any


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """An embedded broker of the test's own, with 4 partitions a topic."""
    with EmbeddedBroker() as broker:
        yield broker


@contextmanager
def run_kafka(image: str) -> Iterator[RealKafka]:
    """A real Kafka without topics, of the block's own."""
    # Testcontainers' reaper is one more image to have; this block stops its container itself.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    # Kafka tells clients the address that they go on with, so the port must be known before it starts.
    port = free_port()
    container = DockerContainer(image)
    for name, value in KAFKA_ENVIRONMENT.items():
        container.with_env(name, value)
    container.with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://127.0.0.1:{port},INTERNAL://localhost:29092")
    # Docker takes a pair of address and port; testcontainers' type hint knows the port alone.
    container.ports["9092/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
    with container:
        servers = f"127.0.0.1:{port}"
        connect(KafkaSettings(servers), KAFKA_START_DEADLINE_S)
        yield RealKafka(servers, container.get_wrapped_container())


@contextmanager
def kafka_in_container(image: str) -> Iterator[str]:
    """Bootstrap servers of a real Kafka without topics, which ends with the block."""
    with run_kafka(image) as kafka:
        yield kafka.servers


@pytest.fixture(scope="session")
def kafka_container(kafka_image: str) -> Iterator[RealKafka]:
    """The real Kafka of `real_kafka`, for a test that takes it away for a while and brings it back."""
    with run_kafka(kafka_image) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def real_kafka(kafka_container: RealKafka) -> str:
    """Bootstrap servers of a real Kafka without topics; a test that uses it bears the marker `kafka`."""
    return kafka_container.servers


def fresh_prefix() -> str:
    """A prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def real_settings(real_kafka: str) -> KafkaSettings:
    """Settings of the real Kafka with topics of the test's own."""
    settings = KafkaSettings(real_kafka, fresh_prefix())
    create_topics(settings)
    return settings


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
def any_kafka(request: pytest.FixtureRequest) -> KafkaSettings:
    """Settings of either broker, with topics of the test's own."""
    if request.param == "embedded":
        broker: EmbeddedBroker = request.getfixturevalue("embedded_broker")
        return broker.settings
    settings: KafkaSettings = request.getfixturevalue("real_settings")
    return settings
