"""Captures of past schema versions stay readable: each says today what it said when it was written."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import msgspec
import pytest

from stream import messages, topics
from stream.batch import Batch
from stream.record import RECORD_BYTES, SCHEMA_VERSION
from tests.stream.capture_v1 import plain

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


def values(version: int) -> list[tuple[str, bytes, bytes]]:
    return msgspec.msgpack.decode((CAPTURES / f"v{version}.msgpack").read_bytes(), type=list[tuple[str, bytes, bytes]])


def expected(version: int) -> list[object]:
    said = json.loads((CAPTURES / f"v{version}.json").read_text())
    assert isinstance(said, list)
    return said


def without_later_fields(came: object, expected: object) -> object:
    if isinstance(came, dict) and isinstance(expected, dict):
        return {key: without_later_fields(part, expected[key]) for key, part in came.items() if key in expected}
    if isinstance(came, list) and isinstance(expected, list):
        return list(map(without_later_fields, came, expected)) if len(came) == len(expected) else came
    return came


def grown(value: bytes, tail: bytes) -> bytes:
    """A packed value as a later version may send it: longer records, and a field in the names that nobody knows yet."""
    _, record_bytes, _, count, names_bytes = struct.unpack_from("<4sHHII", value)
    names = value[16 : 16 + names_bytes]
    assert names[0] & 0xF0 == 0x80
    names = bytes([names[0] + 1]) + names[1:] + msgspec.msgpack.encode("later") + msgspec.msgpack.encode({"a": [1.5]})
    rows = value[len(value) - count * record_bytes :]
    parts = [rows[at : at + record_bytes] + tail for at in range(0, len(rows), record_bytes)]
    header = struct.pack("<4sHHII", b"PTB1", record_bytes + len(tail), 2, count, len(names))
    return header + names + bytes(-len(names) % 8) + b"".join(parts)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_capture_of_every_version_says_what_it_said(version: int) -> None:
    came = [plain(messages.decode(*message)) for message in values(version)]
    assert without_later_fields(came, expected(version)) == expected(version)


def test_what_version_1_wrote_is_written_the_same_today() -> None:
    for topic, key, value in values(1):
        assert messages.encode(messages.decode(topic, key, value)) == (topic, key, value)


def test_longer_records_of_a_version_2_are_read_by_their_stride() -> None:
    packed = [message for message in values(1) if message[0] in topics.PACKED]
    assert len(packed) == 7
    for topic, key, value in packed:
        now = messages.decode(topic, key, value)
        later = messages.decode(topic, key, grown(value, b"\xa5" * 8))
        assert plain(later) == plain(now)
        assert isinstance(later, Batch)
        assert later.events.strides == (RECORD_BYTES + 8,)
