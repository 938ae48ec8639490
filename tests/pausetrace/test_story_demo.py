"""The demo of a fabric names what its story has planted, by what devices tell alone, and nothing in a healthy one."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pausetrace.cli.main import main
from pausetrace.fleet_averages import Average, Averages, fleet_averages
from pausetrace.story_demo import Findings, run_story, scenarios
from pausetrace.story_text import print_findings
from simulation.fabric.scenarios import SCENARIOS
from simulation.trace import read_trace
from stream.cascade import Cascade, Root
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


def text_of(lengths_ns: tuple[int, ...], width: int, *, deadlock: bool = False) -> list[str]:
    """What is printed of steps of these lengths where nothing else was found."""
    found = Findings((), None, (), Averages((Average("use", "%", None, 3.0, 4.0),), 0, 1), lengths_ns)
    if deadlock:
        root = Root("s1", "p1", 3, "egress", 1_000_000, 1, "pfc_deadlock", ())
        stands_still = Cascade(
            "1", "lab", "final", 0, 1_000, "exact", 990_000, False, "critical", "why", 1, 1, (root,), (), (), (), {}
        )
        found = found._replace(cascades=(stands_still,))
    console = Console(file=io.StringIO(), width=width)
    print_findings(found, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_chart_has_a_column_a_step_or_of_several_the_longest() -> None:
    lengths = (*[1_000_000] * 30, 6_000_000, *[1_000_000] * 9)
    wide, narrow = text_of(lengths, 120), text_of(lengths, 40)
    assert "Each step of the job, 40 in all" in " ".join(wide)
    assert "The steps of the job, the longest of 3 each, 40 in all" in " ".join(" ".join(narrow).split())
    for lines, columns, width in ((wide, 40, 120), (narrow, 14, 40)):
        (lowest,) = (line for line in lines if line.strip().startswith("1 ms"))
        (highest,) = (line for line in lines if line.strip().startswith("6 ms"))
        assert len(lowest.split()[2:]) == columns
        assert len(highest.split()[2:]) == 1
        assert len(lowest) <= width


def test_a_single_long_step_is_told_as_what_it_is() -> None:
    told = " ".join(text_of((*[1_000_000] * 9, 6_000_000), 120))
    assert "A step lasted 6 ms where 1 ms is usual; only three long steps near each other are a stall." in told
    assert "No step lasted longer than usual." in " ".join(text_of((1_000_000,) * 9, 120))


def test_a_job_that_stands_still_has_no_usual_steps() -> None:
    told = " ".join(text_of((1_000_000,) * 9, 120, deadlock=True))
    assert "The job stands still" in told
    assert "longer than usual" not in told


def test_what_was_not_measured_before_is_not_nothing() -> None:
    (line,) = (line for line in text_of((1_000_000,), 120) if "use, %" in line)
    assert line.split()[-3:] == ["-", "3", "4"]


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
        (["--scenario", "incast", "--prefix", "mine"], "--prefix is for the scenario `trace` alone"),
        (["--seconds", "5", "--keep", "x"], "--keep is not for the scenario `trace`"),
        (["--seconds", "5", "--seed", "1"], "--seed is not for the scenario `trace`"),
        (["--seconds", "5", "--price", "2"], "--price is not for the scenario `trace`"),
        (["--scenario", ""], "--scenario '' is none of them"),
        (["--keep", ""], "names no folder"),
        (["--keep", "/proc/nope"], "--keep /proc/nope: No such file or directory"),
        (["--keep", __file__], "File exists"),
        (["--keep", f"{__file__}/sub"], "Not a directory"),
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
