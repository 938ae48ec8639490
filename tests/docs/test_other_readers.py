"""Programs of others read the JSON topics: kcat, and Kafka's own console consumer."""

from __future__ import annotations

import json
import subprocess

import pytest

from stream.dead_letters import DeadLetters
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, encode
from stream.offset_gaps import OffsetGap
from stream.topics import full_name
from tests.pausetrace.publishing import publish
from tests.stream.sample_items import SAMPLES

pytestmark = pytest.mark.kafka


def messages() -> list[Encoded]:
    """One value of each JSON topic at least."""
    written: list[Encoded] = []
    DeadLetters("detect", written.append, lambda: 1).gap(OffsetGap("pfc", 0, 3, 5, "removed", True))
    return [*(encode(item) for item in SAMPLES.values()), *written]


@pytest.fixture
def published(real_settings: KafkaSettings) -> KafkaSettings:
    """The messages, on a real Kafka."""
    publish(real_settings, *messages())
    return real_settings


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def parsed(lines: list[str]) -> list[tuple[str, object]]:
    """Key and value of each line, in any order of topics."""
    pairs = (line.split("\t", 1) for line in lines)
    return sorted(((key, json.loads(value)) for key, value in pairs), key=lambda pair: (pair[0], str(pair[1])))


def expected() -> list[tuple[str, object]]:
    return parsed([f"{message.key.decode()}\t{message.value.decode()}" for message in messages()])


@pytest.mark.kcat
def test_kcat_reads_every_json_topic(published: KafkaSettings) -> None:
    lines = []
    for topic in sorted({message.topic for message in messages()}):
        name = full_name(published.prefix, topic)
        out = run("kcat", "-b", published.bootstrap_servers, "-C", "-q", "-e", "-t", name, "-f", "%k\\t%s\\n")
        lines += out.splitlines()
    assert parsed(lines) == expected()


def console_consumer(image: str, settings: KafkaSettings, *options: str) -> list[str]:
    out = run(
        "docker", "run", "--rm", "--network", "host", image, "/opt/kafka/bin/kafka-console-consumer.sh",
        "--bootstrap-server", settings.bootstrap_servers, "--from-beginning",
        "--property", "print.key=true", *options,
    )  # fmt: skip
    return [line for line in out.splitlines() if "\t" in line]


@pytest.mark.docker
def test_kafkas_console_consumer_reads_every_json_topic(published: KafkaSettings, kafka_image: str) -> None:
    every_json_topic = f"{published.prefix}[.]({'|'.join(sorted({m.topic for m in messages()}))})"
    lines = console_consumer(
        kafka_image, published, "--include", every_json_topic, "--max-messages", str(len(messages()))
    )
    assert parsed(lines) == expected()
