"""A part of a capture: whole messages of one partition, gathered in memory and turned into Parquet files by hour.

In: examined messages in the order of their offsets. Out: the bytes of files; a message's rows may lie in several of
them, when they are of different hours, and are all in the same part.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stream import kinds
from stream.batch import Batch
from stream.capture_message import NO_TIMESTAMP_MS, Examined
from stream.capture_schema import EVENTS, MESSAGES, ROW_GROUP_ROWS, SCHEMAS, ZSTD_LEVEL, encodings
from stream.kinds import UNKNOWN
from stream.record import Events, joined, picked
from stream.topics import TOPICS

PART_EVENTS = 1 << 17
PART_MESSAGES = 1 << 16
"""A part is full at so many events or messages: a reader holds one part of each partition in memory, 7 MB of rows."""
PART_HOURS = 240
"""Rows of more hours than ten days have go to one file of hour `mixed`: broken clocks must not make a million files."""
MIXED = "mixed"

_MESSAGE_COST_BYTES = 2048
"""What a message costs in memory beside its value, roughly."""
_NS_PER_HOUR = 3_600_000_000_000

Ints = npt.NDArray[np.int64]
_BINARY = frozenset(topic.name for topic in TOPICS if topic.encoding != "json")


class BuiltFile(NamedTuple):
    """The bytes of one Parquet file, and what is in it."""

    table: str
    hour: str
    rows: int
    first_ns: int
    last_ns: int
    data: Any
    """A buffer of Arrow's."""


