"""GPUs by NVML: nvidia-ml-py itself over a library with two GPUs (nvml.c), and hosts without any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probes import gpus
from probes.host_root import HostRoot
from probes.pollers import gpu
from probes.probe import Options
from stream.errors import PausetraceError
from tests.c_compiler import c_compiler
from tests.probes.recorded import SECOND_NS, Recorded

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
ASKED = """
import json, os, sys
from probes.pollers import gpu
from probes.probe import Options
from tests.probes.recorded import NOW_NS, SECOND_NS, active, rows
options = Options("gpu", "h1", "lab", SECOND_NS)
assert gpu.available(options) is None
probe = gpu.make(options)
for second, numbers in enumerate(sys.argv[1:]):
    with open(os.environ["GPUS"], "w") as file:
        file.write(numbers)
    print(json.dumps([row for row in active(rows(probe.read(NOW_NS + second * SECOND_NS)))]))
probe.close()
probe.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the library."""
    compiler = c_compiler()
    folder = tmp_path_factory.mktemp("nvml")
    words = f"{compiler} -shared -fPIC -Wall -Werror -o {folder / gpus.LIBRARY} {ROOT / 'tests/probes/nvml.c'}"
    subprocess.run(words.split(), check=True, timeout=DEADLINE_S)
    return folder


def said(library: Path, *seconds: str) -> list[list[list[object]]]:
    """What the poller says when the GPUs show these numbers, one text a second."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(library), "GPUS": str(library / "gpus")}
    ran = subprocess.run(
        [sys.executable, "-c", ASKED, *seconds], capture_output=True, text=True, check=False, env=environment, cwd=ROOT,
        timeout=DEADLINE_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_throttling_errors_and_xids_are_counted(library: Path) -> None:
    idle = "0 0 0 0 0 0 0 0 0"
    found = said(
        library,
        f"5 0 1000 0 0 0 0 0 0 {idle}",
        f"7 1 250001000 0 0 9000000 0 0 79 {idle}",
        f"7 1 250001000 0 0 9000000 0 0 79 {idle}",
    )
    a = "0000:3a:00.0"
    assert found[0] == []
    assert sorted(found[1], key=str) == sorted([
        ["gpu0", "GPU_THROTTLE", 250_000_000, 1, None, "none", 0, SECOND_NS, a],
        ["gpu0", "GPU_THROTTLE", 9_000_000, 3, None, "none", 0, SECOND_NS, a],
        ["gpu0", "GPU_ERRORS", 2, 1001, None, "none", 0, SECOND_NS, a],
        ["gpu0", "GPU_ERRORS", 1, 1002, None, "none", 0, SECOND_NS, a],
        ["gpu0", "GPU_ERRORS", 1, 79, None, "none", 0, SECOND_NS, a],
    ], key=str)  # fmt: skip
    assert found[2] == []


def test_reasons_without_a_counter_are_looked_at_and_their_time_is_estimated(library: Path) -> None:
    held = "0 0 -1 -1 -1 -1 -1 36 0"
    free = "0 0 -1 -1 -1 -1 -1 0 0"
    found = said(library, f"{free} {free}", f"{free} {held}", f"{free} {free}")
    b = "0000:3b:00.0"
    assert found[1] == [
        ["gpu1", "GPU_THROTTLE", SECOND_NS, code, None, "none", 16, SECOND_NS, b] for code in (1, 2)
    ]  # fmt: skip
    assert found[2] == []


def test_a_host_without_gpus_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.gpus.LIBRARY", "libnothing-ml.so.9")
    with pytest.raises(gpus.NoGpusError, match=r"no NVIDIA driver"):
        gpus.gpus(HostRoot())
    options = Options("gpu", "h1", "lab", SECOND_NS, root=Recorded("virtio", tmp_path).root)
    assert gpu.available(options) is not None
    with pytest.raises(PausetraceError, match=r"no GPU can be asked: no GPU is recorded"):
        gpu.make(options)


def test_without_nvidia_ml_py_it_says_how_to_install_it(library: Path) -> None:
    code = (
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "from probes import gpus\nfrom probes.host_root import HostRoot\n"
        "try: gpus.gpus(HostRoot())\nexcept gpus.NoGpusError as err: print(err)\n"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(library)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=ROOT,
        timeout=DEADLINE_S,
    )  # fmt: skip
    assert "pip install 'pausetrace[probes]'" in ran.stdout
