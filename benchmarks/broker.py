"""The real Kafka that a benchmark measures on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream.kafka_settings import KafkaSettings, connect
from tests.conftest import KAFKA_IMAGE, LACKS
from tests.kafka_brokers import kafka_in_container


@contextmanager
def real_kafka(servers: str | None) -> Iterator[str | None]:
    """A real Kafka's bootstrap servers: those given, or of a container of our own; None where there is no engine."""
    if servers is not None:
        yield None if connect(KafkaSettings(servers)).embedded else servers
    elif LACKS["kafka"]():
        yield None
    else:
        with kafka_in_container(KAFKA_IMAGE) as own:
            yield own
