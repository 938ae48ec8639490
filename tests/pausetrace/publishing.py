"""Puts known things on topics, for tests of those who read them."""

from confluent_kafka import Producer

from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, Item, encode
from stream.topics import full_name


def publish(settings: KafkaSettings, *items: Item | Encoded) -> None:
    """Sends the items in order, and waits until Kafka has them."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for item in items:
        message = item if isinstance(item, Encoded) else encode(item)
        producer.produce(full_name(settings.prefix, message.topic), message.value, message.key)
    assert producer.flush(30) == 0
