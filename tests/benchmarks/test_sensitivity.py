"""The table of sensitivity is made with the constants that the code has, each really changed."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/sensitivity.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The names of the script."""
    return runpy.run_path(str(SCRIPT))


def test_every_constant_is_there_and_changes(script: dict[str, Any]) -> None:
    for module, names in [*script["CONSTANTS"].items(), *script["FLOWS_UNKNOWN"].items()]:
        source = script["source_of"](module).read_text()
        for name in names:
            for factor in script["FACTORS"]:
                changed = script["with_constant"](source, name, factor)
                values: dict[str, Any] = {}
                line = next(
                    line for line in changed.source.splitlines() if line.partition(" =")[0].split(", ").count(name)
                )
                exec(line, values)
                assert values[name] == changed.after
                if changed.before > 1 or factor > 1:
                    assert changed.after == pytest.approx(changed.before * factor, rel=0.5)
                    assert changed.after != changed.before
                assert len(changed.source.splitlines()) == len(source.splitlines())


def test_a_whole_number_stays_one(script: dict[str, Any]) -> None:
    changed = script["with_constant"]('A: int = 3  # µ\nB, C = 1, 0.5\n"""C = 1"""\n', "A", 0.5)
    assert (changed.before, changed.after) == (3, 2)
    assert changed.source.startswith("A: int = 2  # µ\n")
    assert script["with_constant"]("B, C = 1, 0.5\n", "C", 2.0).source == "B, C = 1, 1.0\n"
    with pytest.raises(KeyError):
        script["with_constant"]("A = 1\n", "B", 2.0)


def test_figures_that_are_the_same_are_marked_so(script: dict[str, Any]) -> None:
    base = dict.fromkeys((name for name, _ in script["FIGURES"]), 1.0)
    setting = script["Setting"]
    rows = [(setting(), base), (setting("classes", "STORM_COVER", 0.5), base | {"top1": 0.5})]
    line = script["table"](rows).splitlines()[-1]
    assert line.startswith("| `STORM_COVER` | 0.9 → 0.45 | = | = | 0.500 | = |")
    # Without flows the figures are others to begin with.
    fewer = base | {"top1": 0.5}
    rows += [(setting(without="flows"), fewer), (setting("port_edges", "ROUNDS", 2.0, "flows"), fewer)]
    lines = script["table"](rows).splitlines()[-2:]
    assert lines[0].startswith("| (as they are without flows) | | 1.000 | 1.000 | 0.500 | 1.000 |")
    assert lines[1].startswith("| `ROUNDS` without flows | 2 → 4 | = | = | = |")


def test_a_constant_that_counts_without_flows_is_tried_without_them(script: dict[str, Any]) -> None:
    setting = script["Setting"]
    assert script["settings"](["ROUNDS"]) == [
        setting(), setting(without="flows"),
        setting("port_edges", "ROUNDS", 0.5, "flows"), setting("port_edges", "ROUNDS", 2.0, "flows"),
    ]  # fmt: skip
    assert not any(one.without for one in script["settings"](["STORM_COVER"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "class_accuracy"),
    [(["", "", 1.0], 1.0), (["classes", "DEGRADED_RATIO", 0.1], 0.0), (["layout", "MIN_QUEUED_BYTES", 1e6], 0.0)],
)
def test_a_changed_constant_is_the_one_that_the_analysis_uses(
    setting: list[Any], class_accuracy: float, tmp_path: Path
) -> None:
    own = {"NUMBA_CACHE_DIR": str(tmp_path)} if setting[0] == "layout" else {}
    done = subprocess.run(
        [sys.executable, SCRIPT, "--child", json.dumps(setting), ROOT / "tests/data/ns3/degraded_link-ls-s1"],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | own, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["class_accuracy"] == class_accuracy
