"""The examples of docs/decoding.md, which know nothing of Pausetrace, print what Pausetrace itself decodes."""

from __future__ import annotations

import ast
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from analytics.detect import Detect
from pausetrace.importer import import_trace
from pausetrace.reader import Reader
from simulation.trace import read_trace
from stream.batch import Batch
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.kinds import UNKNOWN
from stream.topics import RAW, full_name
from stream.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"
ROOMS = {"pausetrace", "simulation", "probes", "collectors", "analytics", "stream"}
TOPICS = ("pfc", "queue", "flowbytes", "episode")

Rows = list[dict[str, Any]]


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["source"], row["device"], row["seq"]))


def own_rows(settings: KafkaSettings, topic: str) -> Rows:
    """Every row on the topic as Pausetrace decodes it."""
    rows: Rows = []
    with Reader(settings, [topic], "earliest") as reader:
        end = reader.end()
        batches: list[Batch] = []
        while not reader.has_reached(end):
            batches += [read.item for read in reader.read() if isinstance(read.item, Batch)]
    for batch in batches:
        for index, event in enumerate(batch.events):
            row: dict[str, Any] = {name: int(event[name]) for name in event.dtype.names or ()}
            row |= {name: None for name in ("value", "extra") if row[name] == UNKNOWN}
            row |= {"device": batch.stream.device, "port": batch.ports[event["port"]], "seq": batch.seq + index}
            rows.append(
                row | {"fabric": batch.stream.fabric, "source": batch.stream.source, "epoch": batch.stream.epoch}
            )
    return rows


def said(*command: str | Path) -> Rows:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=300, cwd=EXAMPLES / "decode"
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def put_what_is_not_packed(settings: KafkaSettings) -> None:
    """Values that the examples have to pass over."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    endless = struct.pack("<4sHHII", b"PTB1", 0, 1, 2**32 - 1, 1) + b"\x80".ljust(64, b"\0")
    no_names = struct.pack("<4sHHII", b"PTB1", 56, 1, 1, 1) + b"\xc0".ljust(64, b"\0")
    for value in (b"PTB", b"{}" * 20, b"", None, b"PTB1", b"PTB1" + bytes(12), endless, no_names):
        producer.produce(full_name(settings.prefix, "pfc"), value, b"lab/leaf0")
    assert producer.flush(30) == 0


@pytest.fixture
def published(any_kafka: KafkaSettings) -> KafkaSettings:
    """A trace on the topics, and what detect makes of it: in transactions on a real Kafka."""
    import_trace(read_trace(TRACE), any_kafka, "lab", start_ns=1_800_000_000_000_000_000)
    put_what_is_not_packed(any_kafka)
    worker = Worker(any_kafka, Detect(), name="detect", topics=RAW, group="detect", say=lambda _: None)
    try:
        worker.run(until_caught_up=True, deadline_s=60)
    finally:
        worker.close()
    return any_kafka


@pytest.fixture
def published_exactly_once(real_settings: KafkaSettings) -> KafkaSettings:
    """The same with transactions."""
    import_trace(read_trace(TRACE), real_settings, "lab", start_ns=1_800_000_000_000_000_000)
    put_what_is_not_packed(real_settings)
    Runner(real_settings, say=lambda _: None).detect(Detect, until_caught_up=True)
    return real_settings


def test_the_python_example_prints_every_row(published: KafkaSettings) -> None:
    for topic in TOPICS:
        own = own_rows(published, topic)
        assert len(own) > 10
        name = full_name(published.prefix, topic)
        found = said(sys.executable, EXAMPLES / "decode.py", published.bootstrap_servers, name)
        assert ordered(found) == ordered(own), topic


def test_the_python_example_is_complete_in_30_lines_and_knows_nothing_of_us() -> None:
    text = (EXAMPLES / "decode.py").read_text()
    assert len(text.splitlines()) <= 30
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")])
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not imported & ROOMS


@pytest.mark.go
@pytest.mark.kafka
@pytest.mark.slow
def test_the_go_example_prints_every_row(published_exactly_once: KafkaSettings, tmp_path: Path) -> None:
    settings = published_exactly_once
    said("gofmt", "-l", ".")
    said("go", "vet", ".")
    said("go", "build", "-o", tmp_path / "decode", ".")
    for topic in ("pfc", "episode"):
        found = said(tmp_path / "decode", settings.bootstrap_servers, full_name(settings.prefix, topic))
        assert ordered(found) == ordered(own_rows(settings, topic)), topic
