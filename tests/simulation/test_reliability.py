"""When a cascade's statement is right, and how statements are counted by confidence."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simulation.reliability import Statement, deciles, statements
from simulation.truth import read_truth
from stream.cascade import Cascade, Root
from tests.simulation.perfect_answer import perfect_cascade, read_truth_json

DATA = Path(__file__).parents[1] / "data"
TWO_ROOTS = DATA / "ns3" / "two_roots-ls-s1"
DEADLOCK = DATA / "ns3" / "deadlock-hk-s4"
LIVE_CYCLE = DATA / "ns3" / "deadlock_none-hk-s1"
HARMLESS = DATA / "sim" / "neg_harmless-ls16-s29"


def right(folder: Path, *cascades: Cascade) -> list[bool]:
    return [one.right for one in statements(read_truth(folder), cascades, 0)]


def with_roots(*roots: Root, **changes: Any) -> Cascade:
    return replace(perfect_cascade(TWO_ROOTS), roots=roots, **changes)


FIRST, SECOND, THIRD = perfect_cascade(TWO_ROOTS).roots
NONE = replace(FIRST, device="leaf1", port="p1", root_class="incast")


def test_the_true_answer_is_right_and_so_is_each_root_kept_apart() -> None:
    assert right(TWO_ROOTS, perfect_cascade(TWO_ROOTS)) == [True]
    assert right(TWO_ROOTS, with_roots(FIRST), with_roots(SECOND)) == [True, True]


@pytest.mark.parametrize(
    "roots",
    [
        (NONE,),
        (replace(SECOND, share_ppm=900_000), replace(FIRST, share_ppm=100_000)),
        (replace(FIRST, root_class="link_degraded"),),
        (SECOND,),
    ],
    ids=["no true root", "the lesser root first", "another class", "the larger root missed"],
)
def test_another_root_order_or_class_is_wrong(roots: tuple[Root, ...]) -> None:
    assert right(TWO_ROOTS, with_roots(*roots)) == [False]


def test_a_true_root_that_was_not_planted_needs_no_class() -> None:
    other = replace(THIRD, root_class="whatever", share_ppm=1_000_000)
    assert right(TWO_ROOTS, with_roots(FIRST), with_roots(SECOND), with_roots(other)) == [True, True, True]


def test_a_silent_switchs_name_is_that_of_its_queues_for_the_others_and_not_for_itself() -> None:
    silent = with_roots(replace(FIRST, port="", root_class="unclassified"))
    assert right(TWO_ROOTS, silent) == [False]
    assert right(TWO_ROOTS, silent, with_roots(SECOND)) == [False, True]
    assert right(TWO_ROOTS, silent, with_roots(replace(THIRD, share_ppm=1_000_000))) == [False, False]
    assert right(TWO_ROOTS, silent, with_roots(NONE)) == [False, False]
    another = with_roots(replace(NONE, port="", root_class="unclassified"))
    assert right(TWO_ROOTS, another, with_roots(SECOND)) == [False, False]


def test_a_deadlock_is_stated_by_its_name_alone() -> None:
    named = with_roots(replace(NONE, root_class="pfc_deadlock"), pause_ns=200)
    assert right(LIVE_CYCLE, named, with_roots(NONE)) == [False, True]
    assert right(DEADLOCK, with_roots(NONE, pause_ns=100), named) == [True]
    assert right(DEADLOCK, with_roots(NONE, pause_ns=300), named) == [False]


def test_a_root_too_small_for_the_truth_to_list_is_not_judged() -> None:
    answer = replace(perfect_cascade(TWO_ROOTS), pause_ns=981)
    assert right(TWO_ROOTS, answer, with_roots(replace(NONE, share_ppm=1_000_000), pause_ns=19)) == [True]
    assert right(TWO_ROOTS, answer, with_roots(replace(NONE, share_ppm=1_000_000), pause_ns=21)) == [True, False]
    twice = [with_roots(replace(NONE, share_ppm=1_000_000), pause_ns=15)] * 2
    assert right(TWO_ROOTS, answer, *twice) == [True, False, False]


def test_an_alarm_without_a_fault_is_wrong_whatever_its_root() -> None:
    answer = perfect_cascade(HARMLESS)
    assert right(HARMLESS, replace(answer, severity="info"), replace(answer, severity="warning")) == [True, False]


def test_suspect_sets_are_statements_and_revisions_and_rootless_cascades_are_none() -> None:
    answer = perfect_cascade(TWO_ROOTS)
    unsure = replace(answer, confidence_ppm=120_000, suspect_set=True)
    gone = (replace(answer, revision=2), replace(answer, merged_into="x"), replace(answer, roots=()))
    assert statements(read_truth(TWO_ROOTS), (unsure, *gone), 0) == (Statement(120_000, True, True),)


def test_a_long_run_is_judged_by_the_window_of_the_cascades_middle_and_not_outside(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    shutil.copytree(TWO_ROOTS, folder)
    truth = read_truth_json(folder)
    first, second = truth["expected_roots"]
    truth["expected_roots"] = [first | {"start_ns": 0, "end_ns": 100}, second | {"start_ns": 100, "end_ns": 200}]
    truth["windows"] = [
        {"start_ns": number * 100, "end_ns": number * 100 + 100,
         "packet_level_roots": [{"device": root["device"], "port": root["port"], "share": 1.0}]}
        for number, root in enumerate((first, second))
    ]  # fmt: skip
    (folder / "truth.json").write_text(json.dumps(truth))

    def judged(root: Root, start_ns: int, end_ns: int) -> list[bool]:
        cascade = with_roots(root, start_ns=1000 + start_ns, end_ns=1000 + end_ns)
        return [one.right for one in statements(read_truth(folder), [cascade], 1000)]

    assert judged(FIRST, 10, 90) == [True]
    assert judged(FIRST, 90, 190) == [False]
    assert judged(SECOND, 90, 190) == [True]
    assert judged(SECOND, 190, 300) == []


def test_each_tenth_of_confidence_counts_its_own_statements() -> None:
    made = [
        Statement(0, True, False), Statement(99_999, True, True), Statement(500_000, True, True),
        Statement(500_000, False, True), Statement(599_999, False, False), Statement(999_999, False, True),
        Statement(1_000_000, False, True),
    ]  # fmt: skip
    table = deciles(made)
    assert [(one.from_ppm, one.to_ppm) for one in table] == [(i * 100_000, (i + 1) * 100_000) for i in range(10)]
    counted = {one.from_ppm: (one.statements, one.suspect_sets, one.right) for one in table if one.statements}
    assert counted == {0: (2, 2, 1), 500_000: (3, 1, 2), 900_000: (2, 0, 2)}
    assert [one.share_right for one in table if one.statements] == [1 / 2, 2 / 3, 1.0]
    assert {one.share_right for one in table if not one.statements} == {None}


def test_a_host_that_is_slow_by_itself_states_nothing_of_pauses() -> None:
    slow = Root("h1", "", 255, "host", 1_000_000, 0, "not_the_fabric", ())
    alone = replace(perfect_cascade(HARMLESS), roots=(slow,), pauses=0, pause_ns=0, severity="critical", queues=())
    assert right(HARMLESS, alone) == []
    assert right(HARMLESS, replace(alone, pauses=1)) == [False]
