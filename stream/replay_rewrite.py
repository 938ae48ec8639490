"""Rewrites messages for a replay: shifts their times, and leaves rows out; whatever it does not know stays as it was.

In: a message as captured. Out: the message to send. Fields and kinds of later versions go through untouched, since the
bytes are changed in place.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from stream import wire
from stream.batch import MARK_END
from stream.capture_message import NO_TIMESTAMP_MS, NS_PER_MS, Captured
from stream.capture_select import RowFilter
from stream.errors import WireError
from stream.record import EVENT, MAX_TIME_NS, RECORD_BYTES
from stream.topics import FACTS, PACKED

SHIFTABLE = (*PACKED, "control", *FACTS)
"""Topics whose values have times that are known; the others hold results, which a shift would falsify."""

_ROSTER_TIMES = ("from_ns", "at_ns")


class UnchangeableError(WireError):
    """A message whose times cannot be found: its value is sent as it was."""


def rewritten(message: Captured, shift_ns: int, wanted: RowFilter) -> Captured:
    """The message with its times shifted and only the wanted rows; raises UnchangeableError where it cannot."""
    message = stamped(message, shift_ns)
    if message.topic in PACKED and message.value is not None and (shift_ns or wanted.cuts_rows):
        return message._replace(value=_packed(message.value, shift_ns, wanted))
    if not shift_ns:
        return message
    if message.topic in FACTS:
        return _shifted_fact(message, shift_ns)
    if message.topic == "control" and message.value is not None:
        change = _json(message.value)
        for name in _ROSTER_TIMES:
            if name in change:
                change[name] = _shifted(change[name], shift_ns)
        return message._replace(value=msgspec.json.encode(change))
    return message


def stamped(message: Captured, shift_ns: int) -> Captured:
    """The message with Kafka's time of it shifted alone."""
    if not shift_ns or message.timestamp_ms == NO_TIMESTAMP_MS:
        return message
    return message._replace(timestamp_ms=max(message.timestamp_ms + shift_ns // NS_PER_MS, 0))


def _shifted(time_ns: Any, shift_ns: int) -> Any:
    if not isinstance(time_ns, int):
        raise UnchangeableError(f"a time that is {time_ns!r}")
    return time_ns if time_ns == MARK_END else min(max(time_ns + shift_ns, 0), MAX_TIME_NS)


def _packed(value: bytes, shift_ns: int, wanted: RowFilter) -> bytes:
    try:
        magic, record_bytes, version, count, names_bytes = wire.HEADER.unpack_from(value)
        names: dict[str, Any] = msgspec.msgpack.decode(value[wire.HEADER.size : wire.HEADER.size + names_bytes])
        rows_begin = wire.HEADER.size + names_bytes + -names_bytes % 8
        if magic != wire.MAGIC or record_bytes < RECORD_BYTES or len(value) != rows_begin + count * record_bytes:
            raise UnchangeableError("no packed value")
        rows = bytearray(value[rows_begin:])
        events: Any = np.ndarray((count,), EVENT, rows, 0, (record_bytes,))
        if wanted.cuts_rows and count:
            _blank_rows(rows, events, record_bytes, names, wanted)
        if shift_ns:
            names["mark_ns"] = _shifted(names["mark_ns"], shift_ns)
            _shift_rows(events, shift_ns)
    except (struct.error, msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as err:
        raise UnchangeableError(f"no packed value: {err}") from err
    packed = msgspec.msgpack.encode(names)
    header = wire.HEADER.pack(magic, record_bytes, version, count, len(packed))
    return header + packed + bytes(-len(packed) % 8) + bytes(rows)


def _blank_rows(rows: bytearray, events: Any, record_bytes: int, names: dict[str, Any], wanted: RowFilter) -> None:
    """Rows left out become zeros, of kind 0: every reader passes over a kind that it does not know.

    So the others keep their sequence numbers, and with them every gap that there was.
    """
    ports = [str(name) for name in names["ports"]]
    keep = wanted.rows(events, np.minimum(events["port"], max(len(ports) - 1, 0)), ports)
    np.frombuffer(rows, np.uint8).reshape(len(events), record_bytes)[~keep] = 0
    names["texts"] = [text for text in names.get("texts", ()) if keep[text[0]]]


def _shift_rows(events: Any, shift_ns: int) -> None:
    told = events["kind"] != 0
    times = events["time_ns"]
    if told.any() and not 0 <= int(times[told].min()) <= int(times[told].max()) <= MAX_TIME_NS:
        raise UnchangeableError("a time that no clock shows")
    for name in ("time_ns", "seen_ns"):
        was = events[name]
        # A time of 0 in seen_ns says that nobody saw it.
        known = told if name == "time_ns" else told & (was > 0) & (was <= MAX_TIME_NS)
        events[name][known] = np.clip(was[known] + shift_ns, 0, MAX_TIME_NS)


def _shifted_fact(message: Captured, shift_ns: int) -> Captured:
    """The fact with its times, and its key, which ends with when it became valid; a tombstone has a key alone."""
    identity, _, from_ns = (message.key or b"").rpartition(b"@")
    if not from_ns.isdigit():
        raise UnchangeableError("a fact whose key has no time")
    key = identity + b"@" + str(_shifted(int(from_ns), shift_ns)).encode()
    if message.value is None:
        return message._replace(key=key)
    fact = _json(message.value)
    fact["valid_from_ns"] = _shifted(fact.get("valid_from_ns"), shift_ns)
    stream = fact.get("stream")
    if isinstance(stream, dict):
        stream["mark_ns"] = _shifted(stream.get("mark_ns"), shift_ns)
    return message._replace(key=key, value=msgspec.json.encode(fact))


def _json(value: bytes) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UnchangeableError(f"no JSON: {err}") from err
    if not isinstance(decoded, dict):
        raise UnchangeableError("no JSON object")
    return decoded
