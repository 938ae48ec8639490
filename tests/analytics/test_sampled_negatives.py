"""Pausing that hurts nobody alarms nobody either where it is known by polls alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from analytics.offline import final_cascades
from pausetrace.degrade_spec import parse_degradation
from simulation import harmless
from simulation.degrade import degrade
from simulation.harmless import HARMLESS, made, write_case
from simulation.judge import score_case
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from stream.cascade import Cascade

pytestmark = pytest.mark.slow

START_NS = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@cache
def written(folder: Path, name: str, seed: int) -> Path:
    path = folder / f"{name}-{seed}"
    write_case(path, made(getattr(harmless, name), seed), (), "harmless")
    return path


def cascades(path: Path, how: str) -> list[Cascade]:
    degradation = parse_degradation(how)
    done = degrade(read_trace(path), {}, degradation, 0, source="m", epoch="e", start_ns=START_NS)
    assert done is not None
    return final_cascades(trace_items(done.streams))


@pytest.mark.parametrize("how", ["period=100us", "period=1ms,unaligned", "period=run", "period=1ms,frames_only"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [make.__name__ for make in HARMLESS])
def test_polls_of_harmless_fabrics_alarm_nobody(folder: Path, name: str, seed: int, how: str) -> None:
    path = written(folder, name, seed)
    found = cascades(path, how)
    assert not score_case(path, found, start_ns=START_NS, flows_known=False).negative_alarmed, [
        (cascade.confidence_ppm, cascade.periods, cascade.severity_reason) for cascade in found
    ]
