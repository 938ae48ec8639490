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
from stream.source_health import ENDED, OK, WORST_FIRST, FabricHealth

MOST_WELL = 20
"""So many sources that are well are shown beside those that are not: agents of hosts are thousands."""
COLOURS = {"ok": "green", "ended": "dim", "silent": "bold red", "losing": "bold red", "failing": "bold red"}


def print_status(status: Status, console: Console) -> None:
    """Everything."""
    if not (status.fabrics or status.sources or status.hosts):
        console.print(Text(" Nobody tells of any source: do detect and correlate run? (topic health)"))
    for fabric in status.fabrics:
        for number, line in enumerate(_fabric(fabric)):
            state = f"{fabric.state if number == 0 else '':7}"
            console.print(
                Text.assemble(" ", (state, COLOURS.get(fabric.state, "yellow")), " ", printable(line)), soft_wrap=True
            )
    if status.sources:
        table = _table()
        worst_first = sorted(status.sources, key=lambda source: WORST_FIRST.index(source.state))
        troubled = sum(source.state not in (OK, ENDED) for source in worst_first)
        for source in worst_first[: troubled + MOST_WELL]:
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
        if (more := len(worst_first) - troubled - MOST_WELL) > 0:
            console.print(Text(f" and {more:,} more that are well: -o json has them all", style="dim"))
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


def _fabric(fabric: FabricHealth) -> list[str]:
    told = ", ".join(f"{kind} {count:,}" for kind, count in fabric.told.items())
    said = [
        f"fabric {fabric.fabric}: {fabric.reporting:,} of {fabric.switches:,} switches report"
        f" ({share_text(fabric.coverage_ppm)}), {fabric.streams_up:,} streams, {fabric.streams_suspended:,} suspended",
        f"switches that have told: {told}" if told else "no switch has told depths, bytes or marks",
    ]
    if fabric.silent:
        more = fabric.silent_count - min(len(fabric.silent), 4)
        names = ", ".join(fabric.silent[:4]) + (f" and {more:,} more" if more else "")
        said.append(f"silent: {names}")
        said.append("which of their queues held what they stopped others for is not seen")
    return said


def _table() -> Table:
    table = Table(box=None, pad_edge=True, header_style="bold")
    for name in ("", "source", "streams", "complete", "lost rows", "behind", "told", ""):
        of_numbers = name not in ("", "source")
        table.add_column(name, overflow="fold", justify="right" if of_numbers else "left", no_wrap=of_numbers)
    return table
