"""Scores the analysis on traces that are spoilt in given ways: how much each kind of disturbance costs.

In: folders of traces, degradations, numbers of seeds and processes. Out: a `DegradationReport` for people or for JSON.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import msgspec

from pausetrace.evaluate import EPOCH, SOURCE, START_NS, Analyze, trace_folders
from simulation.degrade import UNDISTURBED, Degradation, degrade
from simulation.judge import CaseScore, score
from simulation.judge_summary import Summary, summarise
from simulation.reliability import Decile, Statement, deciles, statements
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.truth import read_truth
from stream.errors import PausetraceError


class DegradedCase(msgspec.Struct, frozen=True):
    """One run: a trace, spoilt by one seed; `silent` is the device that was made to say nothing, "" for none."""

    seed: int
    silent: str
    score: CaseScore
    statements: tuple[Statement, ...]


class DegradationRow(msgspec.Struct, frozen=True):
    """All runs of one degradation; `inapplicable` are traces without a device that could be missing as asked."""

    degradation: str
    summary: Summary
    deadlocks: int
    """Runs with a planted deadlock, of which the summary counts those that were missed."""
    inapplicable: tuple[str, ...]
    cases: tuple[DegradedCase, ...]


class DegradationReport(msgspec.Struct, frozen=True):
    """Rows in the order asked for, the undisturbed one first, and how often what they state is right."""

    rows: tuple[DegradationRow, ...]
    reliability: tuple[Decile, ...]


class Task(NamedTuple):
    """All runs of one trace under one degradation."""

    folder: Path
    degradation: Degradation
    seeds: int
    without: frozenset[str]
    analyze: Analyze
    suspects: bool


class Done(NamedTuple):
    """What a task gave: what was noticed of its trace, and a case by seed, none if it does not apply to the trace."""

    notes: tuple[str, ...]
    cases: tuple[DegradedCase, ...]


def evaluate_degraded(
    paths: Iterable[Path],
    without: AbstractSet[str],
    degradations: Sequence[Degradation],
    analyze: Analyze,
    *,
    seeds: int,
    workers: int = 1,
    suspects: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> DegradationReport:
    """Scores `analyze` on every trace undisturbed and under every degradation, by `seeds` seeds where it is random.

    `workers` is how many processes share the work: a matter of time alone, for which `analyze` must be a function of
    some module. `progress` is told what has been done and what was left out. Raises TraceError as `evaluate` does.
    """
    folders = trace_folders(paths)
    wanted = (UNDISTURBED, *degradations)
    tasks = [
        Task(folder, degradation, seeds if degradation.is_random else 1, frozenset(without), analyze, suspects)
        for degradation in wanted
        for folder in folders
    ]
    done: list[Done] = []
    for task, result in zip(tasks, _results(tasks, workers), strict=True):
        what = f"{task.degradation.text}: {task.folder.name}"
        progress(f"{len(done) + 1} of {len(tasks)}: {what}")
        for note in result.notes:
            progress(f"{what}: {note}")
        done.append(result)
    rows = tuple(
        _row(degradation, folders, done[number * len(folders) :][: len(folders)])
        for number, degradation in enumerate(wanted)
    )
    made = [one for row in rows for case in row.cases for one in case.statements]
    return DegradationReport(rows, deciles(made))


def _row(degradation: Degradation, folders: Sequence[Path], done: Sequence[Done]) -> DegradationRow:
    cases = tuple(case for result in done for case in result.cases)
    return DegradationRow(
        degradation=degradation.text,
        summary=summarise([case.score for case in cases]),
        deadlocks=sum(case.score.deadlock_missed is not None for case in cases),
        inapplicable=tuple(folder.name for folder, result in zip(folders, done, strict=True) if not result.cases),
        cases=cases,
    )


def _results(tasks: Sequence[Task], workers: int) -> Iterator[Done]:
    """What each task gives, in their order."""
    if workers == 1:
        yield from map(run_degraded, tasks)
        return
    # A fork of this process itself would have the locks of its threads.
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(workers, context, _leave_interrupts_to_the_parent)
    try:
        yield from pool.map(run_degraded, tasks)
    except BrokenProcessPool as err:
        raise PausetraceError(
            "a worker ended before its work was done", "see whether memory is short; try fewer --workers"
        ) from err
    finally:
        # Where one task fails, those not yet begun are of no use.
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_degraded(task: Task) -> Done:
    """Reads the trace once and judges it once a seed."""
    degradation = task.degradation
    trace = read_trace(task.folder, task.without, degradation.drop)
    truth = read_truth(task.folder)
    cases = []
    for seed in range(task.seeds):
        degraded = degrade(trace, truth.roots, degradation, seed, source=SOURCE, epoch=EPOCH, start_ns=START_NS)
        if degraded is None:
            return Done((*trace.notes, f"no device to be missing={degradation.missing}"), ())
        cascades = [degraded.restored(cascade) for cascade in task.analyze(trace_items(degraded.streams))]
        cases.append(
            DegradedCase(
                seed=seed,
                silent=degraded.silent,
                score=score(
                    truth,
                    cascades,
                    start_ns=degraded.start_ns,
                    flows_known=trace.flows is not None,
                    suspects=task.suspects,
                ),
                statements=statements(truth, cascades, degraded.start_ns),
            )
        )
    return Done(trace.notes, tuple(cases))
