"""The judge's report for people: one line a trace, and the figures of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pausetrace.evaluate import Evaluation
from pausetrace.plain_text import printable
from simulation.judge import CaseScore

_FIGURES = (
    ("blame_distance_mean", "blame distance, mean"),
    ("blame_distance_max", "blame distance, max"),
    ("top1", "largest root right"),
    ("planted_named", "planted roots named"),
    ("class_accuracy", "class right"),
    ("edge_f1", "edge F1"),
    ("contributor_f1", "contributor F1"),
    ("victim_precision", "victim precision"),
    ("victim_recall", "victim recall"),
    ("innocents_blamed", "innocents blamed"),
    ("abstained", "abstained"),
    ("negatives_alarmed", "negatives alarmed"),
    ("deadlock_missed", "deadlocks missed"),
    ("deadlock_false", "deadlocks false"),
    ("slow_hosts_missed", "slow hosts missed"),
    ("slow_hosts_false", "slow hosts false"),
)


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Prints both tables; a figure that nothing measures is a dash."""
    cases = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("trace", "verdicts", "distance", "top-1", "named", "class", "edge F1", "remarks"):
        cases.add_column(column, justify="left" if column in ("trace", "remarks") else "right", no_wrap=True)
    for score in evaluation.cases:
        cases.add_row(*_cells(score))
    console.print(cases)
    console.print()
    figures = msgspec.structs.asdict(evaluation.summary)
    summary = Table(box=None, pad_edge=False, show_header=False)
    summary.add_column()
    summary.add_column(justify="right")
    summary.add_row(Text("traces"), Text(str(figures["cases"])))
    for name, words in _FIGURES:
        summary.add_row(Text(words), Text(figure_text(figures[name])))
    console.print(summary)


def _cells(score: CaseScore) -> Sequence[Text]:
    windows = score.windows
    distances = [window.blame_distance for window in windows if window.blame_distance is not None]
    tops = [window.top1 for window in windows if window.top1 is not None]
    planted = sum(window.planted for window in windows)
    abstained = sum(window.abstained is True for window in windows)
    remarks = [
        text
        for text, said in (
            ("abstained" if len(windows) == 1 else f"abstained in {abstained} windows", bool(abstained)),
            ("ALARM without a cause", score.negative_alarmed is True),
            ("deadlock MISSED", score.deadlock_missed is True),
            ("deadlock FALSE", score.deadlock_false is True),
            ("slow host MISSED", score.slow_hosts is not None and score.slow_hosts.missed > 0),
            ("slow host FALSE", score.slow_hosts is not None and score.slow_hosts.false > 0),
        )
        if said
    ]
    return (
        Text(printable(score.name)),
        Text(f"{score.verdicts} of {score.cascades}"),
        Text(figure_text(sum(distances) / len(distances) if distances else None)),
        Text(figure_text(sum(tops) / len(tops) if tops else None)),
        Text(f"{sum(window.named for window in windows)}/{planted}" if planted else "-"),
        Text(f"{sum(window.class_right for window in windows)}/{planted}" if planted else "-"),
        Text(figure_text(score.edge_f1)),
        Text(", ".join(remarks), style="red"),
    )


def figure_text(figure: float | None) -> str:
    """A ratio with three digits, a count as it is, a dash where nothing was measured."""
    if figure is None:
        return "-"
    return str(figure) if isinstance(figure, int) else f"{figure:.3f}"
