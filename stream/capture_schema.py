"""The two tables of a capture, declared in one place: names, Arrow types, how they are encoded, and what they mean.

`events` has one row an event; `messages` has one row a Kafka message, and with the events gives each value back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

EVENTS = "events"
MESSAGES = "messages"

ROW_GROUP_ROWS = 1 << 16
"""Rows that a reader takes in at once, and skips at once by their statistics."""
ZSTD_LEVEL = 3

_TEXT = pa.dictionary(pa.int32(), pa.string())
_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `encoding` is a Parquet encoding or "dictionary", "numbers" or "names": then it suits what is in it."""

    name: str
    type: Any
    encoding: str
    meaning: str


# fmt: off
EVENT_COLUMNS: tuple[Column, ...] = (
    Column("time_ns", pa.int64(), "DELTA_BINARY_PACKED", "end of the observation, ns since the epoch; sorted"),
    Column("fabric", _TEXT, "dictionary", "the fabric"),
    Column("device", _TEXT, "dictionary", "the device"),
    Column("port", _TEXT, "dictionary", "the port of the device"),
    Column("kind", _TEXT, "dictionary", "what was observed, by its name in [record.md](record.md)"),
    Column("priority", pa.uint8(), "dictionary", "0-7; null is none"),
    Column("side", _TEXT, "dictionary", "none, rx (received, ingress) or tx (sent, egress)"),
    Column("value", pa.int64(), "numbers", "first measure, unit by kind; null is unknown"),
    Column("extra", pa.int64(), "numbers", "second measure, unit by kind; null is unknown"),
    Column("span_ns", pa.int64(), "numbers", "window that the row sums over, ending at time_ns; 0 is an instant"),
    Column("flow", pa.uint64(), "names", "flow id; 0 is none"),
    Column("quality", pa.uint8(), "dictionary", "bits EXACT, RESET, WRAP, GAP, ESTIMATED, LATE, CLOCK_SUSPECT"),
    Column("seen_ns", pa.int64(), "numbers", "when the source read it, on its own clock; 0 where nobody did"),
    Column("text", pa.string(), "dictionary", "the row's text; null for most"),
    Column("source", _TEXT, "dictionary", "who published it"),
    Column("partition", pa.int32(), "dictionary", "partition of the topic; with the offset it finds the row's message"),
    Column("offset", pa.int64(), "PLAIN", "offset of the row's message"),
    Column("row", pa.uint16(), "numbers", "where it stands in its message; null where all are in order of time"),
)

MESSAGE_COLUMNS: tuple[Column, ...] = (
    Column("time_ns", pa.int64(), "numbers", "first event time in the message; Kafka's time where it has none"),
    Column("last_ns", pa.int64(), "numbers", "last event time in the message"),
    Column("partition", pa.int32(), "dictionary", "partition of the topic"),
    Column("offset", pa.int64(), "DELTA_BINARY_PACKED", "offset in the partition; a file is sorted by it"),
    Column("timestamp_ms", pa.int64(), "numbers", "Kafka's timestamp, ms since the Unix epoch; null is none"),
    Column("timestamp_type", _TEXT, "dictionary", "create (the producer's clock), append (the broker's) or null"),
    Column("key", pa.binary(), "dictionary", "the key"),
    Column("headers", _HEADERS, "dictionary", "the headers, in their order; null is none"),
    Column("fabric", _TEXT, "dictionary", "of a packed value: the fabric"),
    Column("source", _TEXT, "dictionary", "of a packed value: who published it"),
    Column("epoch", _TEXT, "dictionary", "of a packed value: the life of the source"),
    Column("device", _TEXT, "dictionary", "of a packed value: the device"),
    Column("seq", pa.int64(), "numbers", "sequence number of its first row; those of the others follow"),
    Column("rows", pa.int32(), "numbers", "rows of the message in `events`"),
    Column("skipped", pa.int32(), "dictionary", "rows of a kind that nobody knows; they are in `value` alone"),
    Column("mark_ns", pa.int64(), "numbers", "nothing older follows on the stream"),
    Column("lost", pa.int64(), "dictionary", "events that the source has lost so far on the stream"),
    Column("ports", pa.list_(pa.string()), "dictionary", "the ports that the value names, in its order"),
    Column("json", pa.string(), "PLAIN", "the value of a JSON topic"),
    Column("value", pa.binary(), "PLAIN", "the value if the columns do not give it back; no json, no seq: a tombstone"),
    Column("error", pa.string(), "dictionary", "why the value does not decode"),
)
# fmt: on

COLUMNS: dict[str, tuple[Column, ...]] = {EVENTS: EVENT_COLUMNS, MESSAGES: MESSAGE_COLUMNS}
SCHEMAS: dict[str, Any] = {
    table: pa.schema([(column.name, column.type) for column in columns]) for table, columns in COLUMNS.items()
}
DICTIONARY_TEXTS: dict[str, list[str]] = {
    table: [column.name for column in columns if column.type == _TEXT] for table, columns in COLUMNS.items()
}
"""Columns to be read as dictionaries, which spares a string a row."""

_SAMPLE = 4096
_FEW = 0.05
_MANY = 0.5
# For columns of which some repeat: times of whole polls repeat in runs, ids of flows come in any order.
_SOME_REPEAT = {"numbers": "PLAIN", "names": "dictionary"}


def encodings(table: str, content: dict[str, npt.NDArray[Any]]) -> tuple[list[str], dict[str, str]]:
    """Columns to encode by dictionary, and the encodings of the others; `content` has the columns to choose for."""
    dictionary: list[str] = []
    others: dict[str, str] = {}
    for column in COLUMNS[table]:
        encoding = column.encoding
        if encoding in _SOME_REPEAT:
            encoding = _suited(content[column.name], _SOME_REPEAT[encoding])
        if encoding == "dictionary":
            # A list's column goes by the path of its leaves.
            dictionary += _LEAVES.get(column.name, [column.name])
        else:
            others[column.name] = encoding
    return dictionary, others


_LEAVES = {
    "headers": ["headers.list.element.name", "headers.list.element.value"],
    "ports": ["ports.list.element"],
}


def _suited(values: npt.NDArray[Any], some_repeat: str) -> str:
    """Few numbers go by dictionary, measures byte by byte.

    Measured on counters, pauses and flows: .3 to .9 bytes a number less than PLAIN and a third of its time.
    """
    sample = values[:: max(1, len(values) // _SAMPLE)]
    distinct = len(np.unique(sample)) / max(len(sample), 1)
    if distinct <= _FEW or len(values) <= 1:
        return "dictionary"
    return some_repeat if distinct <= _MANY else "BYTE_STREAM_SPLIT"
