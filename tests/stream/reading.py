"""Reads back what a test published."""

from __future__ import annotations

from collections.abc import Sequence

from stream.batch import Batch
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode
from stream.subscriber import Received, Subscriber


def messages_on(settings: KafkaSettings, topics: Sequence[str]) -> list[Received]:
    """Every message of these topics, in order of topic, partition and offset."""
    with Subscriber(settings, topics) as subscriber:
        received = subscriber.read_up_to_now(30)
    return sorted(received, key=lambda message: (topics.index(message.topic), message.partition, message.offset))


def items_on(settings: KafkaSettings, *topics: str) -> list[Item]:
    """Every item of these topics, in the order of `messages_on`."""
    return [decode(message.topic, message.key, message.value) for message in messages_on(settings, topics)]


def batches_on(settings: KafkaSettings, *topics: str) -> list[Batch]:
    """The batches of these topics."""
    return [item for item in items_on(settings, *topics) if isinstance(item, Batch)]
