"""What disturbances cost, for people: one line a degradation, and how often each tenth of confidence is right."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pausetrace.degradations import DegradationReport, DegradationRow
from pausetrace.evaluation_table import figure_text
from pausetrace.plain_text import printable
from simulation.reliability import Decile

_COLUMNS = ("degradation", "runs", "distance", "worst", "top-1", "named", "class", "abstained", "deadlocks", "alarms")


def print_degradations(report: DegradationReport, console: Console) -> None:
    """Prints the table of all degradations; a figure that nothing measures is a dash."""
    table = _table(_COLUMNS)
    for row in report.rows:
        table.add_row(*map(Text, _cells(row)))
    console.print(table)
    for row in report.rows:
        if row.inapplicable:
            names = f"{row.degradation}: not for {', '.join(row.inapplicable)}"
            console.print(Text(printable(names), style="dim"), soft_wrap=True)


def print_reliability(deciles: Sequence[Decile], console: Console) -> None:
    """Prints the share right of each tenth of confidence that there are statements of."""
    table = _table(("confidence", "statements", "suspect sets", "right", "share"))
    for decile in deciles:
        if decile.statements:
            cells = (
                f"{decile.from_ppm / 1e6:.1f} to {decile.to_ppm / 1e6:.1f}",
                *map(str, (decile.statements, decile.suspect_sets, decile.right)),
                figure_text(decile.share_right),
            )
            table.add_row(*map(Text, cells))
    console.print(table)


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=bool(number), overflow="fold")
    return table


def _cells(row: DegradationRow) -> Sequence[str]:
    summary, runs, deadlocks = row.summary, len(row.cases), row.deadlocks
    alarms = summary.negatives_alarmed + (summary.deadlock_false or 0)
    figures = (summary.blame_distance_mean, summary.blame_distance_max, summary.top1, summary.planted_named)
    return (
        printable(row.degradation),
        str(runs),
        *map(figure_text, figures),
        figure_text(summary.class_accuracy),
        str(summary.abstained),
        f"{deadlocks - (summary.deadlock_missed or 0)}/{deadlocks}" if deadlocks else "-",
        str(alarms),
    )
