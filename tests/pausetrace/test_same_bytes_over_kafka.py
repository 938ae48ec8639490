"""Final cascades are the same bytes from files and through the embedded broker, however the rows were sent and read."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.offline import final_cascades
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams, trace_streams
from stream.cascade import FINAL, Cascade
from stream.embedded import EmbeddedBroker
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, encode
from stream.outbox import Outbox
from stream.topics import FACTS, RAW
from stream.worker import Worker

TRACES = Path(__file__).parents[1] / "data" / "ns3"
DEADLINE_S = 60.0


class Way(NamedTuple):
    """One way through the broker; `order` is the seed of a random interleaving of the sources, None is by time."""

    trace: str
    partitions: int
    detects: int
    rows_per_value: int
    order: int | None
    provisional: bool


WAYS = [
    Way("slow_receiver-ft4-s1", 1, 1, 1024, None, False),
    Way("slow_receiver-ft4-s1", 2, 1, 7, None, False),
    Way("slow_receiver-ft4-s1", 4, 2, 1024, 1, False),
    Way("slow_receiver-ft4-s1", 4, 1, 1, 2, True),
    Way("slow_receiver-ft4-s1", 2, 2, 7, 3, True),
    Way("slow_receiver-ft4-s1", 1, 2, 1, 4, False),
    Way("two_roots-ls-s1", 1, 1, 7, 5, True),
    Way("two_roots-ls-s1", 2, 1, 1024, 6, False),
    Way("two_roots-ls-s1", 4, 1, 7, None, True),
    Way("two_roots-ls-s1", 4, 2, 7, 7, False),
    Way("two_roots-ls-s1", 2, 2, 1024, None, True),
    Way("two_roots-ls-s1", 1, 1, 1, 8, False),
]


@cache
def streams_of(trace: str) -> TraceStreams:
    return trace_streams(read_trace(TRACES / trace), trace, "trace", "test", 10**18)


@cache
def bytes_from_files(trace: str) -> list[bytes]:
    return sorted(encode(cascade).value for cascade in final_cascades(trace_items(streams_of(trace))))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_final_cascades_through_the_embedded_broker_are_those_from_files(way: Way) -> None:
    made: list[Item] = []
    with EmbeddedBroker(partitions=way.partitions) as broker:
        publish(broker.settings, trace_items(streams_of(way.trace), way.rows_per_value, way.order))
        detects = [
            Worker(broker.settings, Detect(), name=f"detect {n}", topics=RAW, group="detect", say=lambda _: None)
            for n in range(way.detects)
        ]
        correlate = Worker(
            broker.settings, Correlate(way.provisional), name="correlate", topics=("episode", *FACTS),
            say=lambda _: None, on_outputs=made.extend,
        )  # fmt: skip
        finals_made = threading.Event()
        expected = bytes_from_files(way.trace)
        threads = [threading.Thread(target=worker.run, kwargs={"deadline_s": DEADLINE_S}) for worker in detects]
        for thread in threads:
            thread.start()
        ends = threading.Thread(target=correlate.run, kwargs={"deadline_s": DEADLINE_S})
        ends.start()
        try:
            for _ in range(int(DEADLINE_S * 10)):
                if len(finals(made)) >= len(expected):
                    break
                finals_made.wait(0.1)
            # A moment more, so that a cascade too many would be seen.
            finals_made.wait(0.5)
        finally:
            for worker in (*detects, correlate):
                worker.stop.set()
            for thread in (*threads, ends):
                thread.join(DEADLINE_S)
            for worker in (*detects, correlate):
                worker.close()
    assert finals(made) == expected
    assert correlate.counters.get("step_late_rows", 0) == 0


def publish(settings: KafkaSettings, items: list[Item]) -> None:
    with Outbox(settings) as outbox:
        for item in items:
            outbox.send_or_wait(encode(item))
        outbox.flush()
        assert outbox.take_failure() is None


def finals(made: list[Item]) -> list[bytes]:
    return sorted(encode(item).value for item in list(made) if isinstance(item, Cascade) and item.revision == FINAL)
