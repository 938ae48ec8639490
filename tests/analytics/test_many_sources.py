"""Sources that come and go, links that move and rosters that empty: in any order of arrival the same words.

What a roster change or a fact says holds from its own time on, however early or late it is read.
"""

from __future__ import annotations

from collections import defaultdict, deque
from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.batch import StreamKey
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.messages import Item
from stream.roster import RosterChange
from tests.analytics.many_sources import LIFE_NS, arrivals, life
from tests.analytics.test_determinism import finals

BEGIN_NS = 1_000_000_000
SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 20))]
RUNS = ((1_000_000, 1, None), (1, 2, 1), (7, 1, None), (50, 4, 3))
"""Batch size, partitions, seed of restarts."""


def in_any_order(changes: list[RosterChange], streams: dict[StreamKey, deque[Item]]) -> list[bytes]:
    """The finals, if they are the same in all orders."""
    outcomes = [
        finals(arrivals(changes, streams, Random(order)), batch_size, partitions, restarts, live=order == 2)
        for order, (batch_size, partitions, restarts) in enumerate(RUNS)
    ]
    assert all(outcome == outcomes[0] for outcome in outcomes[1:])
    return outcomes[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_sources_may_be_read_in_any_order(seed: int) -> None:
    assert in_any_order(*life(seed, "e1", BEGIN_NS))


@pytest.mark.parametrize("seed", SEEDS[4:12])
@pytest.mark.parametrize("later_ns", [0, LIFE_NS + 1, 3 * LIFE_NS, -LIFE_NS * 4])
def test_a_life_after_another_may_be_read_in_any_order(seed: int, later_ns: int) -> None:
    first, first_streams = life(seed, "e1", BEGIN_NS)
    second, second_streams = life(seed, "e2", BEGIN_NS + later_ns)
    told = in_any_order([*first, *second], first_streams | second_streams)
    plain = arrivals(first, first_streams, Random(9)) + arrivals(second, second_streams, Random(9))
    assert finals(plain, 1) == told
    assert told


@pytest.mark.parametrize("seed", SEEDS)
def test_every_provisional_cascade_comes_to_an_end(seed: int) -> None:
    changes, streams = life(seed, "e1", BEGIN_NS)
    items = arrivals(changes, streams, Random(seed))
    said: defaultdict[str, list[Cascade]] = defaultdict(list)
    for item in run_steps(items, [Detect()], Correlate(provisional=True), (1, 7, 50)[seed % 3]):
        assert isinstance(item, Cascade)
        said[item.id].append(item)
    for revisions in said.values():
        *before, last = revisions
        assert last.revision == FINAL or last.merged_into or not last.pauses
        numbered = before if last.revision == FINAL else revisions
        assert [cascade.revision for cascade in numbered] == list(range(1, len(numbered) + 1))
        assert all(cascade.merged_into is None and cascade.pauses for cascade in before)
        assert last.merged_into is None or said[last.merged_into][-1].revision == FINAL
