"""Random, odd, damaged and cut messages: the decoder says what the protobuf library says, and reads nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.compiled import INTERPRETED
from tests.collectors.both_decoders import compare

ROOT = Path(__file__).parents[2]
MESSAGES = 500 if INTERPRETED else 20_000
MANY_MESSAGES, CHECKED_MESSAGES = 220_000, 80_000
DEADLINE_S = 900


def test_messages_are_read_as_the_protobuf_library_reads_them() -> None:
    outcomes = compare(MESSAGES, seed=1)
    for outcome in ("OK", "SYNC", "EMPTY", "ERROR", "MALFORMED"):
        assert outcomes[outcome] > MESSAGES // 200
    assert outcomes["rows"] > MESSAGES
    assert outcomes["by the library"] > MESSAGES // 100


def compared_elsewhere(count: int, seed: int, **environ: str) -> dict[str, int]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.collectors.both_decoders", str(count), str(seed)],
        cwd=ROOT, env=os.environ | {"NUMBA_DISABLE_JIT": "0"} | environ, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
    outcomes: dict[str, int] = json.loads(run.stdout)
    return outcomes


@pytest.mark.slow
def test_two_hundred_thousand_messages_are_read_as_the_protobuf_library_reads_them() -> None:
    outcomes = compared_elsewhere(MANY_MESSAGES, 2)
    assert outcomes["OK"] > MANY_MESSAGES // 3
    assert outcomes["MALFORMED"] > MANY_MESSAGES // 4
    assert outcomes["rows"] > MANY_MESSAGES


@pytest.mark.slow
def test_a_build_that_checks_every_load_finds_none_outside_of_its_bytes(tmp_path: Path) -> None:
    outcomes = compared_elsewhere(CHECKED_MESSAGES, 3, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert outcomes["checked"] is True
    assert outcomes["OK"] > CHECKED_MESSAGES // 3
