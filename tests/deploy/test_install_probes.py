"""deploy/install-probes.sh makes a probe host of a bare Debian, as often as it is run; systemd takes its unit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/install-probes.sh"
UNIT = ROOT / "deploy/systemd/pausetrace-probes.service"
IMAGE = "debian:bookworm-slim"


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_dry_run_says_what_would_be_done_and_does_nothing() -> None:
    existed = Path("/opt/pausetrace").exists()
    done = script("--dry-run", "--start", "--bootstrap-servers", "kafka:9092")
    assert (done.returncode, done.stderr) == (0, "")
    assert "would run: /opt/pausetrace/bin/python -m pip" in done.stdout
    assert "--require-hashes" in done.stdout
    assert Path("/opt/pausetrace").exists() == existed


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--python"]])
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    done = script(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: install-probes.sh")


def test_help_names_what_it_installs() -> None:
    done = script("--help")
    assert done.returncode == 0
    for name in ("python3-bpfcc", "python3-venv", "/opt/pausetrace", "/etc/pausetrace/probes.toml"):
        assert name in done.stdout


def test_nothing_is_started_where_nobody_said_where_kafka_is() -> None:
    if Path("/etc/pausetrace/probes.toml").exists():
        pytest.skip("this host has a configuration of its own: the test needs one without")
    done = script("--dry-run", "--start")
    assert done.returncode == 1
    assert done.stderr.startswith("install-probes: error: nobody said where Kafka is")
    assert "--bootstrap-servers" in done.stderr
    assert "would run" not in done.stdout


def test_the_unit_publishes_or_fails(tmp_path: Path) -> None:
    (command,) = (line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    file = tmp_path / "probes.toml"
    file.write_text('[kafka]\n# bootstrap_servers = "kafka1:9092"\n')
    arguments = [str(file) if word == "/etc/pausetrace/probes.toml" else word for word in command.split()[1:]]
    done = subprocess.run(
        [sys.executable, "-m", "pausetrace.cli.main", *arguments, "--duration", "1s"], capture_output=True, text=True,
        timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"nobody said where Kafka is; set bootstrap_servers in [kafka] of {file}" in done.stderr
    assert re.search(r"^RestartPreventExitStatus=.*\b2\b", UNIT.read_text(), re.MULTILINE)


class Container:
    """A bare Debian in which commands run; it sees this checkout at /src and this machine's kernel."""

    def __init__(self) -> None:
        self._name = f"pausetrace-test-{uuid.uuid4().hex[:8]}"

    def start(self) -> None:
        # SYS_ADMIN holds BPF and PERFMON, which older engines know no names for.
        allowed = ["--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN"]
        self._docker(
            "run", "-d", "--rm", "--name", self._name, "--network", "host", *allowed, "-v", f"{ROOT}:/src:ro", IMAGE,
            "sleep", "3600",
        )  # fmt: skip

    def stop(self) -> None:
        self._docker("kill", self._name)

    def run(self, *command: str) -> str:
        return self._docker("exec", self._name, *command)

    def _docker(self, *arguments: str) -> str:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    container = Container()
    container.start()
    try:
        yield container
    finally:
        container.stop()


@pytest.mark.docker
@pytest.mark.slow
def test_it_makes_a_probe_host_of_a_bare_debian_as_often_as_it_is_run(container: Container) -> None:
    first = container.run("/src/deploy/install-probes.sh", "--bootstrap-servers", "kafka1:9092", "--fabric", "lab")
    assert "writing /etc/pausetrace/probes.toml" in first
    config = container.run("cat", "/etc/pausetrace/probes.toml")
    assert 'bootstrap_servers = "kafka1:9092"' in config
    assert container.run("stat", "-c", "%a %U", "/etc/pausetrace/probes.toml") == "600 root\n"
    assert container.run("cat", "/etc/systemd/system/pausetrace-probes.service") == UNIT.read_text()
    container.run("sh", "-c", "echo '# mine' >> /etc/pausetrace/probes.toml")

    again = container.run("/src/deploy/install-probes.sh", "--start")
    assert "all Debian packages are there" in again
    assert "keeping /etc/pausetrace/probes.toml" in again
    assert "making /opt/pausetrace" not in again
    assert "systemd does not run here" in again
    assert container.run("cat", "/etc/pausetrace/probes.toml") == f"{config}# mine\n"

    container.run("sh", "-c", "sed -i.kept '/^bootstrap_servers/d' /etc/pausetrace/probes.toml")
    refused = container.run("sh", "-c", "! /src/deploy/install-probes.sh --start 2>&1")
    assert "set bootstrap_servers in [kafka] of /etc/pausetrace/probes.toml" in refused
    container.run("mv", "/etc/pausetrace/probes.toml.kept", "/etc/pausetrace/probes.toml")

    listed = container.run("/opt/pausetrace/bin/pausetrace", "probe", "--list", "-o", "jsonl")
    standing = {row["probe"]: row for row in map(json.loads, listed.splitlines())}
    assert standing["pressure"]["available"] is True
    # What is heavy belongs to whoever analyses, not to a GPU host.
    packages = container.run("/opt/pausetrace/bin/python", "-m", "pip", "list", "--format", "freeze")
    assert not {"numba", "pyarrow", "grpcio"} & {line.partition("==")[0] for line in packages.splitlines()}


@pytest.mark.docker
@pytest.mark.ebpf
@pytest.mark.slow
def test_programs_compile_and_run_with_what_it_installs(container: Container) -> None:
    container.run("/src/deploy/install-probes.sh")
    told = container.run("/opt/pausetrace/bin/pausetrace", "probe", "runqueue", "-o", "jsonl", "--duration", "15s")
    assert "RUNQUEUE_BUCKET" in told


@pytest.mark.docker
@pytest.mark.slow
def test_the_unit_is_one_that_systemd_takes(container: Container) -> None:
    container.run("/src/deploy/install-probes.sh")
    container.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd")
    container.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/pausetrace-probes.service")
