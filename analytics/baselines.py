"""What is usual for a queue, and whether it has been beyond that for long: for series that are 0 most of the time.

In: by tracked series, its value in one period. Out: its usual value, the median of the last PERIODS values, and its
CUSUM, the sum of how far it was beyond that. A series in alarm teaches nothing: a fault must not become usual.
"""

from __future__ import annotations

from analytics.compiled import kernel
from analytics.layout import Floats

PERIODS = 32
SLACK = 0.5
"""k: half a deviation beyond the usual counts for nothing (Page, 1954; half the shift that matters, one deviation)."""
ALARM = 5.0
"""h: in-control runs are some hundred periods long then."""
MOST = 2 * ALARM
"""Where the sum stops, so that what is over is forgotten after MOST / SLACK periods."""
LEAST_DEVIATION = 0.01
"""A share of the period, a fifth of what makes a warning: below, deviations matter to nobody."""
SCALE = 1.4826
"""From the median absolute deviation to the standard deviation of a normal distribution."""

USUAL, CUSUM, COUNT = range(3)
"""Columns of a series' state, before its last PERIODS values."""
COLUMNS = 3 + PERIODS


@kernel
def follow(state: Floats, values: Floats, quiet_periods: int, scratch: Floats) -> None:
    """Takes one period of each series in: rows of `state` (n, COLUMNS), `values` (n,), both shares of a period.

    `quiet_periods` periods of 0 came before. `scratch` is room for PERIODS.
    """
    for row in range(len(state)):
        for _ in range(min(quiet_periods, PERIODS)):
            _one(state, row, 0.0, scratch)
        if quiet_periods > PERIODS:
            state[row, CUSUM] = max(0.0, state[row, CUSUM] - SLACK * (quiet_periods - PERIODS))
        _one(state, row, values[row], scratch)


@kernel
def _one(state: Floats, row: int, value: float, scratch: Floats) -> None:
    count = int(min(state[row, COUNT], PERIODS))
    usual = _median(state[row, 3 : 3 + count], count, scratch)
    for i in range(count):
        scratch[i] = abs(state[row, 3 + i] - usual)
    deviation = max(SCALE * _median_of_scratch(count, scratch), LEAST_DEVIATION)
    beyond = (value - usual) / deviation - SLACK
    state[row, USUAL] = usual
    state[row, CUSUM] = min(max(state[row, CUSUM] + beyond, 0.0), MOST)
    if state[row, CUSUM] <= ALARM:
        state[row, 3 + int(state[row, COUNT]) % PERIODS] = value
        state[row, COUNT] += 1.0


@kernel
def _median(values: Floats, count: int, scratch: Floats) -> float:
    for i in range(count):
        scratch[i] = values[i]
    return _median_of_scratch(count, scratch)


@kernel
def _median_of_scratch(count: int, scratch: Floats) -> float:
    """The median of the first values, which are sorted; 0 of none, and of an even number the mean of the two middle."""
    if count == 0:
        return 0.0
    for i in range(1, count):
        value, place = scratch[i], i
        while place > 0 and scratch[place - 1] > value:
            scratch[place] = scratch[place - 1]
            place -= 1
        scratch[place] = value
    if count % 2:
        return scratch[count // 2]
    return 0.5 * (scratch[count // 2 - 1] + scratch[count // 2])
