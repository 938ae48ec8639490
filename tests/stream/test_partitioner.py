"""Our partitioner is everybody's: Kafka's own test vectors, and what librdkafka does with the same keys."""

import pytest
from confluent_kafka import Producer

from stream.embedded import EmbeddedBroker
from stream.partitioner import murmur2, partition_of
from stream.topics import full_name

# From the test of org.apache.kafka.common.utils.Utils.murmur2.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), VECTORS.items())
def test_the_hash_is_that_of_java(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % (1 << 32)


def test_librdkafka_puts_keys_on_the_same_partitions(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    placed: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "partitioner": "murmur2_random"})
    keys = [f"dc-1/device-{number}".encode() for number in range(40)]
    for key in keys:
        producer.produce(
            full_name(settings.prefix, "pfc"), b"", key,
            on_delivery=lambda _, message: placed.update({message.key() or b"": message.partition() or 0}),
        )  # fmt: skip
    assert producer.flush(10) == 0
    assert placed == {key: partition_of(key, 4) for key in keys}
