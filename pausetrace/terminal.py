"""Where text for people goes: consoles that know whether they write to a terminal and what it can show."""

from __future__ import annotations

from typing import IO

from rich.console import Console

PLAIN_WIDTH = 110
"""Columns where no terminal says how many it has."""


class OwnConsole(Console):
    """A console whose reader may leave: the command line says what happens then, the same for all that it prints."""

    def on_broken_pipe(self) -> None:
        """Lets the error through, which Rich would turn into exit status 1."""
        raise  # noqa: PLE0704 - Rich calls this where it handles the error


def make_console(file: IO[str], width: int | None = None) -> Console:
    """A console for `file`: colour on a terminal only, none with NO_COLOR; no markup, highlighting or emoji codes."""
    if width is None and not file.isatty():
        width = PLAIN_WIDTH
    return OwnConsole(file=file, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)
