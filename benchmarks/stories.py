"""Whether the stories of simulation/fabric/ are told right: every scenario by many seeds, through trace folders.

A story is right if each root that was planted is named with its class and the first is one of them; where there is
none, if nobody is alarmed. A deadlock is to be found, a slow rank is `not_the_fabric` with its host alone, and named
within three steps of its fault. `--polls`: as switches that are polled every second tell of it, in stories that last
some 17 s; there a class may be missing but not wrong, and a story that shows pause in fewer than ten polls is scored by
its suspect sets. `--write FILE` replaces the marked table there. The last line is JSON: {"claim", "bar", "holds", ...}.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.classes import UNCLASSIFIED
from analytics.offline import final_cascades
from analytics.stragglers import StepRow, Stragglers
from benchmarks.marked_page import replaced
from pausetrace.degradations import Task, run_degraded
from pausetrace.degrade_spec import parse_degradation
from pausetrace.evaluate import evaluate
from simulation.fabric import SCENARIOS, story
from simulation.fabric.plot import Fault
from simulation.fabric.stories import Story
from simulation.fabric.writing import write
from simulation.judge import MIN_ACCEPTED_SHARE, CaseScore, WindowScore
from simulation.trace import read_trace
from simulation.trace_steps import step_rows
from simulation.truth import read_truth
from stream.kinds import STEP_TIME

BAR, POLLS_BAR = 0.95, 0.90
SEEDS = 20
IN_STEPS = 3
PAIR = 2
"""A transfer ends at both its ends at once: by whole steps, no fewer than these can be told apart."""
POLL, POLL_NS = "period=1s", 1_000_000_000
ENOUGH_POLLS = 10
"""Verdicts are asked of stories that show pause in as many polls; of shorter ones, who is suspected."""
LONG: dict[str, Any] = {"steps": 130, "compute_ns": 130_000_000, "bin_ns": 100_000_000, "fault_steps": (20, 120)}
"""Some 17 s, of which the fault has 13: more than ten polls of a second show its pauses."""
ENDS_AT_ONCE = ("pfc_deadlock",)
"""Nothing moves any more, so that there is no long story of it."""


class Told(NamedTuple):
    """What the analysis made of one story."""

    root: bool
    root_class: bool
    distance: float | None
    straggler: bool


def _all_told(tasks: Sequence[tuple[str, int, bool]], workers: int) -> Iterator[Told]:
    """What is made of each story, in their order."""
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("forkserver"))
    try:
        yield from pool.map(_told, tasks)
    finally:
        # Where one fails, those not yet begun are of no use.
        pool.shutdown(cancel_futures=True)


def _told(task: tuple[str, int, bool]) -> Told:
    """`told` for a process of its own."""
    scenario, seed, polls = task
    with tempfile.TemporaryDirectory() as folder:
        return told(scenario, seed, Path(folder) / f"{scenario}-s{seed}", polls)


def told(scenario: str, seed: int, folder: Path, polls: bool) -> Told:
    """Plays a story into the folder and has the product tell it."""
    played = story(scenario, seed=seed, **(LONG if polls else {}))
    write(played, folder)
    if polls:
        few = _polls_with_pause(played) < ENOUGH_POLLS
        polled = run_degraded(Task(folder, parse_degradation(POLL), 1, frozenset(), final_cascades, few))
        score = polled.cases[0].score
    else:
        score = evaluate([folder], frozenset(), final_cascades).cases[0]
    root, root_class, distance = _right(score, {UNCLASSIFIED} if polls else set())
    return Told(root, root_class, distance, _straggler_in_time(folder, played.plot.faults))


def _polls_with_pause(played: Story) -> int:
    """In how many spans of a poll's length a pause began or ended."""
    return len({time_ns // POLL_NS for time_ns in played.run.pauses[:, 0].tolist()})


def _right(score: CaseScore, no_class: set[str]) -> tuple[bool, bool, float | None]:
    """Whether the roots are named, whether each has its class or one of `no_class`, and the blame distance."""
    if score.deadlock_missed is not None:
        return not score.deadlock_missed, not score.deadlock_missed, None
    silent = not score.negative_alarmed and not score.deadlock_false
    if score.slow_hosts is not None:
        silent &= not score.slow_hosts.missed and not score.slow_hosts.false
    if not any(window.planted for window in score.windows):
        return silent, silent, None
    root = silent and all(window.named == window.planted and _first_is_planted(window) for window in score.windows)
    classes = all(
        named.predicted_class in no_class | {named.planted_class}
        for window in score.windows
        for named in window.roots
        if named.planted_class and named.true_share >= MIN_ACCEPTED_SHARE
    )
    return root, root and classes, max((window.blame_distance or 0.0) for window in score.windows)


def _first_is_planted(window: WindowScore) -> bool:
    first = max(window.roots, key=lambda root: root.predicted_share, default=None)
    return not window.planted or (first is not None and first.planted_class != "")


def _straggler_in_time(folder: Path, faults: Sequence[Fault]) -> bool:
    """Whether a slow rank is named in time, and nobody where nothing is wrong.

    By compute times it is to be named alone, and others not at all. By whole steps alone, the rank of a host that is at
    fault is to be named, with none but the one at the other end of its transfer, which is as late as it is.
    """
    trace, truth = read_trace(folder), read_truth(folder)
    assert trace.steps is not None
    rows = [
        StepRow(int(row["time_ns"]), int(row["flow"]), int(row["kind"]), trace.devices[host], rank,
                int(row["extra"]), int(row["value"]))
        for host, rank, events in step_rows(trace.steps)
        for row in events
    ]  # fmt: skip
    rows.sort(key=lambda row: row.time_ns)
    last = min((fault.from_step for fault in faults), default=0) + IN_STEPS - 1
    by_compute = [(step, names) for step, names, of_compute in _named(rows) if of_compute]
    if truth.slow_hosts:
        alone = all(names == truth.slow_hosts for _, names in by_compute)
        right = alone and any(step <= last for step, _ in by_compute)
    else:
        right = not by_compute
    by_steps = _named([row for row in rows if row.kind == STEP_TIME])
    if not faults:
        return right and not by_steps
    hosts = {fault.device for fault in faults if fault.device and not fault.port}
    for host in hosts if len(faults) == 1 else ():
        right &= any(step <= last and host in names and len(names) <= PAIR for step, names, _ in by_steps)
    return right


def _named(rows: list[StepRow]) -> list[tuple[int, frozenset[str], bool]]:
    """Who is named: at which step, with whom, and whether by its compute time."""
    found = Stragglers()
    return [
        (spell.first_step + spell.steps - 1, frozenset({spell.device, *(d for d, _ in spell.tied)}), spell.own_compute)
        for spell in [spell for _, spell in found.take(rows)] + found.finish()
    ]


def main() -> None:
    """Prints a table, and what of it falls short."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS), help="default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="so many processes (default: 1)")
    parser.add_argument("--polls", action="store_true", help="long stories, as polls of a second tell of them")
    parser.add_argument("--write", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    names = [name for name in arguments.scenarios if not (arguments.polls and name in ENDS_AT_ONCE)]
    head = "| scenario | stories | root | root and class | blame distance, worst | straggler |"
    lines = [head, "|---|---|---|---|---|---|"]
    everything: list[Told] = []
    wrong: list[str] = []
    seeds = range(1, arguments.seeds + 1)
    tasks = [(name, seed, arguments.polls) for name in names for seed in seeds]
    results = _all_told(tasks, arguments.workers)
    for name in names:
        stories = []
        for seed in seeds:
            stories.append(next(results))
            if not (stories[-1].root_class and stories[-1].straggler):
                wrong.append(f"{name} {seed}: {stories[-1]}")
                print(wrong[-1], flush=True)
        everything += stories
        counts = [sum(getattr(each, what) for each in stories) for what in ("root", "root_class", "straggler")]
        distances = [each.distance for each in stories if each.distance is not None]
        worst = f"{max(distances):.3f}" if distances else ""
        lines.append(f"| `{name}` | {len(stories)} | {counts[0]} | {counts[1]} | {worst} | {counts[2]} |")
        print(lines[-1], flush=True)
    if arguments.write is not None:
        place = "stories in polls" if arguments.polls else "stories"
        page = arguments.write.read_text()
        arguments.write.write_text(replaced(page, place, "\n".join(lines) + "\n"))
    share = sum(each.root_class for each in everything) / len(everything)
    stragglers = sum(each.straggler for each in everything) / len(everything)
    bar = POLLS_BAR if arguments.polls else BAR
    claim = (
        "roots of stories are named, none with a wrong class"
        if arguments.polls
        else "roots of stories are named with their class"
    )
    holds = share >= bar and stragglers >= BAR
    print(json.dumps({
        "claim": claim, "bar": bar, "share": round(share, 4), "stragglers": round(stragglers, 4),
        "stories": len(everything), "wrong": wrong, "holds": holds,
    }))  # fmt: skip
    sys.exit(not holds)


if __name__ == "__main__":
    main()
