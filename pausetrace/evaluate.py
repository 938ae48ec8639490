"""Runs the analysis over traces whose truth is known and has the judge score it.

In: folders, the evidence to withhold, and the analysis as a function of items. Out: a report for people or for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec

from simulation.judge import CaseScore, score_case
from simulation.judge_summary import Summary, summarise
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from simulation.truth import has_truth
from stream.cascade import Cascade
from stream.errors import TraceError
from stream.messages import Item

Analyze = Callable[[Sequence[Item]], Iterable[Cascade]]
"""From all items of one fabric to its cascades."""

SOURCE = "trace"
EPOCH = "evaluate"
START_NS = 1_700_000_000_000_000_000
"""Traces begin at 0; an analysis sees times as they are in the field."""


class Evaluation(msgspec.Struct, frozen=True):
    """The report: one score a trace, and their summary."""

    cases: tuple[CaseScore, ...]
    summary: Summary


def evaluate(
    paths: Iterable[Path],
    without: AbstractSet[str],
    analyze: Analyze,
    *,
    suspects: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """Scores `analyze` on every trace; `progress` is told a trace's name before its turn and what was left out of it.

    `without` names evidence to withhold (simulation.trace.WITHHOLDABLE); with `suspects`, suspect sets are scored as if
    they were verdicts. Raises TraceError for a folder that is no trace with known truth.
    """
    scores = []
    for folder in trace_folders(paths):
        progress(folder.name)
        trace = read_trace(folder, without)
        for note in trace.notes:
            progress(f"{folder.name}: {note}")
        streams = trace_streams(trace, folder.resolve().name, SOURCE, EPOCH, START_NS)
        scores.append(
            score_case(
                folder,
                analyze(trace_items(streams)),
                start_ns=START_NS,
                flows_known="flows" not in without,
                suspects=suspects,
            )
        )
    return Evaluation(tuple(scores), summarise(scores))


def trace_folders(paths: Iterable[Path]) -> list[Path]:
    """The traces among the paths, and in folders of traces; files beside traces (a README) are passed over."""
    folders: list[Path] = []
    for path in paths:
        if not path.exists():
            raise TraceError(f"{path} does not exist", "give folders of traces, such as tests/data/ns3/*")
        if not path.is_dir():
            continue
        inner = [] if has_truth(path) else sorted(child for child in path.iterdir() if has_truth(child))
        folders += inner or [path]
    if not folders:
        raise TraceError("no folder among the paths", "give folders of traces, such as tests/data/ns3/*")
    return folders
