"""`docker compose up`: everything on one machine, from a trace to a cascade, and a Prometheus that raises alarms."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pausetrace.reader import Reader
from stream.batch import Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, encode
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.topics import full_name
from tests.deploy.prometheus import PrometheusApi
from tests.kafka_brokers import free_port
from tests.stream.source_rows import xoff_rows

ROOT = Path(__file__).resolve().parents[2]
CASCADE_DEADLINE_S = 120.0


def run(*command: str, environment: dict[str, str] | None = None, deadline_s: float = 600) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=deadline_s,
        env=os.environ | (environment or {}),
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def image() -> str:
    """The project's image, built by its Dockerfile."""
    name = "pausetrace:test"
    # The host's network is what a machine can always reach registries by.
    run("docker", "build", "--network", "host", "-f", "deploy/Dockerfile", "-t", name, ".")
    return name


class Stack:
    """A project of Docker Compose under a name and on ports of its own."""

    def __init__(self, image: str) -> None:
        self.kafka_port, self.prometheus_port = free_port(), free_port()
        self._environment = {
            "COMPOSE_PROJECT_NAME": f"pausetrace-test-{uuid.uuid4().hex[:8]}",
            "PAUSETRACE_IMAGE": image,
            "PAUSETRACE_KAFKA_PORT": str(self.kafka_port),
            "PAUSETRACE_PROMETHEUS_PORT": str(self.prometheus_port),
        }

    def compose(self, *arguments: str) -> None:
        run("docker", "compose", *arguments, environment=self._environment)

    @contextmanager
    def up(self) -> Iterator[None]:
        """Runs it for as long as the block, and leaves nothing behind."""
        try:
            self.compose("up", "-d", "--wait", "--wait-timeout", "180")
            yield
        finally:
            self.compose("down", "--volumes", "--timeout", "2")


def first_cascade(settings: KafkaSettings, deadline_s: float) -> Cascade:
    """The first final cascade with a root, whoever published what it explains."""
    end_s = time.monotonic() + deadline_s
    with Reader(settings, ["cascade"], "earliest") as reader:
        while time.monotonic() < end_s:
            for read in reader.read():
                if isinstance(read.item, Cascade) and read.item.revision == FINAL and read.item.severity == "critical":
                    return read.item
    raise AssertionError(f"no cascade came within {deadline_s:g} s")


def polled_cascade(settings: KafkaSettings, deadline_s: float) -> Cascade:
    """The first verdict about the fabric whose counters are polled."""
    end_s = time.monotonic() + deadline_s
    with Reader(settings, ["cascade"], "earliest") as reader:
        while time.monotonic() < end_s:
            for read in reader.read():
                if isinstance(read.item, Cascade) and read.item.fabric == "polled" and _is_known(read.item):
                    return read.item
    raise AssertionError(f"no cascade of polls named its root within {deadline_s:g} s")


def _is_known(cascade: Cascade) -> bool:
    return bool(cascade.roots) and cascade.roots[0].device == "h9" and cascade.roots[0].share_ppm > 500_000


def make_trouble(settings: KafkaSettings) -> None:
    """Publishes bytes that no reader takes, and a source whose rows are missing from its numbers."""
    stream = StreamKey("trouble", "probe", "boot-1", "pfc", "leaf1")
    now_ns = time.time_ns()
    items: list[Item] = [
        SourceUp("trouble", "probe", "boot-1", now_ns, (StreamUp("pfc", "leaf1"),)),
        Batch(stream, 0, now_ns, ("eth0",), xoff_rows([now_ns])),
        Batch(stream, 8, now_ns + 1, ("eth0",), xoff_rows([now_ns + 1])),
        SourceDown("trouble", "probe", "boot-1", now_ns + 2, (StreamDown("pfc", "leaf1", 8),)),
    ]
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(full_name(settings.prefix, "pfc"), b"garbage", b"trouble/leaf1")
    for item in items:
        message = encode(item)
        producer.produce(full_name(settings.prefix, message.topic), message.value, message.key)
    assert producer.flush(30) == 0


@pytest.mark.docker
@pytest.mark.kafka
@pytest.mark.prometheus
@pytest.mark.slow
def test_compose_brings_up_everything_a_cascade_and_alarms(image: str) -> None:
    stack = Stack(image)
    begun_s = time.monotonic()
    with stack.up():
        kafka = KafkaSettings(f"localhost:{stack.kafka_port}")
        cascade = first_cascade(kafka, CASCADE_DEADLINE_S - (time.monotonic() - begun_s))
        assert (cascade.fabric, cascade.roots[0].device) == ("demo", "h9")
        assert cascade.roots[0].root_class == "slow_receiver_pcie"
        polled = polled_cascade(kafka, CASCADE_DEADLINE_S)
        assert (polled.mode, polled.roots[0].root_class) == ("sampled", "slow_receiver_pcie")

        prometheus = PrometheusApi(stack.prometheus_port)
        # Two targets, by the names of their services.
        prometheus.wait_until("both are scraped", lambda: prometheus.value("sum(up)") == 2)
        prometheus.wait_until(
            "outputs are counted",
            lambda: all((prometheus.value(f'pausetrace_outputs_total{{step="{s}"}}') or 0) > 0
                        for s in ("detect", "correlate")),
        )  # fmt: skip
        assert prometheus.value("sum(pausetrace_lag_messages)") is not None
        assert prometheus.firing() == set()

        make_trouble(kafka)
        alarms = {"PausetraceLoss", "PausetraceDeadLetters"}
        prometheus.wait_until("alarms", lambda: prometheus.firing() >= alarms)


def test_the_files_name_the_images_that_are_tested(kafka_image: str, prometheus_image: str) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert f"image: {kafka_image}\n" in text
    assert f"-{prometheus_image}}}" in text


def test_no_file_of_the_deployment_names_an_index_or_a_proxy() -> None:
    for path in (ROOT / "deploy/Dockerfile", ROOT / "docker-compose.yml", ROOT / ".dockerignore"):
        assert not re.search(r"index-url|proxy|trusted-host|https?://(?!127\.0\.0\.1|localhost)", path.read_text()), (
            path
        )
