"""Reads a finished capture: parts with their messages and rows, each file proved by its SHA-256 before it is read.

In: a folder. Out: `LoadedPart`s, in which every message's rows stand together again in their own order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stream import kinds
from stream.batch import StreamKey
from stream.capture_manifest import FileEntry, Manifest, Part, load_manifest
from stream.capture_message import NO_TIMESTAMP_MS
from stream.capture_schema import DICTIONARY_TEXTS, EVENTS, MESSAGES
from stream.errors import CaptureError
from stream.record import EVENT, Events, put

Ints = npt.NDArray[np.int64]

ROW_COLUMNS = (
    "time_ns", "port", "kind", "priority", "side", "value", "extra", "span_ns", "flow", "quality", "offset", "row",
)  # fmt: skip
"""What a step needs of a row."""
STREAM_COLUMNS = (
    "time_ns", "last_ns", "offset", "timestamp_ms", "fabric", "source", "epoch", "device", "seq", "rows", "skipped",
    "mark_ns", "lost",
)  # fmt: skip
"""What a step needs of a message."""

_NULLS = {"value": kinds.UNKNOWN, "extra": kinds.UNKNOWN, "priority": kinds.NO_PRIORITY}
_RESTORE = "restore it from a copy, or capture again"


class CaptureFolder:
    """A finished capture, open for reading; raises CaptureError if there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: Manifest = load_manifest(path)
        self._proved: set[str] = set()

    def open(self, entry: FileEntry) -> Any:
        """A file as pyarrow's ParquetFile, proved to be what was written."""
        path = self.path / entry.path
        try:
            if entry.path not in self._proved:
                prove(path, entry)
                self._proved.add(entry.path)
            return pq.ParquetFile(path, read_dictionary=DICTIONARY_TEXTS[entry.table])
        except (OSError, pa.ArrowException) as err:
            raise CaptureError(f"{path} cannot be read: {err}", _RESTORE) from err

    def tables(self, entry: FileEntry, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The file's row groups as Arrow tables, one after another."""
        file = self.open(entry)
        try:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns, use_threads=False)
        except (OSError, pa.ArrowException) as err:
            raise CaptureError(f"{self.path / entry.path} cannot be read: {err}", _RESTORE) from err

    def parts(self, topics: Iterable[str]) -> list[Part]:
        """The parts of these topics."""
        chosen = set(topics)
        return [part for part in self.manifest.parts if part.topic in chosen]


def count_undecodable(folder: CaptureFolder, files: Iterable[FileEntry]) -> int:
    """How many messages in these files have values that do not decode."""
    tables = (table for file in files if file.table == MESSAGES for table in folder.tables(file, ("error",)))
    return sum(len(table) - table.column("error").null_count for table in tables)


def prove(path: Path, entry: FileEntry) -> None:
    """Raises CaptureError unless the file is the one that the manifest names, byte for byte."""
    if path.is_dir():
        raise CaptureError(f"{path} is a folder in the place of a file", _RESTORE)
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            what = "truncated" if size < entry.bytes else "too long"
            raise CaptureError(f"{path} is {what}: {size:,} bytes of {entry.bytes:,}", _RESTORE)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as err:
        raise CaptureError(f"{path} is missing", _RESTORE) from err
    except OSError as err:
        raise CaptureError(f"{path} cannot be read: {err.strerror}", _RESTORE) from err
    if digest != entry.sha256:
        raise CaptureError(f"{path} is damaged: its bytes are not those that were written (SHA-256)", _RESTORE)


@dataclass(slots=True)
class Messages:
    """The messages of a part by offset, in columns; `stream` is an index into `streams`, -1 where there are no rows.

    `columns` has whatever else was asked for, as lists.
    """

    offset: Ints
    timestamp_ms: Ints
    seq: Ints
    rows: Ints
    skipped: Ints
    mark_ns: Ints
    lost: Ints
    stream: Ints
    streams: list[StreamKey]
    first_ns: Ints
    last_ns: Ints
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.offset)


