"""Hostile packed values: decode gives what the value says or raises WireError, and never anything else."""

from __future__ import annotations

import contextlib
import random
import resource
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream import wire
from stream.errors import WireError
from tests.stream import plain_wire
from tests.stream.both_readers import agree, same_as_plain
from tests.stream.hostile import Message, hostile_messages, valid

VALUES = 100_000
HEADROOM_BYTES = 512 << 20


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """Any allocation far beyond what a Kafka value can need fails at once instead of swapping the machine to death."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + HEADROOM_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """Another test may have loaded the compiled first look, which has tests of its own."""
    before = wire.look_by(None)
    yield
    wire.look_by(before)


@pytest.mark.slow
@pytest.mark.usefixtures("bounded_memory")
def test_a_hundred_thousand_hostile_values_are_read_exactly_or_refused_with_their_neighbours_unharmed() -> None:
    neighbour = valid(random.Random(7), "pfc", most_rows=40)
    neighbour_value = neighbour.build()
    plain_neighbour = plain_wire.read("pfc", neighbour.key, neighbour_value)
    earlier = wire.decode("pfc", neighbour_value, neighbour.key)
    outcomes: Counter[str] = Counter()
    for i, message in enumerate(hostile_messages(seed=1, count=VALUES)):
        outcomes[agree(message)] += 1
        if i % 100 == 0:
            same_as_plain(wire.decode("pfc", neighbour_value, neighbour.key), plain_neighbour, "pfc")
    same_as_plain(earlier, plain_neighbour, "pfc")
    refused = sum(count for outcome, count in outcomes.items() if outcome.startswith("refused"))
    assert outcomes["taken"] > VALUES // 20
    assert outcomes["unknown kinds skipped"] > VALUES // 50
    assert refused > VALUES // 2
    assert len(outcomes) > 25, "the generator reaches few of the format's rules"


def test_a_value_cut_at_any_byte_is_refused() -> None:
    draft = valid(random.Random(3), "queue")
    value = draft.build()
    assert agree(Message("queue", draft.key, value, "whole")) == "taken"
    for size in range(len(value)):
        with pytest.raises(WireError):
            wire.decode("queue", value[:size], draft.key)


def test_decoding_takes_memory_in_proportion_to_the_value() -> None:
    messages = list(hostile_messages(seed=2, count=3_000))
    assert max(len(message.value) for message in messages) > 100_000
    tracemalloc.start()
    try:
        for message in messages:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(WireError):
                wire.decode(message.topic, message.value, message.key)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 64 * len(message.value) + (256 << 10), message.how
    finally:
        tracemalloc.stop()
