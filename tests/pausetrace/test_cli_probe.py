"""`pausetrace probe` from outside: what it shows, publishes and says, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pausetrace.analysis import analyze_trace
from pausetrace.cli.main import main
from pausetrace.config import load
from pausetrace.importer import import_trace
from pausetrace.probe_config import agent_settings
from probes.agent_metrics import PROBE_COUNTERS
from probes.table import PROBES
from simulation.trace import read_trace
from stream.embedded import EmbeddedBroker
from stream.errors import ConfigError
from stream.kafka_settings import KafkaSettings
from stream.roster import SourceDown
from tests.pausetrace.live_steps import LiveSteps
from tests.pausetrace.test_metrics_verbs import scrape_until
from tests.stream.reading import items_on, messages_on

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "tests/data/hosts/mlx5/t0"
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"
COMMAND = [sys.executable, "-m", "pausetrace.cli.main", "probe"]
DEADLINE_S = 30


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A recorded host with a PCIe link of 8 lanes where 16 are possible, in a folder of the test's own."""
    shutil.copytree(HOST, tmp_path / "host", symlinks=True)
    return tmp_path / "host"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """One whole run of the verb."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PAUSETRACE_")}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=ROOT,
        env=environ,
    )  # fmt: skip


def test_what_a_host_tells_comes_as_json_lines_in_a_pipe(host: Path) -> None:
    done = run("pcie", "identity", "--host-root", host, "--device", "h9", "--duration", "500ms", "--interval", "100ms")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    widths = [line for line in lines if line.get("kind") == "PCIE_WIDTH"]
    assert {(line["device"], line["port"], line["lanes"], line["max_lanes"]) for line in widths} == {
        ("h9", "ens1np0", 8, 16),
        ("h9", "ens2np0", 8, 16),
    }
    (fact,) = (line for line in lines if "fact" in line)
    assert (fact["fact"], fact["device"]) == ("device", "h9")


def test_a_table_in_a_pipe_is_lines(host: Path) -> None:
    done = run("pcie", "--host-root", host, "-o", "table", "--duration", "300ms")
    assert done.returncode == 0
    line = done.stdout.splitlines()[0]
    assert line.split()[1:3] == ["pcie_width", "ens1np0"]
    assert "lanes 8, max 16 lanes" in line


def test_names_may_stand_between_options_and_behind_them(host: Path) -> None:
    done = run("identity", "--host-root", host, "pcie", "--list", "-o", "jsonl", "aer")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["probe"] for line in done.stdout.splitlines()] == ["pcie", "aer", "identity"]


def test_on_a_terminal_the_table_is_drawn_anew_and_stays(host: Path) -> None:
    import pty

    own, its = pty.openpty()
    environ = os.environ | {"COLUMNS": "120", "LINES": "40", "TERM": "xterm"}
    process = subprocess.Popen(
        [*COMMAND, "pcie", "pressure", "--host-root", str(host), "--device", "h9", "--duration", "1500ms"],
        stdout=its, stderr=its, cwd=ROOT, env=environ,
    )  # fmt: skip
    os.close(its)
    shown = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(own)
    assert process.wait(DEADLINE_S) == 0
    text = shown.decode()
    assert "pcie_width" in text
    assert "lanes 8, max 16 lanes" in text
    assert "h9 · " in text
    assert "\x1b[" in text


def test_the_list_says_what_runs_and_why_the_rest_does_not(host: Path) -> None:
    done = run("--list", "--host-root", host, "-o", "jsonl")
    rows = {row["probe"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == [kind.name for kind in PROBES]
    assert rows["pcie"]["available"] is True
    assert rows["runqueue"]["available"] is False
    assert "recorded tree" in rows["runqueue"]["reason"]
    assert rows["packets"]["enabled"] is False
    table = run("--list", "--host-root", host, "pcie", "edac")
    assert [line.split()[0] for line in table.stdout.splitlines()[1:3]] == ["pcie", "edac"]


WRONG = {
    "a probe that is none": (["runqeue"], 2, "no probe 'runqeue'; did you mean runqueue?"),
    "an interval that is none": (["--interval", "x"], 2, "--interval: probes.runqueue.interval is 'x', which is no"),
    "an interval that is too short": (["--interval", "1ms"], 2, "is not from 10ms to 60s"),
    "a threshold of nothing": (["pcie", "--threshold", "1ms"], 2, "--threshold: none of these probes has one"),
    "a threshold that is too long": (["--threshold", "2h"], 2, "is not from 1us to 3600s"),
    "a way to attach of nothing": (["pcie", "--attach", "tcx"], 2, "--attach: packets alone has it"),
    "a way to attach that is none": (["packets", "--attach", "xdp"], 2, "which is none of auto, tcx, clsact, xdp-gen"),
    "a duration that is none": (["pressure", "--duration", "soon"], 2, "--duration soon is no duration"),
    "a duration of nothing": (["pressure", "--duration", "0s"], 2, "--duration 0s leaves no time for a read; give"),
    "a host root of something else": (["--host-root", "/usr"], 2, "--host-root /usr holds neither sys nor proc; give"),
    "a host root that is none": (["--host-root", "/nowhere"], 2, "--host-root /nowhere is no folder"),
    "a fabric with a slash": (["--fabric", "a/b"], 2, "--fabric: probes.fabric is 'a/b', not a name without /"),
    "a device with a bar": (["--device", "a|b"], 2, "--device: probes.device is 'a|b', not a name without /"),
    "a broker that is not there": (
        ["pressure", "--bootstrap-servers", "127.0.0.1:1"], 1, "no Kafka broker answers at 127.0.0.1:1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_error_is_one_line_with_the_next_step(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, status, said = WRONG[case]
    assert main(["probe", *arguments]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pausetrace: error: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_probe_that_was_asked_for_and_cannot_run_is_an_error(host: Path) -> None:
    done = run("runqueue", "--host-root", host)
    assert done.returncode == 1
    assert done.stderr.startswith("pausetrace: error: probe runqueue cannot run here: ")
    done = run("runqueue", "block", "--host-root", host)
    assert done.returncode == 1
    assert done.stderr.startswith("pausetrace: error: no probe can run here: probes runqueue, block: programs run in ")
    done = run("runqueue", "pcie", "--host-root", host, "--duration", "200ms")
    assert done.returncode == 0
    assert "pausetrace: probe runqueue cannot run here: " in done.stderr
    assert done.stdout


CONFIG = """\
[kafka]
bootstrap_servers = "{servers}"
[probes]
fabric = "lab"
device = "h9"
host_root = "{root}"
cpu_percent = 50
[probes.rails]
ens1np0 = "0"
[probes.pcie]
interval = "{interval}"
[probes.gpu]
enable = false
"""


def write_config(path: Path, servers: str, root: Path, interval: str = "100ms") -> Path:
    path.write_text(CONFIG.format(servers=servers, root=root, interval=interval))
    return path


def test_the_configuration_says_what_runs(tmp_path: Path) -> None:
    file = write_config(tmp_path / "x.toml", "kafka:9092", Path("/host"))
    settings = agent_settings(load({}, {"PAUSETRACE_PROBES_RUNQUEUE_THRESHOLD": "3ms"}, str(file)).config.probes)
    assert (settings.fabric, settings.device, settings.root, settings.cpu_share) == ("lab", "h9", Path("/host"), 0.5)
    assert settings.rails == {"ens1np0": "0"}
    assert settings.probes["pcie"].interval_ns == 100_000_000
    assert settings.probes["runqueue"].threshold_ns == 3_000_000
    assert settings.probes["runqueue"].attach == ""
    on = {kind.name for kind in PROBES if kind.on}
    assert set(settings.probes) == on - {"gpu"}


BAD_SETTINGS = {
    "[probes.pcie]\nintervall = '1s'": ":2: no key 'pcie.intervall' in section 'probes'; did you mean 'pcie.interval'?",
    "[probes.pci]\ninterval = '1s'": ":2: no key 'pci.interval' in section 'probes'; did you mean 'pcie.interval'?",
    "[probes.pcie]\nthreshold = '1s'": ":2: no key 'pcie.threshold' in section 'probes'",
    "[probes.pcie]\nattach = 'tcx'": ":2: no key 'pcie.attach' in section 'probes'",
    "[probes.packets]\nattach = 'xdp'": ":2: probes.packets.attach is 'xdp', which is none of auto, tcx, clsact",
    "[probes.pcie]\ninterval = 5": ':2: probes.pcie.interval is 5, not a duration such as "500ms" or "2s"',
    "[probes.pcie]\ninterval = '5'": ":2: probes.pcie.interval is '5', which is no duration: write a number with ns",
    "[probes.pcie]\ninterval = '2m'": ":2: probes.pcie.interval is '2m', which is not from 10ms to 60s",
    "[probes.pcie]\nenable = 'yes'": ":2: probes.pcie.enable is 'yes', not true or false",
    "[probes]\npcie = 5": ":2: probes.pcie is a table; write [probes.pcie] and its settings below",
    "[probes]\ncpu_percent = 0": ":2: probes.cpu_percent is 0, not a number above 0, at most 100",
    "[probes]\nfabric = 3": ":2: probes.fabric is 3, not ",
    "[prober]\nx = 1": ":2: no section 'prober'; did you mean 'probes'?",
}


@pytest.mark.parametrize("text", BAD_SETTINGS)
def test_a_bad_setting_is_told_with_file_line_key_and_what_is_allowed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f"{text}\n")
    with pytest.raises(ConfigError) as caught:
        load({}, {}, str(file))
    assert f"{file}{BAD_SETTINGS[text]}" in str(caught.value)


def test_an_empty_table_of_a_probe_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[probes.pcie]\n[probes]\n")
    assert load({}, {}, str(file)).config == load({}, {}, directory=tmp_path / "empty").config


def test_no_probe_at_all_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("".join(f"[probes.{kind.name}]\nenable = false\n" for kind in PROBES))
    with pytest.raises(ConfigError, match="no probe is enabled"):
        agent_settings(load({}, {}, str(file)).config.probes)


@contextmanager
def publishing(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The verb with metrics, for as long as the block; the value is the process and where its metrics are."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--metrics-port", "0"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "metrics at " in line:
                yield process, line.partition("metrics at ")[2].strip()
                break
        else:
            raise AssertionError(f"it ended with {process.wait()}")
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=DEADLINE_S)


def test_a_published_host_is_told_by_metrics_and_ends_in_order(
    embedded_broker: EmbeddedBroker, host: Path, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "x.toml", embedded_broker.bootstrap_servers, host)
    with publishing("--config", config) as (process, url):
        found = scrape_until(url, lambda found: found.get("pausetrace_agent_delivered_total", 0) > 10)
        assert {f"pausetrace_probe_{name}_total" for name in PROBE_COUNTERS} <= found.keys()
        assert found["pausetrace_probe_cpu_seconds_total"] > 0
        assert found["pausetrace_probe_degraded"] == 0
        assert found["pausetrace_probe_errors_total"] == 0
        states = _states(url)
        assert states["pcie"] == "running"
        assert states["runqueue"] == "unavailable"
        assert "gpu" not in states
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert " reads, " in said
    (down,) = (item for item in items_on(embedded_broker.settings, "control") if isinstance(item, SourceDown))
    assert (down.fabric, down.source, down.reason) == ("lab", "probes@h9", "graceful")


def _states(url: str) -> dict[str, str]:
    import urllib.request

    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples if sample.name == "pausetrace_probe_state"]
    return {sample.labels["probe"]: sample.labels["state"] for sample in samples if sample.value}


def test_sighup_reads_the_configuration_again_and_a_bad_one_changes_nothing(
    embedded_broker: EmbeddedBroker, host: Path, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "x.toml", embedded_broker.bootstrap_servers, host)
    with publishing("--config", config) as (process, url):
        scrape_until(url, lambda found: found.get("pausetrace_agent_delivered_total", 0) > 3)
        config.write_text(config.read_text().replace("enable = false", "enable = 'maybe'"))
        process.send_signal(signal.SIGHUP)
        scrape_until(url, lambda found: found["pausetrace_agent_failed_reloads_total"] == 1)
        assert "gpu" not in _states(url)
        config.write_text(config.read_text().replace("enable = 'maybe'", "enable = true"))
        process.send_signal(signal.SIGHUP)
        scrape_until(url, lambda found: found["pausetrace_agent_reloads_total"] == 1)
        end_s = time.monotonic() + DEADLINE_S
        while _states(url).get("gpu") != "running" and time.monotonic() < end_s:
            time.sleep(0.1)
        assert _states(url)["gpu"] == "running"
        process.terminate()
        _, said = process.communicate(timeout=DEADLINE_S)
    assert f"the old one stays in force: {config}:13: probes.gpu.enable is 'maybe'" in said
    assert "configuration reloaded: gpu begun" in said


@pytest.mark.slow
def test_what_a_host_tells_decides_the_verdict_of_a_cascade(
    any_kafka: KafkaSettings, host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(TRACE, trace, ignore=shutil.ignore_patterns("host_pcie.csv"))
    kafka = ["--bootstrap-servers", any_kafka.bootstrap_servers, "--prefix", any_kafka.prefix]
    arguments = ["--host-root", str(host), "--device", "h9", "--fabric", "lab", "--interval", "200ms", *kafka]
    # First, so that the steps find their kernels compiled and are in time.
    offline = len(analyze_trace(trace, frozenset()).cascades)
    with LiveSteps(any_kafka) as steps, publishing(*arguments) as (process, url):
        scrape_until(url, lambda found: found.get("pausetrace_agent_delivered_total", 0) > 20)
        import_trace(read_trace(trace), any_kafka, "lab", start_ns=time.time_ns())
        finals = [msgspec.json.decode(final) for final in steps.finals(offline)]
        process.terminate()
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert steps.late_rows == 0
    assert len(finals) == offline
    roots = [root for final in finals for root in final["roots"] if root["device"] == "h9"]
    assert roots
    for root in roots:
        assert root["root_class"] == "slow_receiver_pcie"
        assert "PCIe width of h9 is 8 of 16 lanes" in root["evidence"]
    for topic, wanted in (("pcie", '"kind":"PCIE_WIDTH"'), ("device", '"device":"h9"'), ("health", '"state":"ok"')):
        assert main(["observe", topic, "--from", "earliest", "--no-follow", *kafka]) == 0
        assert wanted in capsys.readouterr().out
    assert messages_on(any_kafka, ["deadletter"]) == []
