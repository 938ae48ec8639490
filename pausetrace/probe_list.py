"""Which probes run on this host, and why the others do not: `pausetrace probe --list`.

In: the configuration. Out: a table, or one JSON object a probe.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import IO, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from pausetrace.plain_text import printable
from pausetrace.probe_config import ProbesConfig, agent_settings
from pausetrace.terminal import make_console
from probes.opening import Opener, TableOpener
from probes.table import PROBES


class Standing(NamedTuple):
    """One probe on this host; `reason` says why it cannot run and `fix` what would let it, both "" if it can."""

    probe: str
    available: bool
    enabled: bool
    interval: str
    threshold: str
    topics: tuple[str, ...]
    sees: str
    reason: str = ""
    fix: str = ""


def standing(config: ProbesConfig, names: Collection[str] = (), opener: Opener | None = None) -> list[Standing]:
    """How each probe stands, or those chosen by names; none is loaded."""
    opener = opener or TableOpener()
    everything = agent_settings(config, names or [kind.name for kind in PROBES])
    rows = []
    for kind in PROBES:
        if kind.name not in everything.probes:
            continue
        own = config.each[kind.name]
        why = opener.available(kind, everything.options(kind))
        reason, fix = (why.reason, why.fix) if why is not None else ("", "")
        rows.append(
            Standing(
                kind.name, why is None, own.enable, own.interval, own.threshold, kind.topics, kind.sees, reason, fix
            )
        )  # fmt: skip
    return rows


def show_json(rows: Collection[Standing], file: IO[str]) -> None:
    """One JSON object a line."""
    for row in rows:
        file.write(msgspec.json.encode(row._asdict()).decode() + "\n")


def show_table(rows: Collection[Standing], file: IO[str]) -> None:
    """A table: first what runs and what it sees, then what does not and why."""
    console = make_console(file)
    running = Table("runs here", "every", "topics", "sees", box=None, pad_edge=False, header_style="dim")
    for row in rows:
        if row.available:
            every = row.interval if row.enabled else "not enabled"
            running.add_row(*(Text(cell) for cell in (row.probe, every, " ".join(row.topics), row.sees)))
    console.print(running)
    if all(row.available for row in rows):
        return
    console.print()
    missing = Table("does not", "why", "what would let it", box=None, pad_edge=False, header_style="dim")
    for row in rows:
        if not row.available:
            missing.add_row(*(Text(printable(cell)) for cell in (row.probe, row.reason, row.fix)))
    console.print(missing)
