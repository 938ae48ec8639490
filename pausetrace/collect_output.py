"""Rows of a collector for people, without Kafka: JSON lines or a table on stdout, as `observe` shows them.

In: rows by target and topic. Out: one line a row; facts as the JSON that would be published.
"""

from __future__ import annotations

from collections import Counter
from typing import IO, Any

import msgspec

from collectors.outlet import Announced, Mark
from collectors.rows import Made
from pausetrace.columns import Columns
from pausetrace.event_text import Row, measures_text, row_object, rows
from pausetrace.plain_text import printable
from pausetrace.units import time_text
from stream.batch import Batch, StreamKey
from stream.facts import Fact


class LinesOutlet:
    """An outlet that writes lines; `table` is for people, else each line is a JSON object."""

    def __init__(self, file: IO[str], fabric: str, source: str, *, table: bool, local: bool = False) -> None:
        self._file = file
        self._fabric = fabric
        self._source = source
        self._table = table
        self._local = local
        self._devices: dict[int, str] = {}
        self._seqs: Counter[StreamKey] = Counter()
        self._counted: Counter[str] = Counter()
        self._encoder = msgspec.json.Encoder()
        if table:
            self._write(_line("time", "device", "port", "prio", "kind", "side", "what"))

    @property
    def counters(self) -> Counter[str]:
        """What was written."""
        return self._counted

    def up(self, target: int, streams: Announced) -> None:
        """Remembers the device's name."""
        self._devices[target] = streams.device

    def down(self, target: int, reason: str) -> None:
        """Nothing is promised here."""

    def put(self, made: Made, mark: Mark) -> None:
        """Writes rows and facts."""
        for part in made.parts:
            device = self._devices.get(part.target, "-")
            stream = StreamKey(self._fabric, self._source, "0", part.topic, device)
            batch = Batch(stream, self._seqs[stream], 0, tuple(part.ports), made.events[part.first : part.end])
            self._seqs[stream] += len(batch.events)
            self._counted["rows"] += len(batch.events)
            for row in rows(Columns.of([batch])):
                self._row(row)
        for _, fact in made.facts:
            self._counted["facts"] += 1
            self._fact(fact)
        self._file.flush()

    def lost(self, target: int, messages: int, reason: int, first_ns: int, last_ns: int) -> None:
        """Counts."""
        self._counted["messages_lost"] += messages

    def poll(self, mark: Mark) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """The file is not ours."""
        self._file.flush()

    def _row(self, row: Row) -> None:
        if not self._table:
            self._write(self._encoder.encode(row_object(row, self._local)).decode())
            return
        priority = "" if row.priority is None else str(row.priority)
        self._write(_line(
            time_text(row.time_ns, self._local), row.device, row.port, priority, row.kind, row.side or "",
            measures_text(row),
        ))  # fmt: skip

    def _fact(self, fact: Fact) -> None:
        if self._table:
            return
        told: dict[str, Any] = msgspec.to_builtins(fact)
        told.pop("stream", None)
        told["fabric"] = self._fabric
        self._write(self._encoder.encode(told).decode())

    def _write(self, text: str) -> None:
        self._file.write(text + "\n")


def _line(time: str, device: str, port: str, priority: str, kind: str, side: str, what: str) -> str:
    cells = (f"{time:<27}", f"{device:<14}", f"{port:<14}", f"{priority:>4}", f"{kind:<12}", f"{side:<4}", what)
    return printable(" ".join(cells)).rstrip()
