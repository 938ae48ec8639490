"""The small demo from end to end, as a user runs it: it names the host with its slow PCIe link, and leaves nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pausetrace.demo import DEMO_TRACE
from tests.pausetrace.test_child import has_ended

ROOT = Path(__file__).resolve().parents[2]
TEST_TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"
DEMO = [sys.executable, "-m", "pausetrace.cli.main", "demo", "--scenario", "trace"]
DEADLINE_S = 150


def descendants(pid: int) -> set[int]:
    """The processes below this one."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found: set[int] = set()
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown} - found
        found |= grown
    return found


def assert_names_the_host(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert "h9 is a slow receiver" in done.stdout
    assert "31500 of 100000 Mb/s" in done.stdout
    assert "final" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "100% published" in done.stderr


@pytest.mark.slow
def test_the_demo_names_the_host_and_its_slow_link() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert_names_the_host(done)
    # Revisions lead there while the trace is still on its way.
    live = [line for line in done.stderr.splitlines() if "h9: slow receiver" in line]
    assert live
    assert not live[0].startswith("demo: 100%")


@pytest.mark.slow
def test_the_demo_of_polled_counters_names_the_host_and_its_slow_link() -> None:
    command = [*DEMO, "--sampled", "500ms", "--vendor", "cumulus"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "h9" in done.stdout
    assert "PCIe width of h9 is 4 of 16 lanes" in done.stdout
    assert "sampled counters" in done.stdout
    assert "100% published" in done.stderr


@pytest.mark.kafka
@pytest.mark.slow
def test_the_demo_runs_on_a_real_kafka_twice(real_kafka: str) -> None:
    for _ in range(2):
        done = subprocess.run(
            [*DEMO, "--seconds", "5", "--bootstrap-servers", real_kafka],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert_names_the_host(done)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_no_process_and_no_file_outlives_the_demo(ending: signal.Signals, status: int, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--seconds", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert demo.stderr is not None
    for line in demo.stderr:
        if "publishing" in line:
            break
    children = descendants(demo.pid)
    assert len(children) >= 3  # the broker, detect and correlate
    demo.send_signal(ending)
    if ending in (signal.SIGTERM, signal.SIGHUP):
        demo.send_signal(ending)  # a second one changes nothing
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == status
    assert out == ""
    assert "Traceback" not in err
    assert all(has_ended(child) for child in children)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_demo_with_a_clear_error() -> None:
    demo = subprocess.Popen([*DEMO, "--seconds", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert demo.stderr is not None
    for line in demo.stderr:
        if "publishing" in line:
            break
    for child in descendants(demo.pid):
        if "correlate" in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(child, signal.SIGKILL)
    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out) == (1, "")
    assert err.splitlines()[-1].startswith("pausetrace: error: correlate ended with exit status -9")


def test_the_trace_that_ships_is_the_one_that_is_tested() -> None:
    shipped = {path.name: path.read_bytes() for path in DEMO_TRACE.iterdir()}
    assert shipped == {path.name: path.read_bytes() for path in TEST_TRACE.iterdir() if "truth" not in path.name}
    assert shipped


@pytest.mark.slow
def test_a_terminal_gets_a_live_picture(tmp_path: Path) -> None:
    """Under a pseudo terminal, as `script` makes one."""
    log = tmp_path / "log"
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", f"{' '.join(DEMO)} --seconds 4", str(log)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=DEADLINE_S, check=False,
        env=os.environ | {"COLUMNS": "110", "LINES": "50", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0
    text = log.read_text()
    assert "\x1b[" in text
    assert "not final" in text
    assert text.rindex("h9 is a slow receiver") < text.rindex("final")
