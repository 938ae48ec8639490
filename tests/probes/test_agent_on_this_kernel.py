"""The agent with real programs in this kernel: with the unit's capabilities alone, and killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.ebpf

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/pausetrace-probes.service"
PROBE = [sys.executable, "-m", "pausetrace.cli.main", "probe"]
DEADLINE_S = 60
BPF_PROG_GET_FD_BY_ID = 13


def capabilities() -> list[str]:
    """Those that the unit lets its process have, as setpriv names them."""
    (line,) = (line for line in UNIT.read_text().splitlines() if line.startswith("CapabilityBoundingSet="))
    return [name.removeprefix("CAP_").lower() for name in line.partition("=")[2].split()]


def test_the_capabilities_of_the_unit_are_enough() -> None:
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "setpriv is part of util-linux"
    allowed = ",".join(f"+{name}" for name in capabilities())
    process = subprocess.Popen(
        [
            setpriv, f"--bounding-set=-all,{allowed}", "--inh-caps=-all", "--no-new-privs",
            *PROBE, "runqueue", "softirq", "hardirq", "napi", "block", "tcp_retransmits", "pressure", "identity",
            "-o", "jsonl", "--interval", "500ms",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    # This very process has to run, so somebody waits for a CPU.
    waiting = {"RUNQUEUE_BUCKET", "SOFTIRQ_BUCKET", "PRESSURE", "device"}
    effective = 0
    for text in process.stdout:
        line = json.loads(text)
        waiting -= {line.get("kind"), line.get("fact")}
        if not waiting:
            status = Path(f"/proc/{process.pid}/status").read_text()
            effective = int(re.findall(r"CapEff:\s+([0-9a-f]+)", status)[0], 16)
            process.terminate()
            break
    _, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said, waiting) == (0, "", set())
    assert effective.bit_count() == len(capabilities())


def test_without_a_capability_the_reason_names_it() -> None:
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all", *PROBE, "runqueue", "-o", "jsonl"],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch("pausetrace: error: probe runqueue cannot run here: .*CAP_BPF.*\n", done.stderr)


def programs_of(pid: int) -> set[int]:
    """Ids of the BPF programs that a process holds, itself or through their links."""
    found = set()
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        found |= {int(number) for number in re.findall(r"prog_id:\s+(\d+)", file.read_text())}
    return found


def is_loaded(program: int) -> bool:
    """Whether the kernel still has the program."""
    from probes.bpf_call import bpf

    try:
        os.close(bpf(BPF_PROG_GET_FD_BY_ID, bytearray(program.to_bytes(4, sys.byteorder) + bytes(8))))
    except FileNotFoundError:
        return False
    return True


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_attached_however_the_agent_ends(ending: signal.Signals) -> None:
    process = subprocess.Popen(
        [*PROBE, "runqueue", "softirq", "-o", "jsonl"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        waiting = {"RUNQUEUE_BUCKET", "SOFTIRQ_BUCKET"}
        while waiting:
            waiting.discard(json.loads(process.stdout.readline())["kind"])
        programs = programs_of(process.pid)
        assert programs
        assert all(is_loaded(program) for program in programs)
    finally:
        process.send_signal(ending)
        process.communicate(timeout=DEADLINE_S)
    end_s = time.monotonic() + DEADLINE_S
    # The kernel frees a program when nobody can be in it any more.
    while any(is_loaded(program) for program in programs) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert [program for program in programs if is_loaded(program)] == []
