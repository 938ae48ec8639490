"""What is usual for many queues, kept in arrays, is what NumPy makes of the past of each queue by itself."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.baselines import ALARM, LEAST_DEVIATION, MOST, PERIODS, SCALE, SLACK
from analytics.usual import SPARE, Usual


class Past:
    """One queue: its last periods, and the CUSUM over them."""

    def __init__(self) -> None:
        self.values, self.total, self.usual = [0.0] * PERIODS, 0.0, 0.0

    def follow(self, value: float) -> None:
        recent = np.array(self.values[-PERIODS:])
        self.usual = float(np.median(recent))
        deviation = max(SCALE * float(np.median(np.abs(recent - self.usual))), LEAST_DEVIATION)
        self.total = min(max(self.total + (value - self.usual) / deviation - SLACK, 0.0), MOST)
        if self.total <= ALARM:
            self.values.append(value)


@pytest.mark.parametrize("seed", range(10))
def test_many_queues_are_followed_as_each_by_itself(seed: int) -> None:
    random, usual, pasts = Random(seed), Usual(), dict[int, Past]()
    level = {queue: random.choice((0.0, 0.02, 0.2)) for queue in random.sample(range(4_000), 12)}
    for _ in range(80):
        told = random.sample(sorted(level), random.randrange(len(level)))
        shares = {queue: level[queue] * random.uniform(0.8, 1.2) + 0.9 * (random.random() < 0.03) for queue in told}
        quiet = random.choice((0, 0, 0, 1, 3))
        usual.follow(np.array(told, np.int64), np.array([shares[queue] for queue in told]), quiet)
        for queue in told:
            pasts.setdefault(queue, Past())
        for queue, past in pasts.items():
            for value in [0.0] * quiet + [shares.get(queue, 0.0)]:
                past.follow(value)
        queues = np.array([*pasts, 9_999], np.int64)
        assert usual.share(queues) == pytest.approx([*(past.usual for past in pasts.values()), 0.0])
        assert usual.beyond(queues).tolist() == [*(past.total > 0 for past in pasts.values()), False]
        if random.random() < 0.1:
            usual = Usual.of_state(usual.copy().state())


def test_nothing_is_usual_for_a_queue_that_was_never_stopped() -> None:
    usual = Usual()
    assert usual.share(np.array([3, 4])).tolist() == [0.0, 0.0]
    usual.follow(np.array([8]), np.array([0.5]), 0)
    assert usual.share(np.array([8])).tolist() == [0.0]
    assert usual.beyond(np.array([8, 9])).tolist() == [True, False]


def test_a_copy_goes_its_own_way() -> None:
    usual = Usual()
    usual.follow(np.array([8]), np.array([0.5]), 0)
    twin = usual.copy()
    twin.follow(np.array([], np.int64), np.array([]), 100)
    assert not twin.beyond(np.array([8]))[0]
    assert usual.beyond(np.array([8]))[0]


def test_queues_without_a_past_make_room() -> None:
    usual, many = Usual(), np.arange(0, 8 * (SPARE + 500), 8)
    usual.follow(many, np.full(len(many), 1e-9), 0)
    usual.follow(np.array([1]), np.array([0.5]), PERIODS + 1)
    assert len(usual.state()[0]) == 1


def test_a_queue_moves_with_its_port_and_one_of_two_that_meet_stays() -> None:
    usual = Usual()
    usual.follow(np.array([8 * 5 + 3, 8 * 7 + 3]), np.array([0.9, 0.0]), 0)
    usual.carry({5: 6})
    assert usual.beyond(np.array([8 * 5 + 3, 8 * 6 + 3])).tolist() == [False, True]
    usual.carry({7: 6})
    assert len(usual.state()[0]) == 1
