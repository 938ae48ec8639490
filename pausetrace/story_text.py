"""What the demo of a fabric found out, for people: the cascade, the stall and its price, the victims, the averages.

In: `Findings`. Out: text on a console; names come from the fabric and are made harmless first.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pausetrace.fleet_averages import Averages
from pausetrace.plain_text import printable
from pausetrace.render import glyphs_of
from pausetrace.report import print_report
from pausetrace.story_demo import Findings, HeldUp
from pausetrace.tails_text import FIRST_LIMITS, limit_sentences, stall_sentences
from pausetrace.units import duration_text

MOST_RANKS = 8
CHART_ROWS = 6
LABEL_WIDTH = 11
"""Columns before the first step of the chart."""
LONG = 1.2
"""A step that lasts so many times as long as the median is longer than usual."""
PRICE = 2.5
"""Of a rank for an hour, where nobody gives one: what a GPU costs to rent."""


def print_findings(found: Findings, console: Console, price: float = PRICE) -> None:
    """Everything."""
    if found.lengths_ns:
        console.print(_chart(found.lengths_ns, console))
    console.print(_averages(found.averages))
    print_report(found.cascades, console, pictures=1)
    if found.held_up:
        console.print(Text(_held_up(found.held_up), overflow="fold"))
        console.print()
    stalls = found.tails.stalls if found.tails else ()
    for stall in stalls:
        console.print(Text("\n".join(stall_sentences(stall, price)), overflow="fold"))
    if found.tails and found.tails.limits:
        console.print(Text("\n".join(limit_sentences(found.tails.limits[:FIRST_LIMITS])), overflow="fold"))
    if not stalls:
        console.print(Text(_no_stall(found), overflow="fold"))


def _no_stall(found: Findings) -> str:
    """That the job was not held up for long, and what there was of it."""
    if any(root.root_class == "pfc_deadlock" for cascade in found.cascades for root in cascade.roots):
        return " The job stands still: the step in which the deadlock came about has no end, and so no length."
    lengths = sorted(found.lengths_ns)
    if not lengths or lengths[-1] <= LONG * lengths[len(lengths) // 2]:
        return " No step lasted longer than usual."
    longest, usual = duration_text(lengths[-1]), duration_text(lengths[len(lengths) // 2])
    return f" A step lasted {longest} where {usual} is usual; only three long steps near each other are a stall."


def _chart(lengths_ns: tuple[int, ...], console: Console) -> Text:
    """How long each step took, a column a step."""
    bar = glyphs_of(console).bar
    count = len(lengths_ns)
    # Of a narrow terminal, a column for several steps, the longest of them.
    each = -(-count // max((console.width - LABEL_WIDTH) // 2, 1))
    lengths_ns = tuple(max(lengths_ns[first : first + each]) for first in range(0, count, each))
    most = max(lengths_ns)
    heights = [max(round(length * CHART_ROWS / most), 1) for length in lengths_ns]
    what = "Each step of the job" if each == 1 else f"The steps of the job, the longest of {each} each"
    chart = Text(f" {what}, {count} in all:\n\n", style="dim")
    for row in range(CHART_ROWS, 0, -1):
        label = duration_text(most) if row == CHART_ROWS else duration_text(min(lengths_ns)) if row == 1 else ""
        chart.append(f" {label:>9} ", "dim")
        for height in heights:
            slow = height * 3 > CHART_ROWS * 2
            chart.append(f"{bar if height >= row else ' '} ", "red" if slow else "green")
        chart.append("\n")
    return chart


def _averages(averages: Averages) -> Table:
    """What the averages say, beside the greatest value."""
    table = Table(box=None, pad_edge=True, header_style="bold", title_justify="left")
    for name in ("what averages over the fleet say", "before", "since", "greatest"):
        table.add_column(name, justify="left" if name[0] == "w" else "right")
    for each in averages.measures:
        table.add_row(
            f"{each.name}, {each.unit}", "-" if each.before is None else f"{each.before:.3g}", f"{each.since:.3g}",
            f"{each.most:.3g}",
        )  # fmt: skip
    table.add_row(
        "ports stopped for more than 1 % of the time", "", f"{averages.stopped_ports:,} of {averages.ports:,}", ""
    )
    return table


def _held_up(ranks: tuple[HeldUp, ...]) -> str:
    told = [
        printable(f"{each.rank or 'a rank'} on {each.host} for {duration_text(each.pause_ns)}, {each.flows} flows")
        for each in ranks[:MOST_RANKS]
    ]
    more = f", and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return f" Held up though they sent nothing to the root: {'; '.join(told)}{more}."
