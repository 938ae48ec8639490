"""What `evaluate` says of the recorded traces under seven disturbances, 20 seeds each: tables for docs/diagnosis.md.

One tells how often each confidence is right, one what each disturbance costs. `--write FILE` replaces the marked places
there. Nothing is timed, so that any number of `--workers` gives the same tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.offline import final_cascades
from benchmarks.marked_page import replaced
from pausetrace.degradations import DegradationRow, evaluate_degraded
from pausetrace.degrade_spec import parse_degradation
from pausetrace.evaluation_table import figure_text
from simulation.reliability import Decile

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "tests/data/ns3"
DEGRADATIONS = (
    "skew=1ms", "loss=.1", "loss=.3", "loss_each=.1,skew=1ms", "loss_each=.3,skew=1ms", "missing=random",
    "missing=root",
)  # fmt: skip
SEEDS = 20
RELIABILITY, COSTS = "reliability", "degradations"


def reliability_table(deciles: Sequence[Decile]) -> str:
    """Markdown: the share right of each tenth of confidence."""
    lines = ["| confidence | statements | suspect sets | right | share |", "|---|---|---|---|---|"]
    for one in deciles:
        tenth = f"{one.from_ppm / 1e6:.1f} to {one.to_ppm / 1e6:.1f}"
        share = figure_text(one.share_right)
        lines.append(f"| {tenth} | {one.statements} | {one.suspect_sets} | {one.right} | {share} |")
    return "\n".join(lines) + "\n"


def costs_table(rows: Sequence[DegradationRow]) -> str:
    """Markdown: a line a disturbance, the undisturbed runs first; of deadlocks, how many were called so."""
    lines = ["| degradation | runs | distance, mean | worst | top-1 | class | edge F1 | abstained | deadlocks |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        summary = row.summary
        figures = (summary.blame_distance_mean, summary.blame_distance_max, summary.top1, summary.class_accuracy,
                   summary.edge_f1)  # fmt: skip
        named = f"{row.deadlocks - (summary.deadlock_missed or 0)}/{row.deadlocks}"
        cells = (f"`{row.degradation}`", len(row.cases), *map(figure_text, figures), summary.abstained, named)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs every disturbance and prints or writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="so many processes (default: 1)")
    parser.add_argument("--write", metavar="FILE", type=Path, help="put the tables into this page, not on stdout")
    args = parser.parse_args()
    report = evaluate_degraded(
        [TRACES], frozenset(), [parse_degradation(text) for text in DEGRADATIONS], final_cascades, seeds=SEEDS,
        workers=args.workers, progress=lambda text: print(f"degradations: {text}", file=sys.stderr),
    )  # fmt: skip
    tables = {RELIABILITY: reliability_table(report.reliability), COSTS: costs_table(report.rows)}
    if not args.write:
        print("\n".join(tables.values()), end="")
        return 0
    page = args.write.read_text()
    for place, content in tables.items():
        page = replaced(page, place, content)
    args.write.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
