"""The status for people: fabrics with their silent switches, sources, and hosts whose probes have trouble.

In: a Status. Out: text on a console; names come from the fabric and are made harmless first.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pausetrace.plain_text import printable
from pausetrace.status import Status
from pausetrace.units import duration_text, share_text
from stream.identity import some
from stream.source_health import FabricHealth

COLOURS = {"ok": "green", "silent": "bold red", "losing": "bold red", "failing": "bold red"}


def print_status(status: Status, console: Console) -> None:
    """Everything."""
    if not (status.fabrics or status.sources or status.hosts):
        console.print(Text(" Nobody tells of any source: do detect and correlate run? (topic health)"))
    for fabric in status.fabrics:
        console.print(Text.assemble(" ", (fabric.state, COLOURS.get(fabric.state, "yellow")), " ", _fabric(fabric)))
    if status.sources:
        table = _table("", "source", "streams", "complete", "lost rows", "behind", "told", "")
        for source in status.sources:
            notes = [
                *([f"silent: {some(source.silent)}"] if source.silent else []),
                *([f"gaps: {some(source.devices_with_gaps)}"] if source.devices_with_gaps else []),
            ]
            table.add_row(
                Text(source.state, COLOURS.get(source.state, "yellow")),
                printable(f"{source.fabric}/{source.source}"), f"{source.streams:,}",
                share_text(source.completeness_ppm), f"{source.lost_rows:,}", duration_text(source.behind_ns),
                f"{duration_text(source.told_ago_ns)} ago", printable("; ".join(notes)),
            )  # fmt: skip
        console.print(table)
    shown = [host for host in status.hosts if host.state != "ok"]
    if status.hosts:
        console.print(Text(f" probes of {len(status.hosts) - len(shown):,} of {len(status.hosts):,} hosts are well"))
    for host in shown:
        why = "; ".join(host.troubles) or f"nothing for {duration_text(host.told_ago_ns)}"
        console.print(
            Text.assemble(
                " ", (host.state, COLOURS.get(host.state, "yellow")), printable(f" {host.fabric}/{host.device}: {why}")
            )
        )
    for teller in status.gone:
        console.print(Text(printable(f" {teller} has told nothing for a minute: it has ended, or stands still")))


def _fabric(fabric: FabricHealth) -> str:
    told = ", ".join(f"{kind} {count:,}" for kind, count in fabric.told.items())
    said = (
        f"fabric {fabric.fabric}: {fabric.reporting:,} of {fabric.switches:,} switches report"
        f" ({share_text(fabric.coverage_ppm)}); have told: {told}; {fabric.streams_up:,} streams,"
        f" {fabric.streams_suspended:,} suspended"
    )
    if fabric.silent:
        more = fabric.silent_count - min(len(fabric.silent), 4)
        names = ", ".join(fabric.silent[:4]) + (f" and {more:,} more" if more else "")
        said += f"\n   silent: {names}: which of their queues held the bytes that they stopped others for is not seen"
    return printable(said) if "\n" not in said else "\n".join(printable(line) for line in said.split("\n"))


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=True, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
