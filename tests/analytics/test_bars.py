"""What Pausetrace promises of the fourteen recorded cases, by its own judge: with flows, without, without evidence."""

from __future__ import annotations

from functools import cache

import pytest

from analytics.offline import final_cascades
from pausetrace.evaluate import Evaluation, evaluate
from tests.analytics.long_runs import NS3, TRACES


@cache
def judged(*without: str) -> Evaluation:
    return evaluate([NS3 / trace for trace in TRACES], frozenset(without), final_cascades)


@pytest.mark.parametrize("without", [(), ("flows",)])
def test_roots_are_right_with_depths_whether_flows_are_known_or_not(without: tuple[str, ...]) -> None:
    summary = judged(*without).summary
    assert summary.blame_distance_mean is not None
    assert summary.blame_distance_max is not None
    assert summary.blame_distance_mean <= 0.008
    assert summary.blame_distance_max <= 0.04
    assert summary.top1 == 1
    assert summary.planted_named == 1
    assert summary.negatives_alarmed == 0
    assert summary.abstained == 0
    assert summary.class_accuracy == 1
    assert (summary.deadlock_missed, summary.deadlock_false) == (0, 0)


@pytest.mark.parametrize(("without", "least"), [((), 0.99), (("flows",), 0.95)])
def test_edges_are_right_and_more_so_where_flows_are_known(without: tuple[str, ...], least: float) -> None:
    summary = judged(*without).summary
    assert summary.edge_f1 is not None
    assert summary.edge_f1 >= least


def test_the_flows_that_fed_a_root_are_named() -> None:
    summary = judged().summary
    assert summary.contributor_f1 is not None
    assert summary.contributor_f1 >= 0.98
    assert not summary.innocents_blamed


def test_the_flows_that_were_held_up_are_named() -> None:
    summary = judged().summary
    assert summary.victim_precision is not None
    assert summary.victim_recall is not None
    assert summary.victim_precision >= 0.96
    assert summary.victim_recall >= 0.94


def test_without_depths_and_flows_every_case_with_a_root_is_abstained_from() -> None:
    evaluation = judged("flows", "queues")
    without_a_root = {"deadlock_none-hk-s1", "microburst_ecn-ls-s1", "normal-ls-s1"}
    abstained = {case.name for case in evaluation.cases if any(window.abstained for window in case.windows)}
    assert abstained == set(TRACES) - without_a_root
    assert [case.name for case in evaluation.cases if case.verdicts] == []
    assert evaluation.summary.negatives_alarmed == 0
