"""Rewrites messages for a replay: shifts their times, and leaves rows out; whatever it does not know stays as it was.

In: a message as captured. Out: the message to send. Fields and kinds of later versions go through untouched, since the
bytes are changed in place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from stream import messages, wire
from stream.batch import MARK_END
from stream.capture_message import NO_TIMESTAMP_MS, NS_PER_MS, Captured
from stream.capture_select import RowFilter
from stream.errors import WireError
from stream.record import EVENT, MAX_TIME_NS
from stream.topics import FACTS, PACKED

SHIFTABLE = (*PACKED, "control", *FACTS)
"""Topics whose values have times that are known; the others hold results, which a shift would falsify."""

_ROSTER_TIMES = ("from_ns", "at_ns")


class UnchangeableError(WireError):
    """A message whose times cannot be found: its value is sent as it was."""


def rewritten(message: Captured, shift_ns: int, wanted: RowFilter) -> Captured:
    """The message with its times shifted and only the wanted rows; raises UnchangeableError where it cannot."""
    message = stamped(message, shift_ns)
    if message.value is not None and message.topic in SHIFTABLE and (shift_ns or wanted.cuts_rows):
        _require_readable(message, message.value)
    if message.topic in PACKED and message.value is not None and (shift_ns or wanted.cuts_rows):
        return message._replace(value=_packed(message.value, shift_ns, wanted))
    if not shift_ns:
        return message
    if message.topic in FACTS:
        return _shifted_fact(message, shift_ns)
    if message.topic == "control" and message.value is not None:
        change = _with_all_fields(msgspec.json.decode, message.value)
        for name in _ROSTER_TIMES:
            if name in change:
                change[name] = _shifted(change[name], shift_ns)
        return message._replace(value=msgspec.json.encode(change))
    return message


def rows_left(value: bytes) -> int:
    """How many rows of a packed value are not left out; 0 for what does not decode."""
    try:
        _, record_bytes, _, count, names_bytes = wire.HEADER.unpack_from(value)
        start = wire.HEADER.size + names_bytes + -names_bytes % 8
        events: Any = np.ndarray((count,), EVENT, value, start, (record_bytes,))
    except (struct.error, TypeError, ValueError):
        return 0
    return int(np.count_nonzero(events["kind"]))


def _require_readable(message: Captured, value: bytes) -> None:
    # Only what readers take is changed: what they refuse must stay the same evidence of what was wrong with it.
    try:
        messages.decode(message.topic, message.key, value)
    except WireError as err:
        raise UnchangeableError(str(err)) from err


def stamped(message: Captured, shift_ns: int) -> Captured:
    """The message with Kafka's time of it shifted alone."""
    if not shift_ns or message.timestamp_ms == NO_TIMESTAMP_MS:
        return message
    return message._replace(timestamp_ms=max(message.timestamp_ms + shift_ns // NS_PER_MS, 0))


def _shifted(time_ns: int, shift_ns: int) -> int:
    return time_ns if time_ns == MARK_END else min(max(time_ns + shift_ns, 0), MAX_TIME_NS)


def _packed(value: bytes, shift_ns: int, wanted: RowFilter) -> bytes:
    magic, record_bytes, version, count, names_bytes = wire.HEADER.unpack_from(value)
    names = _with_all_fields(msgspec.msgpack.decode, value[wire.HEADER.size : wire.HEADER.size + names_bytes])
    rows = bytearray(value[wire.HEADER.size + names_bytes + -names_bytes % 8 :])
    events: Any = np.ndarray((count,), EVENT, rows, 0, (record_bytes,))
    if wanted.cuts_rows and count:
        _blank_rows(rows, events, record_bytes, names, wanted)
    if shift_ns:
        names["mark_ns"] = _shifted(names["mark_ns"], shift_ns)
        _shift_rows(events, shift_ns)
    packed = msgspec.msgpack.encode(names)
    header = wire.HEADER.pack(magic, record_bytes, version, count, len(packed))
    return header + packed + bytes(-len(packed) % 8) + bytes(rows)


def _blank_rows(rows: bytearray, events: Any, record_bytes: int, names: dict[str, Any], wanted: RowFilter) -> None:
    """Rows left out become zeros, of kind 0: every reader passes over a kind that it does not know.

    So the others keep their sequence numbers, and with them every gap that there was.
    """
    # Rows of kinds of a later version may have a port that is beyond the names.
    keep = wanted.rows(events, np.minimum(events["port"], max(len(names["ports"]) - 1, 0)), names["ports"])
    np.frombuffer(rows, np.uint8).reshape(len(events), record_bytes)[~keep] = 0
    names["texts"] = [text for text in names.get("texts", ()) if keep[text[0]]]


def _shift_rows(events: Any, shift_ns: int) -> None:
    # Of kinds of a later version nobody has looked whether the numbers are times that a clock may show.
    told = (events["kind"] != 0) & (events["time_ns"] >= 0) & (events["time_ns"] <= MAX_TIME_NS)
    # A time of 0 in seen_ns says that nobody saw it.
    seen = told & (events["seen_ns"] > 0) & (events["seen_ns"] <= MAX_TIME_NS)
    for name, rows in (("time_ns", told), ("seen_ns", seen)):
        events[name][rows] = np.clip(events[name][rows] + shift_ns, 0, MAX_TIME_NS)
    # A window cannot begin before 1970.
    events["span_ns"][told] = np.minimum(events["span_ns"][told], events["time_ns"][told])


def _shifted_fact(message: Captured, shift_ns: int) -> Captured:
    """The fact with its times, and its key, which ends with when it became valid; a tombstone has a key alone."""
    key = message.key or b""
    identity, _, from_ns = key.rpartition(b"@")
    if not identity.endswith(b"/"):
        # An idle value's key has nothing before the @, and no time behind it.
        if not from_ns.isdigit():
            raise UnchangeableError("a fact whose key has no time")
        key = identity + b"@" + str(_shifted(int(from_ns), shift_ns)).encode()
    if message.value is None:
        return message._replace(key=key)
    fact = _with_all_fields(msgspec.json.decode, message.value)
    if "valid_from_ns" in fact:
        fact["valid_from_ns"] = _shifted(fact["valid_from_ns"], shift_ns)
    fact["stream"]["mark_ns"] = _shifted(fact["stream"]["mark_ns"], shift_ns)
    return message._replace(key=key, value=msgspec.json.encode(fact))


def _with_all_fields(decode: Callable[[bytes], Any], data: bytes) -> dict[str, Any]:
    """The object with the fields of later versions, in which there may be what no version has."""
    try:
        decoded: dict[str, Any] = decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UnchangeableError(f"a field of a later version cannot be read: {err}") from err
    return decoded
