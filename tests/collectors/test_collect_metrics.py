"""The metrics of a collector: every target has all of them from the first moment on, also while it is down."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from collectors.collect_metrics import DROP_REASONS, CollectExporter
from collectors.workers import WORKERS_ALIVE
from simulation.gnmi_targets.server import FakeTarget
from tests.collectors.lab_device import lab_leaves
from tests.collectors.running import Running, collecting, target_at

ROOT = Path(__file__).resolve().parents[2]


def scraped(running: Running) -> dict[tuple[str, str], float]:
    """What a Prometheus would read, by metric and target."""
    exporter = CollectExporter("1.0")
    collector = running.collector
    exporter.take(collector.statuses(), collector.counters(), collector.budget.held_bytes)
    text, _ = exporter.render()
    families = text_string_to_metric_families(text.decode())
    return {
        (sample.name + sample.labels.get("reason", ""), sample.labels.get("target", "")): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_docs_have_every_reason_why_something_is_left_out() -> None:
    table = (
        (ROOT / "docs/collectors.md").read_text().partition("| reason | what |\n|---|---|\n")[2].partition("\n\n")[0]
    )
    told = [reason for line in table.splitlines() for reason in re.findall("`(.*?)`", line.split("|")[1])]
    assert tuple(told) == DROP_REASONS


def test_a_target_that_is_down_has_its_metrics_too() -> None:
    async def run() -> None:
        async with FakeTarget(lab_leaves()) as fake:
            targets = target_at(fake.address, "up", interval_ms=200), target_at("127.0.0.1:1", "gone")
            async with collecting(*targets) as running:
                at_once = scraped(running)
                assert at_once["pausetrace_target_up", "gone"] == at_once["pausetrace_target_up", "up"] == 0
                for reason in DROP_REASONS:
                    assert at_once[f"pausetrace_target_dropped_total{reason}", "gone"] == 0, reason
                await running.until(lambda: running.status("up").synced and running.status("up").updates > 20)
                await running.until(lambda: running.status("gone").failures > 5)
                found = scraped(running)
                for name in ("up", "connected", "synced"):
                    assert found[f"pausetrace_target_{name}", "up"] == 1, name
                    assert found[f"pausetrace_target_{name}", "gone"] == 0, name
                assert found["pausetrace_target_updates_total", "up"] > 20
                assert found["pausetrace_target_updates_total", "gone"] == 0
                assert found["pausetrace_target_last_update_age_seconds", "up"] < 5
                assert found["pausetrace_target_last_update_age_seconds", "gone"] == float("inf")
                assert abs(found["pausetrace_target_clock_skew_seconds", "up"]) < 1
                assert found["pausetrace_target_breaker_state", "gone"] > 0
                assert found["pausetrace_target_failures_totalunreachable", "gone"] > 5
                assert found["pausetrace_collect_targets", ""] == 2

    asyncio.run(run())


def test_workers_that_run_are_a_gauge() -> None:
    exporter = CollectExporter("1.0")
    exporter.take([], {WORKERS_ALIVE: 2, "budget_waits": 1}, 0)
    text, _ = exporter.render()
    types = {family.name: family.type for family in text_string_to_metric_families(text.decode())}
    assert types["pausetrace_collect_workers_alive"] == "gauge"
    assert types["pausetrace_collect_budget_waits"] == "counter"
