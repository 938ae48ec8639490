"""Baselines of stopped queues against NumPy's medians and a CUSUM of the textbook."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.baselines import ALARM, COLUMNS, CUSUM, LEAST_DEVIATION, MOST, PERIODS, SCALE, SLACK, USUAL, follow


@pytest.mark.parametrize("seed", range(20))
def test_usual_values_and_sums_are_those_of_numpy(seed: int) -> None:
    random = Random(seed)
    state, scratch = np.zeros((1, COLUMNS)), np.zeros(PERIODS)
    past: list[float] = []
    total = usual = 0.0
    for _ in range(120):
        quiet = random.choice((0, 0, 0, 1, 5, PERIODS))
        value = random.choice((0.0, random.random(), 0.1 + 0.02 * random.random()))
        for one in [0.0] * quiet + [value]:
            recent = np.array(past[-PERIODS:])
            usual = float(np.median(recent)) if len(recent) else 0.0
            deviation = float(np.median(np.abs(recent - usual))) if len(recent) else 0.0
            beyond = (one - usual) / max(SCALE * deviation, LEAST_DEVIATION)
            total = min(max(total + beyond - SLACK, 0.0), MOST)
            if total <= ALARM:
                past.append(one)
        follow(state, np.array([value]), quiet, scratch)
        assert state[0, USUAL] == pytest.approx(usual)
        assert state[0, CUSUM] == pytest.approx(total)


def test_a_fault_does_not_become_usual() -> None:
    state, scratch = np.zeros((1, COLUMNS)), np.zeros(PERIODS)
    follow(state, np.array([0.0]), PERIODS, scratch)
    for _ in range(10 * PERIODS):
        follow(state, np.array([0.3]), 0, scratch)
    assert state[0, USUAL] == 0.0
    assert state[0, CUSUM] == MOST


def test_what_is_over_is_forgotten_after_so_many_periods() -> None:
    state, scratch = np.zeros((1, COLUMNS)), np.zeros(PERIODS)
    follow(state, np.array([0.0]), PERIODS, scratch)
    follow(state, np.array([0.9]), 0, scratch)
    assert state[0, CUSUM] == MOST
    follow(state, np.array([0.0]), int(MOST / SLACK) - 1, scratch)
    assert state[0, CUSUM] == 0.0
