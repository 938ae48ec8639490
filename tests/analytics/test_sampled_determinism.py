"""Cascades of polled devices are a pure function of the input, as those of logged pauses are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from pausetrace.degrade_spec import parse_degradation
from simulation.degrade import degrade
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.messages import Item, encode
from tests.analytics.restarting import Restarting

NS3 = Path(__file__).parents[1] / "data" / "ns3"
START_NS = 1_700_000_000_000_000_000
POLLED = (
    ("two_roots-ls-s1", "period=incident/4,unaligned,poll_loss=.3"),
    ("ring_slow-ls-s1", "period=300us,unaligned"),
    ("ring_slow-ls-s1", "period=300us"),
    ("slow_receiver-ft4-s1", "period=100us,frames_only"),
    ("incast-ft4-s1", "period=run,pad=20"),
    ("spine_downlink-ls-s2", "period=incident/4,missing=random"),
)


def polled(trace: str, how: str) -> TraceStreams:
    degradation = parse_degradation(how)
    read = read_trace(NS3 / trace, frozenset(), degradation.drop)
    done = degrade(read, {}, degradation, 0, source="trace", epoch="e", start_ns=START_NS)
    assert done is not None
    return done.streams


def finals(
    items: Sequence[Item], batch_size: int, partitions: int = 1, restart_seed: int | None = None, live: bool = False
) -> list[bytes]:
    """The final cascades as they are published, sorted."""
    random, chance = Random(restart_seed), 0.0 if restart_seed is None else 0.1
    firsts = [Restarting(Detect, random, chance) for _ in range(partitions)]
    second = Restarting(lambda: Correlate(provisional=live), random, chance)
    made = run_steps(items, firsts, second, batch_size)
    return sorted(encode(item).value for item in made if isinstance(item, Cascade) and item.revision == FINAL)


@pytest.mark.parametrize(("trace", "how"), POLLED)
def test_the_same_bytes_come_out_however_polls_go_in(trace: str, how: str) -> None:
    streams = polled(trace, how)
    expected = finals(trace_items(streams), 1_000_000)
    assert expected
    random = Random(trace)
    for batch_size, partitions in ((1, 2), (7, 4), (1000, 1)):
        items = trace_items(streams, random.choice((1024, 5)), random.choice((None, random.randrange(1000))))
        restart_seed = random.choice((None, random.randrange(1000)))
        made = finals(items, batch_size, partitions, restart_seed, live=batch_size == 7)
        assert made == expected, (batch_size, partitions, restart_seed)
