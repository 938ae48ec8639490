"""Pairs pause frames of one stream into intervals: XOFF opens, XON closes, the order on the queue and side is counted.

In: columns of one stream in its own order and per-slot state. Out: for every row what it becomes, 0 for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from stream import kinds

Ints = npt.NDArray[np.int64]

SLOTS_PER_PORT = 9 * 3
"""A slot is (port, priority or none, side): 9 priorities (8 = none) times 3 sides."""

CLOSED = -1
_XOFF, _XON, _OPEN, _INTERVAL = kinds.PFC_XOFF, kinds.PFC_XON, kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL


def slots(events: npt.NDArray[Any], port_index: Ints) -> Ints:
    """Slot of each row; `port_index` is the state's index of each of the batch's port names."""
    priority = np.minimum(events["priority"], 8).astype(np.int64)
    return (port_index[events["port"]] * 9 + priority) * 3 + events["side"]


@kernel
def pair_pauses(
    time_ns: Ints,
    kind: npt.NDArray[np.uint8],
    slot: Ints,
    open_ns: Ints,
    order: Ints,
    out_kind: npt.NDArray[np.uint8],
    out_span_ns: Ints,
    out_order: Ints,
) -> tuple[int, int]:
    """Walks rows in order and updates `open_ns` and `order` (one entry a slot) in place.

    Fills, for pause rows, the kind that the row becomes (0 = none), its span in ns and its order. A second XOFF
    refreshes the open pause (IEEE 802.1Qbb: a pause frame restarts the timer) and makes no row. Returns the number of
    refreshes and of XONs without a pause.
    """
    refreshes = 0
    unmatched = 0
    for i in range(len(time_ns)):
        s = slot[i]
        if kind[i] == _XOFF:
            if open_ns[s] == CLOSED:
                open_ns[s] = time_ns[i]
                order[s] += 1
                out_kind[i] = _OPEN
                out_order[i] = order[s]
            else:
                refreshes += 1
        elif kind[i] == _XON:
            if open_ns[s] == CLOSED:
                unmatched += 1
            else:
                out_kind[i] = _INTERVAL
                out_span_ns[i] = time_ns[i] - open_ns[s]
                out_order[i] = order[s]
                open_ns[s] = CLOSED
    return refreshes, unmatched
