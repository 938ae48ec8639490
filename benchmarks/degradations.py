"""What `evaluate` says of the recorded traces under seven disturbances, 20 seeds each: tables for docs/diagnosis.md.

One tells how often each confidence is right, one what each disturbance costs. `--write FILE` replaces the marked places
there. With `--polls`: of polled traces, suspect sets scored as if they were verdicts, for docs/sampled.md. Nothing is
timed, so that any number of `--workers` gives the same tables.
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
from simulation.reliability import Decile, deciles

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "tests/data/ns3"
DEGRADATIONS = (
    "skew=1ms", "loss=.1", "loss=.3", "loss_each=.1,skew=1ms", "loss_each=.3,skew=1ms", "missing=random",
    "missing=root",
)  # fmt: skip
SEEDS = 20
POLLS = (
    "period=run", "period=incident/2", "period=incident/4", "period=1ms", "period=300us", "period=100us",
    "period=incident/4,unaligned", "period=incident/4,poll_loss=.1", "period=incident/4,poll_loss=.3",
    "period=run,pad=20", "period=run,rx_only", "period=run,frames_only", "period=run,pad=20,frames_only",
    "period=incident/4,unaligned,frames_only", "period=run,missing=random", "period=incident/4,missing=random",
    "period=run,pad=20,missing=random", "period=run,missing=root", "period=incident/4,missing=root",
)  # fmt: skip
SEEDS_OF_POLLS = 5
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
    parser.add_argument("--polls", action="store_true", help="polled traces in place of disturbed ones")
    args = parser.parse_args()
    asked, seeds = (POLLS, SEEDS_OF_POLLS) if args.polls else (DEGRADATIONS, SEEDS)
    report = evaluate_degraded(
        [TRACES], frozenset(), [parse_degradation(text) for text in asked], final_cascades, seeds=seeds,
        workers=args.workers, suspects=args.polls,
        progress=lambda text: print(f"degradations: {text}", file=sys.stderr),
    )  # fmt: skip
    of_polls = [one for row in report.rows[1:] for case in row.cases for one in case.statements]
    reliability = deciles(of_polls) if args.polls else report.reliability
    tables = {RELIABILITY: reliability_table(reliability), COSTS: costs_table(report.rows)}
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
