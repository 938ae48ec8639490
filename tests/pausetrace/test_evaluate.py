"""Evaluate feeds the analysis what it may see, and has the judge score what comes back."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pausetrace.evaluate import START_NS, evaluate, trace_folders
from simulation.truth import read_truth
from stream.batch import Batch
from stream.cascade import Cascade
from stream.errors import TraceError
from stream.facts import Flow
from stream.messages import Item
from stream.roster import SourceUp
from tests.simulation.perfect_answer import perfect_cascade, read_truth_json

NS3 = Path(__file__).parents[1] / "data" / "ns3"


def copy_of_trace(tmp_path: Path) -> Path:
    return shutil.copytree(NS3 / "incast-ls-s1", tmp_path / "copy")


def perfect(items: Sequence[Item]) -> list[Cascade]:
    """An analysis that knows the truth of the trace from its fabric's name, and answers on the items' own clock."""
    up = items[0]
    assert isinstance(up, SourceUp)
    answer = perfect_cascade(NS3 / up.fabric)
    if not answer.roots:
        return []
    return [replace(answer, start_ns=up.from_ns, end_ns=up.from_ns + 1)]


def silent(items: Sequence[Item]) -> list[Cascade]:
    """An analysis that finds nothing."""
    assert items
    return []


def test_a_perfect_analysis_of_all_recorded_traces_gets_a_perfect_report() -> None:
    seen: list[str] = []
    report = evaluate([NS3], frozenset(), perfect, progress=seen.append)
    assert [case.name for case in report.cases] == seen == sorted(seen)
    summary = report.summary
    assert summary.cases == 14
    assert summary.blame_distance_max == pytest.approx(0, abs=1e-9)
    assert (summary.top1, summary.planted_named, summary.class_accuracy, summary.contributor_f1) == (1, 1, 1, 1)
    assert (summary.abstained, summary.negatives_alarmed, summary.deadlock_missed, summary.deadlock_false) == (
        0,
        0,
        1,
        0,
    )


def test_a_silent_analysis_abstains_wherever_something_was_planted() -> None:
    summary = evaluate([NS3], frozenset(), silent).summary
    assert (summary.blame_distance_mean, summary.top1, summary.planted_named) == (1, 0, 0)
    assert summary.abstained == 11
    assert (summary.negatives_alarmed, summary.deadlock_missed) == (0, 1)


def test_the_report_as_json_has_cases_and_the_summarys_keys() -> None:
    report = msgspec.to_builtins(evaluate([NS3 / "normal-ls-s1"], frozenset(), silent))
    assert list(report) == ["cases", "summary"]
    assert list(report["summary"]) == [
        "cases", "blame_distance_mean", "blame_distance_max", "top1", "planted_named", "class_accuracy", "edge_f1",
        "contributor_f1", "victim_precision", "victim_recall", "innocents_blamed", "abstained", "negatives_alarmed",
        "deadlock_missed", "deadlock_false", "slow_hosts_missed", "slow_hosts_false",
    ]  # fmt: skip
    assert report["summary"]["blame_distance_mean"] is None
    assert report["cases"][0]["name"] == "normal-ls-s1"


def test_withheld_evidence_never_reaches_the_analysis() -> None:
    topics: set[str] = set()

    def look(items: Sequence[Item]) -> list[Cascade]:
        topics.update(item.stream.topic for item in items if isinstance(item, Batch))
        assert not any(isinstance(item, Flow) for item in items)
        return []

    report = evaluate([NS3 / "incast-ls-s1"], {"flows", "queues"}, look)
    assert topics == {"pfc", "pcie"}
    assert report.cases[0].flows is None
    assert report.summary.contributor_f1 is None


def test_the_analysis_sees_times_of_this_century() -> None:
    def look(items: Sequence[Item]) -> list[Cascade]:
        assert isinstance(items[0], SourceUp)
        assert items[0].from_ns == START_NS
        return []

    evaluate([NS3 / "normal-ls-s1"], frozenset(), look)


def test_a_pause_log_that_is_left_out_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(NS3 / "incast-ls-s1", folder)
    truth = read_truth_json(folder) | {"pfc_events_total": 10_000, "pfc_events_written": 5}
    (folder / "truth.json").write_text(json.dumps(truth))
    told: list[str] = []
    evaluate([folder], frozenset(), silent, progress=told.append)
    assert told == ["cut", "cut: pfc.csv holds 5 of 10000 pause events and is left out"]


def test_files_beside_traces_are_passed_over_and_folders_of_traces_opened() -> None:
    beside = trace_folders(sorted(NS3.iterdir()))
    assert (NS3 / "README.md").is_file()
    assert len(beside) == 14
    assert trace_folders([NS3]) == beside


@pytest.mark.parametrize("field", ["expected_roots", "packet_level_roots", "not_the_fabric"])
def test_a_truth_of_a_device_that_is_not_there_says_so(tmp_path: Path, field: str) -> None:
    folder = copy_of_trace(tmp_path)
    entry = {"device": "zz", "port": "p", "share": 1, "cls": "incast", "host": "zz"}
    (folder / "truth.json").write_text(json.dumps(read_truth_json(folder) | {field: [entry]}))
    with pytest.raises(TraceError, match=r"truth\.json: no device 'zz' in devices\.csv; correct either file"):
        read_truth(folder)


def test_an_edge_of_a_device_that_is_not_there_says_so(tmp_path: Path) -> None:
    folder = copy_of_trace(tmp_path)
    (folder / "truth_edges.csv").write_text("device,ingress_port,egress_port,bytes\nzz,a,b,1\n")
    with pytest.raises(TraceError, match=r"truth_edges\.csv:2: no device 'zz' in devices\.csv"):
        read_truth(folder)


def test_a_truth_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = copy_of_trace(tmp_path)
    plain = read_truth(folder)
    (folder / "truth.json").write_bytes(b"\xef\xbb\xbf" + (folder / "truth.json").read_bytes())
    assert read_truth(folder).roots == plain.roots


def test_a_folder_without_truth_is_an_error_and_so_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist; give folders of traces"):
        trace_folders([tmp_path / "absent"])
    with pytest.raises(TraceError, match="no folder among the paths"):
        trace_folders([NS3 / "README.md"])
    with pytest.raises(TraceError, match=r"devices\.csv is missing"):
        evaluate([tmp_path], frozenset(), silent)
