"""Pairs pause frames of one stream into intervals: XOFF opens, XON closes, the order on the queue and side is counted.

In: rows of one stream as words (stream.record), and per-slot state. Out: episodes, as words too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from stream import kinds
from stream.record import EXTRA, KIND_BIT, PORT_BIT, PRIORITY_BIT, SIDE_BIT, SMALL, SPAN, TIME, VALUE, WORDS, Words

Ints = npt.NDArray[np.int64]

SLOTS_PER_PORT = 9 * 3
"""A slot is (port, priority or none, side): 9 priorities (8 = none) times 3 sides."""

CLOSED = -1
_XOFF, _XON, _OPEN, _INTERVAL = kinds.PFC_XOFF, kinds.PFC_XON, kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL
UNKNOWN = kinds.UNKNOWN
NEVER, UNLESS_ZERO, ALWAYS = range(3)
"""When a row that is no pause frame goes on as it is."""


@kernel
def in_order(rows: Words, first_ns: int, last_ns: int, port_index: Ints) -> bool:
    """Whether the times of all rows rise from first_ns to last_ns, and every port that they name has an index."""
    before_ns = first_ns
    for i in range(len(rows)):
        time_ns = rows[i, TIME]
        if time_ns < before_ns or port_index[rows[i, SMALL] >> PORT_BIT & 0xFFFF] < 0:
            return False
        before_ns = time_ns
    return before_ns <= last_ns


@kernel
def renumber_ports(rows: Words, numbers: Ints) -> None:
    """Numbers the ports that rows bear from 0 on, in their order; `numbers` tells each one's (-1: no row bears it)."""
    for port in range(len(numbers)):
        numbers[port] = -1
    for i in range(len(rows)):
        numbers[rows[i, SMALL] >> PORT_BIT & 0xFFFF] = 0
    used = 0
    for port in range(len(numbers)):
        if numbers[port] == 0:
            numbers[port] = used
            used += 1
    for i in range(len(rows)):
        port = rows[i, SMALL] >> PORT_BIT & 0xFFFF
        rows[i, SMALL] += (numbers[port] - port) << PORT_BIT


@kernel
def episodes_of(
    rows: Words,
    first_ns: int,
    last_ns: int,
    port_index: Ints,
    forwarded: npt.NDArray[np.uint8],
    open_ns: Ints,
    order: Ints,
    logged: Ints,
    out: Words,
) -> tuple[int, int, int]:
    """Walks rows in order and updates `open_ns`, `order` and `logged` (one entry a slot) in place, or does nothing.

    It does nothing and returns -1 first if the rows are not `in_order` from first_ns to last_ns.
    `port_index` is the state's index of each port that a row names, which the rows of `out` bear; `forwarded` says of
    each kind when its rows go on. `out` has room for all rows. A second XOFF frame refreshes the open pause (IEEE
    802.1Qbb: a pause frame restarts the timer) and makes no row. Where XOFFs tell no quanta, a log of what changed
    tells them: there a second one says that an XON is missing, and opens another pause, and an XON without a pause that
    an XOFF is: it makes an interval of unknown length. Returns the number of rows in `out`, of refreshes and of XONs
    without a pause.
    """
    count = refreshes = unmatched = 0
    if not in_order(rows, first_ns, last_ns, port_index):
        return -1, 0, 0
    for i in range(len(rows)):
        small = rows[i, SMALL]
        kind = small >> KIND_BIT & 0xFF
        named = small >> PORT_BIT & 0xFFFF
        port = port_index[named]
        made = span_ns = paused_ns = number = 0
        if kind in (_XOFF, _XON):
            slot = (port * 9 + min(small >> PRIORITY_BIT & 0xFF, 8)) * 3 + (small >> SIDE_BIT & 0xFF)
            if kind == _XOFF and (open_ns[slot] < 0 or rows[i, VALUE] == UNKNOWN):
                open_ns[slot] = rows[i, TIME]
                logged[slot] = rows[i, VALUE] == UNKNOWN
                order[slot] += 1
                made = _OPEN
            elif kind == _XOFF:
                refreshes += 1
            elif open_ns[slot] >= 0:
                made = _INTERVAL
                paused_ns = span_ns = rows[i, TIME] - open_ns[slot]
                open_ns[slot] = CLOSED
            else:
                unmatched += 1
                if logged[slot]:
                    made, paused_ns = _INTERVAL, UNKNOWN
            number = order[slot]
        elif forwarded[kind] == ALWAYS or (forwarded[kind] == UNLESS_ZERO and rows[i, VALUE] != 0):
            made = kind
        if not made:
            continue
        for word in range(WORDS):
            out[count, word] = rows[i, word]
        if made != kind:
            out[count, SPAN], out[count, VALUE] = span_ns, paused_ns
            out[count, EXTRA] = number
        out[count, SMALL] = small + ((port - named) << PORT_BIT) + ((made - kind) << KIND_BIT)
        count += 1
    return count, refreshes, unmatched
