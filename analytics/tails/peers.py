"""Each series against its peers, those of the same role at the same time: exact median and MAD of each group.

In: one float64 a series, NaN where nothing was seen, and the series of each group. Out: robust z scores, and of each
group the count, mean, median and MAD. Time grows with the number of samples, whatever their order or ties.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.compiled import inlined, kernel
from analytics.tails.past import SCALE, Floats, score

Ints = npt.NDArray[np.int64]

MIN_PEERS = 4
"""Of fewer, the one that stands out is too large a part for a median to tell it from the others."""
COUNTED, MEAN, MEDIAN, DEVIATION, LEAST_SEEN, MOST_SEEN = range(6)
GROUP_ROW = MOST_SEEN + 1
SORTED_AT_ONCE = 24


@kernel
def select(a: Floats, first: int, end: int, k: int) -> float:
    """Puts the k-th smallest of a[first:end] at a[k], nothing larger before it, nothing smaller behind it.

    Hoare's selection with three-way parts, so that ties cost nothing. The loop that parts has no branch that chance
    decides. Pivots are medians of three at places that a fixed sequence draws: no order of samples is slow for long.
    """
    drawn = 0x9E3779B9
    while end - first > SORTED_AT_ONCE:
        size = end - first
        drawn = (drawn * 1103515245 + 12345) & 0x7FFFFFFF
        one = a[first + drawn % size]
        drawn = (drawn * 1103515245 + 12345) & 0x7FFFFFFF
        two = a[first + drawn % size]
        three = a[k]
        low, high = (one, two) if one < two else (two, one)
        pivot = low if three < low else (min(three, high))
        border = first
        for j in range(first, end):
            x = a[j]
            a[j] = a[border]
            a[border] = x
            border += x < pivot
        if k < border:
            end = border
            continue
        first = border
        for j in range(border, end):
            x = a[j]
            a[j] = a[first]
            a[first] = x
            first += x == pivot
        if k < first:
            return pivot
    for i in range(first + 1, end):
        x = a[i]
        j = i
        while j > first and a[j - 1] > x:
            a[j] = a[j - 1]
            j -= 1
        a[j] = x
    return a[k]


@inlined
def _median(a: Floats, count: int) -> float:
    """Median of a[:count], which changes its order."""
    middle = count // 2
    upper = select(a, 0, count, middle)
    if count % 2:
        return upper
    lower = a[0]
    for i in range(1, middle):
        lower = max(lower, a[i])
    return (lower + upper) / 2


@kernel
def take_peers(
    values: Floats,
    order: Ints,
    starts: Ints,
    least: float,
    relative: float,
    groups: Floats,
    scores: Floats,
    work: Floats,
) -> None:
    """Scores each series against its group; group g is order[starts[g]:starts[g + 1]], `work` has two places for
    each series of the largest.

    Scores are NaN where a group has fewer than MIN_PEERS samples.
    """
    half = work.shape[0] // 2
    for g in range(starts.shape[0] - 1):
        count, total = 0, 0.0
        smallest, largest = np.inf, -np.inf
        for i in range(starts[g], starts[g + 1]):
            x = values[order[i]]
            # As they came, too: to look them up again in any order costs more than to keep them.
            work[half + i - starts[g]] = x
            if -np.inf < x < np.inf:
                work[count] = x
                count += 1
                total += x
                smallest = min(smallest, x)
                largest = max(largest, x)
        groups[g, COUNTED] = count
        if count < MIN_PEERS:
            for column in range(MEAN, GROUP_ROW):
                groups[g, column] = np.nan
            for i in range(starts[g], starts[g + 1]):
                scores[order[i]] = np.nan
            continue
        median = _median(work, count)
        for i in range(count):
            work[i] = abs(work[i] - median)
        deviation = _median(work, count)
        groups[g, MEAN], groups[g, MEDIAN], groups[g, DEVIATION] = total / count, median, deviation
        groups[g, LEAST_SEEN], groups[g, MOST_SEEN] = smallest, largest
        for i in range(starts[g], starts[g + 1]):
            x = work[half + i - starts[g]]
            scores[order[i]] = score(x, median, SCALE * deviation, least, relative) if -np.inf < x < np.inf else np.nan
