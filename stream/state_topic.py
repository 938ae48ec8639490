"""The state topic: snapshots of steps under keys, of which the last value counts; large ones are cut into chunks."""

from __future__ import annotations

import msgspec

from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded
from stream.subscriber import Subscriber

CHUNK_BYTES = 512 * 1024
"""Of a value; a Kafka message holds 1 MB by default."""
READ_DEADLINE_S = 60.0


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Part `index` of `count` of one snapshot; parts of different snapshots have different numbers."""

    number: int
    index: int
    count: int
    data: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chunk)


def encode_snapshot(key: str, number: int, data: bytes, *, chunks_before: int = 0) -> list[Encoded]:
    """The messages of a snapshot, written in one transaction; parts that an earlier, longer one had are removed."""
    parts = [data[start : start + CHUNK_BYTES] for start in range(0, max(len(data), 1), CHUNK_BYTES)]
    messages = [
        Encoded("state", f"{key}#{index}".encode(), _encoder.encode(Chunk(number, index, len(parts), part)))
        for index, part in enumerate(parts)
    ]
    return messages + [Encoded("state", f"{key}#{index}".encode(), b"") for index in range(len(parts), chunks_before)]


def read_snapshots(settings: KafkaSettings, prefix: str) -> dict[str, tuple[int, bytes]]:
    """The last committed snapshot, number and bytes, of every key that begins with `prefix`.

    Raises PausetraceError for a snapshot of which a part is missing, and BrokerError if Kafka does not answer.
    """
    last: dict[str, dict[int, Chunk]] = {}
    with Subscriber(settings, ["state"]) as reader:
        for message in reader.read_up_to_now(READ_DEADLINE_S):
            key, _, index = (message.key or b"").decode(errors="replace").rpartition("#")
            if not key.startswith(prefix) or not index.isdigit():
                continue
            if message.value is None:
                last.get(key, {}).pop(int(index), None)
                continue
            try:
                last.setdefault(key, {})[int(index)] = _decoder.decode(message.value)
            except msgspec.DecodeError as err:
                raise PausetraceError(f"{message.place} is not a part of a snapshot: {err}") from err
    return {key: _joined(key, parts) for key, parts in last.items() if parts}


def _joined(key: str, parts: dict[int, Chunk]) -> tuple[int, bytes]:
    first = parts.get(0)
    if first is None or any(
        (part := parts.get(index)) is None or part.number != first.number for index in range(first.count)
    ):
        raise PausetraceError(f"the snapshot {key} is not whole", "delete the state topic: the step starts over")
    return first.number, b"".join(parts[index].data for index in range(first.count))
