"""A probe that costs too much steps down by name, and up again when it may."""

import pytest

from probes.budget import CALM_S, MOST_CALM_S, OVER_S, Budget, Step

SHARE = 0.02
FAR_TOO_MUCH_NS = int(5 * SHARE * OVER_S * 1e9)
MUCH_NS, LITTLE_NS = int(2 * SHARE * OVER_S * 1e9), int(SHARE * OVER_S * 1e9 / 10)


def spend(budget: Budget, cpu_ns: int, from_s: float, seconds: float) -> float:
    """Spends so much in each stretch, for at least so long; returns when it is over."""
    now_s = from_s
    while now_s < from_s + seconds:
        now_s += OVER_S
        budget.spent(cpu_ns, now_s)
    return now_s


def step(budget: Budget) -> Step:
    """Where it is now, which a type checker takes for unchanged."""
    return budget.step


def test_a_burst_shorter_than_a_stretch_costs_nothing() -> None:
    budget = Budget(SHARE, 0.0)
    assert budget.spent(int(0.5 * SHARE * OVER_S * 1e9), 0.1) == Step.FULL
    assert budget.spent(0, OVER_S) == Step.FULL
    assert budget.used_share == pytest.approx(SHARE / 2)


def test_each_stretch_over_the_budget_is_one_step_down_to_off() -> None:
    budget = Budget(SHARE, 0.0)
    steps = [budget.spent(FAR_TOO_MUCH_NS, OVER_S * turn) for turn in range(1, 6)]
    assert steps == [Step.COUNTERS, Step.SLOW, Step.OFF, Step.OFF, Step.OFF]


def test_counters_that_cost_somewhat_too_much_stay() -> None:
    budget = Budget(SHARE, 0.0)
    steps = [budget.spent(MUCH_NS, OVER_S * turn) for turn in range(1, 6)]
    assert steps == [Step.COUNTERS, Step.SLOW, Step.SLOW, Step.SLOW, Step.SLOW]


def test_a_probe_without_detail_is_read_less_often_at_once() -> None:
    budget = Budget(SHARE, 0.0)
    budget.spent(MUCH_NS, OVER_S)
    assert budget.has_no_detail() == Step.SLOW
    now_s = spend(budget, LITTLE_NS, OVER_S, CALM_S)
    assert step(budget) == Step.FULL
    budget.spent(MUCH_NS, now_s + OVER_S)
    assert step(budget) == Step.SLOW


def test_calm_brings_it_back_one_step_at_a_time() -> None:
    budget = Budget(SHARE, 0.0)
    for turn in (1, 2):
        budget.spent(MUCH_NS, OVER_S * turn)
    now_s = spend(budget, LITTLE_NS, 2 * OVER_S, CALM_S - OVER_S)
    assert step(budget) == Step.SLOW
    now_s = spend(budget, LITTLE_NS, now_s, OVER_S)
    assert step(budget) == Step.COUNTERS
    spend(budget, LITTLE_NS, now_s, CALM_S)
    assert step(budget) == Step.FULL


def test_more_than_half_the_budget_is_no_calm() -> None:
    budget = Budget(SHARE, 0.0)
    budget.spent(MUCH_NS, OVER_S)
    spend(budget, int(0.7 * SHARE * OVER_S * 1e9), OVER_S, 10 * CALM_S)
    assert step(budget) == Step.COUNTERS


def test_each_relapse_doubles_the_calm_up_to_an_hour() -> None:
    budget = Budget(SHARE, 0.0)
    now_s = OVER_S
    budget.spent(MUCH_NS, now_s)
    waited = []
    for _ in range(9):
        began_s = now_s
        while step(budget) == Step.COUNTERS:
            now_s += OVER_S
            budget.spent(LITTLE_NS, now_s)
        waited.append(now_s - began_s)
        now_s += OVER_S
        budget.spent(MUCH_NS, now_s)
    assert waited[:4] == [CALM_S, 2 * CALM_S, 4 * CALM_S, 8 * CALM_S]
    assert waited[-1] == MOST_CALM_S


def test_an_hour_without_relapse_forgives() -> None:
    budget = Budget(SHARE, 0.0)
    budget.spent(MUCH_NS, OVER_S)
    now_s = spend(budget, LITTLE_NS, OVER_S, CALM_S + 2 * MOST_CALM_S)
    budget.spent(MUCH_NS, now_s + OVER_S)
    spend(budget, LITTLE_NS, now_s + OVER_S, CALM_S)
    assert step(budget) == Step.FULL
