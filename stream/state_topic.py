"""The state topic: snapshots of steps under keys, of which the last value counts; large ones are cut into chunks."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings, for_one_reading
from stream.messages import Encoded
from stream.subscriber import Subscriber

CHUNK_BYTES = 512 * 1024
"""Of a value; a Kafka message holds 1 MB by default."""
SILENCE_S = 60.0
"""A state may be large: only that nothing of it comes for so long is an error."""


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Part `index` of `count` of one snapshot; parts of different snapshots have different numbers."""

    number: int
    index: int
    count: int
    data: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chunk)


def chunk_count(size_bytes: int) -> int:
    """Messages that a snapshot of this size takes."""
    return max(-(-size_bytes // CHUNK_BYTES), 1)


def encode_snapshot(key: str, number: int, data: bytes, *, chunks_before: int = 0) -> list[Encoded]:
    """The messages of a snapshot, written in one transaction; parts that an earlier, longer one had are removed."""
    count = chunk_count(len(data))
    messages = [
        _message(key, index, _encoder.encode(Chunk(number, index, count, data[start : start + CHUNK_BYTES])))
        for index, start in enumerate(range(0, count * CHUNK_BYTES, CHUNK_BYTES))
    ]
    return messages + [_message(key, index, b"") for index in range(count, chunks_before)]


def encode_removal(key: str) -> Encoded:
    """The message that removes a snapshot of one part."""
    return _message(key, 0, b"")


def read_snapshots(
    settings: KafkaSettings, prefix: str, partitions: Collection[int] | None = None
) -> dict[str, tuple[int, bytes]]:
    """The last committed snapshot, number and bytes, of every key that begins with `prefix`, in partitions or in all.

    Raises PausetraceError for a snapshot of which a part is missing, and UnreachableError if Kafka does not answer.
    """
    last: dict[str, dict[int, bytes]] = {}
    with Subscriber(for_one_reading(settings), ["state"], partitions=partitions) as reader:
        for message in reader.up_to_now(SILENCE_S):
            key, _, index = (message.key or b"").decode(errors="replace").rpartition("#")
            if not key.startswith(prefix) or not index.isdigit():
                continue
            if message.value is None:
                last.get(key, {}).pop(int(index), None)
            else:
                last.setdefault(key, {})[int(index)] = message.value
    return {key: _joined(key, parts) for key, parts in last.items() if parts}


def _message(key: str, index: int, value: bytes) -> Encoded:
    return Encoded("state", f"{key}#{index}".encode(), value)


def _joined(key: str, parts: dict[int, bytes]) -> tuple[int, bytes]:
    try:
        first = _decoder.decode(parts[0])
        chunks = [first, *(_decoder.decode(parts[index]) for index in range(1, first.count))]
    except (KeyError, msgspec.DecodeError):
        raise _not_whole(key) from None
    if any(chunk.number != first.number for chunk in chunks):
        raise _not_whole(key)
    return first.number, b"".join(chunk.data for chunk in chunks)


def _not_whole(key: str) -> PausetraceError:
    return PausetraceError(
        f"the snapshot {key} on the state topic is not whole", "start the step over: docs/exactly-once.md says how"
    )
