"""Sums by pairs in arrays are those of a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.pair_sums import PairSums


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_those_of_a_dictionary(seed: int) -> None:
    random, sums, told = Random(seed), PairSums(2), dict[tuple[int, int], np.ndarray]()
    for _ in range(8):
        count = random.randrange(30)
        first = np.array([random.choice((0, 5, 2**31 - 1, random.randrange(20))) for _ in range(count)], np.int64)
        second = np.array([random.choice((0, 7, 2**32 - 1, random.randrange(20))) for _ in range(count)], np.int64)
        amounts = np.array([[random.random() * 9, random.random()] for _ in range(count)]).reshape(-1, 2)
        if random.random() < 0.3:
            other = PairSums(2)
            other.add(first, second, amounts)
            sums.join(other)
        else:
            sums.add(first, second, amounts)
        for pair, amount in zip(zip(first.tolist(), second.tolist(), strict=True), amounts, strict=True):
            told[pair] = told.get(pair, np.zeros(2)) + amount
        if random.random() < 0.3:
            sums = PairSums.of_state(sums.copy().state())
    assert len(sums) == len(told)
    for column in (0, 1):
        whole = {pair: round(float(amount[column])) for pair, amount in told.items()}
        assert sums.rounded(column) == {pair: amount for pair, amount in whole.items() if amount}


def test_pairs_that_move_to_one_add_up_and_a_copy_stays() -> None:
    sums = PairSums(1)
    sums.add(np.array([1, 2]), np.array([3, 3]), np.array([[4.0], [5.0]]))
    twin = sums.copy()
    sums.add(np.array([1]), np.array([3]), np.array([[10.0]]))
    assert twin.rounded(0) == {(1, 3): 4, (2, 3): 5}
    assert twin.moved(lambda first: 2, lambda second: second + 1).rounded(0) == {(2, 4): 9}
