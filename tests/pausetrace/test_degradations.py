"""Scores of spoilt traces: how many runs there are, what they count, and that variants of a run change no class."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from analytics.offline import final_cascades
from pausetrace.cli.main import main
from pausetrace.degradation_table import print_degradations, print_reliability
from pausetrace.degradations import DegradationReport, DegradationRow, evaluate_degraded
from pausetrace.degrade_spec import parse_degradation
from pausetrace.evaluate import evaluate
from stream.batch import Batch
from stream.cascade import Cascade
from stream.errors import PausetraceError, TraceError
from stream.messages import Item
from stream.roster import SourceUp
from tests.pausetrace.test_evaluate import NS3, perfect, silent

INCAST = NS3 / "incast-ls-s1"
STORM = NS3 / "nic_storm-ls-s1"
NORMAL = NS3 / "normal-ls-s1"
DEADLOCK = NS3 / "deadlock-hk-s4"


def reported(paths: Sequence[Path], *texts: str, seeds: int = 2, workers: int = 1) -> DegradationReport:
    how = [parse_degradation(text) for text in texts]
    return evaluate_degraded(paths, frozenset(), how, final_cascades, seeds=seeds, workers=workers)


def test_undisturbed_comes_first_once_a_trace_and_scores_as_evaluate_does() -> None:
    report = reported([INCAST, NORMAL], "loss=.3")
    assert [row.degradation for row in report.rows] == ["undisturbed", "loss=.3"]
    plain = evaluate([INCAST, NORMAL], frozenset(), final_cascades)
    assert [case.score for case in report.rows[0].cases] == list(plain.cases)
    assert report.rows[0].summary == plain.summary
    assert [(case.score.name, case.seed) for case in report.rows[1].cases] == [
        ("incast-ls-s1", 0), ("incast-ls-s1", 1), ("normal-ls-s1", 0), ("normal-ls-s1", 1),
    ]  # fmt: skip


def test_only_what_is_random_runs_more_than_once() -> None:
    how = [parse_degradation(text) for text in ("missing=root", "drop=paths.csv", "missing=random", "renamed")]
    report = evaluate_degraded([INCAST], frozenset(), how, silent, seeds=3)
    assert [len(row.cases) for row in report.rows] == [1, 1, 1, 3, 3]
    assert report.rows[1].cases[0].silent == "leaf3"
    assert {case.silent for case in report.rows[2].cases} == {""}
    assert all(case.silent for case in report.rows[3].cases)


def test_a_perfect_analysis_is_perfect_in_every_row_and_every_statement() -> None:
    how = [parse_degradation(text) for text in ("skew=1ms,loss_each=.1", "missing=random", "shifted=3600s,scaled=.5")]
    report = evaluate_degraded([NS3], frozenset(), how, perfect, seeds=2)
    for row in report.rows:
        assert row.summary.blame_distance_max == pytest.approx(0, abs=1e-9)
        assert (row.summary.top1, row.summary.class_accuracy, row.summary.abstained) == (1, 1, 0)
    # The one planted deadlock of the traces is what this analysis never calls by its name.
    assert [(row.deadlocks, row.summary.deadlock_missed) for row in report.rows] == [(1, 1), (2, 2), (2, 2), (1, 1)]
    (judged,) = [decile for decile in report.reliability if decile.statements]
    assert judged.from_ppm == 900_000
    wrong = judged.statements - judged.right
    assert wrong == sum(row.deadlocks for row in report.rows)


def test_the_analysis_sees_the_spoilt_trace_and_no_more() -> None:
    seen: list[tuple[int, set[str]]] = []

    def look(items: Sequence[Item]) -> list[Cascade]:
        assert isinstance(items[0], SourceUp)
        rows = [item for item in items if isinstance(item, Batch)]
        seen.append((sum(len(item.events) for item in rows), {item.stream.topic for item in rows}))
        return []

    how = [parse_degradation("drop=host_pcie.csv"), parse_degradation("loss=.5")]
    evaluate_degraded([INCAST], frozenset({"flows"}), how, look, seeds=2)
    assert [topics for _, topics in seen] == [
        {"pfc", "queue", "ecn", "pcie"}, {"pfc", "queue", "ecn"}, *[{"pfc", "queue", "ecn", "pcie"}] * 2,
    ]  # fmt: skip
    counts = [count for count, _ in seen]
    assert counts[0] > max(counts[1:])
    assert counts[2] != counts[3]


def test_a_trace_without_a_device_that_could_be_missing_is_named_and_left_out() -> None:
    told: list[str] = []
    report = evaluate_degraded(
        [INCAST, NORMAL], frozenset(), [parse_degradation("missing=root")], silent, seeds=2, progress=told.append
    )
    assert report.rows[1].inapplicable == ("normal-ls-s1",)
    assert report.rows[1].summary.cases == 1
    assert told == [
        "1 of 4: undisturbed: incast-ls-s1",
        "2 of 4: undisturbed: normal-ls-s1",
        "3 of 4: missing=root: incast-ls-s1",
        "4 of 4: missing=root: normal-ls-s1",
        "missing=root: normal-ls-s1: no device to be missing=root",
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_run_is_the_errors_own_with_any_number_of_workers(workers: int) -> None:
    with pytest.raises(TraceError, match="has no device 'leaf99' to be missing; name one"):
        reported([INCAST], "missing=leaf99", workers=workers)


def test_the_number_of_workers_changes_nothing() -> None:
    texts = ("loss_each=.3,skew=1ms", "missing=random")
    assert reported([INCAST, STORM], *texts, workers=2) == reported([INCAST, STORM], *texts)


def die(items: Sequence[Item]) -> list[Cascade]:
    """An analysis that takes its process along, as one that memory is too short for."""
    assert items
    os._exit(1)


def test_a_worker_that_dies_is_told_and_not_waited_for() -> None:
    with pytest.raises(PausetraceError, match="a worker ended before its work was done; see whether memory is short"):
        evaluate_degraded([INCAST], frozenset(), [parse_degradation("loss=.1")], die, seeds=2, workers=2)


def text_of(report: DegradationReport) -> str:
    file = io.StringIO()
    console = Console(file=file, width=110)
    print_degradations(report, console)
    print_reliability(report.reliability, console)
    return file.getvalue()


def test_the_table_shows_mean_worst_and_failures_of_each_row() -> None:
    report = reported([DEADLOCK, NORMAL], "missing=root")
    assert "missing=root: not for normal-ls-s1" in text_of(report)
    row = next(line.split() for line in text_of(report).splitlines() if line.startswith("undisturbed"))
    assert row == ["undisturbed", "2", "-", "-", "-", "-", "-", "0", "1/1", "0"]
    perfect_report = evaluate_degraded([INCAST], frozenset(), [], perfect, seeds=1)
    row = next(line.split() for line in text_of(perfect_report).splitlines() if line.startswith("undisturbed"))
    assert row == ["undisturbed", "1", "0.000", "0.000", "1.000", "1.000", "1.000", "0", "-", "0"]
    assert "0.9 to 1.0           1             0      1  1.000" in text_of(perfect_report)


def test_the_verb_prints_the_table_and_all_of_it_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", str(INCAST), "--degrade", "loss=.3,skew=1ms", "--degrade", "renamed", "--seeds", "2"]
    assert main([*arguments, "--reliability"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [
        ["undisturbed", "1"], ["loss=.3,skew=1ms", "2"], ["renamed", "2"],
    ]  # fmt: skip
    assert "statements" in out
    assert "evaluate: 3 of 3: renamed: incast-ls-s1" in err
    assert main([*arguments, "-o", "json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=DegradationReport)
    assert [len(row.cases) for row in report.rows] == [1, 2, 2]
    assert len(report.reliability) == 10


def test_the_reports_keys_as_json() -> None:
    report = json.loads(msgspec.json.encode(evaluate_degraded([NORMAL], frozenset(), [], silent, seeds=1)))
    assert list(report) == ["rows", "reliability"]
    assert list(report["rows"][0]) == ["degradation", "summary", "deadlocks", "inapplicable", "cases"]
    assert list(report["rows"][0]["cases"][0]) == ["seed", "silent", "score", "statements"]
    assert list(report["reliability"][0]) == [
        "from_ppm", "to_ppm", "statements", "suspect_sets", "right", "share_right",
    ]  # fmt: skip


VARIANTS = (
    "renamed", "shifted=3600s", "scaled=2", "scaled=.5",
    "drop=host_pcie.csv", "drop=flow_port_bytes.csv.gz", "drop=paths.csv",
)  # fmt: skip


@pytest.fixture(name="variants", scope="module")
def variants_report() -> DegradationReport:
    return reported([NS3], *VARIANTS, seeds=1)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_class_is_right_in_every_variant_of_the_recorded_traces(
    variants: DegradationReport, variant: str
) -> None:
    (row,) = [row for row in variants.rows if row.degradation == variant]
    assert row.summary.cases == 14
    assert row.summary.class_accuracy == 1, wrong_classes(row)
    assert (row.summary.deadlock_missed, row.summary.deadlock_false) == (0, 0)


def wrong_classes(row: DegradationRow) -> list[str]:
    return [
        f"{case.score.name} seed {case.seed}: {root.device}:{root.port} is {root.planted_class}, "
        f"called {root.predicted_class or 'nothing'}"
        for case in row.cases
        for window in case.score.windows
        for root in window.roots
        if root.planted_class and root.planted_class != root.predicted_class
    ]
