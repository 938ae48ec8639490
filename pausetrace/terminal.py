"""Where text for people goes: consoles that know whether they write to a terminal and what it can show."""

from __future__ import annotations

from typing import IO

from rich.console import Console

PLAIN_WIDTH = 110
"""Columns where no terminal says how many it has."""


def make_console(file: IO[str], width: int | None = None) -> Console:
    """A console for `file`: colour on a terminal only, none with NO_COLOR; no markup, highlighting or emoji codes."""
    if width is None and not file.isatty():
        width = PLAIN_WIDTH
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)
