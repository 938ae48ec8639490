"""Names that change their meaning in the middle of pauses: the same finals come of any order of arrival."""

from __future__ import annotations

from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.cascade import FINAL, Cascade
from stream.file_runner import run_steps
from stream.messages import Item, encode
from tests.analytics.many_sources import arrivals, life
from tests.analytics.names_in_time import renamed
from tests.analytics.restarting import Restarting

BEGIN_NS = 1_700_000_000_000_000_000
LIVES = 20


def finals(items: list[Item], batch_size: int, restart_seed: int | None = None, live: bool = False) -> list[bytes]:
    random, chance = Random(restart_seed), 0.0 if restart_seed is None else 0.15
    firsts = [Restarting(Detect, random, chance) for _ in range(2)]
    second = Restarting(lambda: Correlate(provisional=live), random, chance)
    made = run_steps(items, firsts, second, batch_size)
    return sorted(encode(item).value for item in made if isinstance(item, Cascade) and item.revision == FINAL)


@pytest.mark.parametrize("first", range(0, LIVES, 5))
def test_the_same_finals_come_of_any_order_of_arrival_while_names_change(first: int) -> None:
    made = 0
    for seed in range(first, first + 5):
        changes, streams = renamed(*life(seed, "e1", BEGIN_NS), seed)
        expected = finals(arrivals(changes, streams, Random(0)), 1_000_000)
        made += len(expected)
        for number, (batch_size, restart_seed, live) in enumerate(
            ((5, None, False), (60, 1, False), (100, None, True))
        ):
            items = arrivals(changes, streams, Random(f"{seed} {number}"))
            assert finals(items, batch_size, restart_seed, live) == expected, (seed, number)
    assert made > 20
