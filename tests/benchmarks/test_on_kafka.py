"""The benchmarks that need a real Kafka run on one, and claim nothing without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream.embedded import EmbeddedBroker

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def result(script: str, servers: str) -> dict[str, Any]:
    """The last line of a quick run."""
    command = [sys.executable, str(BENCHMARKS / script), "--quick", "--bootstrap-servers", servers]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("script", ["consume.py", "latency.py"])
def test_without_a_real_kafka_nothing_is_claimed(script: str, embedded_broker: EmbeddedBroker) -> None:
    found = result(script, embedded_broker.bootstrap_servers)
    assert found["claim"]
    assert (found["ratio"], found["holds"]) == (None, None)


@pytest.mark.kafka
@pytest.mark.slow
def test_consume_reads_the_same_topic_in_all_ways(real_kafka: str) -> None:
    found = result("consume.py", real_kafka)
    assert found["bar"] == 0.8
    assert found["transactions_bar"] == 1.25
    rates = found["events_per_s"]
    ways = ["librdkafka alone", "decode + detect", "worker, at least once", "worker, exactly once"]
    assert list(rates) == list(found["cpu_ns_per_event"]) == ways
    assert all(rate > 0 for rate in rates.values())


@pytest.mark.kafka
@pytest.mark.slow
def test_latency_sees_every_pause_by_its_cascade_and_its_final(real_kafka: str) -> None:
    found = result("latency.py", real_kafka)
    assert found["bar"] == 1.5
    assert found["pauses"] == 10
    assert all(0 < p50 <= p99 <= most for p50, p99, most in found["p50_p99_max_ms"].values())
