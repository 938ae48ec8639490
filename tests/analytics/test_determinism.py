"""Final cascades are a pure function of the input: the same bytes however it is cut, spread, mixed or restarted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.messages import Item, encode
from tests.analytics.long_runs import TRACES, recorded, repeated, stretched, ticking
from tests.analytics.restarting import Restarting

BATCHES = (1, 7, 1000)
PARTITIONS = (1, 2, 4)
ROWS = (1024, 5)


def finals(
    items: Sequence[Item], batch_size: int, partitions: int = 1, restart_seed: int | None = None, live: bool = False
) -> list[bytes]:
    """The final cascades as they are published, sorted."""
    random, chance = Random(restart_seed), 0.0 if restart_seed is None else 0.1
    firsts = [Restarting(Detect, random, chance) for _ in range(partitions)]
    second = Restarting(lambda: Correlate(provisional=live), random, chance)
    made = run_steps(items, firsts, second, batch_size)
    return sorted(encode(item).value for item in made if isinstance(item, Cascade) and item.revision == FINAL)


def at_once(streams: TraceStreams) -> list[bytes]:
    """The final cascades of all rows in one batch."""
    return finals(trace_items(streams), 1_000_000)


@pytest.mark.parametrize("trace", TRACES)
def test_the_same_bytes_come_out_however_a_trace_goes_in(trace: str) -> None:
    streams = recorded(trace)
    expected = at_once(streams)
    # Every pair of two choices meets on some trace; the whole matrix is the slow test.
    random = Random(trace)
    for batch_size, partitions in zip(BATCHES, random.sample(PARTITIONS, 3), strict=True):
        items = trace_items(streams, random.choice(ROWS), random.choice((None, random.randrange(1000))))
        restart_seed = random.choice((None, random.randrange(1000)))
        assert finals(items, batch_size, partitions, restart_seed) == expected


@pytest.mark.parametrize("trace", ["incast-ls-s1", "two_roots-ls-s1"])
def test_the_same_bytes_come_out_where_ports_alone_tell_whose_bytes_stood_where(trace: str) -> None:
    streams = recorded(trace, frozenset({"flows"}))
    expected = at_once(streams)
    assert finals(trace_items(streams, 5, 3), 7, 2, 11, live=True) == expected
    items = ticking(streams, 100_000)
    assert finals(items, 97, 1, 5) == expected


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES)
def test_the_same_bytes_come_out_of_every_combination(trace: str) -> None:
    streams = recorded(trace)
    expected = at_once(streams)
    for number, (batch_size, partitions, rows) in enumerate(itertools.product(BATCHES, PARTITIONS, ROWS)):
        for order in (None, number):
            restart_seed = number if (number + (order is None)) % 2 else None
            items = trace_items(streams, rows, order)
            assert finals(items, batch_size, partitions, restart_seed) == expected, (batch_size, partitions, order)


LONG_LIVES = {
    "stretched": lambda streams: stretched(streams, 50),
    "repeated within the gap": lambda streams: repeated(streams, 8, streams.end_ns - streams.from_ns + 3_000_000),
    "repeated beyond the gap": lambda streams: repeated(streams, 3, streams.end_ns - streams.from_ns + 45_000_000),
}


@pytest.mark.parametrize("life", LONG_LIVES)
@pytest.mark.parametrize("trace", ["deadlock-hk-s4", "two_roots-ls-s1"])
def test_many_ticks_make_what_one_makes(trace: str, life: str) -> None:
    streams = LONG_LIVES[life](recorded(trace))
    assert streams.end_ns - streams.from_ns > 10_000_000 * 2
    expected = at_once(streams)
    assert expected
    items = ticking(streams, 10_000_000)
    assert finals(items, 7, 2) == expected
    assert finals(items, 97, 1, restart_seed=3, live=True) == expected
