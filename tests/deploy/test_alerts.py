"""Every alert rule fires when its condition is true and not before, in Prometheus' own engine."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stream.metrics import COUNTERS, FROM_THE_START, Exporter
from stream.metrics_server import MetricsServer
from stream.offset_gaps import PartitionId
from stream.progress import FabricProgress, Status
from tests.deploy.prometheus import RULES, Prometheus, promtool, rules_in_a_hurry

ALERTS = re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text())
DOWN = {"PausetraceDetectDown", "PausetraceCorrelateDown"}
_NS = 1_000_000_000


def test_every_alert_has_a_test_and_a_place_in_the_docs() -> None:
    tests = (RULES / "alerts_test.yml").read_text()
    page = (RULES.parents[1] / "docs/operating.md").read_text()
    assert len(ALERTS) == len(set(ALERTS)) >= 9
    for alert in ALERTS:
        assert f"- name: {alert}," in tests
        assert f"`{alert}`" in page


def test_the_rules_speak_of_metrics_that_exist() -> None:
    exporter = Exporter("detect", "1.2.3")
    exporter.take(Status(1.0, dict.fromkeys(COUNTERS, 1), {PartitionId("pfc", 0): 1}, {"x": FabricProgress(1, 1, 1)}))
    served = set(re.findall(r"^(pausetrace_\w+)", exporter.render()[0].decode(), flags=re.MULTILINE))
    used = set(re.findall(r"pausetrace_\w+", (RULES / "alerts.yml").read_text()))
    assert used <= served
    # A rule on the increase of a counter that is not there before its first count would miss it.
    increasing = set(re.findall(r"increase\(pausetrace_(\w+)_total", (RULES / "alerts.yml").read_text()))
    assert increasing - {"restarts"} <= set(FROM_THE_START)


@pytest.mark.docker
@pytest.mark.prometheus
def test_the_rules_pass_their_tests_in_promtool(prometheus_image: str) -> None:
    promtool(prometheus_image, "check", "config", "/rules/prometheus.yml")
    assert "SUCCESS" in promtool(prometheus_image, "test", "rules", "/rules/alerts_test.yml")


def well(now_s: float) -> Status:
    """A worker without any trouble."""
    now_ns = int(now_s * _NS)
    counters = dict.fromkeys(COUNTERS, 0) | {"messages": int(now_s * 1000) % 10_000_000}
    return Status(now_s, counters, {PartitionId("pfc", 0): 3}, {"dc-1": FabricProgress(now_ns, now_ns - _NS, 5)})


def ill_detect(now_s: float) -> Status:
    """It lags, its sources are silent, it has losses and dead letters, its transactions fail."""
    counters = dict.fromkeys(COUNTERS, 0) | {"step_lost_rows": 50, "dead_letters": 7, "restarts": 9}
    old_ns = int((now_s - 1000) * _NS)
    return Status(now_s, counters, {PartitionId("pfc", 0): 10_000_000}, {"dc-1": FabricProgress(old_ns, 0, 5)})


def ill_correlate(now_s: float) -> Status:
    """Its last turn was long ago, one stream held it back, and two are suspended."""
    now_ns = int(now_s * _NS)
    return Status(
        now_s - 1000, dict.fromkeys(COUNTERS, 0), {}, {"dc-1": FabricProgress(now_ns, now_ns - 1000 * _NS, 5, 2)}
    )


class Workers:
    """Two exporters that are told a status again and again, as workers do."""

    def __init__(self) -> None:
        self.exporters = {"detect": Exporter("detect", "1.2.3"), "correlate": Exporter("correlate", "1.2.3")}
        self.status: dict[str, Callable[[float], Status]] = {"detect": well, "correlate": well}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """For as long as the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(0.2):
            for step, exporter in self.exporters.items():
                exporter.take(self.status[step](time.time()))


@pytest.mark.docker
@pytest.mark.prometheus
@pytest.mark.slow
def test_every_alert_fires_in_a_prometheus_that_scrapes_the_exporter(prometheus_image: str, tmp_path: Path) -> None:
    workers = Workers()
    with ExitStack() as stack:
        stack.enter_context(workers.at_work())
        servers = ExitStack()
        stack.enter_context(servers)
        targets = {
            f"pausetrace-{step}": servers.enter_context(MetricsServer(exporter, 0)).url.split("/")[2]
            for step, exporter in workers.exporters.items()
        }
        rules_in_a_hurry(tmp_path, targets)
        prometheus = stack.enter_context(Prometheus(prometheus_image, tmp_path))

        prometheus.wait_until("both are scraped", lambda: prometheus.value("sum(up)") == 2)
        several = "min(count_over_time(up[1m]))"
        prometheus.wait_until("several scrapes", lambda: (prometheus.value(several) or 0) >= 8)
        assert prometheus.firing() == set()
        workers.status = {"detect": ill_detect, "correlate": ill_correlate}
        prometheus.wait_until("all alerts fire", lambda: prometheus.firing() == set(ALERTS) - DOWN)
        servers.close()
        prometheus.wait_until("nobody answers", lambda: prometheus.firing() >= DOWN)
