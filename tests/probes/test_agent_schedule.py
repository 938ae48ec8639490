"""When a probe is read, and when a failed one is tried again."""

import math
import random

import pytest

from probes.schedule import FIRST_PAUSE_S, LONGEST_INTERVAL_S, LONGEST_PAUSE_S, Retry, Schedule, pause_s


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.999])
def test_reads_lie_on_a_grid_whatever_the_delays(phase: float) -> None:
    schedule = Schedule(2.0, phase)
    now_s, seed = 1000.0, random.Random(7)
    for _ in range(100):
        at_s = schedule.next_s(now_s)
        assert at_s - now_s >= 1.0 - 1e-9
        off_grid_s = (at_s - LONGEST_INTERVAL_S * phase + 1.0) % 2.0 - 1.0
        assert off_grid_s == pytest.approx(0.0, abs=1e-6)
        now_s = at_s + seed.uniform(0, 5)  # a read that took so long


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.999])
def test_reads_of_longer_windows_fall_together_with_those_of_shorter_ones(phase: float) -> None:
    times: dict[float, set[float]] = {}
    for every_s in (1.0, 10.0, 30.0):
        now_s, times[every_s] = 500.0, set()
        while now_s < 620.0:
            now_s = Schedule(every_s, phase).next_s(now_s)
            times[every_s].add(now_s)
    for longer_s, shorter_s in ((30.0, 10.0), (10.0, 1.0)):
        assert {at_s for at_s in times[longer_s] if at_s < 620.0} <= times[shorter_s]
    assert len(times[30.0]) >= 3


def test_without_delays_no_read_is_left_out() -> None:
    schedule = Schedule(0.5, 0.25)
    now_s = schedule.next_s(0.0)
    for _ in range(1000):
        at_s = schedule.next_s(now_s + 0.01)
        assert at_s - now_s == pytest.approx(0.5)
        now_s = at_s


@pytest.mark.parametrize("every_s", [0.01, 0.3, 0.5, 0.6, 0.84, 0.86, 1.0, 1.5, 10.0, math.inf])
def test_what_is_read_is_passed_on_at_once_and_idle_streams_are_seen_to_once_a_second(every_s: float) -> None:
    now_s = seen_s = 0.0
    turns, has_read = 0, True
    while turns < 100:
        due_s = (math.floor(now_s / every_s + 1e-9) + 1) * every_s if every_s < math.inf else math.inf
        slept_s = pause_s(due_s - now_s, behind_a_read=has_read)
        has_read = due_s - now_s <= slept_s
        if has_read:  # all that was due has been read, which ends the pause
            slept_s = due_s - now_s
        now_s, turns = now_s + slept_s, turns + 1
        if now_s - seen_s >= 0.85:  # from when on the publisher sends an idle value
            assert now_s - seen_s <= 1.35
            seen_s = now_s
    assert now_s - seen_s < 0.85
    if every_s == 1.0:
        assert now_s == pytest.approx(100.0)  # once a second


def test_pauses_grow_to_their_bound_and_begin_anew_after_a_success() -> None:
    bounds = []
    retry = Retry(lambda low, high: bounds.append((low, high)) or high)  # type: ignore[func-returns-value]
    for _ in range(12):
        retry.pause_s()
    assert [high for _, high in bounds][:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert {low for low, _ in bounds} == {0}
    assert bounds[-1][1] == LONGEST_PAUSE_S
    retry.succeeded()
    assert retry.pause_s() == FIRST_PAUSE_S
