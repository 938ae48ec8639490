"""A fabric's cascades are the same bytes when hostile values of another fabric stand between its own on every topic."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.offline import final_cascades
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.cascade import Cascade
from stream.dead_letters import decode_dead_letter
from stream.embedded import EmbeddedBroker
from stream.isolation import CountingStep
from stream.messages import Item, encode
from stream.topics import FACTS, RAW
from stream.worker import Worker
from tests.stream.hostile import Message
from tests.stream.reading import messages_on
from tests.stream.test_worker_hostile import hostile, publish, unreadable

TRACE = Path(__file__).parents[1] / "data" / "ns3" / "two_roots-ls-s1"
DEADLINE_S = 120.0


def run(broker: EmbeddedBroker, name: str, step: CountingStep, topics: tuple[str, ...]) -> list[Item]:
    """What the step made of all that is on the topics."""
    made: list[Item] = []
    worker = Worker(broker.settings, step, name=name, topics=topics, say=lambda _: None, on_outputs=made.extend)
    try:
        worker.run(until_caught_up=True, deadline_s=DEADLINE_S)
        assert worker.counters["poisoned"] == 0
    finally:
        worker.close()
    return made


@pytest.mark.slow
def test_cascades_are_the_same_bytes_among_hostile_values(embedded_broker: EmbeddedBroker) -> None:
    items = trace_items(trace_streams(read_trace(TRACE), "two_roots", "trace", "test", 10**18))
    mixed = [message for message in hostile(2000, 1500) if message.topic != "cascade" and len(message.value) < 50_000]
    places = sorted(random.Random(8).choices(range(len(mixed)), k=len(items)))
    for place, item in reversed(list(zip(places, items, strict=True))):
        mixed.insert(place, Message(*encode(item), "good"))
    publish(embedded_broker, mixed)

    run(embedded_broker, "detect", Detect(), RAW)
    correlated = run(embedded_broker, "correlate", Correlate(provisional=False), ("episode", *FACTS))

    made = [item for item in correlated if isinstance(item, Cascade) and item.fabric == "two_roots"]
    assert sorted(encode(cascade).value for cascade in made) == sorted(
        encode(cascade).value for cascade in final_cascades(items)
    )
    assert made
    read = {"detect": (*RAW, "control"), "correlate": ("episode", *FACTS, "control")}
    bad = Counter(
        (step, message.place)
        for step, topics in read.items()
        for message in messages_on(embedded_broker.settings, topics)
        if unreadable(message.topic, message.key, message.value)
    )
    letters = [
        decode_dead_letter(message.value or b"") for message in messages_on(embedded_broker.settings, ["deadletter"])
    ]
    assert Counter((letter.step, letter.place) for letter in letters) == bad