def read_messages(folder: CaptureFolder, part: Part, more: Sequence[str] = ()) -> Messages:
    """The messages of a part; `more` names further columns of the table."""
    wanted = [*STREAM_COLUMNS, *more]
    tables = [
        table for file in part.files if file.table == MESSAGES for table in folder.tables(file, wanted)
    ]  # fmt: skip
    if not tables:
        return _no_messages(more)
    table = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
    offset = _numbers(table, "offset")
    if (offset[1:] < offset[:-1]).any():
        order = np.argsort(offset, kind="stable")
        table, offset = table.take(pa.array(order)), offset[order]
    names = {name: table.column(name).combine_chunks() for name in ("fabric", "source", "epoch", "device")}
    codes = np.stack([_codes(column) for column in names.values()])
    found, stream = np.unique(codes, axis=1, return_inverse=True)
    texts = [_dictionary(column) for column in names.values()]
    streams: list[StreamKey] = []
    number = np.zeros(found.shape[1], np.int64)
    for index, code in enumerate(found.T.tolist()):
        if code[0] < 0:
            number[index] = -1
            continue
        fabric, source, epoch, device = (text[c] for text, c in zip(texts, code, strict=True))
        number[index] = len(streams)
        streams.append(StreamKey(fabric, source, epoch, part.topic, device))
    return Messages(
        offset=offset,
        timestamp_ms=_numbers(table, "timestamp_ms", NO_TIMESTAMP_MS),
        seq=_numbers(table, "seq", -1),
        rows=_numbers(table, "rows", 0),
        skipped=_numbers(table, "skipped", 0),
        mark_ns=_numbers(table, "mark_ns", 0),
        lost=_numbers(table, "lost", 0),
        stream=number[stream.ravel()],
        streams=streams,
        first_ns=_numbers(table, "time_ns"),
        last_ns=_numbers(table, "last_ns"),
        columns={name: table.column(name).to_pylist() for name in more},
    )


@dataclass(slots=True)
class LoadedPart:
    """A part in memory: the rows of message m are `events[start[m] : start[m] + messages.rows[m]]`.

    Rows are grouped by stream, each stream's messages by offset; `port` is an index into `port_names`, and so is not
    the `port` of the events, which means nothing here. `row` is where a row stands in its value.
    """

    part: Part
    messages: Messages
    start: Ints
    events: Events
    port: npt.NDArray[np.int32]
    port_names: list[str]
    row: npt.NDArray[np.uint16]
    texts: list[tuple[int, str]]
    """Texts with the index of their row, in order."""

    def message_of_rows(self) -> Ints:
        """The index of each row's message."""
        with_rows = np.flatnonzero(self.messages.rows > 0)
        in_order = with_rows[np.argsort(self.start[with_rows], kind="stable")]
        return np.repeat(in_order, self.messages.rows[in_order])


def load_part(
    folder: CaptureFolder, part: Part, more: Sequence[str] = (), row_columns: Sequence[str] = ROW_COLUMNS
) -> LoadedPart:
    """Reads a part; raises CaptureError if the rows are not those that its messages promise."""
    messages = read_messages(folder, part, more)
    order = np.lexsort((messages.offset, messages.stream))
    counts = messages.rows[order]
    start = np.zeros(len(messages), np.int64)
    start[order] = np.cumsum(counts) - counts
    total = int(counts.sum())
    events, port = np.empty(total, EVENT), np.zeros(total, np.int32)
    row = np.zeros(total, np.uint16)
    as_they_come, filled = np.zeros(part.events, EVENT), 0
    texts: list[tuple[int, str]] = []
    names: dict[str, int] = {}
    find = _finder(messages.offset)
    read: list[_Rows] = []
    for file in part.files:
        if file.table == EVENTS:
            for table in folder.tables(file, row_columns):
                here = as_they_come[filled : filled + len(table)]
                filled += len(table)
                if len(here) < len(table):
                    raise _inconsistent(folder, part)
                read.append(_rows_of(table, here, names, find))
    if filled != total or filled != part.events:
        raise _inconsistent(folder, part)
    if filled:
        message = np.concatenate([rows.message for rows in read])
        number = np.concatenate([rows.row for rows in read])
        place = _places(start, message, number, np.concatenate([rows.numbered for rows in read]))
        if not (np.bincount(message, minlength=len(messages)) == messages.rows).all():
            raise _inconsistent(folder, part)
        put(events, place, as_they_come)
        port[place] = np.concatenate([rows.port for rows in read])
        # Without rows left out between them, they are numbered as they stand.
        row[place] = np.where(messages.skipped[message] > 0, number, place - start[message])
        texts = sorted((int(place[at]), text) for at, text in _texts(read))
    return LoadedPart(part, messages, start, events, port, list(names), row, texts)


