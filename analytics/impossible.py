"""Rows that cannot be true of their window, whatever their source makes of them.

In: rows. Out: which of them say the impossible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream import kinds
from stream.record import Events


def impossible(events: Events) -> npt.NDArray[np.bool_]:
    """Paused time of more than twice the window that it is told of.

    No queue is stopped for longer than the window lasts. Where polls and their stamps are a little apart a row may say
    a little more, at most that of one more window; what says more than that sums over something else, as a counter does
    that is told for the first time with all that it has counted in its life.
    """
    paused = (events["kind"] == kinds.PFC_PAUSED) & (events["span_ns"] > 0)
    more: npt.NDArray[np.bool_] = paused & (events["value"] // 2 > events["span_ns"])
    return more