class PartBuffer:
    """Gathers the messages of a part."""

    def __init__(self) -> None:
        self.messages: list[Examined] = []
        self.events = 0
        self.cost_bytes = 0

    @property
    def full(self) -> bool:
        """Whether the next message belongs to the next part."""
        return self.events >= PART_EVENTS or len(self.messages) >= PART_MESSAGES

    def add(self, examined: Examined) -> None:
        """Takes the next message."""
        self.messages.append(examined)
        self.events += len(examined.batch.events) if examined.batch is not None else 0
        self.cost_bytes += len(examined.message.value or b"") + _MESSAGE_COST_BYTES

    def files(self) -> Iterator[BuiltFile]:
        """The part's files, one after another; each holds the memory of its bytes."""
        rows = _SortedRows.of([each.batch for each in self.messages if each.batch is not None], self._offsets())
        if rows is not None:
            for hour, begin, end in _hours(rows.events["time_ns"]):
                yield rows.file(hour, begin, end, self.messages[0].message.partition)
        first_ns = np.array([each.first_ns for each in self.messages], np.int64)
        # Those of one hour stay in the order of their offsets.
        order = np.argsort(first_ns // _NS_PER_HOUR, kind="stable")
        for hour, begin, end in _hours(first_ns[order]):
            chosen = np.sort(order[begin:end])
            yield _message_file(hour, [self.messages[index] for index in chosen.tolist()])

    def _offsets(self) -> Ints:
        return np.array([each.message.offset for each in self.messages if each.batch is not None], np.int64)


@functools.lru_cache(maxsize=1024)
def hour_name(time_ns: int) -> str:
    """The hour of a time as the folders are called: 2026-11-30T22, in UTC."""
    return datetime.fromtimestamp(time_ns // _NS_PER_HOUR * 3600, UTC).strftime("%Y-%m-%dT%H")


def _hours(times: Ints) -> Iterator[tuple[str, int, int]]:
    """Each hour of times whose hours are in order, and its slice."""
    found, begins = np.unique(times // _NS_PER_HOUR, return_index=True)
    if len(found) > PART_HOURS:
        yield MIXED, 0, len(times)
        return
    ends = [*begins.tolist()[1:], len(times)]
    for begin, end in zip(begins.tolist(), ends, strict=True):
        # The hour and not the time, so that few names are made.
        yield hour_name(int(times[begin]) // _NS_PER_HOUR * _NS_PER_HOUR), begin, end


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.number.setdefault(name, len(self.number))

    def array(self, numbers: npt.NDArray[Any]) -> Any:
        return pa.DictionaryArray.from_arrays(
            pa.array(numbers, pa.int32()), pa.array(list(self.number) or [""], pa.string())
        )


@dataclass(frozen=True, slots=True)
class _SortedRows:
    """All rows of a part sorted by time; rows of one instant in the order of their messages."""

    events: Events
    message: Ints
    row: npt.NDArray[np.uint16]
    in_order: npt.NDArray[np.bool_]
    """Of each message: whether sorting by time left its rows in their order, so that their numbers need not be kept."""
    port: Ints
    texts: npt.NDArray[Any] | None
    port_names: _Names
    streams: dict[str, tuple[_Names, Ints]]
    """fabric, device and source: the names, and the number of each message's."""
    offsets: Ints

    @staticmethod
    def of(batches: Sequence[Batch], offsets: Ints) -> _SortedRows | None:
        """None if there are no rows."""
        counts = np.array([len(batch.events) for batch in batches], np.int64)
        if not counts.sum():
            return None
        events = joined([batch.events for batch in batches])
        message = np.repeat(np.arange(len(batches)), counts)
        begins = np.cumsum(counts) - counts
        row = np.arange(len(events)) - np.repeat(begins, counts)
        texts: npt.NDArray[Any] | None = None
        ports = _Names()
        port_lists: dict[tuple[str, ...], int] = {}
        port_numbers: list[int] = []
        port_begin = np.zeros(len(batches), np.int64)
        for index, batch in enumerate(batches):
            begin = int(begins[index])
            known = port_lists.get(batch.ports)
            if known is None:
                known = port_lists[batch.ports] = len(port_numbers)
                port_numbers += map(ports.of, batch.ports)
            port_begin[index] = known
            if batch.positions is not None:
                row[begin : begin + len(batch.events)] = batch.positions
            if batch.texts:
                texts = np.full(len(events), None, object) if texts is None else texts
                for position, text in batch.texts:
                    texts[begin + position] = text
        port = np.array(port_numbers, np.int64)[np.repeat(port_begin, counts) + events["port"]]
        streams: dict[str, tuple[_Names, Ints]] = {}
        for field in ("fabric", "device", "source"):
            names = _Names()
            numbers = np.array([names.of(getattr(batch.stream, field)) for batch in batches], np.int64)
            streams[field] = (names, numbers)
        times = events["time_ns"]
        in_order = np.ones(len(batches), bool)
        backwards = np.flatnonzero((times[1:] < times[:-1]) & (message[1:] == message[:-1]))
        in_order[message[backwards]] = False
        in_order[[index for index, batch in enumerate(batches) if batch.skipped]] = False
        order = np.argsort(times, kind="stable")
        return _SortedRows(
            picked(events, order), message[order], row[order].astype(np.uint16), in_order, port[order],
            None if texts is None else texts[order], ports, streams, offsets,
        )  # fmt: skip

    def file(self, hour: str, begin: int, end: int, partition: int) -> BuiltFile:
        """The rows from begin to end as one file."""
        chosen = slice(begin, end)
        events, message = self.events[chosen], self.message[chosen]
        count = len(events)
        numbers: dict[str, npt.NDArray[Any]] = {
            name: np.ascontiguousarray(events[name])
            for name in ("time_ns", "seen_ns", "span_ns", "value", "extra", "flow", "quality", "priority")
        }
        numbers["offset"], numbers["row"] = self.offsets[message], self.row[chosen]
        columns: dict[str, Any] = {name: pa.array(values) for name, values in numbers.items()}
        columns["row"] = _with_nulls(numbers["row"], self.in_order[message])
        for name in ("value", "extra"):
            columns[name] = _with_nulls(numbers[name], numbers[name] == UNKNOWN)
        columns["priority"] = _with_nulls(numbers["priority"], numbers["priority"] == kinds.NO_PRIORITY)
        columns["partition"] = pa.array(np.full(count, partition, np.int32))
        columns["kind"] = _coded(events["kind"], {kind.code: kind.name for kind in kinds.KINDS})
        columns["side"] = _coded(events["side"], dict(enumerate(kinds.SIDES)))
        columns["port"] = self.port_names.array(self.port[chosen])
        for name, (names, of_message) in self.streams.items():
            columns[name] = names.array(of_message[message])
        columns["text"] = (
            pa.nulls(count, pa.string()) if self.texts is None else pa.array(self.texts[chosen], pa.string())
        )
        times = numbers["time_ns"]
        return _parquet(EVENTS, hour, columns, numbers, int(times[0]), int(times[-1]))


def _coded(codes: npt.NDArray[np.uint8], names: dict[int, str]) -> Any:
    number = np.zeros(256, np.int32)
    for index, code in enumerate(names):
        number[code] = index
    return pa.DictionaryArray.from_arrays(pa.array(number[codes]), pa.array(list(names.values()), pa.string()))


def _with_nulls(values: npt.NDArray[Any], null: npt.NDArray[np.bool_]) -> Any:
    """An Arrow array with nulls; several times as fast as pa.array(values, mask=null)."""
    if not null.any():
        return pa.array(values)
    if null.all():
        return pa.nulls(len(values), pa.from_numpy_dtype(values.dtype))
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _message_file(hour: str, messages: Sequence[Examined]) -> BuiltFile:
    kept = [each.message for each in messages]
    batches = [each.batch for each in messages]
    # A value that its columns do not give back is kept as it was; so is one that is no text.
    texts = [_json_text(each) for each in messages]
    values = [
        None if each.exact or text is not None else each.message.value
        for each, text in zip(messages, texts, strict=True)
    ]

    def of_batches(read: Any) -> list[Any]:
        return [None if batch is None else read(batch) for batch in batches]

    lists: dict[str, list[Any]] = {
        "time_ns": [each.first_ns for each in messages],
        "last_ns": [each.last_ns for each in messages],
        "partition": [message.partition for message in kept],
        "offset": [message.offset for message in kept],
        "timestamp_ms": [None if m.timestamp_ms == NO_TIMESTAMP_MS else m.timestamp_ms for m in kept],
        "timestamp_type": [message.timestamp_type or None for message in kept],
        "key": [message.key for message in kept],
        "headers": [[{"name": n, "value": v} for n, v in m.headers] if m.headers else None for m in kept],
        "fabric": of_batches(lambda batch: batch.stream.fabric),
        "source": of_batches(lambda batch: batch.stream.source),
        "epoch": of_batches(lambda batch: batch.stream.epoch),
        "device": of_batches(lambda batch: batch.stream.device),
        "seq": of_batches(lambda batch: batch.seq),
        "rows": of_batches(lambda batch: len(batch.events)),
        "skipped": of_batches(lambda batch: batch.skipped),
        "mark_ns": of_batches(lambda batch: batch.mark_ns),
        "lost": of_batches(lambda batch: batch.lost),
        "ports": of_batches(lambda batch: batch.ports),
        "json": texts,
        "value": values,
        "error": [each.error or None for each in messages],
    }
    schema = SCHEMAS[MESSAGES]
    columns = {name: pa.array(values, schema.field(name).type) for name, values in lists.items()}
    numbers = {
        name: np.array([0 if value is None else value for value in lists[name]], np.int64)
        for name in ("time_ns", "last_ns", "timestamp_ms", "seq", "rows", "mark_ns")
    }
    first_ns, last_ns = min(each.first_ns for each in messages), max(each.last_ns for each in messages)
    return _parquet(MESSAGES, hour, columns, numbers, first_ns, last_ns)


def _json_text(examined: Examined) -> str | None:
    if examined.batch is not None or examined.message.value is None:
        return None
    if examined.message.topic in _BINARY:
        return None
    try:
        return examined.message.value.decode()
    except UnicodeDecodeError:
        return None


def _parquet(
    table: str, hour: str, columns: dict[str, Any], numbers: dict[str, npt.NDArray[Any]], first_ns: int, last_ns: int
) -> BuiltFile:
    schema = SCHEMAS[table]
    arrow = pa.table([columns[name] for name in schema.names], schema=schema)
    dictionary, others = encodings(table, numbers)
    sink = pa.BufferOutputStream()
    pq.write_table(
        arrow, sink, row_group_size=ROW_GROUP_ROWS, compression="zstd", compression_level=ZSTD_LEVEL,
        use_dictionary=dictionary, column_encoding=others, write_page_index=True, store_schema=False,
    )  # fmt: skip
    return BuiltFile(table, hour, len(arrow), first_ns, last_ns, sink.getvalue())
