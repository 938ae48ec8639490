"""The demo of a fabric names what its story has planted, by what devices tell alone, and nothing in a healthy one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pausetrace.cli.main import main
from pausetrace.fleet_averages import fleet_averages
from pausetrace.story_demo import Findings, run_story, scenarios
from simulation.fabric.scenarios import SCENARIOS
from simulation.trace import read_trace
from stream.errors import ConfigError

TRACE = Path(__file__).resolve().parents[1] / "data/ns3/slow_receiver-ft4-s1"


def said(name: str, keep: Path | None = None) -> tuple[Findings, list[str]]:
    stages: list[str] = []
    return run_story(name, 1, keep, stages.append), stages


@pytest.mark.slow
def test_the_narrow_link_is_named_with_who_waits_and_what_that_costs(tmp_path: Path) -> None:
    found, stages = said("pcie_narrow", tmp_path / "capture")
    worst = max(found.cascades, key=lambda cascade: cascade.pause_ns)
    root = worst.roots[0]
    assert (root.device, root.root_class, root.layer) == ("h232", "slow_receiver_pcie", "pcie")
    assert not worst.suspect_set
    assert found.tails is not None
    (stall,) = found.tails.stalls
    assert (stall.first_step, stall.cascades) == (10, (worst.id,))
    assert "h232" in {behind.device for behind in stall.ranks_behind}
    assert stall.cost_rank_ns > 0
    assert found.held_up
    assert all(each.rank == f"rank{each.host[1:]}" for each in found.held_up)
    assert len(found.lengths_ns) == 20
    assert any("100%" in sentence for sentence in stages)
    assert main(["analyze", str(tmp_path / "capture"), "-o", "json"]) == 0


@pytest.mark.slow
def test_a_rank_that_is_slow_by_itself_is_not_the_fabrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--scenario", "slow_rank", "--price", "3.6"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "not the fabric: the rank's own compute" in told
    assert "what averages over the fleet say" in told


@pytest.mark.slow
def test_nothing_is_told_of_a_healthy_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--scenario", "healthy"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "No step lasted longer than usual." in told
    assert "CRITICAL" not in told


def test_all_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["slowburn", *SCENARIOS, "trace"] == list(scenarios())


def test_the_averages_are_those_of_all_ports() -> None:
    trace = read_trace(TRACE)
    counters = trace.counters
    assert counters is not None
    assert counters.rx_paused_ns is not None
    since_ns = int(np.median(counters.end_ns))
    averages = fleet_averages(trace, since_ns)
    stopped = next(each for each in averages.measures if each.name == "time that a port is stopped")
    late = counters.end_ns > since_ns
    span_ns = int(counters.end_ns.max()) - since_ns
    expected = counters.rx_paused_ns[late].sum() / span_ns / len(trace.ports.device) * 100
    assert stopped.since == pytest.approx(expected)
    assert stopped.most >= stopped.since
    assert averages.ports == len(trace.ports.device)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--scenario", "quake"], "--scenario 'quake' is none of them"),
        (["--seed", "-1"], "--seed -1"),
        (["--price", "-1"], "--price -1"),
        (["--scenario", "trace", "--keep", "x"], "--keep is not for the scenario `trace`"),
        (["--scenario", "incast", "--seconds", "5"], "--seconds is for the scenario `trace` alone"),
    ],
)
def test_what_cannot_be_meant_is_an_error(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main(["demo", "--scenario", "incast", "--keep", str(tmp_path)]) == 2
    assert "holds something already" in capsys.readouterr().err


def test_a_scenario_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no scenario 'quake'"):
        run_story("quake", 1, None, lambda _: None)
