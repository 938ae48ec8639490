"""The page docs/record.md: fields, kinds, codes and topics, written out from the tables that the code runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stream import kinds, topics
from stream.kinds import INT64_MAX, Kind, Measure
from stream.record import EVENT, FIELDS, RECORD_BYTES, SCHEMA_VERSION

_INTRODUCTION = f"""\
# The record

This page is made by `pausetrace schema docs` from the tables in `stream/record.py`, `stream/kinds.py` and
`stream/topics.py`; a test holds it to them. `pausetrace schema c-header` prints the same for C.

One event is one record of {RECORD_BYTES} bytes, little-endian, the same in the ring of a BPF program, in a Kafka value
and in NumPy (schema version {SCHEMA_VERSION}). A measure of {kinds.UNKNOWN} (INT64_MIN) is unknown: null in JSON.
"""
_VALUE = """\
## A packed Kafka value

`PTB1`, record size (uint16), schema version (uint16), count of records (uint32), length of the names (uint32); then
the names as a msgpack map {source, epoch, seq, mark_ns, lost, fabric, device, ports, texts}; then zeros up to a
multiple of 8, which the length of the names leaves out; then the records. The key is `fabric/device`. `seq` is the
sequence number of the first record, `mark_ns` says that nothing older follows on this stream (fabric, source, epoch,
topic, device); a value without records moves the mark alone.

A reader takes a longer record of a later version by its size, and leaves out records of a kind that it does not know.
It refuses a value with a record that breaks a rule: an index beyond the names, a number out of its range, a priority or
side that does not exist, or a kind that belongs on another topic (`SOURCE_LOST` may stand on every packed topic, and
every kind on `episode`).
"""


def record_page() -> str:
    """The whole page."""
    parts = (
        _INTRODUCTION,
        "## Fields\n",
        _table(("offset", "field", "type", "unit and meaning"), _fields()),
        "## Kinds\n",
        "A kind says what its two measures, `value` and `extra`, mean. "
        "A window covers `span_ns` and ends at `time_ns`.\n",
        *_kinds(),
        "## Codes\n",
        _table(("side", "meaning"), _sides()),
        _table(("quality bit", "name"), ((str(1 << bit), name) for bit, name in enumerate(kinds.QUALITY_BITS))),
        *(
            _table((f"{kinds.BY_NAME[name].extra.name} of {name}", "meaning"), _codes(codes))
            for name, codes in kinds.CODES.items()
        ),
        _VALUE,
        "## Topics\n",
        f"On Kafka a topic's name begins with the prefix, `{topics.DEFAULT_PREFIX}.` unless set otherwise.\n",
        _table(("topic", "encoding", "partitions", "kept", "what is on it"), _topics()),
    )
    return "\n".join(parts)


def _fields() -> Iterator[tuple[str, ...]]:
    for name, numpy_type, _, meaning in FIELDS:
        offset = EVENT.fields[name][1] if EVENT.fields else 0
        yield str(offset), f"`{name}`", np.dtype(numpy_type).name, meaning


def _kinds() -> Iterator[str]:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for kind in kinds.KINDS:
        rows.setdefault(kind.topic, []).append(_kind(kind))
    for topic, cells in rows.items():
        title = f"`{topic}`: {topics.BY_NAME[topic].meaning}" if topic else "On any packed topic"
        yield f"### {title}\n"
        yield _table(("code", "kind", "value", "extra", "meaning"), cells)


def _kind(kind: Kind) -> tuple[str, ...]:
    return str(kind.code), f"`{kind.name}`", _measure(kind.value), _measure(kind.extra), kind.meaning


def _measure(measure: Measure) -> str:
    if not measure.name:
        return ""
    unit = "" if measure.name.endswith(f"_{measure.unit}") or measure.name == measure.unit else f", {measure.unit}"
    high = "" if measure.high == INT64_MAX else f", at most {measure.high}"
    low = ", may be negative" if measure.low < 0 else ""
    return f"`{measure.name}`{unit}{high}{low}"


def _sides() -> Iterator[tuple[str, ...]]:
    meanings = ("none", "received, or ingress: told to stop", "sent, or egress: told the peer to stop")
    for code, (name, meaning) in enumerate(zip(kinds.SIDES, meanings, strict=True)):
        yield f"{code} `{name}`", meaning


def _codes(table: dict[int, str]) -> Iterator[tuple[str, ...]]:
    for code, meaning in table.items():
        yield str(code), meaning


def _topics() -> Iterator[tuple[str, ...]]:
    for topic in topics.TOPICS:
        days = topic.retention_ms / 86_400_000
        kept = "for ever" if topic.retention_ms < 0 else f"{days:g} day{'s' if days != 1 else ''}"
        if topic.compacted:
            kept = f"{kept}, compacted"
        yield f"`{topic.name}`", topic.encoding, str(topic.partitions), kept, topic.meaning


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
