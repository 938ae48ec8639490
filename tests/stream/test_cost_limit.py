"""Costly work gets a quarter of the time, cheap work is never held up."""

from __future__ import annotations

from stream.cost_limit import CostLimit


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_costly_work_gets_a_quarter_of_the_time() -> None:
    clock = Clock()
    limit = CostLimit(cheap_s=0.02, monotonic_s=clock)
    spent_s = 0.0
    while clock.now_s < 1000:
        if limit.allows():
            with limit.spending():
                clock.now_s += 3.0
                spent_s += 3.0
        clock.now_s += 0.25
    assert abs(spent_s / clock.now_s - 0.25) < 0.03


def test_cheap_work_is_done_whenever_it_comes() -> None:
    clock = Clock()
    limit = CostLimit(cheap_s=0.02, monotonic_s=clock)
    for _ in range(10):
        assert limit.allows()
        with limit.spending():
            clock.now_s += 0.01


def test_work_that_was_costly_once_is_done_again_later() -> None:
    clock = Clock()
    limit = CostLimit(cheap_s=0.02, monotonic_s=clock)
    with limit.spending():
        clock.now_s += 5.0
    clock.now_s += 14.5
    assert not limit.allows()
    clock.now_s += 0.5
    assert limit.allows()
