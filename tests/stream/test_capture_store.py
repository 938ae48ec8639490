"""Captures that meet a full disk, a second writer or SIGKILL; in the end the same command completes them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.capture_manifest import MANIFEST
from stream.capture_store import CaptureStore
from stream.capture_verify import verify
from stream.errors import CaptureError
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import in_place, messages_in

BATCHES = 9
DEADLINE_S = 60.0


def start(folder: Path, sleep_s: float = 0.0, limit_bytes: int = 0, batches: int = BATCHES) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.stream.capture_child", str(folder)]
    return subprocess.Popen([*command, str(batches), str(sleep_s), str(limit_bytes)], stderr=subprocess.PIPE, text=True)


def run_to_the_end(folder: Path, limit_bytes: int = 0, batches: int = BATCHES) -> tuple[int, str]:
    process = start(folder, limit_bytes=limit_bytes, batches=batches)
    _, said = process.communicate(timeout=DEADLINE_S)
    return process.returncode, said


@pytest.mark.parametrize("limit_bytes", [500, 5_500])
def test_a_full_disk_is_one_clear_error_and_the_same_command_goes_on_when_there_is_room(
    limit_bytes: int, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    status, said = run_to_the_end(folder, limit_bytes)
    assert status == 1
    assert said.count("\n") == 1
    assert said.startswith("no space left ")
    assert "make room, then run the same command again: it goes on where it stopped" in said
    assert not list((folder / "_partial").glob("*"))
    assert run_to_the_end(folder) == (0, "")
    assert messages_in(folder) == in_place(fabric_messages(BATCHES, 5))
    assert verify(folder, rows=True).whole


def test_two_processes_never_write_one_capture(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with CaptureStore(folder), pytest.raises(CaptureError, match="another process writes the capture"):
        CaptureStore(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_capture_killed_again_and_again_at_random_moments_is_whole_in_the_end(seed: int, tmp_path: Path) -> None:
    rng, folder = random.Random(seed), tmp_path / "capture"
    kills = 0
    for turn in range(20):
        process = start(folder, sleep_s=0.02, batches=30)
        try:
            # A little more each time, so that it comes to an end on the slowest machine.
            process.wait(timeout=rng.uniform(0.4, 2.0) + turn * 0.2)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.communicate(timeout=DEADLINE_S)
        if (folder / MANIFEST).exists():
            break
    else:
        assert run_to_the_end(folder, batches=30) == (0, "")
    assert kills >= 1
    assert messages_in(folder) == in_place(fabric_messages(30, 5))
    verdict = verify(folder, rows=True)
    assert (verdict.problems, verdict.gaps) == ((), ())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root: run the tests as root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small file system needs the right to mount (CAP_SYS_ADMIN): {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_capture_that_filled_its_disk_is_completed_when_the_disk_has_grown(small_disk: Path) -> None:
    folder = small_disk / "capture"
    status, said = run_to_the_end(folder)
    assert status == 1
    assert said.startswith("no space left for ")
    assert "make room, then run the same command again" in said
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert run_to_the_end(folder) == (0, "")
    assert messages_in(folder) == in_place(fabric_messages(BATCHES, 5))
    assert verify(folder, rows=True).whole
