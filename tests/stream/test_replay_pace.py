"""When messages of a replay are due: by the clock that the test moves."""

from __future__ import annotations

import pytest

from stream.replay_order import AFTER_ALL_MS
from stream.replay_pace import Pace


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("speed", "expected_s"), [(1.0, 60.0), (10.0, 6.0), (0.5, 120.0), (0.0, 0.0)])
def test_messages_are_as_far_apart_as_they_were_or_so_many_times_closer(speed: float, expected_s: float) -> None:
    pace = Pace(speed, Clock())
    assert pace.wait_s(5_000_000) == 0
    assert pace.wait_s(5_060_000) == pytest.approx(expected_s)


def test_a_message_that_is_late_makes_none_after_it_later() -> None:
    clock = Clock()
    pace = Pace(1.0, clock)
    pace.wait_s(0)
    clock.now_s += 1.7
    assert pace.wait_s(1000) == 0
    assert pace.wait_s(2000) == pytest.approx(0.3)


def test_no_error_adds_up_over_a_long_replay() -> None:
    clock = Clock()
    pace = Pace(3.0, clock)
    for at_ms in range(0, 3_600_000, 1000):
        clock.now_s += pace.wait_s(at_ms) + 0.0003  # nobody wakes in time
    assert clock.now_s - 1000.0 == pytest.approx(3599 / 3, abs=0.001)


def test_what_is_older_than_the_first_message_and_what_ends_it_all_waits_for_nothing() -> None:
    pace = Pace(1.0, Clock())
    assert pace.wait_s(5000) == 0
    assert pace.wait_s(2000) == 0
    assert pace.wait_s(AFTER_ALL_MS) == 0
