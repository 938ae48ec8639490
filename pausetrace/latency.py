"""Latency histograms as people read them: how many, and up to how long, of one source in one window.

In: rows of a bucket kind (stream/kinds.py). Out: counts, quantiles as upper bounds, and a bar of the distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream import kinds
from stream.record import Events

BUCKET, OUTLIER = "_BUCKET", "_OUTLIER"
BUCKETS = frozenset(kind.code for kind in kinds.KINDS if kind.name.endswith(BUCKET))
_BARS = " ▁▂▃▄▅▆▇█"


class Latency(NamedTuple):
    """One histogram: bounds (ns, ascending) and counts of its buckets, over a window that ends at time_ns."""

    source: str
    port: str
    time_ns: int
    span_ns: int
    bounds_ns: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many there were."""
        return int(self.counts.sum())

    def quantile_ns(self, share: float) -> int:
        """Upper bound of the bucket in which this share of all is reached; 0 if there were none."""
        reached = np.cumsum(self.counts)
        if not len(reached) or not reached[-1]:
            return 0
        return int(self.bounds_ns[np.searchsorted(reached, share * reached[-1])])

    def bar(self, width: int) -> str:
        """Counts by octave on a logarithmic height, from 1 us on: as wide as asked for."""
        if not self.total:
            return " " * width
        octave = np.clip(np.ceil(np.log2(np.maximum(self.bounds_ns, 1) / 1000)), 0, width - 1).astype(np.int64)
        by_octave = np.bincount(octave, self.counts, width)
        height = np.ceil(np.log2(by_octave + 1) / np.log2(by_octave.max() + 1) * (len(_BARS) - 1)).astype(np.int64)
        return "".join(_BARS[level] for level in height.tolist())


def latencies(events: Events, ports: tuple[str, ...]) -> list[Latency]:
    """The histograms among these rows, by kind and port."""
    rows = events[np.isin(events["kind"], list(BUCKETS))]
    found = []
    for kind, port in dict.fromkeys(zip(rows["kind"].tolist(), rows["port"].tolist(), strict=True)):
        own = rows[(rows["kind"] == kind) & (rows["port"] == port)]
        own = own[np.argsort(own["value"], kind="stable")]
        found.append(
            Latency(
                kinds.BY_CODE[kind].name.removesuffix(BUCKET).lower(), ports[port] if ports else "",
                int(own["time_ns"].max()), int(own["span_ns"].max()), own["value"].copy(), own["extra"].copy(),
            )
        )  # fmt: skip
    return found
