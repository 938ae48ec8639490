"""A Prometheus in a container for tests, and what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka_brokers import free_port

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/prometheus"
DEADLINE_S = 90.0


def promtool(image: str, *arguments: str) -> str:
    """What Prometheus' own tool says of the files in deploy/prometheus; fails if it finds fault with them."""
    command = ["docker", "run", "--rm", "-v", f"{RULES}:/rules:ro", "--entrypoint", "promtool", image, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PrometheusApi:
    """Questions to a Prometheus at http://127.0.0.1:PORT."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer; None while it does not answer yet."""
        url = f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        found = self.ask("alerts") or {"alerts": []}
        return {alert["labels"]["alertname"] for alert in found["alerts"] if alert["state"] == "firing"}

    def value(self, query: str) -> float | None:
        """The one value of a query; None if it has none."""
        found = self.ask("query", query=query)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None

    def wait_until(self, what: str, holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Waits, and fails with `what` at the deadline."""
        end_s = time.monotonic() + deadline_s
        while not holds():
            assert time.monotonic() < end_s, f"not within {deadline_s:g} s: {what}; firing: {sorted(self.firing())}"
            time.sleep(0.5)


class Prometheus(PrometheusApi):
    """`with Prometheus(image, folder) as prometheus:` runs one on the host's network, so that it reaches loopback."""

    def __init__(self, image: str, config: Path) -> None:
        self._port = free_port()
        super().__init__(self._port)
        self._command = [
            "docker", "run", "--rm", "-d", "--network", "host", "-v", f"{config}:/etc/prometheus:ro", image,
            "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/tmp/prometheus",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]  # fmt: skip
        self._container = ""

    def __enter__(self) -> Self:
        done = subprocess.run(self._command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        self._container = done.stdout.strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["docker", "kill", self._container], capture_output=True, timeout=60, check=False)


def rules_in_a_hurry(folder: Path, jobs: dict[str, str]) -> None:
    """A configuration with the project's rules, whose `for` is a second, and these targets (host:port) by job."""
    shutil.copy(RULES / "alerts.yml", folder)
    lines = (folder / "alerts.yml").read_text().splitlines(keepends=True)
    hurried = [f"{line.partition('for:')[0]}for: 1s\n" if line.strip().startswith("for:") else line for line in lines]
    (folder / "alerts.yml").write_text("".join(hurried))
    config = "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\nscrape_configs:\n"
    for job, target in jobs.items():
        config += f"  - {{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}\n"
    (folder / "prometheus.yml").write_text(config)
