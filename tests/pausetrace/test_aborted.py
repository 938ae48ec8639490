"""Whoever reads cascades and episodes sees what was committed, and nothing of what was not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

import pausetrace
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, encode
from tests.pausetrace.publishing import publish
from tests.pausetrace.sample_batches import PAUSES
from tests.pausetrace.sample_cascades import SLOW_RECEIVER

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.kafka


def produce_in_transaction(settings: KafkaSettings, *items: Item, commit: bool) -> None:
    name = f"{settings.prefix}.{commit}"
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for item in items:
        topic, key, value = encode(item)
        producer.produce(f"{settings.prefix}.{topic}", value, key)
    assert producer.flush(30) == 0
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


@pytest.fixture
def settings(real_settings: KafkaSettings) -> KafkaSettings:
    """Topics with what was aborted before and after what was committed."""
    aborted = (replace(SLOW_RECEIVER, id="0" * 16), PAUSES)
    produce_in_transaction(real_settings, *aborted, commit=False)
    produce_in_transaction(real_settings, SLOW_RECEIVER, commit=True)
    produce_in_transaction(real_settings, *aborted, commit=False)
    return real_settings


def test_cascades_gives_what_was_committed(settings: KafkaSettings) -> None:
    found = pausetrace.cascades(
        bootstrap_servers=settings.bootstrap_servers, prefix=settings.prefix, start="earliest", follow=False
    )
    assert list(found) == [SLOW_RECEIVER]


def test_subscribe_gives_what_was_committed(settings: KafkaSettings) -> None:
    publish(settings, PAUSES)
    found = pausetrace.subscribe(
        "pfc", bootstrap_servers=settings.bootstrap_servers, prefix=settings.prefix, start="earliest", follow=False
    )
    assert sum(map(len, found)) == len(PAUSES.events)


def test_observe_shows_what_was_committed(settings: KafkaSettings) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pausetrace.cli.main", "observe", "cascade", "--from", "earliest", "--no-follow",
         "--bootstrap-servers", settings.bootstrap_servers, "--prefix", settings.prefix],
        capture_output=True, text=True, timeout=60, check=True, cwd=ROOT,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [SLOW_RECEIVER.id]
    assert "missing" not in done.stderr
