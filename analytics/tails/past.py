"""Each series against its own past: median and MAD over blocks of samples, CUSUM, and decayed means.

In: one float64 a series, NaN where nothing was seen. Out: robust z scores; the state of all series is one array.

The past is the last BLOCKS full blocks of BLOCK samples: its median is the median of their medians (the remedian of
Rousseeuw and Bassett, J. Am. Stat. Assoc. 1990), its deviation the median of their MADs. So a sample costs the same
whatever came before, and a series ROW * 8 = 328 bytes: 328 MB a million. CUSUM: Page (Biometrika 1954).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.compiled import inlined, kernel

Floats = npt.NDArray[np.float64]

BLOCK, BLOCKS = 15, 7
"""Both odd: such a number has one median. A hundred samples, of which half have to be bad to move their median."""
LEAST = 3
"""Blocks from which on a past is compared with; fewer say too little of what is usual."""
FAR = 3.5
"""Robust z: Iglewicz and Hoaglin, "How to detect and handle outliers" (1993)."""
SCALE = 1.4826
"""Makes the MAD of a normal distribution its standard deviation."""
OF_BLOCK = SCALE * BLOCK / (BLOCK - 0.8)
"""The same for the MAD of so few (Croux and Rousseeuw, "Time-efficient algorithms for two highly robust estimators of
scale", 1992)."""
SLACK, ALARM = 0.5, 5.0
"""CUSUM's k and h, in standard deviations: a shift by one of them is found after seven samples (docs/tails.md)."""
CEILING = 2 * ALARM
"""Beyond the alarm it grows no more, so that it is silent ten samples after the shift is over."""

TICK, FILLED, FULL, AWAY, MEDIAN, DEVIATION, UP, DOWN, SHORT, SHORT_WEIGHT, LONG, LONG_WEIGHT, SAMPLES = range(13)
MEDIANS = SAMPLES + BLOCK
DEVIATIONS = MEDIANS + BLOCKS
ROW = DEVIATIONS + BLOCKS
"""Columns: the last tick; samples in the block that fills, how many blocks were full, how many samples in a row were
far; what the past says; CUSUM; sums and weights of the two decayed means; that block; of full ones, the medians and
the deviations."""


def empty_past(series: int) -> Floats:
    """The state of series that have no past: shape (series, ROW)."""
    return np.zeros((series, ROW))


def decay(half_life: float) -> Floats:
    """By ticks that have passed, what is left of a weight; after the last, less than a millionth is left of it."""
    return np.exp2(-np.arange(int(20 * half_life) + 2) / half_life)


@inlined
def _sort(a: Floats, s: int, first: int, end: int) -> None:
    for i in range(first + 1, end):
        x = a[s, i]
        j = i
        while j > first and a[s, j - 1] > x:
            a[s, j] = a[s, j - 1]
            j -= 1
        a[s, j] = x


@inlined
def _middle(past: Floats, s: int, first: int, count: int, work: Floats) -> float:
    """The median of up to BLOCKS figures, which stay in their order."""
    for i in range(count):
        x = past[s, first + i]
        j = i
        while j > 0 and work[j - 1] > x:
            work[j] = work[j - 1]
            j -= 1
        work[j] = x
    upper = work[count // 2]
    return upper if count % 2 else (work[count // 2 - 1] + upper) / 2


@inlined
def _end_block(past: Floats, s: int, work: Floats) -> None:
    """Takes the median and MAD of the block that is full into the past.

    In order, the half of the samples that is nearest to the median lies side by side: the MAD is the least radius of
    all such runs.
    """
    _sort(past, s, SAMPLES, SAMPLES + BLOCK)
    half = BLOCK // 2
    median = past[s, SAMPLES + half]
    deviation = np.inf
    for j in range(SAMPLES, SAMPLES + half + 1):
        below, above = median - past[s, j], past[s, j + half] - median
        radius = max(above, below)
        deviation = min(deviation, radius)
    full = int(past[s, FULL])
    past[s, MEDIANS + full % BLOCKS] = median
    past[s, DEVIATIONS + full % BLOCKS] = deviation
    full += 1
    count = min(BLOCKS, full)
    past[s, FULL], past[s, FILLED] = full, 0
    past[s, MEDIAN] = _middle(past, s, MEDIANS, count, work)
    past[s, DEVIATION] = _middle(past, s, DEVIATIONS, count, work)


@kernel
def take_past(
    values: Floats,
    tick: int,
    least: float,
    relative: float,
    short: Floats,
    long: Floats,
    past: Floats,
    scores: Floats,
    work: Floats,
) -> None:
    """Scores a sample of each series, then takes it into its past; `work` has room for BLOCKS figures.

    A far sample is no part of the past, unless as many in a row as a past holds are: that is then what is usual.
    """
    for s in range(values.shape[0]):
        x = values[s]
        if not -np.inf < x < np.inf:
            scores[s] = np.nan
            continue
        passed = tick - int(past[s, TICK])
        past[s, TICK] = tick
        kept = short[passed if passed < short.shape[0] else short.shape[0] - 1]
        past[s, SHORT] = past[s, SHORT] * kept + x
        past[s, SHORT_WEIGHT] = past[s, SHORT_WEIGHT] * kept + 1
        kept = long[passed if passed < long.shape[0] else long.shape[0] - 1]
        past[s, LONG] = past[s, LONG] * kept + x
        past[s, LONG_WEIGHT] = past[s, LONG_WEIGHT] * kept + 1
        z = 0.0
        if past[s, FULL] >= LEAST:
            z = score(x, past[s, MEDIAN], OF_BLOCK * past[s, DEVIATION], least, relative)
            scores[s] = z
            clipped = min(FAR, z)
            clipped = max(-FAR, clipped)
            up, down = past[s, UP] + clipped - SLACK, past[s, DOWN] - clipped - SLACK
            up = max(0.0, up)
            down = max(0.0, down)
            past[s, UP] = min(CEILING, up)
            past[s, DOWN] = min(CEILING, down)
        else:
            scores[s] = np.nan
        if not -FAR < z < FAR:
            past[s, AWAY] += 1
            if past[s, AWAY] < BLOCK * BLOCKS:
                continue
            past[s, FULL] = past[s, FILLED] = 0
        past[s, AWAY] = 0
        filled = int(past[s, FILLED])
        past[s, SAMPLES + filled] = x
        past[s, FILLED] = filled + 1
        if filled + 1 == BLOCK:
            _end_block(past, s, work)


@inlined
def score(x: float, median: float, scale: float, least: float, relative: float) -> float:
    """Robust z; the scale counts as at least `least` and at least so large a part of the median."""
    floor = least + relative * abs(median)
    if scale < floor:
        scale = floor
    if scale > 0:
        return (x - median) / scale
    return np.inf if x > median else (-np.inf if x < median else 0.0)
