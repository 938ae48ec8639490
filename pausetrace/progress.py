"""A progress bar on stderr, on a terminal only: share done, rate and how long it will still take.

In: numbers done and to do. Out: a line that is gone when the work is.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from pausetrace.plain_text import printable
from pausetrace.terminal import make_console
from pausetrace.units import bytes_text

REFRESH_S = 0.1


class Bar:
    """`with Bar("captured", "offsets") as bar: bar.update(done, total)`; says nothing where stderr is no terminal."""

    def __init__(self, what: str, unit: str) -> None:
        self._unit = unit
        self._shown_s = 0.0
        self._begun_s = time.monotonic()
        self._first: int | None = None
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(), console=make_console(sys.stderr), transient=True, disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._task = self._progress.add_task(what, total=None, rate="")

    def update(self, done: int, total: int, written_bytes: int | None = None) -> None:
        """So many of so many are done, and so many bytes written."""
        now_s = time.monotonic()
        if self._first is None:
            # What an earlier process has done says nothing of how fast this one is.
            self._first, self._begun_s = done, now_s
            self._progress.reset(self._task, total=total, completed=done)
        if now_s - self._shown_s < REFRESH_S and done < total:
            return
        self._shown_s = now_s
        per_s = (done - self._first) / max(now_s - self._begun_s, REFRESH_S)
        rate = f"{per_s:,.0f} {self._unit}/s"
        if written_bytes is not None:
            rate += f", {bytes_text(written_bytes)}"
        self._progress.update(self._task, completed=done, total=total, rate=rate)

    def tell(self, text: str) -> None:
        """A line that stays, on stderr."""
        self._progress.console.print(f"pausetrace: {printable(text)}", markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
