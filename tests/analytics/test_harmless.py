"""Pausing that hurts nobody alarms nobody, a ring that moves is no deadlock, and one that never moves again is one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from analytics.offline import final_cascades
from simulation import harmless
from simulation.harmless import HARMLESS, HARMLESS_SHARE, SEEDS, Case, made, write_case
from simulation.judge import score_case
from simulation.lossless import Run, slowed_by
from simulation.model_trace import Planted
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.cascade import Cascade

pytestmark = pytest.mark.slow

CYCLES = range(6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@cache
def case(name: str, seed: int) -> Case:
    return made(getattr(harmless, name), seed)


@cache
def written(folder: Path, name: str, seed: int) -> tuple[Path, Run]:
    planted = (Planted("deadlock"),) if name == "deadlock" else ()
    scenario = {"live_cycle": "cyclic_dependency", "deadlock": "deadlock"}.get(name, "harmless")
    path = folder / f"{name}-{seed}"
    return path, write_case(path, case(name, seed), planted, scenario)


def cascades(path: Path, *without: str) -> list[Cascade]:
    return final_cascades(trace_items(trace_streams(read_trace(path, frozenset(without)), path.name, "m", "e", 10**18)))


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", [make.__name__ for make in HARMLESS])
def test_a_made_fabric_is_harmless_by_its_own_account(folder: Path, name: str, seed: int) -> None:
    _, run = written(folder, name, seed)
    assert slowed_by(case(name, seed).plan, run) < HARMLESS_SHARE
    assert run.stuck_from < 0
    assert bool(run.pauses) is (name != "frames_on_empty_queues")


@pytest.mark.parametrize("without", [(), ("flows",)])
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", [make.__name__ for make in HARMLESS])
def test_pausing_that_hurts_nobody_alarms_nobody(folder: Path, name: str, seed: int, without: tuple[str, ...]) -> None:
    path, run = written(folder, name, seed)
    told = cascades(path, *without)
    assert bool(told) is bool(run.pauses)
    score = score_case(path, told, start_ns=10**18)
    assert not score.negative_alarmed, [(c.severity_reason, c.confidence_ppm, c.roots) for c in told]
    assert not score.deadlock_false


@pytest.mark.parametrize("without", [(), ("flows",)])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_pausing_that_costs_flows_their_time_alarms(folder: Path, seed: int, without: tuple[str, ...]) -> None:
    path, run = written(folder, "slow_for_long", seed)
    assert slowed_by(case("slow_for_long", seed).plan, run) > HARMLESS_SHARE
    assert score_case(path, cascades(path, *without), start_ns=10**18).negative_alarmed


@pytest.mark.parametrize("without", [(), ("flows",)])
@pytest.mark.parametrize("seed", CYCLES)
def test_a_ring_that_stops_itself_and_still_moves_is_no_deadlock(
    folder: Path, seed: int, without: tuple[str, ...]
) -> None:
    path, run = written(folder, "live_cycle", seed)
    assert run.stuck_from < 0
    assert min(run.done) >= 0
    ring = {port for port in run.ports if port[1] == "next"}
    assert {pause.port for pause in run.pauses if pause.stops} >= ring
    score = score_case(path, cascades(path, *without), start_ns=10**18)
    assert score.verdicts
    assert not score.deadlock_false


@pytest.mark.parametrize("without", [(), ("flows",)])
@pytest.mark.parametrize("seed", CYCLES)
def test_a_ring_that_never_moves_again_is_a_deadlock(folder: Path, seed: int, without: tuple[str, ...]) -> None:
    path, run = written(folder, "deadlock", seed)
    assert 0 <= run.stuck_from < case("deadlock", seed).plan.steps
    score = score_case(path, cascades(path, *without), start_ns=10**18)
    assert not score.deadlock_missed
