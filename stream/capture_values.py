"""Gives the Kafka messages of a capture back, byte for byte, partition by partition in the order of their offsets.

In: a finished capture. Out: `Captured` messages; what replay sends and what a test compares.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream import wire
from stream.batch import Batch
from stream.capture_manifest import Part
from stream.capture_message import NO_TIMESTAMP_MS, Captured
from stream.capture_reader import ROW_COLUMNS, CaptureFolder, LoadedPart, load_part

MESSAGE_COLUMNS = ("timestamp_type", "key", "headers", "ports", "json", "value")
ALL_ROW_COLUMNS = (*ROW_COLUMNS, "seen_ns", "text")


def captured_messages(folder: CaptureFolder, part: Part) -> Iterator[Captured]:
    """The messages of a part."""
    loaded = load_part(folder, part, MESSAGE_COLUMNS, ALL_ROW_COLUMNS)
    for index in range(len(loaded.messages)):
        yield captured_message(loaded, index)


def captured_message(loaded: LoadedPart, index: int) -> Captured:
    """A message of a part that was loaded with all columns."""
    columns, part = loaded.messages.columns, loaded.part
    timestamp_ms = int(loaded.messages.timestamp_ms[index])
    headers = columns["headers"][index] or ()
    return Captured(
        part.topic,
        part.partition,
        int(loaded.messages.offset[index]),
        timestamp_ms,
        "" if timestamp_ms == NO_TIMESTAMP_MS else columns["timestamp_type"][index] or "",
        columns["key"][index],
        tuple((header["name"], header["value"]) for header in headers),
        _value(loaded, index),
    )


def batch_of(loaded: LoadedPart, index: int) -> Batch:
    """The rows of a packed message as a batch; the same as what decoding its value gives."""
    messages = loaded.messages
    begin = int(loaded.start[index])
    end = begin + int(messages.rows[index])
    ports = tuple(messages.columns["ports"][index])
    events = loaded.events[begin:end].copy()
    # From numbers of the part to places in the message's own list.
    local = np.zeros(len(loaded.port_names), np.uint16)
    known = {name: number for number, name in enumerate(ports)}
    used = np.unique(loaded.port[begin:end])
    local[used] = [known[loaded.port_names[number]] for number in used.tolist()]
    events["port"] = local[loaded.port[begin:end]]
    first, last = (bisect_left(loaded.texts, (at, "")) for at in (begin, end))
    texts = tuple((place - begin, text) for place, text in loaded.texts[first:last])
    skipped = int(messages.skipped[index])
    return Batch(
        messages.streams[messages.stream[index]],
        int(messages.seq[index]),
        int(messages.mark_ns[index]),
        ports,
        events,
        int(messages.lost[index]),
        texts,
        skipped,
        loaded.row[begin:end].astype(np.int64) if skipped else None,
    )


def _value(loaded: LoadedPart, index: int) -> bytes | None:
    columns: dict[str, list[Any]] = loaded.messages.columns
    raw: bytes | None = columns["value"][index]
    if raw is not None:
        return raw
    if loaded.messages.stream[index] >= 0:
        return wire.assemble(batch_of(loaded, index))
    text: str | None = columns["json"][index]
    return None if text is None else text.encode()
