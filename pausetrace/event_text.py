"""Single events for people and for JSON lines: decoded names, measures with their units, RFC 3339 times.

In: Columns. Out: one object or one text a row, from the table of kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pausetrace.columns import Columns
from pausetrace.plain_text import printable
from pausetrace.units import bytes_text, duration_text, time_text
from stream import kinds
from stream.flow_id import flow_text
from stream.kinds import BY_NAME, NO_PRIORITY, QUALITY_BITS, UNKNOWN, Measure

_SUFFIXES = ("_ns", "_bytes", "_packets", "_frames", "_events", "_mbps", "_mts", "_lanes")


class Row(NamedTuple):
    """One row with Python's own types; None where there is nothing or it is unknown."""

    time_ns: int
    span_ns: int
    fabric: str
    device: str
    port: str
    kind: str
    priority: int | None
    side: str | None
    flow: str | None
    value: int | None
    extra: int | None
    quality: tuple[str, ...]
    source: str
    seq: int
    text: str


def rows(columns: Columns) -> Iterator[Row]:
    """The rows, one by one: for people's rates, not for analysis."""
    lists = (
        columns.time_ns, columns.span_ns, columns.fabric, columns.device, columns.port, columns.kind, columns.priority,
        columns.side, columns.flow, columns.value, columns.extra, columns.quality, columns.source, columns.seq,
        columns.text,
    )  # fmt: skip
    for cells in zip(*(column.tolist() for column in lists), strict=True):
        time_ns, span_ns, fabric, device, port, kind, priority, side, flow, value, extra, quality, source, seq, text = (
            cells
        )
        yield Row(
            time_ns, span_ns, fabric, device, port, kind,
            None if priority == NO_PRIORITY else priority,
            None if side == kinds.SIDES[0] else side,
            flow_text(flow) if flow else None,
            None if value == UNKNOWN else value,
            None if extra == UNKNOWN else extra,
            _bits(quality), source, seq, text,
        )  # fmt: skip


def row_object(row: Row, local: bool = False) -> dict[str, Any]:
    """The row as a JSON object: measures by their names; names without a meaning for the row are left out."""
    kind = BY_NAME[row.kind]
    shown: dict[str, Any] = {
        "time": time_text(row.time_ns, local),
        "time_ns": row.time_ns,
        "fabric": row.fabric,
        "device": row.device,
        "port": row.port,
        "kind": row.kind,
    }
    optional = {"priority": row.priority, "side": row.side, "flow": row.flow}
    shown |= {name: cell for name, cell in optional.items() if cell is not None}
    if row.span_ns:
        shown["span_ns"] = row.span_ns
    for measure, number in ((kind.value, row.value), (kind.extra, row.extra)):
        if measure.name:
            shown[measure.name] = number
    if row.quality:
        shown["quality"] = row.quality
    if row.text:
        shown["text"] = row.text
    shown["source"] = row.source
    shown["seq"] = row.seq
    return shown


def measures_text(row: Row) -> str:
    """The row's measures for people: paused 412 µs, xoff 37 frames."""
    kind = BY_NAME[row.kind]
    parts = []
    for measure, number in ((kind.value, row.value), (kind.extra, row.extra)):
        if measure.name and number is not None:
            parts.append(_measure_text(row.kind, measure, number))
    if row.text:
        parts.append(printable(row.text))
    return ", ".join(parts)


def _measure_text(kind: str, measure: Measure, number: int) -> str:
    if measure.unit == "code":
        name = kinds.CODES.get(kind, {}).get(number)
        return f"{_words(measure.name)} {number}{f' ({name})' if name else ''}"
    if measure.unit == "ns":
        return f"{_words(measure.name)} {duration_text(number)}"
    if measure.unit == "bytes":
        return f"{_words(measure.name)} {bytes_text(number)}".removeprefix("bytes ")
    words = _words(measure.name)
    if words == measure.unit or measure.unit in ("ordinal", "flag", "pid", "step"):
        return f"{words} {number:,}"
    return f"{words} {number:,} {measure.unit}"


def _words(name: str) -> str:
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def _bits(quality: int) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(QUALITY_BITS) if quality >> bit & 1)
