"""The library's way to a capture: an iterator of columns, whatever its size.

In: a capture's folder, a topic and which rows are wanted. Out: columns of at most 65,536 rows, each sorted by time.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Collection, Container, Iterable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from pausetrace.columns import KIND_NAMES, SIDE_NAMES, Columns
from stream import kinds as kind_table
from stream.capture_reader import ROW_COLUMNS, CaptureFolder, LoadedPart, count_undecodable, load_part
from stream.capture_schema import ROW_GROUP_ROWS
from stream.capture_select import RowFilter
from stream.errors import ConfigError
from stream.record import MAX_TIME_NS, picked
from stream.topics import PACKED, bare_name

_log = logging.getLogger(__name__)


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

    Each yield is sorted by time; partitions come one after another. Values that do not decode are counted in a warning
    of the log. Raises ConfigError for what cannot be meant, CaptureError for a file that is missing or not as it was
    written.
    """
    folder = CaptureFolder(Path(path))
    name = bare_name(folder.manifest.plan.prefix, topic)
    if name not in PACKED:
        raise ConfigError(f"topic {name!r} has no columns", f"choose from: {', '.join(PACKED)}")
    if name not in folder.manifest.plan.topics:
        raise ConfigError(
            f"the capture has no topic {name!r}", f"choose from: {', '.join(folder.manifest.plan.topics)}"
        )
    kinds = _names("kinds", kinds)
    unknown = [kind for kind in kinds if kind not in kind_table.BY_NAME]
    if unknown:
        raise ConfigError(f"no kind {unknown[0]!r}", "`pausetrace schema docs` lists them")
    wanted = RowFilter(
        *_times(from_ns, to_ns),
        _names("devices", devices),
        _names("ports", ports),
        _numbers("priorities", priorities, (*range(8), kind_table.NO_PRIORITY), "numbers 0 to 7, or 255 for none"),
        frozenset(kind_table.BY_NAME[kind].code for kind in kinds),
        _numbers("flows", flows, range(1 << 64), "flow ids as int('16 HEX DIGITS', 16), or 0 for none"),
    )
    return _columns(folder, name, wanted)


def _columns(folder: CaptureFolder, topic: str, wanted: RowFilter) -> Iterator[Columns]:
    undecodable = 0
    for part in folder.parts([topic]):
        undecodable += count_undecodable(
            folder, [file for file in part.files if wanted.overlaps(file.first_ns, file.last_ns)]
        )
        rows = [file for file in part.files if file.table == "events"]
        if any(wanted.overlaps(file.first_ns, file.last_ns) for file in rows):
            loaded = load_part(folder, part, (), (*ROW_COLUMNS, "seen_ns", "text"))
            yield from _columns_of(loaded, wanted)
    if undecodable:
        _log.warning(
            "%s: %d values of topic %s do not decode and are left out: column error of the messages says why",
            folder.path, undecodable, topic,
        )  # fmt: skip


def _times(from_ns: int, to_ns: int) -> tuple[int, int]:
    try:
        times = operator.index(from_ns), operator.index(to_ns)
    except TypeError:
        raise ConfigError(
            f"from_ns={from_ns!r}, to_ns={to_ns!r} are not two times", "give whole ns since the Unix epoch"
        ) from None
    if times[0] >= times[1]:
        raise ConfigError(f"nothing is between from_ns={from_ns} and to_ns={to_ns}", "give a later to_ns")
    return times


def _names(argument: str, given: Collection[str]) -> frozenset[str]:
    if isinstance(given, str):
        raise ConfigError(f"{argument}={given!r} is one name, not a list of names", f"give {argument}=[{given!r}]")
    names = list(given) if isinstance(given, Iterable) else [given]
    if not (isinstance(given, Iterable) and all(isinstance(name, str) for name in names)):
        raise ConfigError(f"{argument}={given!r} is no list of names", f"give {argument}=['NAME']")
    return frozenset(names)


def _numbers(argument: str, given: Collection[int], allowed: Container[int], what: str) -> frozenset[int]:
    try:
        numbers = frozenset(operator.index(number) for number in given)
    except TypeError:
        raise ConfigError(f"{argument}={given!r} is no list of numbers", f"give a list of {what}") from None
    for number in numbers:
        if number not in allowed:
            raise ConfigError(f"{argument} has {number}, which is none of them", f"give a list of {what}")
    return numbers


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
