"""Shows what probes see on this host: a live table on a terminal, lines in a pipe, or JSON lines.

In: readings of an agent. Out: text on stdout; what was lost on stderr. Each is an agent's output in place of Kafka.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pausetrace.columns import Columns
from pausetrace.event_text import Row, measures_text, row_object, rows
from pausetrace.latency import BUCKET, OUTLIER, Latency, latencies
from pausetrace.plain_text import printable
from pausetrace.terminal import make_console
from pausetrace.units import duration_text, time_text
from probes.promises import Promises
from probes.runner import ProbeStatus, Taken
from probes.settings import AgentSettings
from probes.table import ProbeKind
from stream.batch import Batch, StreamKey
from stream.kinds import BY_CODE
from stream.outgoing import NO_PORT

SHOWN_OUTLIERS = 10
SHOWN_ROWS = 24
OUTLIERS_STAY_S = 60.0
BAR_WIDTH = 24


class _Shown:
    """What all ways of showing have in common: rows with their names, and what was lost."""

    def __init__(self, file: IO[str], settings: AgentSettings, promises: Promises, *, local: bool = False) -> None:
        self.counters: Mapping[str, int] = {}
        self._file = file
        self._settings = settings
        self._promises = promises
        self._local = local
        self._lost = 0
        self._seqs: dict[str, int] = {}

    def expect(self, kinds: Sequence[ProbeKind]) -> None:
        """Nothing is announced to anybody."""

    def tell(self, statuses: Sequence[ProbeStatus]) -> None:
        """Where the probes stand is told by their warnings."""

    def turn(self) -> None:
        """Lets the reader see what there is."""

    def close(self, *, in_order: bool = True) -> None:
        """Nothing is left to be told."""

    def take(self, taken: Sequence[Taken]) -> None:
        """Shows readings."""
        for one in taken:
            self._promises.passed_on(one.kind, one.read_ns)
            lost = sum(lost.rows for lost in one.reading.lost)
            if lost:
                self._lost += lost
                print(f"pausetrace: probe {one.kind.name}: {lost:,} rows were lost", file=sys.stderr)
            self.show(one)

    def show(self, one: Taken) -> None:
        """Shows one reading."""
        raise NotImplementedError

    def batches(self, one: Taken) -> list[Batch]:
        """The rows as batches of streams that nobody reads but us."""
        made = []
        for part in one.reading.rows:
            seq = self._seqs.get(part.topic, 0)
            self._seqs[part.topic] = seq + len(part.events)
            key = StreamKey(self._settings.fabric, "probes", "-", part.topic, self._settings.device)
            made.append(
                Batch(key, seq, one.read_ns, tuple(port or NO_PORT for port in part.ports), part.events,
                      texts=tuple(part.texts))
            )  # fmt: skip
        return made


class JsonLines(_Shown):
    """One JSON object a row, as `pausetrace observe` has them, and one a fact."""

    def show(self, one: Taken) -> None:
        """Shows one reading."""
        for row in rows(Columns.of(self.batches(one))):
            self._line(row_object(row, self._local))
        for fact in one.reading.facts:
            self._line(fact)

    def turn(self) -> None:
        """Lets the reader of the pipe see what there is."""
        self._file.flush()

    def _line(self, value: object) -> None:
        self._file.write(msgspec.json.encode(value).decode() + "\n")


class PlainTables(_Shown):
    """A line a histogram and window, a line an outlier, a line a row of anything else."""

    def __init__(self, file: IO[str], settings: AgentSettings, promises: Promises, *, local: bool = False) -> None:
        super().__init__(file, settings, promises, local=local)
        self._headed = False

    def show(self, one: Taken) -> None:
        """Shows one reading."""
        for batch in self.batches(one):
            for latency in latencies(batch.events, batch.ports):
                self._write(latency.time_ns, *latency_line(latency))
            others = other_rows(batch)
            worst = sorted((row for row in others if row.kind.endswith(OUTLIER)), key=lambda row: -(row.value or 0))
            left_out = set(worst[SHOWN_OUTLIERS:])
            for row in others:
                if row not in left_out:
                    self._write(row.time_ns, row.kind.lower(), row.port, _queue(row), measures_text(row))
            if left_out:
                more = f"{len(left_out):,} more that were shorter: -o jsonl has them all"
                self._write(one.read_ns, worst[0].kind.lower(), "", more)

    def turn(self) -> None:
        """Lets the reader of the pipe see what there is."""
        self._file.flush()

    def _write(self, time_ns: int, what: str, port: str, *cells: str) -> None:
        told = "  ".join(printable(cell) for cell in cells if cell)
        self._file.write(f"{time_text(time_ns, self._local)}  {what:<16} {printable(port):<12} {told}\n")


class LiveTables(_Shown):
    """One picture that is drawn anew: histograms of the last window, the last of all other rows, the worst outliers."""

    def __init__(self, file: IO[str], settings: AgentSettings, promises: Promises, *, local: bool = False) -> None:
        super().__init__(file, settings, promises, local=local)
        self._console = make_console(file)
        self._begun_s = time.monotonic()
        self._latencies: dict[tuple[str, str], Latency] = {}
        self._others: dict[tuple[object, ...], Row] = {}
        self._outliers: deque[Row] = deque(maxlen=1000)
        self._statuses: Sequence[ProbeStatus] = ()
        self._changed = True
        self._live = Live(Text(""), console=self._console, auto_refresh=False)
        self._live.start()

    def show(self, one: Taken) -> None:
        """Takes one reading in."""
        for batch in self.batches(one):
            for latency in latencies(batch.events, batch.ports):
                self._latencies[latency.source, latency.port] = latency
            for row in other_rows(batch):
                if row.kind.endswith(OUTLIER):
                    self._outliers.append(row)
                else:
                    self._others.pop(key := (row.kind, row.port, row.priority, row.side, row.flow, _code(row)), None)
                    self._others[key] = row
        self._changed = True

    def tell(self, statuses: Sequence[ProbeStatus]) -> None:
        """Shows which probes are in trouble."""
        self._statuses = statuses
        self._changed = True

    def turn(self) -> None:
        """Draws what has changed."""
        if self._changed:
            self._changed = False
            self._live.update(self._picture(), refresh=True)

    def close(self, *, in_order: bool = True) -> None:
        """Leaves the last picture."""
        self._changed = in_order
        self.turn()
        self._live.stop()

    def _picture(self) -> Group:
        parts: list[Table | Text] = []
        if self._latencies:
            table = _table("latency", "where", *_LATENCY_COLUMNS)
            for latency in sorted(self._latencies.values(), key=lambda one: one[:2]):
                table.add_row(*(Text(printable(cell)) for cell in latency_cells(latency)))
            parts.append(table)
        if self._others:
            table = _table("seen", "where", "queue", "what")
            for row in list(self._others.values())[-SHOWN_ROWS:]:
                shown = (row.kind.lower(), row.port, _queue(row), measures_text(row))
                table.add_row(*(Text(printable(cell)) for cell in shown))
            parts += [Text(""), table]
        newest_ns = max((row.time_ns for row in self._outliers), default=0) - int(OUTLIERS_STAY_S * 1e9)
        worst = sorted((row for row in self._outliers if row.time_ns > newest_ns), key=lambda row: -(row.value or 0))
        if worst:
            table = _table("outliers of the last minute, worst first", "where", "latency", "who", "when")
            for row in worst[:SHOWN_OUTLIERS]:
                who = f"{row.text} ({row.extra})" if row.text else str(row.extra or "")
                cells = (
                    row.kind.lower(),
                    row.port,
                    duration_text(row.value or 0),
                    who,
                    time_text(row.time_ns, self._local),
                )
                table.add_row(*(Text(printable(cell)) for cell in cells))
            parts += [Text(""), table]
        return Group(*parts, Text(""), self._status_line())

    def _status_line(self) -> Text:
        passed = duration_text(int(time.monotonic() - self._begun_s) * 10**9)
        used = sum(status.used_share for status in self._statuses)
        line = Text(f"{self._settings.device} · {passed}", style="dim")
        if used:
            line.append(f" · probes take {used:.1%} of a core")
        if self._lost:
            line.append(f" · {self._lost:,} rows lost", style="yellow")
        starting = [status.name for status in self._statuses if status.state == "starting" or not status.reads]
        if starting and not (self._latencies or self._others):
            line.append(f" · starting: {', '.join(starting)}")
        for status in self._statuses:
            if status.state not in ("running", "starting", "stopped"):
                line.append(f"\n{status.name} {status.state}: {printable(status.reason)}", style="yellow")
        return line


QUANTILES = (0.5, 0.99, 1.0)
_LATENCY_COLUMNS = ("per s", "p50 ≤", "p99 ≤", "max ≤", "1 µs to 8 s, by octave")


def latency_cells(latency: Latency) -> tuple[str, ...]:
    """Source, port, rate, p50, p99, max and bar."""
    rate = latency.total * 1e9 / latency.span_ns if latency.span_ns else float(latency.total)
    quantiles = (duration_text(latency.quantile_ns(share)) for share in QUANTILES)
    return (latency.source, latency.port, f"{rate:,.0f}", *quantiles, latency.bar(BAR_WIDTH))


def latency_line(latency: Latency) -> tuple[str, ...]:
    """The same for a line, in which each number says what it is."""
    source, port, rate, *quantiles, _ = latency_cells(latency)
    named = (f"{name} {text}" for name, text in zip(_LATENCY_COLUMNS[1:-1], quantiles, strict=True))
    return (source, port, f"{rate} per s", *named)


def other_rows(batch: Batch) -> list[Row]:
    """The rows that belong to no histogram."""
    columns = Columns.of([batch])
    return [row for row in rows(columns) if not row.kind.endswith(BUCKET)]


def _queue(row: Row) -> str:
    parts = (
        row.side or "",
        "" if row.priority is None else f"priority {row.priority}",
        f"flow {row.flow}" * bool(row.flow),
    )
    return " ".join(part for part in parts if part)


def _code(row: Row) -> int | None:
    """What tells rows of one kind and port apart, where the second measure is a code."""
    kind = next(kind for kind in BY_CODE.values() if kind.name == row.kind)
    return row.extra if kind.extra.unit == "code" else None


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        right = column in _LATENCY_COLUMNS[:-1] or column == "latency"
        table.add_column(column, justify="right" if right and columns[0] != column else "left", no_wrap=True)
    return table
