"""The period of a job's steps, from what it sends: a burst of exchange, the silence of compute, again.

In: how much is sent by bin (bytes, or ranks that send), one number after the other. Out: the period in bins, or none.
Streaming and bounded: WINDOW bins.

The period is the first peak of the autocorrelation function that is as high as the highest, so that a step of several
bursts is not taken for several steps, nor two steps for one. The estimate is the biased one of Box and Jenkins ("Time
Series Analysis", 1970), whose bound for noise is 2 / sqrt(n) (Bartlett 1946); that peaks of the function tell a period
better than those of a spectrum, which are coarse at long periods, is in Vlachos, Yu and Castelli ("On periodicity
detection and structural periodic similarity", SDM 2005).
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WINDOW = 2_048
"""Bins looked at: a thousand of the shortest steps that a bin of this length can tell, eight of 256 bins."""
LEAST_BINS = 32
LEAST_PERIODS = 4
"""So many must be in the window: of fewer, chance makes peaks as high."""
LEAST_CORRELATION = 0.3
"""Four times the bound for noise of a tenth of the window. Steps whose lengths vary by a tenth still correlate so."""
AS_HIGH = 0.9
MOST = 1 << 53
"""Of a bin, more bytes than any job sends: products with SCALE do not overflow."""
SCALE = 1_000
"""A bin is taken in thousandths of the greatest: sums then stay whole numbers, whatever a link carries."""


class StepPeriod:
    """The last WINDOW bins of a job."""

    def __init__(self) -> None:
        self._bins: deque[int] = deque(maxlen=WINDOW)

    def __len__(self) -> int:
        return len(self._bins)

    def take(self, sent: int) -> None:
        """The next bin; raises ValueError for less than nothing."""
        if sent < 0:
            raise ValueError(f"{sent} sent in a bin")
        self._bins.append(sent)

    def bins(self) -> float | None:
        """The period in bins, between them by the parabola through the peak; None where there is none."""
        return period_bins(np.array(self._bins, np.int64))


def period_bins(sent: Ints) -> float | None:
    """The period of a series of shape (n,), in bins; None where nothing comes again, or n is below LEAST_BINS."""
    if len(sent) < LEAST_BINS or sent.max() == sent.min():
        return None
    correlation = autocorrelation(sent)
    inner = correlation[1:-1]
    peaks = np.flatnonzero((inner > correlation[:-2]) & (inner >= correlation[2:])) + 1
    # What is near to lag 0 is the width of a burst.
    negative = np.flatnonzero(correlation < 0)
    peaks = peaks[peaks > (negative[0] if len(negative) else len(correlation))]
    if not len(peaks) or correlation[peaks].max() < LEAST_CORRELATION:
        return None
    # A biased estimate falls with the lag: peaks are compared by what their pairs say.
    count = len(sent)
    heights = correlation[peaks] * count / (count - peaks)
    lag = int(peaks[heights >= AS_HIGH * heights.max()][0])
    before, here, after = correlation[lag - 1 : lag + 2].tolist()
    bend = before - 2 * here + after
    return lag + (0.5 * (before - after) / bend if bend else 0.0)


def autocorrelation(sent: Ints) -> Floats:
    """The biased autocorrelation of a series of shape (n,) at the lags 0 to n // LEAST_PERIODS; not all may be equal.

    Sums are of whole numbers, and so the same on every machine.
    """
    counted = np.minimum(sent, MOST)
    scaled = counted * SCALE // int(counted.max())
    count = len(scaled)
    # n times the distance from the mean is whole too: at most 2048 x 1000 each, squares and their sum below 2^63.
    distance = count * scaled - int(scaled.sum())
    lags = count // LEAST_PERIODS + 1
    sums = np.array([int(distance[lag:] @ distance[: count - lag]) for lag in range(lags)], np.float64)
    return sums / sums[0]
