"""A story counts as told right only if its roots, classes and slow ranks are."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulation.judge import CaseScore, RootScore, SlowHosts, WindowScore

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of the script."""
    return runpy.run_path(str(ROOT / "benchmarks/stories.py"))


SCORE = CaseScore(
    name="one", scenario="two_faults", cascades=1, verdicts=1, negative_alarmed=None, deadlock_missed=None,
    deadlock_false=False, edge_f1=None, flows=None, slow_hosts=None,
    windows=(
        WindowScore(
            blame_distance=0.1, top1=False, abstained=False, planted=2, named=2, class_right=2,
            roots=(
                RootScore("h1", "", 0.5, 0.4, "slow_receiver_pcie", "slow_receiver_pcie"),
                RootScore("leaf0", "u1", 0.5, 0.6, "link_degraded", "link_degraded"),
            ),
        ),
    ),
)  # fmt: skip


def changed(score: CaseScore, **fields: Any) -> CaseScore:
    """The score with other fields in its window."""
    (window,) = score.windows
    return msgspec.structs.replace(score, windows=(msgspec.structs.replace(window, **fields),))


def test_all_planted_roots_and_their_classes_are_asked_for(script: dict[str, Any]) -> None:
    right = script["_right"]
    assert right(SCORE, set()) == (True, True, 0.1)
    assert right(changed(SCORE, named=1), set()) == (False, False, 0.1)
    narrow, degraded = SCORE.windows[0].roots
    other = msgspec.structs.replace(degraded, predicted_class="unclassified")
    assert right(changed(SCORE, roots=(narrow, other)), set()) == (True, False, 0.1)
    assert right(changed(SCORE, roots=(narrow, other)), {"unclassified"}) == (True, True, 0.1)


def test_the_first_that_is_named_is_one_that_was_planted(script: dict[str, Any]) -> None:
    wrong = RootScore("leaf9", "u0", 0.0, 0.9, "", "incast")
    assert script["_right"](changed(SCORE, roots=(*SCORE.windows[0].roots, wrong)), set()) == (False, False, 0.1)


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        ({}, True),
        ({"negative_alarmed": True}, False),
        ({"deadlock_false": True}, False),
        ({"slow_hosts": SlowHosts(found=1, missed=0, false=0)}, True),
        ({"slow_hosts": SlowHosts(found=1, missed=0, false=1)}, False),
        ({"slow_hosts": SlowHosts(found=0, missed=1, false=0)}, False),
        ({"deadlock_missed": True}, False),
        ({"deadlock_missed": False}, True),
    ],
)
def test_without_roots_what_is_not_there_is_not_to_be_told(
    script: dict[str, Any], fields: dict[str, Any], right: bool
) -> None:
    score = msgspec.structs.replace(SCORE, windows=(), negative_alarmed=False)
    score = msgspec.structs.replace(score, **fields)
    assert script["_right"](score, set())[:2] == (right, right)


def test_a_slow_rank_is_named_in_time(script: dict[str, Any], tmp_path: Path) -> None:
    assert script["told"]("slow_rank", 1, tmp_path / "slow_rank-s1", False) == (True, True, None, True)
