"""Tables of devices, ports, links and names for people.

In: entries of the inventory's view. Out: text on a console; names come from the fabric and are made harmless first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pausetrace.inventory_view import DeviceEntry, LinkEntry, NameEntry, PortEntry
from pausetrace.plain_text import printable

MOST_NAMES = 20
"""Names that do not resolve shown at most: JSON has them all."""

Row = tuple[str, ...]


def print_devices(entries: Sequence[DeviceEntry], console: Console) -> None:
    """Devices, a line each."""
    rows = (
        (e.device, e.role, str(e.ports), str(e.cabled), _maps(e), ", ".join(e.sources), ", ".join(e.names), _noted(e))
        for e in entries
    )
    _print(
        console,
        ("device", "role", "ports", "cabled", "maps", "told by", "also called", ""),
        rows,
        [entry.fabric for entry in entries],
    )


def print_ports(entries: Sequence[PortEntry], console: Console) -> None:
    """The ports of some devices, a line each."""
    rows = (
        (f"{e.device}:{e.port}", _speed(e.speed_mbps), e.peer or "-", e.lag, e.rail, ", ".join((*e.names, *e.ips)),
         _noted(e))
        for e in entries
    )  # fmt: skip
    _print(
        console,
        ("port", "speed", "cabled to", "LAG", "rail", "also called", ""),
        rows,
        [entry.fabric for entry in entries],
    )


def print_links(entries: Sequence[LinkEntry], console: Console) -> None:
    """Links, a line each."""
    rows = (
        (f"{e.a_device}:{e.a_port}", f"{e.b_device}:{e.b_port}", _speed(e.speed_mbps), e.told_by,
         "; ".join((*(("half-link",) if e.half else ()), *(() if e.joined else ("joins nothing",)), *e.notes)))
        for e in entries
    )  # fmt: skip
    _print(console, ("one end", "other end", "speed", "told by", ""), rows, [entry.fabric for entry in entries])


def print_names(entries: Sequence[NameEntry], console: Console) -> None:
    """Names that do not resolve."""
    if not entries:
        return
    console.print(Text(f"\n{len(entries)} names do not resolve:", style="yellow"))
    rows = (
        (f"{e.device}:{e.port}" if e.port else e.device, e.standing, e.why, e.used_by) for e in entries[:MOST_NAMES]
    )  # fmt: skip
    _print(console, ("name", "is", "why", "used by"), rows, [entry.fabric for entry in entries[:MOST_NAMES]])
    if len(entries) > MOST_NAMES:
        console.print(Text(f"and {len(entries) - MOST_NAMES} more (-o json has them all)", style="dim"))


def _print(console: Console, head: Row, rows: Iterable[Row], fabrics: Sequence[str]) -> None:
    """Prints a row of each fabric; the last column, which says what is wrong, has no head."""
    several = len(set(fabrics)) > 1
    table = Table(*(("fabric",) if several else ()), *head, box=None, pad_edge=False, header_style="dim")
    for fabric, row in zip(fabrics, rows, strict=True):
        cells = [Text(printable(cell), overflow="fold") for cell in ((fabric, *row) if several else row)]
        if not head[-1]:
            cells[-1].stylize("yellow")
        table.add_row(*cells)
    console.print(table)


def _maps(entry: DeviceEntry) -> str:
    """How many of the four maps from DSCP to queue are known; the others are assumed."""
    return f"{len(entry.maps)} of 4" if entry.maps else "assumed"


def _speed(mbps: int) -> str:
    if not mbps:
        return "-"
    return f"{mbps // 1000}G" if mbps % 1000 == 0 else f"{mbps}M"


def _noted(entry: DeviceEntry | PortEntry) -> str:
    return "; ".join(entry.notes)
