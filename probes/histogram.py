"""Histograms of latencies as programs keep them: log-linear, four buckets an octave, exact counts.

In: the per-CPU map of bpf/latency.h. Out: what came since the last look.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from probes.maps import Map

BUCKETS = 248
"""Enough for every int64; the programs' arrays have room for more, which stays 0."""
_LAID_OUT = 256
HISTOGRAM = np.dtype([("sum_ns", "<u8"), ("buckets", "<u8", _LAID_OUT)])
"""struct histogram of bpf/latency.h."""
Counts = npt.NDArray[np.uint64]


def _upper_ns() -> npt.NDArray[np.int64]:
    numbers = range(BUCKETS)
    bounds = [n if n < 4 else ((n % 4 + 5) << (n // 4 - 1)) - 1 for n in numbers]
    return np.array(bounds, np.int64)


UPPER_NS = _upper_ns()
"""The largest latency in ns that each bucket holds."""


class Histogram:
    """One source's histogram, as rows of a CPU each of dtype HISTOGRAM."""

    def __init__(self, histograms: Map, slot: int) -> None:
        self._reader = histograms.reader(slot)
        self._seen = self.total()["buckets"].copy()

    def total(self) -> npt.NDArray[Any]:
        """What was counted since the program began, by CPU; the next call overwrites it."""
        return self._reader.read()

    def since(self) -> Counts:
        """Counts by CPU and bucket since the last call."""
        now = self.total()["buckets"]
        counts: Counts = (now - self._seen)[:, :BUCKETS]
        self._seen[:] = now
        return counts
