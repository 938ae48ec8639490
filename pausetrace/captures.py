"""The library's way to a capture: an iterator of columns, whatever its size.

In: a capture's folder, a topic and which rows are wanted. Out: columns of at most 65,536 rows, each sorted by time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from pausetrace.columns import KIND_NAMES, SIDE_NAMES, Columns
from stream import kinds as kind_table
from stream.capture_reader import ROW_COLUMNS, CaptureFolder, LoadedPart, load_part
from stream.capture_schema import ROW_GROUP_ROWS
from stream.capture_select import RowFilter
from stream.errors import ConfigError
from stream.record import MAX_TIME_NS, picked
from stream.topics import PACKED, bare_name


def read_capture(
    path: str | PathLike[str],
    topic: str,
    *,
    from_ns: int = 0,
    to_ns: int = MAX_TIME_NS + 1,
    devices: Collection[str] = (),
    ports: Collection[str] = (),
    priorities: Collection[int] = (),
    kinds: Collection[str] = (),
    flows: Collection[int] = (),
) -> Iterator[Columns]:
    """Yields the rows of a packed topic (`pfc`, `queue`, ...) of a capture as columns; nothing given wants all.

    Each yield is sorted by time; partitions come one after another. Raises CaptureError for a file that is missing or
    not as it was written.
    """
    folder = CaptureFolder(Path(path))
    name = bare_name(folder.manifest.plan.prefix, topic)
    if name not in PACKED:
        raise ConfigError(f"topic {name!r} has no columns", f"choose from: {', '.join(PACKED)}")
    if name not in folder.manifest.plan.topics:
        raise ConfigError(
            f"the capture has no topic {name!r}", f"choose from: {', '.join(folder.manifest.plan.topics)}"
        )
    unknown = [kind for kind in kinds if kind not in kind_table.BY_NAME]
    if unknown:
        raise ConfigError(f"no kind {unknown[0]!r}", "`pausetrace schema docs` lists them")
    wanted = RowFilter(
        from_ns,
        to_ns,
        frozenset(devices),
        frozenset(ports),
        frozenset(priorities),
        frozenset(kind_table.BY_NAME[kind].code for kind in kinds),
        frozenset(flows),
    )
    return _columns(folder, name, wanted)


def _columns(folder: CaptureFolder, topic: str, wanted: RowFilter) -> Iterator[Columns]:
    for part in folder.parts([topic]):
        rows = [file for file in part.files if file.table == "events"]
        if any(wanted.overlaps(file.first_ns, file.last_ns) for file in rows):
            loaded = load_part(folder, part, (), (*ROW_COLUMNS, "seen_ns", "text"))
            yield from _columns_of(loaded, wanted)


def _columns_of(loaded: LoadedPart, wanted: RowFilter) -> Iterator[Columns]:
    messages = loaded.messages
    message = loaded.message_of_rows()
    keep = wanted.rows(loaded.events, loaded.port, loaded.port_names)
    if wanted.devices:
        of_wanted = np.array([stream.device in wanted.devices for stream in messages.streams] or [False])
        keep &= of_wanted[messages.stream[message]]
    chosen = np.flatnonzero(keep)
    chosen = chosen[np.argsort(loaded.events["time_ns"][chosen], kind="stable")]
    ports = np.array(loaded.port_names or [""], np.str_)
    names = {
        field: np.array([getattr(stream, field) for stream in messages.streams] or [""], np.str_)
        for field in ("fabric", "device", "source")
    }
    texts = np.full(len(loaded.events), "", object)
    for place, text in loaded.texts:
        texts[place] = text
    for begin in range(0, len(chosen), ROW_GROUP_ROWS):
        at = chosen[begin : begin + ROW_GROUP_ROWS]
        events = picked(loaded.events, at)
        stream = messages.stream[message[at]]
        yield Columns(
            time_ns=events["time_ns"],
            seen_ns=events["seen_ns"],
            span_ns=events["span_ns"],
            fabric=names["fabric"][stream],
            device=names["device"][stream],
            port=ports[loaded.port[at]],
            kind=KIND_NAMES[events["kind"]],
            priority=events["priority"],
            side=SIDE_NAMES[events["side"]],
            flow=events["flow"],
            value=events["value"],
            extra=events["extra"],
            quality=events["quality"],
            source=names["source"][stream],
            seq=messages.seq[message[at]] + loaded.row[at],
            text=texts[at],
        )
