"""The judge: a perfect answer scores perfectly, and each measure moves when the answer is made wrong in its respect."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simulation.judge import CaseScore, SlowHosts, score_case
from simulation.judge_summary import summarise
from stream.cascade import Cascade, PausedQueue, Root
from stream.errors import TraceError
from tests.simulation.perfect_answer import contributor, perfect_cascade, read_truth_json

DATA = Path(__file__).parents[1] / "data"
RECORDED = sorted(path.parent for path in DATA.glob("*/*/truth.json"))
SLOW = DATA / "ns3" / "slow_receiver-ft4-s1"
TWO_ROOTS = DATA / "ns3" / "two_roots-ls-s1"
DEADLOCK = DATA / "ns3" / "deadlock-hk-s4"
LIVE_CYCLE = DATA / "ns3" / "deadlock_none-hk-s1"
HARMLESS = DATA / "sim" / "neg_harmless-ls16-s29"
TWO_SLOW = DATA / "sim" / "two_slow-ft8-s36"
HAS_ROOT = [folder for folder in RECORDED if any("device" in r and r["cls"] != "microburst_no_pfc"
                                                 for r in read_truth_json(folder)["expected_roots"])]  # fmt: skip


def judged(folder: Path, *cascades: Cascade, **options: Any) -> CaseScore:
    return score_case(folder, cascades, **options)


def with_root(cascade: Cascade, index: int, **changes: Any) -> Cascade:
    roots = list(cascade.roots)
    roots[index] = replace(roots[index], **changes)
    return replace(cascade, roots=tuple(roots))


def egress(device: str, port: str, share_ppm: int, root_class: str = "incast") -> Root:
    return Root(device, port, 3, "egress", share_ppm, 1, root_class, ())


@pytest.mark.parametrize("folder", HAS_ROOT, ids=lambda folder: folder.name)
def test_a_perfect_answer_scores_perfectly(folder: Path) -> None:
    score = judged(folder, perfect_cascade(folder))
    (window,) = score.windows
    assert window.blame_distance == pytest.approx(0, abs=1e-9)
    assert window.top1 is True
    assert window.abstained is False
    assert window.planted == window.named == window.class_right > 0
    assert score.edge_f1 == pytest.approx(1, abs=1e-3)
    assert score.flows is not None
    assert (score.flows.contributors_missed, score.flows.contributors_false, score.flows.innocents_blamed) == (0, 0, 0)
    assert score.negative_alarmed is None
    assert (score.deadlock_missed, score.deadlock_false) == (None, False)


def test_perfect_answers_to_all_cases_give_a_perfect_summary() -> None:
    summary = summarise([judged(folder, perfect_cascade(folder)) for folder in HAS_ROOT])
    assert summary.cases == len(HAS_ROOT) == 11
    assert summary.blame_distance_mean == pytest.approx(0, abs=1e-9)
    assert summary.blame_distance_max == pytest.approx(0, abs=1e-9)
    assert (summary.top1, summary.planted_named, summary.class_accuracy, summary.contributor_f1) == (1, 1, 1, 1)
    assert summary.edge_f1 == pytest.approx(1, abs=1e-3)
    assert (summary.innocents_blamed, summary.abstained, summary.negatives_alarmed) == (0, 0, 0)
    assert (summary.deadlock_missed, summary.deadlock_false) == (None, 0)
    assert (summary.victim_precision, summary.victim_recall) == (1, 1)


def test_a_wrong_root_costs_its_whole_share() -> None:
    answer = replace(perfect_cascade(SLOW), roots=(egress("tor0", "p1", 1_000_000),))
    (window,) = judged(SLOW, answer).windows
    assert window.blame_distance == 1
    assert window.top1 is False
    assert (window.planted, window.named, window.class_right) == (1, 0, 0)


def test_half_right_shares_cost_half() -> None:
    wrong = egress("tor0", "p1", 500_000)
    host = replace(perfect_cascade(SLOW).roots[0], share_ppm=500_000)
    (window,) = judged(SLOW, replace(perfect_cascade(SLOW), roots=(host, wrong))).windows
    # Truth: h9 .8828 and tor3:p4 .1012, scaled to sum to 1.
    truth_host = 0.8828 / (0.8828 + 0.1012)
    assert window.blame_distance == pytest.approx((truth_host - 0.5 + (1 - truth_host) + 0.5) / 2)
    assert (window.named, window.class_right) == (1, 1)


def test_swapped_shares_lose_top1_but_not_the_planted_roots() -> None:
    answer = with_root(with_root(perfect_cascade(TWO_ROOTS), 0, share_ppm=190_500), 1, share_ppm=765_300)
    (window,) = judged(TWO_ROOTS, answer).windows
    assert window.top1 is False
    assert window.blame_distance == pytest.approx((0.7653 - 0.1905) / (0.7653 + 0.1905 + 0.0206), abs=1e-3)
    assert (window.planted, window.named) == (2, 2)


def test_a_host_is_one_root_whatever_its_port() -> None:
    for port in ("", "eth0", "pcie", "host-internal (host sends PFC)"):
        (window,) = judged(SLOW, with_root(perfect_cascade(SLOW), 0, port=port)).windows
        assert window.blame_distance == pytest.approx(0, abs=1e-9)


def test_a_root_below_two_percent_costs_nothing() -> None:
    answer = perfect_cascade(SLOW)
    crumbs = replace(answer, roots=(*answer.roots, egress("tor0", "p1", 19_000)))
    (window,) = judged(SLOW, crumbs).windows
    assert window.blame_distance == pytest.approx(0, abs=1e-9)
    more = replace(answer, roots=(*answer.roots, egress("tor0", "p1", 30_000)))
    (window,) = judged(SLOW, more).windows
    assert window.blame_distance == pytest.approx(0.03 / (0.8828 + 0.1012 + 0.03), abs=1e-6)


def test_a_root_below_two_percent_does_not_count_as_named() -> None:
    answer = with_root(perfect_cascade(TWO_ROOTS), 1, share_ppm=15_000)
    (window,) = judged(TWO_ROOTS, answer).windows
    assert (window.planted, window.named) == (2, 1)


def test_a_wrong_class_costs_class_accuracy_alone() -> None:
    (window,) = judged(SLOW, with_root(perfect_cascade(SLOW), 0, root_class="nic_pfc_storm")).windows
    assert window.blame_distance == pytest.approx(0, abs=1e-9)
    assert (window.planted, window.named, window.class_right) == (1, 1, 0)


@pytest.mark.parametrize(
    ("case", "root_class"),
    [
        ("slow_receiver-ft4-s1", "slow_receiver_pcie"),
        ("nic_storm-ls-s1", "nic_pfc_storm"),
        ("degraded_link-ls-s1", "link_degraded"),
        ("spine_downlink-ls-s2", "ecmp_collision"),
        ("ecmp_collision-ls-s1", "ecmp_collision"),
        ("incast-ls-s1", "incast"),
    ],
)
def test_the_class_names_of_traces_mean_our_own(case: str, root_class: str) -> None:
    folder = DATA / "ns3" / case
    (window,) = judged(folder, with_root(perfect_cascade(folder), 0, root_class=root_class)).windows
    assert window.class_right == 1


def test_no_answer_is_an_abstention_and_a_miss() -> None:
    score = judged(SLOW)
    (window,) = score.windows
    assert (window.blame_distance, window.top1, window.abstained, window.named) == (1, False, True, 0)
    assert score.edge_f1 == 0
    assert score.flows is not None
    assert score.flows.contributors_missed == 1
    assert summarise([score]).abstained == 1


@pytest.mark.parametrize("changes", [{"confidence_ppm": 499_999}, {"suspect_set": True}])
def test_an_unsure_answer_is_an_abstention(changes: dict[str, Any]) -> None:
    score = judged(SLOW, replace(perfect_cascade(SLOW), **changes))
    assert (score.cascades, score.verdicts) == (1, 0)
    assert score.windows[0].blame_distance == 1
    assert summarise([score]).abstained == 1


def test_a_confidence_of_one_half_is_a_verdict() -> None:
    assert judged(SLOW, replace(perfect_cascade(SLOW), confidence_ppm=500_000)).verdicts == 1


@pytest.mark.parametrize("changes", [{"revision": 3}, {"merged_into": "other"}])
def test_only_final_cascades_count(changes: dict[str, Any]) -> None:
    score = judged(SLOW, replace(perfect_cascade(SLOW), **changes))
    assert (score.cascades, score.windows[0].abstained) == (0, True)


def test_several_cascades_weigh_by_their_pause_time() -> None:
    answer = perfect_cascade(TWO_ROOTS)
    first, second, third = answer.roots
    total = sum(root.share_ppm for root in answer.roots)
    parts = [
        replace(answer, id=str(i), pause_ns=root.share_ppm, roots=(replace(root, share_ppm=1_000_000),))
        for i, root in enumerate((first, second, third))
    ]
    assert total < 1_000_000
    (window,) = judged(TWO_ROOTS, *parts).windows
    assert window.blame_distance == pytest.approx(0, abs=1e-6)
    unsure = replace(parts[1], confidence_ppm=100_000)
    (window,) = judged(TWO_ROOTS, parts[0], unsure, parts[2]).windows
    assert (window.planted, window.named) == (2, 1)


def test_an_innocent_that_is_blamed_counts_once_and_costs_f1() -> None:
    answer = perfect_cascade(SLOW)
    innocent, marginal = (str(read_truth_json(SLOW)["flows"][label][0]) for label in ("unaffected", "marginal"))
    flows = (*answer.roots[0].contributors, contributor(innocent), contributor(marginal))
    score = judged(SLOW, with_root(answer, 0, contributors=flows))
    assert score.flows is not None
    assert (score.flows.innocents_blamed, score.flows.contributors_false) == (1, 1)
    summary = summarise([score])
    assert summary.innocents_blamed == 1
    assert summary.contributor_f1 == pytest.approx(2 / 3)


def test_a_victim_or_a_made_up_flow_named_contributor_is_false_but_no_innocent() -> None:
    answer = perfect_cascade(TWO_ROOTS)
    victim = str(read_truth_json(TWO_ROOTS)["flows"]["victim"][0])
    flows = (*answer.roots[0].contributors, contributor(victim), contributor("999"))
    score = judged(TWO_ROOTS, with_root(answer, 0, contributors=flows))
    assert score.flows is not None
    assert (score.flows.contributors_false, score.flows.innocents_blamed) == (2, 0)


def test_a_missing_contributor_costs_f1() -> None:
    answer = perfect_cascade(TWO_ROOTS)
    fewer = tuple(replace(root, contributors=root.contributors[1:]) for root in answer.roots)
    score = judged(TWO_ROOTS, replace(answer, roots=fewer))
    assert score.flows is not None
    assert score.flows.contributors_missed == 1
    assert summarise([score]).contributor_f1 == pytest.approx(2 * 7 / (2 * 7 + 1))


def test_contributors_of_a_root_below_a_tenth_accuse_nobody() -> None:
    answer = perfect_cascade(TWO_ROOTS)
    innocent = str(read_truth_json(TWO_ROOTS)["flows"]["unaffected"][0])
    score = judged(TWO_ROOTS, with_root(answer, 2, contributors=(contributor(innocent),)))
    assert score.flows is not None
    assert score.flows.innocents_blamed == 0


def test_withheld_flows_leave_the_flow_measures_null() -> None:
    score = judged(SLOW, perfect_cascade(SLOW), flows_known=False)
    assert score.flows is None
    summary = summarise([score])
    assert (summary.contributor_f1, summary.innocents_blamed) == (None, None)
    assert summary.blame_distance_mean == pytest.approx(0, abs=1e-9)


def test_edges_at_a_wrong_port_cost_edge_f1_by_their_share() -> None:
    answer = perfect_cascade(SLOW)
    moved = tuple(replace(edge, egress_port="p99") if edge.device == "tor4" else edge for edge in answer.edges)
    share = sum(edge.share_ppm for edge in answer.edges if edge.device == "tor4") / 1e6
    assert 0 < share < 1
    score = judged(SLOW, replace(answer, edges=moved))
    assert score.edge_f1 == pytest.approx(1 - share, abs=1e-3)
    assert score.windows[0].blame_distance == pytest.approx(0, abs=1e-9)


def test_edges_of_several_cascades_weigh_by_their_pauses() -> None:
    answer = perfect_cascade(SLOW)
    stray = replace(
        answer, id="d", pauses=300, pause_ns=1, edges=(replace(answer.edges[0], device="h0", share_ppm=10**6),)
    )
    assert judged(SLOW, answer, stray).edge_f1 == pytest.approx(0.25, abs=1e-3)


def test_pauses_that_hosts_send_do_not_weigh_for_edges() -> None:
    answer = perfect_cascade(SLOW)
    by_switch = PausedQueue("tor0", "p1", 3, answer.edges[0].device, "p1", 100, 1, 500_000, 1)
    by_host = replace(by_switch, paused_by_device="h5", pauses=10**6)
    answer = replace(answer, pauses=10**6 + 100, queues=(by_switch, by_host))
    stray = replace(
        answer, id="d", pauses=300, queues=(), edges=(replace(answer.edges[0], device="h0", share_ppm=10**6),)
    )
    assert judged(SLOW, answer, stray).edge_f1 == pytest.approx(0.25, abs=1e-3)


def test_edges_of_several_cascades_weigh_by_bytes_held_where_all_tell_them() -> None:
    answer = perfect_cascade(SLOW)
    answer = replace(answer, edges=tuple(replace(edge, held_bytes=3 * edge.share_ppm) for edge in answer.edges))
    stray = replace(answer.edges[0], device="h0", share_ppm=10**6, held_bytes=10**6)
    assert judged(SLOW, answer, replace(answer, id="d", pauses=900, edges=(stray,))).edge_f1 == pytest.approx(
        0.75, abs=1e-3
    )
    untold = replace(answer, id="d", pauses=300, edges=(replace(stray, held_bytes=0),))
    assert judged(SLOW, answer, untold).edge_f1 == pytest.approx(0.25, abs=1e-3)


def test_an_alarm_on_a_negative_counts_and_a_harmless_pause_named_does_not() -> None:
    answer = perfect_cascade(HARMLESS)
    for severity, alarmed in (("info", False), ("warning", True), ("critical", True)):
        score = judged(HARMLESS, replace(answer, severity=severity))
        assert score.negative_alarmed is alarmed
        assert summarise([score]).negatives_alarmed == int(alarmed)
        (window,) = score.windows
        assert (window.blame_distance, window.top1, window.abstained, window.planted) == (None, None, None, 0)
        assert score.flows is None
    assert judged(HARMLESS, replace(answer, suspect_set=True)).negative_alarmed is False
    assert judged(HARMLESS).negative_alarmed is False


def test_a_burst_that_ecn_absorbs_is_a_negative() -> None:
    folder = DATA / "ns3" / "microburst_ecn-ls-s1"
    assert judged(folder).negative_alarmed is False
    assert judged(folder).windows[0].abstained is None
    wrong = replace(perfect_cascade(folder), roots=(egress("leaf3", "p3", 10**6),), severity="warning")
    assert judged(folder, wrong).negative_alarmed is True


def test_a_deadlock_is_judged_by_its_class_alone() -> None:
    answer = perfect_cascade(DEADLOCK)
    score = judged(DEADLOCK, answer)
    (window,) = score.windows
    assert (window.blame_distance, window.top1, window.planted, score.edge_f1) == (None, None, 0, None)
    assert (score.deadlock_missed, score.deadlock_false) == (True, None)
    assert summarise([score]).deadlock_missed == 1
    right = with_root(answer, 0, root_class="pfc_deadlock")
    assert judged(DEADLOCK, right).deadlock_missed is False
    assert judged(DEADLOCK, replace(right, confidence_ppm=1)).deadlock_missed is True
    assert judged(DEADLOCK).windows[0].abstained is True


def test_flow_measures_include_the_deadlock_without_its_members() -> None:
    member, victim = (str(read_truth_json(DEADLOCK)["flows"][label][0]) for label in ("deadlock_member", "victim"))
    named = with_root(perfect_cascade(DEADLOCK), 0, contributors=(contributor(member), contributor(victim)))
    score = judged(DEADLOCK, named)
    assert score.flows is not None
    assert score.flows.contributors_false == 1


def rewritten(folder: Path, copy: Path, **fields: Any) -> Path:
    """A copy of the folder whose truth.json has other values in some fields."""
    shutil.copytree(folder, copy)
    (copy / "truth.json").write_text(json.dumps(read_truth_json(folder) | fields))
    return copy


def test_a_live_cycle_leaves_distance_top1_and_edges(tmp_path: Path) -> None:
    folder = rewritten(TWO_ROOTS, tmp_path / "cycle", scenario="cyclic_dependency_without_deadlock")
    score = judged(folder, perfect_cascade(folder))
    (window,) = score.windows
    assert (window.blame_distance, window.top1, score.edge_f1) == (None, None, None)
    assert (window.planted, window.named, score.deadlock_false) == (2, 2, False)


def test_flows_of_unknown_fate_are_left_out(tmp_path: Path) -> None:
    flows = read_truth_json(SLOW)["flows"]
    flows["unknown"] = [flows["unaffected"].pop()]
    folder = rewritten(SLOW, tmp_path / "unknown", flows=flows)
    named = with_root(perfect_cascade(folder), 0, contributors=(contributor(str(flows["unknown"][0])),))
    score = judged(folder, named)
    assert score.flows is not None
    assert (score.flows.contributors_false, score.flows.innocents_blamed) == (0, 0)


def test_a_deadlock_claimed_elsewhere_is_false() -> None:
    answer = with_root(perfect_cascade(SLOW), 0, root_class="pfc_deadlock")
    assert judged(SLOW, answer).deadlock_false is True
    live = replace(answer, severity="info")
    assert judged(LIVE_CYCLE, live).deadlock_false is True
    assert judged(LIVE_CYCLE).deadlock_false is False
    assert summarise([judged(SLOW, answer), judged(LIVE_CYCLE, live)]).deadlock_false == 2


def test_the_visible_roots_are_the_truth_where_they_are_there() -> None:
    answer = perfect_cascade(TWO_SLOW)
    assert answer.roots[0].share_ppm == 543_200
    (window,) = judged(TWO_SLOW, answer).windows
    assert window.blame_distance == pytest.approx(0, abs=1e-9)
    assert (window.planted, window.class_right) == (2, 2)


@pytest.fixture(name="long_run")
def long_run_folder(tmp_path: Path) -> Path:
    """The two-root trace as a long run with one fault after the other."""
    folder = tmp_path / "long"
    shutil.copytree(TWO_ROOTS, folder)
    truth = read_truth_json(folder)
    incast, slow = truth["expected_roots"]
    incast |= {"start_ns": 0, "end_ns": 1_000_000}
    slow |= {"start_ns": 2_000_000, "end_ns": 3_000_000}
    truth["windows"] = [
        {"start_ns": 0, "end_ns": 1_000_000,
         "packet_level_roots": [{"device": "leaf3", "port": "p2", "share": 1.0}]},
        {"start_ns": 2_000_000, "end_ns": 3_000_000,
         "packet_level_roots": [{"device": "h5", "port": "pcie", "share": 1.0}]},
    ]  # fmt: skip
    (folder / "truth.json").write_text(json.dumps(truth))
    return folder


def test_a_long_run_is_scored_once_a_window_and_not_outside(long_run: Path) -> None:
    start_ns = 10**18
    answer = perfect_cascade(long_run)
    incast, slow, _ = answer.roots

    def cascade(root: Root, begin_ns: int, end_ns: int) -> Cascade:
        return replace(
            answer, start_ns=start_ns + begin_ns, end_ns=start_ns + end_ns, roots=(replace(root, share_ppm=10**6),)
        )

    right = (
        cascade(incast, 100_000, 900_000),
        cascade(slow, 2_100_000, 2_900_000),
        cascade(egress("leaf0", "p1", 1), 1_200_000, 1_900_000),
    )
    score = judged(long_run, *right, start_ns=start_ns)
    assert [window.blame_distance for window in score.windows] == [0, 0]
    assert [(window.planted, window.named) for window in score.windows] == [(1, 1), (1, 1)]

    missed = judged(long_run, right[0], start_ns=start_ns)
    assert [window.abstained for window in missed.windows] == [False, True]
    summary = summarise([missed])
    assert (summary.blame_distance_mean, summary.planted_named, summary.abstained) == (0.5, 0.5, 1)

    # 1 ms of the first cascade's 3.2 ms lies in the second window, and all of an equal one with the right root.
    straddling = cascade(incast, -200_000, 3_000_000)
    both = judged(long_run, straddling, cascade(slow, 2_000_000, 3_000_000), start_ns=start_ns)
    part = 1_000_000 / 3_200_000
    assert both.windows[0].blame_distance == 0
    assert both.windows[1].blame_distance == pytest.approx(part / (1 + part))


def test_a_window_asks_only_for_faults_that_were_active_in_it(long_run: Path) -> None:
    truth = read_truth_json(long_run)
    for window in truth["windows"]:
        window["packet_level_roots"] = truth["packet_level_roots"]
    (long_run / "truth.json").write_text(json.dumps(truth))
    windows = judged(long_run).windows
    assert [[root.planted_class for root in window.roots if root.planted_class] for window in windows] == [
        ["incast"],
        ["slow_receiver_pcie"],
    ]
    assert [window.planted for window in windows] == [1, 1]


def test_a_trace_without_truth_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"truth\.json is missing; only a trace whose truth is known"):
        judged(tmp_path)


def test_a_malformed_truth_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text('{"packet_level_roots": [{"device": "h0"}]}')
    with pytest.raises(TraceError, match=r"truth\.json cannot be read: .*port"):
        judged(tmp_path)


def test_a_verdict_without_pause_time_says_nothing() -> None:
    (window,) = judged(SLOW, replace(perfect_cascade(SLOW), pause_ns=0)).windows
    assert (window.abstained, window.blame_distance) == (True, 1)


@pytest.mark.parametrize("field", ["expected_roots", "packet_level_roots"])
def test_a_truth_without_its_fields_says_which(tmp_path: Path, field: str) -> None:
    folder = tmp_path / "case"
    shutil.copytree(SLOW, folder)
    truth = read_truth_json(folder)
    del truth[field]
    (folder / "truth.json").write_text(json.dumps(truth))
    with pytest.raises(
        TraceError, match=rf"truth\.json cannot be read: .*missing required field `{field}`; docs/trace"
    ):
        judged(folder)


def test_a_verdict_that_it_is_not_the_fabric_is_scored_by_its_host_alone(tmp_path: Path) -> None:
    shutil.copytree(HARMLESS, tmp_path / "case")
    truth = read_truth_json(HARMLESS)
    (tmp_path / "case" / "truth.json").write_text(json.dumps(truth | {"not_the_fabric": [{"host": "h1"}]}))
    slow = Root("h1", "", 255, "host", 1_000_000, 0, "not_the_fabric", ())
    answer = replace(perfect_cascade(HARMLESS), roots=(slow,), pauses=0, pause_ns=0, severity="critical", queues=())
    score = judged(tmp_path / "case", answer)
    assert (score.slow_hosts, score.negative_alarmed) == (SlowHosts(1, 0, 0), False)
    assert (score.cascades, score.verdicts) == (0, 0)
    other = with_root(answer, 0, device="h2")
    wrong = judged(tmp_path / "case", other)
    assert wrong.slow_hosts == SlowHosts(0, 1, 1)
    assert judged(tmp_path / "case", replace(answer, suspect_set=True)).slow_hosts == SlowHosts(0, 1, 0)
    summary = summarise([score, wrong, judged(HARMLESS, answer)])
    assert (summary.slow_hosts_missed, summary.slow_hosts_false, summary.negatives_alarmed) == (1, 1, 0)
    assert judged(HARMLESS, answer).slow_hosts is None
    # With a pause it is a cascade like any other.
    assert judged(tmp_path / "case", replace(answer, pauses=1)).negative_alarmed is True
