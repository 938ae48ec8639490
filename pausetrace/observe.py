"""Shows what comes on a topic: a table that grows on a terminal, JSON lines in a pipe.

In: a Reader and a Selection. Out: text on stdout; rates and whatever went wrong below the table or on stderr.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Protocol

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pausetrace.columns import Columns, Selection, select
from pausetrace.event_text import Row, measures_text, row_object, rows
from pausetrace.plain_text import printable
from pausetrace.reader import Read, Reader
from pausetrace.render import cascade_picture
from pausetrace.units import time_text
from stream.batch import Batch
from stream.cascade import Cascade
from stream.facts import Idle

MAX_LINES_PER_S = 200
"""What a terminal and its reader keep up with; the rest is counted below the table. A pipe gets everything."""


class Wanted(NamedTuple):
    """What to show: which rows, how many (None = all that come) and in which time zone."""

    selection: Selection
    limit: int | None
    local: bool


@dataclass(slots=True)
class Tally:
    """What went to the sink, and what was passed over since nobody wanted it."""

    shown: int = 0
    passed_over: int = 0


class Sink(Protocol):
    """Where rows and values go."""

    def row(self, row: Row) -> None:
        """Takes one event."""
        ...

    def value(self, read: Read) -> None:
        """Takes one value of a JSON topic."""
        ...

    def pause(self) -> None:
        """Is called when nothing more is there for the moment."""
        ...


def observe(reader: Reader, sink: Sink, wanted: Wanted, follow: bool, tally: Tally | None = None) -> None:
    """Feeds the sink until the limit, or the present end of the topic where it is not to follow."""
    tally = tally or Tally()
    end = None if follow else reader.end()
    left = wanted.limit
    while end is None or not reader.has_reached(end):
        for shown in _wanted(reader.read(), wanted.selection, tally):
            if left == 0:
                return
            tally.shown += 1
            if isinstance(shown, Row):
                sink.row(shown)
            else:
                sink.value(shown)
            left = None if left is None else left - 1
        sink.pause()
        if left == 0:
            return


def _wanted(reads: list[Read], selection: Selection, tally: Tally) -> Iterator[Row | Read]:
    for read in reads:
        if isinstance(read.item, Batch):
            wanted = selection.rows(read.item)
            tally.passed_over += len(wanted) - int(wanted.sum())
            if wanted.any():
                yield from rows(select(Columns.of([read.item]), wanted))
        elif isinstance(read.item, Idle):
            continue  # says that there is nothing to say
        elif not selection.devices or _names_one(_decoded(read.received.value or b""), selection.devices):
            yield read
        else:
            tally.passed_over += 1


def _decoded(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # no JSON: it names nothing


def _names_one(value: Any, names: frozenset[str]) -> bool:
    """Whether one of the names stands anywhere in a JSON value."""
    if isinstance(value, str):
        return value in names
    if isinstance(value, dict):
        return any(_names_one(inner, names) for inner in value.values())
    return isinstance(value, list) and any(_names_one(inner, names) for inner in value)


class JsonLines:
    """One JSON object a line; the values of JSON topics exactly as published."""

    def __init__(self, file: IO[str], local: bool) -> None:
        self._file = file
        self._local = local
        self._encoder = msgspec.json.Encoder()

    def row(self, row: Row) -> None:
        """One event."""
        self._write(self._encoder.encode(row_object(row, self._local)))

    def value(self, read: Read) -> None:
        """One value, on one line even if its publisher wrote several."""
        self._write(b" ".join((read.received.value or b"").splitlines()))

    def pause(self) -> None:
        """Lets the reader of the pipe see what there is."""
        self._file.flush()

    def _write(self, line: bytes) -> None:
        self._file.write(line.decode("utf-8", "replace") + "\n")


class LiveTable:
    """Rows as they come with a status line below; `with` it to have the terminal as it was afterwards."""

    def __init__(self, console: Console, topic: str, reader: Reader, local: bool) -> None:
        self._console = console
        self._topic = topic
        self._reader = reader
        self._local = local
        self._count = 0
        self._left_out = 0
        self._second = 0
        self._lines = 0
        self._begun = time.monotonic()
        self._headed = False
        self._live = Live(Text(""), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveTable:
        self._live.start()
        self.pause()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def row(self, row: Row) -> None:
        """One event."""
        if self._has_room():
            if not self._headed:
                self._headed = True
                self._print(_table_line("time", "device", "port", "prio", "kind", "side", "what", "dim"))
            priority = "" if row.priority is None else str(row.priority)
            what = measures_text(row)
            flow = f"{'  ' if what else ''}flow {row.flow}" if row.flow else ""
            self._print(
                _table_line(
                    time_text(row.time_ns, self._local), row.device, row.port, priority, row.kind, row.side or "",
                    what + flow, _KIND_STYLES.get(row.kind, ""),
                )
            )  # fmt: skip

    def value(self, read: Read) -> None:
        """One value of a JSON topic; a cascade as its picture."""
        if self._has_room():
            if isinstance(read.item, Cascade):
                self._console.print(cascade_picture(read.item, self._console, self._local))
            else:
                self._print(Text(printable((read.received.value or b"").decode("utf-8", "replace"))))

    def pause(self) -> None:
        """Renews the status line."""
        counters = self._reader.counters
        passed = max(time.monotonic() - self._begun, 1e-3)
        parts = [f"{self._topic}", f"{self._count:,} shown", f"{self._count / passed:,.0f}/s"]
        trouble = [
            f"{number:,} {what}"
            for number, what in (
                (self._left_out, "too fast to show"),
                (counters["bad_values"], "bad values"),
                (counters["missing_offsets"], "messages missing"),
            )
            if number
        ]
        self._live.update(Text.assemble((" · ".join(parts), "dim"), ("".join(f" · {t}" for t in trouble), "yellow")))

    def _has_room(self) -> bool:
        self._count += 1
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > MAX_LINES_PER_S:
            self._left_out += 1
            return False
        return True

    def _print(self, line: Text) -> None:
        self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


_KIND_STYLES = {
    "PFC_XOFF": "red", "PFC_XON": "green", "PFC_PAUSED": "red", "PFC_WATCHDOG": "bold red", "PAUSE_OPEN": "red",
    "PAUSE_INTERVAL": "magenta", "ECN_MARKED": "yellow", "CNP": "yellow", "QUEUE_DROPS": "bold red",
    "LINK_ERRORS": "bold red", "SOURCE_LOST": "bold yellow",
}  # fmt: skip


def _table_line(
    at: str, device: str, port: str, priority: str, kind: str, side: str, what: str, style: str
) -> Text:  # fmt: skip
    line = Text(f"{at:<30}  ", style="" if style == "dim" else "bright_black")
    line.append(f"{printable(device):<12} {printable(port):<8} {priority:<4} ")
    line.append(f"{kind:<15} ", style=style)
    line.append(f"{side:<4} {what}")
    if style == "dim":
        line.stylize("dim")
    return line
