"""Polls put on one grid, against the slow twin and against what really happened."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.poll_grid import MAX_EDGES, OUT_COLUMNS, OUT_CUT, OUT_PAUSED, OUT_STOPS, locate
from tests.reference.poll_grid import Window, located

PERIOD_NS = 1_000_000


def polls(random: Random, phase_ns: int, stops: list[tuple[int, int]], count: int, loss: float) -> list[Window]:
    """What polls of one end count of stops (begin, length); a poll without any is not told."""
    told, since_ns = [], phase_ns - PERIOD_NS
    for number in range(count):
        end_ns = phase_ns + number * PERIOD_NS
        if number < count - 1 and random.random() < loss:
            continue
        begun = [begin for begin, _ in stops if since_ns <= begin < end_ns]
        paused = sum(max(0, min(b + length, end_ns) - max(b, since_ns)) for b, length in stops)
        if begun or paused:
            told.append(Window(since_ns, end_ns, len(begun), paused))
        since_ns = end_ns
    return told


def some_stops(random: Random) -> list[tuple[int, int]]:
    begins = sorted(random.sample(range(0, 6 * PERIOD_NS, 10_000), random.randrange(1, 40)))
    return [(begin, random.randrange(1, 9_000)) for begin in begins]


def made(begin_ns: int, end_ns: int, own: list[Window], other: list[Window]) -> np.ndarray:
    out = np.zeros((1, OUT_COLUMNS))
    locate(
        begin_ns, end_ns, np.array([[0, len(own)]]), np.array(own, np.int64).reshape(-1, 4),
        np.array([[0, len(other)]]), np.array(other, np.int64).reshape(-1, 4), out, np.zeros(MAX_EDGES, np.int64),
        np.zeros(MAX_EDGES),
    )  # fmt: skip
    return out[0]


@pytest.mark.parametrize("seed", range(60))
def test_a_period_is_that_of_the_twin(seed: int) -> None:
    random = Random(seed)
    stops = some_stops(random)
    own = polls(random, random.choice((0, random.randrange(PERIOD_NS))), stops, 8, 0.2)
    other = polls(random, random.randrange(PERIOD_NS), stops, 8, 0.2) if random.random() < 0.8 else []
    if random.random() < 0.2:
        own = [window._replace(paused_ns=-1) for window in own]
    for begin_ns in range(-PERIOD_NS, 7 * PERIOD_NS, PERIOD_NS):
        end_ns = begin_ns + PERIOD_NS
        out = made(begin_ns, end_ns, own, other)
        expected = located(begin_ns, end_ns, own, other)
        assert out[OUT_STOPS] == pytest.approx(expected[0], abs=1e-6)
        assert out[OUT_PAUSED] == pytest.approx(expected[1], abs=1e-3)
        assert bool(out[OUT_CUT]) == expected[2]


def test_polls_of_both_ends_tell_more_of_a_burst_than_those_of_one() -> None:
    alone = together = 0.0
    for seed in range(40):
        random = Random(seed)
        begin_ns = random.randrange(5 * PERIOD_NS)
        stops = [(begin_ns + 10_000 * number, 5_000) for number in range(20)]
        own = polls(random, random.randrange(PERIOD_NS), stops, 8, 0.0)
        other = polls(random, random.randrange(PERIOD_NS), stops, 8, 0.0)
        for begin_ns in range(0, 6 * PERIOD_NS, PERIOD_NS):
            end_ns = begin_ns + PERIOD_NS
            true = sum(begin_ns <= begin < end_ns for begin, _ in stops)
            alone += abs(made(begin_ns, end_ns, own, [])[OUT_STOPS] - true)
            together += abs(made(begin_ns, end_ns, own, other)[OUT_STOPS] - true)
    assert together < 0.8 * alone


def test_nothing_that_was_counted_is_lost_or_made() -> None:
    random = Random(1)
    stops = some_stops(random)
    own, other = polls(random, 300_000, stops, 8, 0.0), polls(random, 700_000, stops, 8, 0.0)
    parts = [made(b, b + PERIOD_NS, own, other) for b in range(-PERIOD_NS, 8 * PERIOD_NS, PERIOD_NS)]
    assert sum(part[OUT_STOPS] for part in parts) == pytest.approx(sum(window.stops for window in own))
    paused_ns = sum(window.paused_ns for window in own)
    assert sum(part[OUT_PAUSED] for part in parts) == pytest.approx(paused_ns, rel=1e-3)  # pieces of cells differ
