"""The partition of a key: Java's murmur2, as every Kafka client of any language computes it (KIP-480 leaves it as is).

In: a key and a number of partitions. Out: the partition that our publishers' librdkafka chooses for it.
"""

from __future__ import annotations

import functools

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


@functools.lru_cache(maxsize=65_536)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition for a key that is not empty."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned number of 32 bits."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15