def _inconsistent(folder: CaptureFolder, part: Part) -> CaptureError:
    return CaptureError(
        f"{folder.path}: the events of {part.topic}[{part.partition}], offsets {part.first} to {part.end - 1}, are not "
        "those that its messages name",
        "capture again with this version",
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """What rows of a file have beside their events, and the index of each one's message."""

    message: Ints
    port: npt.NDArray[np.int32]
    row: npt.NDArray[np.uint16]
    numbered: npt.NDArray[np.bool_]
    texts: list[str | None]


def _rows_of(table: Any, events: Events, names: dict[str, int], find: Callable[[Ints], Ints]) -> _Rows:
    """Writes the rows of an Arrow table to `events`; port names get numbers in `names`."""
    for name in table.schema.names:
        if name in _PLAIN:
            events[name] = _numbers(table, name, _NULLS.get(name, 0))
    events["kind"] = _coded(table, "kind", _KIND_CODES)
    events["side"] = _coded(table, "side", _SIDE_CODES)
    ports = table.column("port").combine_chunks()
    numbers = [names.setdefault(name, len(names)) for name in _dictionary(ports)]
    port = np.array(numbers or [0], np.int32)[_codes(ports)]
    texts: list[str | None] = []
    if "text" in table.schema.names and table.column("text").null_count < len(table):
        texts = table.column("text").to_pylist()
    numbered = _valid(table.column("row").combine_chunks())
    row = _numbers(table, "row").astype(np.uint16)
    return _Rows(find(_numbers(table, "offset")), port, row, numbered, texts)


_PLAIN = frozenset(("time_ns", "priority", "value", "extra", "span_ns", "flow", "quality", "seen_ns"))
_KIND_CODES = {kind.name: kind.code for kind in kinds.KINDS}
_SIDE_CODES = {name: code for code, name in enumerate(kinds.SIDES)}


def _numbers(table: Any, name: str, null: int = 0) -> npt.NDArray[Any]:
    column = table.column(name)
    return _filled(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks(), null)


def _codes(column: Any) -> npt.NDArray[Any]:
    """Indices into a dictionary, -1 for null."""
    return _filled(column.indices, -1)


def _filled(array: Any, null: int) -> npt.NDArray[Any]:
    """The numbers of an Arrow array, with one in the place of null.

    Arrow's own `to_numpy` gives the same, but loads pandas wherever that is installed, which takes longer than a part.
    """
    validity, values = array.buffers()
    end = array.offset + len(array)
    if values is None or not len(array):
        return np.full(len(array), null, array.type.to_pandas_dtype())
    numbers = np.frombuffer(values, array.type.to_pandas_dtype(), end)[array.offset :]
    return np.where(_bits(validity, array), numbers, numbers.dtype.type(null)) if array.null_count else numbers


def _valid(array: Any) -> npt.NDArray[np.bool_]:
    """Which entries of an Arrow array are not null."""
    return _bits(array.buffers()[0], array) if array.null_count else np.ones(len(array), bool)


def _bits(bitmap: Any, array: Any) -> npt.NDArray[np.bool_]:
    """The entries of an array's bitmap."""
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=array.offset + len(array), bitorder="little")
    return bits[array.offset :].view(bool)


def _dictionary(column: Any) -> list[str]:
    texts: list[str] = column.dictionary.to_pylist()
    return texts


def _coded(table: Any, name: str, codes: dict[str, int]) -> npt.NDArray[np.uint8]:
    column = table.column(name).combine_chunks()
    code = np.array([codes.get(text, 0) for text in _dictionary(column)] or [0], np.uint8)
    coded: npt.NDArray[np.uint8] = code[_codes(column)]
    return coded


def _finder(offsets: Ints) -> Callable[[Ints], Ints]:
    """A function from offsets to the index of their messages."""
    if not len(offsets):
        return lambda offset: np.zeros(len(offset), np.int64)
    first, span = int(offsets[0]), int(offsets[-1]) - int(offsets[0]) + 1
    if span > max(16 * len(offsets), 1 << 20):
        return lambda offset: np.minimum(np.searchsorted(offsets, offset), len(offsets) - 1)
    index = np.zeros(span, np.int64)
    index[offsets - first] = np.arange(len(offsets))
    return lambda offset: index[np.clip(offset - first, 0, span - 1)]


def _places(start: Ints, message: Ints, row: npt.NDArray[np.uint16], numbered: npt.NDArray[np.bool_]) -> Ints:
    """Where each row stands: by its number in its message, and as they come where they have none.

    A number may be larger than the number of rows before it: rows of unknown kind were left out between them.
    """
    # 16 bits, since NumPy sorts those by counting.
    key = message.astype(np.uint16)
    order = np.lexsort((row, key)) if numbered.any() else np.argsort(key, kind="stable")
    place = np.empty(len(row), np.int64)
    counts = np.bincount(message, minlength=len(start))
    begin = np.cumsum(counts) - counts
    ordered = message[order]
    place[order] = start[ordered] + np.arange(len(row)) - begin[ordered]
    return place


def _texts(read: Sequence[_Rows]) -> Iterator[tuple[int, str]]:
    """Texts with the place of their row in all that was read."""
    begin = 0
    for rows in read:
        yield from ((begin + at, text) for at, text in enumerate(rows.texts) if text is not None)
        begin += len(rows.message)


def _no_messages(more: Sequence[str]) -> Messages:
    none = np.zeros(0, np.int64)
    return Messages(none, none, none, none, none, none, none, none, [], none, none, {name: [] for name in more})
