"""Events that a device tells as a container of leaves, such as a congestion record: its leaves become one row.

In: the leaves of one notification. Out: a row each, with the port and queue that they name. There are few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from collectors.path_map import DIMENSIONS, NO_DIMENSION, NS_OF, PRIORITY, PathMap
from collectors.profile import SIDE_CODES, Record, measures
from stream.kinds import INT64_MAX, UNKNOWN


class RecordRow(NamedTuple):
    """One row: port by its number in the map's names, dimension and number as of a group."""

    kind: int
    port: int
    dimension: int
    number: int
    side: int
    value: int
    extra: int
    span_ns: int


def row_of(paths: PathMap, record: Record, told: Mapping[str, str], device: str) -> RecordRow | None:
    """The row that a record's leaves make; None if they name no port or have no value."""
    value = _number(told.get(record.value, ""))
    port = paths.port(told.get(record.port, ""), device)
    if value is None or port is None:
        return None
    dimension, number = NO_DIMENSION, 0
    if record.priority:
        found = _number(told.get(record.priority, ""))
        dimension, number = PRIORITY, 255 if found is None else min(found, 255)
    elif record.queue:
        named = told.get(record.queue, "")
        found = _number(named)
        found = paths.queue_number(named) if found is None else found
        dimension, number = DIMENSIONS["queue"], 255 if found is None else min(found, 255)
    kind = measures((record.into,))[0].kind
    extra = _number(told.get(record.extra, "")) if record.extra else None
    span = _number(told.get(record.span, "")) if record.span else None
    return RecordRow(
        kind.code, port, dimension, number, SIDE_CODES[record.side],
        _scaled(value, record.scale),
        _scaled(extra, record.scale) if extra is not None else (UNKNOWN if kind.extra.name else 0),
        min((span or 0) * NS_OF[record.span_unit], INT64_MAX),
    )  # fmt: skip


def _scaled(value: int, scale: tuple[int, int]) -> int:
    return min(-(-value * scale[0] // scale[1]), INT64_MAX)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
