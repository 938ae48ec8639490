"""Whether slow ranks are named in time and what they cost is told right: drawn jobs, and recorded long runs.

Drawn: 200 jobs with a rank that slows down and 200 without, each with compute times and with whole steps alone. With
DIR, a folder of traces that have steps.csv and truth.json (docs/trace-format.md): stalls against `not_the_fabric` and
`step_ms` there. `--quick` draws 50. The last line is JSON: {"claim", "bar", "holds", ...}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.stalls import Stall, Stalls
from analytics.stragglers import StepRow, Stragglers
from simulation.trace import read_trace
from simulation.trace_steps import step_rows
from simulation.training import Training, draw_training
from stream.kinds import COMPUTE_TIME, STEP_TIME

RUNS, QUICK_RUNS = 200, 50
BAR = 0.95
COST_BAR = 0.1


def drawn_rows(run: Training, with_compute: bool) -> list[StepRow]:
    """What the ranks of a drawn job would tell."""
    rows, now_ns = [], 1_000_000_000
    for step, (computes, lengths) in enumerate(zip(run.compute_ns.tolist(), run.step_ns.tolist(), strict=True)):
        for rank, (compute_ns, step_ns) in enumerate(zip(computes, lengths, strict=True)):
            name = (f"h{rank}", f"rank{rank}")
            rows.append(StepRow(now_ns + step_ns, 7, STEP_TIME, *name, step, step_ns))
            if with_compute:
                rows.append(StepRow(now_ns + compute_ns, 7, COMPUTE_TIME, *name, step, compute_ns))
        now_ns += max(lengths)
    return rows


def named(run: Training, with_compute: bool) -> list[tuple[int, set[int]]]:
    """By the last step that it rests on: the ranks that are named."""
    found = Stragglers()
    spells = [spell for _, spell in found.take(drawn_rows(run, with_compute))] + found.finish()
    return [
        (spell.first_step + spell.steps - 1, {int(name[1:]) for name in (spell.device, *(d for d, _ in spell.tied))})
        for spell in spells
    ]


def drawn(with_compute: bool, jobs: int) -> tuple[float, int]:
    """Share of the jobs whose rank is named within three steps and nobody else is, and healthy ones with any name."""
    right = 0
    for seed in range(jobs):
        run = draw_training(seed, faulty=True)
        most = {run.straggler} | (set() if with_compute else {(run.straggler + 1) % run.compute_ns.shape[1]})
        said = named(run, with_compute)
        in_time = any(step <= run.from_step + 2 for step, _ in said)
        right += in_time and all(run.straggler in names and names <= most for _, names in said)
    healthy = sum(bool(named(draw_training(seed, faulty=False), with_compute)) for seed in range(jobs))
    return right / jobs, healthy


def recorded(folder: Path, with_compute: bool) -> list[Stall]:
    """The stalls of a recorded run."""
    trace = read_trace(folder)
    assert trace.steps is not None
    rows = []
    for host, rank, events in step_rows(trace.steps):
        kept = events if with_compute else events[events["kind"] == STEP_TIME]
        rows += [
            StepRow(int(row["time_ns"]), int(row["flow"]), int(row["kind"]), trace.devices[host], rank,
                    int(row["extra"]), int(row["value"]))
            for row in kept
        ]  # fmt: skip
    stalls = Stalls()
    stalls.take(rows)
    return stalls.finish()


def judged(folder: Path, with_compute: bool) -> dict[str, Any]:
    """One run against its truth."""
    truth = json.loads((folder / "truth.json").read_text())
    lengths, base = truth["step_ms"]["all"], truth["step_ms"]["base"]
    stalls = recorded(folder, with_compute)
    slow = {each["host"] for each in truth["not_the_fabric"]}
    cost_s = sum(stall.cost_rank_ns for stall in stalls) / 1e9
    steps = {step for stall in stalls for step in range(stall.first_step, stall.last_step + 1)}
    true_s = sum((lengths[step] - base) * stalls[0].ranks for step in sorted(steps)) / 1e3 if stalls else 0.0
    behind = [[each.device for each in stall.ranks_behind] for stall in stalls]
    found = {host for of in behind for host in of}
    right = (slow <= found and (found == slow or not with_compute)) if slow else True
    if truth["scenario"] == "long_healthy":
        right = not stalls
    cost_error = abs(cost_s / true_s - 1) if true_s else 0.0
    return {
        "run": folder.name, "with_compute": with_compute, "behind": behind, "cost_rank_s": round(cost_s, 1),
        "true_cost_rank_s": round(true_s, 1), "cost_error": round(cost_error, 4),
        "holds": right and cost_error <= COST_BAR,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help="a folder of recorded runs")
    parser.add_argument("--quick", action="store_true", help="fewer drawn jobs")
    args = parser.parse_args()
    folder, jobs = args.folder, QUICK_RUNS if args.quick else RUNS
    result: dict[str, Any] = {}
    holds = True
    for with_compute in (True, False):
        share, healthy = drawn(with_compute, jobs)
        holds &= share >= BAR and not healthy
        result["compute times" if with_compute else "whole steps"] = {"named": share, "healthy_named": healthy}
    runs = sorted(folder.glob("*/steps.csv*")) if folder is not None else []
    found = [judged(path.parent, with_compute) for path in runs for with_compute in (True, False)]
    for each in found:
        print(each)
    holds &= all(each["holds"] for each in found)
    claim = "a rank that slows down is named within three steps, and what it costs is told within a tenth"
    print(json.dumps({"claim": claim, "bar": BAR, "holds": holds, **result, "runs": len(found)}))
    sys.exit(not holds)


if __name__ == "__main__":
    main()
