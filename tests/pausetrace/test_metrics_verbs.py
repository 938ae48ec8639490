"""detect and correlate serve /metrics while they work, on either broker."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pausetrace.cli.main import main
from pausetrace.importer import import_trace
from simulation.trace import read_trace
from stream.kafka_settings import KafkaSettings

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"
DEADLINE_S = 60.0


@contextmanager
def running(verb: str, settings: KafkaSettings) -> Iterator[str]:
    """The verb with metrics on a free port, for as long as the block; the value is where they are."""
    kafka = ["--bootstrap-servers", settings.bootstrap_servers, "--prefix", settings.prefix]
    process = subprocess.Popen(
        [sys.executable, "-m", "pausetrace.cli.main", verb, *kafka, "--metrics-port", "0"],
        stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "metrics at " in line:
                yield line.partition("metrics at ")[2].strip()
                break
        else:
            raise AssertionError(f"{verb} ended with {process.wait()}")
    finally:
        process.terminate()
        process.communicate(timeout=30)


def scrape_until(url: str, enough: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Samples by their names, summed over labels, once they are as wanted."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        found: dict[str, float] = {}
        with urllib.request.urlopen(url, timeout=30) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    found[sample.name] = found.get(sample.name, 0.0) + sample.value
        if enough(found):
            return found
        assert time.monotonic() < end_s, found
        time.sleep(0.2)


@pytest.mark.slow
def test_both_steps_tell_what_they_did(any_kafka: KafkaSettings) -> None:
    import_trace(read_trace(TRACE), any_kafka, "lab", start_ns=time.time_ns())
    with running("detect", any_kafka) as detect, running("correlate", any_kafka) as correlate:
        found = scrape_until(detect, lambda found: found.get("pausetrace_outputs_total", 0) > 0)
        assert found["pausetrace_active"] == 1
        assert found["pausetrace_build_info"] == 1
        found = scrape_until(
            correlate,
            lambda found: found.get("pausetrace_outputs_total", 0) > 0 and found["pausetrace_lag_messages"] == 0,
        )
        assert found["pausetrace_dead_letters_total"] == 0


def test_a_port_that_cannot_be_had_stops_the_verb_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--metrics-port", "70000", "--bootstrap-servers", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pausetrace: error: metrics cannot be served at 127.0.0.1:70000")
    assert said.count("\n") == 1
