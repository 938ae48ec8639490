"""Whether minutes of counters name the right roots, and steps the right host: long runs, polled in several ways.

With DIR, a folder of long runs (docs/trace-format.md: `windows`, `not_the_fabric`, `step_ms` in truth.json): counters
as recorded, of longer polls, not aligned, some lost; each with compute times and with whole steps alone. The bars: in
every window the largest root is the true one, in a verdict, blame distance .05 in the mean; a run without a fault
raises nothing; a slow host is named alone where compute times are known, else in the smallest tied set; the cost of a
stall is told within a tenth. The last line is JSON: {"claim", "bar", "holds", ...}. `--quick`: two ways, one seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from analytics.offline import final_cascades
from analytics.stalls import CASCADE as BY_CASCADE
from analytics.stalls import NOT_THE_FABRIC, Stall
from analytics.stragglers import STEPS_OF_COST
from pausetrace.degrade_spec import parse_degradation
from pausetrace.tails_view import fabric_tails
from simulation.degrade import UNDISTURBED, degrade
from simulation.judge import ALARMS, CaseScore, final_of, score
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.truth import Truth, read_truth
from stream.cascade import Cascade

WAYS = (
    "", "period=100ms,unaligned", "period=100ms,poll_loss=.1", "period=1s", "period=1s,unaligned",
    "period=1s,poll_loss=.1", "period=1s,unaligned,poll_loss=.1",
)  # fmt: skip
QUICK_WAYS = ("", "period=1s,unaligned,poll_loss=.1")
SEEDS = 3
START_NS = 1_700_000_000_000_000_000
MEAN_BAR, COST_BAR = 0.05, 0.1
MS_RANK_NS = 1_000_000


class Found(NamedTuple):
    """What is said of one run, polled in one way: whether each bar holds, None where it says nothing of the run."""

    run: str
    way: str
    seed: int
    compute_times: bool
    distances: tuple[float, ...]
    first_roots: bool | None
    quiet: bool | None
    slow_host: bool | None
    cost_error: float | None
    cause: bool | None
    """Whether each stall has the cause that the truth has: a cascade, or not the fabric."""

    @property
    def holds(self) -> bool:
        cost = self.cost_error is None or self.cost_error <= COST_BAR
        return cost and all(each is not False for each in (self.first_roots, self.quiet, self.slow_host, self.cause))


def measure(folder: Path, way: str, seed: int, *, compute_times: bool) -> Found:
    """Analyses one run, polled in one way."""
    trace, truth = read_trace(folder), read_truth(folder)
    if not compute_times and trace.steps is not None:
        trace = dataclasses.replace(trace, steps=dataclasses.replace(trace.steps, computed_ns=None))
    degradation = parse_degradation(way) if way else UNDISTURBED
    degraded = degrade(trace, truth.roots, degradation, seed, source="trace", epoch="long", start_ns=START_NS)
    assert degraded is not None
    items = trace_items(degraded.streams)
    cascades = list(final_cascades(items))
    stalls = [stall for of in fabric_tails([*items, *cascades], 1_000_000_000) for stall in of.stalls]
    judged = score(truth, cascades, start_ns=START_NS, flows_known=False)
    faults = json.loads((folder / "truth.json").read_text())
    return Found(
        folder.name, way or "as recorded", seed, compute_times,
        tuple(window.blame_distance for window in judged.windows if window.blame_distance is not None),
        _first_roots(judged), None if truth.planted else _quiet(cascades),
        _slow_host(truth, cascades, stalls, compute_times), *_stalls(faults, stalls),
    )  # fmt: skip


def _first_roots(judged: CaseScore) -> bool | None:
    told = [window.top1 for window in judged.windows if window.top1 is not None]
    return all(told) and not any(window.abstained for window in judged.windows) if told else None


def _quiet(cascades: Sequence[Cascade]) -> bool:
    """Whether nothing that paused is told as worse than an information, suspects among it."""
    return not any(cascade.pauses and cascade.severity in ALARMS for cascade in final_of(cascades))


def _slow_host(truth: Truth, cascades: Sequence[Cascade], stalls: Sequence[Stall], alone: bool) -> bool | None:
    if truth.slow_hosts is None:
        return None
    told = [cascade for cascade in final_of(cascades) if not cascade.pauses and cascade.roots]
    sets = [{root.device for root in cascade.roots} for cascade in told]
    sets += [{behind.device for behind in stall.ranks_behind} for stall in stalls if stall.cause != BY_CASCADE]
    if not truth.slow_hosts:
        return not told
    if alone:
        return bool(sets) and all(each == truth.slow_hosts for each in sets)
    return bool(sets) and all(truth.slow_hosts <= each and len(each) <= len(truth.slow_hosts) + 1 for each in sets)


def _stalls(faults: dict[str, object], stalls: Sequence[Stall]) -> tuple[float | None, bool | None]:
    """How far the cost of each stall is from the truth at most, and whether each has the right cause."""
    lengths, base = faults["step_ms"]["all"], faults["step_ms"]["base"]  # type: ignore[index]
    told = [(each["first_step"], each["last_step"], BY_CASCADE) for each in faults["windows"]]  # type: ignore[attr-defined]
    told += [(each["first_step"], each["last_step"], NOT_THE_FABRIC) for each in faults["not_the_fabric"]]  # type: ignore[attr-defined]
    errors, causes = [], []
    for first, last, cause in told:
        last = len(lengths) - 1 if last is None else last
        longer_ms = np.array(lengths[first : last + 1]) - base
        if STEPS_OF_COST * np.median(longer_ms) < base:
            continue  # by so little steps vary too
        own = [stall for stall in stalls if stall.first_step <= last and stall.last_step >= first]
        cost_ns = sum(stall.cost_rank_ns for stall in own)
        ranks = own[0].ranks if own else 1
        errors.append(abs(cost_ns / (float(longer_ms.sum()) * ranks * MS_RANK_NS) - 1.0))
        # Without compute times nobody knows that no cascade is behind it.
        causes.append(
            bool(own) and all(stall.cause == cause for stall in own if stall.own_compute or cause == BY_CASCADE)
        )
    return (max(errors), all(causes)) if errors else (None, None)


def table(found: Sequence[Found]) -> str:
    """Markdown: a line a run and way, the worst of its seeds."""
    names = ("run", "polls", "first roots", "distance, worst", "nothing raised", "slow host", "by whole steps",
             "cost off by", "cause")  # fmt: skip
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for run, way in dict.fromkeys((each.run, each.way) for each in found):
        of = [each for each in found if (each.run, each.way) == (run, way)]
        steps = [[each.slow_host for each in of if each.compute_times == known] for known in (True, False)]
        distances = [distance for each in of for distance in each.distances]
        costs = [each.cost_error for each in of if each.cost_error is not None]
        cells = (
            run, way, _word([each.first_roots for each in of]), f"{max(distances):.3f}" if distances else "",
            _word([each.quiet for each in of]), *map(_word, steps), f"{max(costs):.3f}" if costs else "",
            _word([each.cause for each in of]),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _word(held: Sequence[bool | None]) -> str:
    told = [each for each in held if each is not None]
    return ("yes" if all(told) else "no") if told else ""


def main() -> int:
    """Measures and tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder of long runs, those with steps.csv")
    parser.add_argument("--quick", action="store_true", help="fewer ways and seeds")
    args = parser.parse_args()
    runs = sorted(path.parent for path in args.folder.glob("*/steps.csv*"))
    found = []
    for folder in runs:
        for way in QUICK_WAYS if args.quick else WAYS:
            random = bool(way) and parse_degradation(way).is_random
            for seed in range(1 if args.quick or not random else SEEDS):
                found += [measure(folder, way, seed, compute_times=known) for known in (True, False)]
            print(f"{folder.name}: {way or 'as recorded'}", file=sys.stderr)
    distances = [distance for each in found for distance in each.distances]
    mean = float(np.mean(distances)) if distances else 0.0
    holds = bool(runs) and all(each.holds for each in found) and mean <= MEAN_BAR
    print(table(found))
    claim = "polls of 100 ms and 1 s name the first root of every window, and steps the host that is slow, at its cost"
    print(
        json.dumps(
            {"claim": claim, "bar": MEAN_BAR, "holds": holds, "distance_mean": round(mean, 4), "runs": len(found)}
        )
    )
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
