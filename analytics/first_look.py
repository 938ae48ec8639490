"""The first look at the rows of a packed value, compiled: once this is imported, stream.wire asks it.

In: rows as words (stream.record) and wire's tables. Out: whether some row breaks a rule, which wire then names.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from stream import kinds, wire
from stream.record import (
    EXTRA,
    KIND_BIT,
    MAX_TIME_NS,
    PORT_BIT,
    SEEN,
    SIDE_BIT,
    SMALL,
    SPAN,
    TIME,
    VALUE,
    Words,
)

Ints = npt.NDArray[np.int64]
_SIDE_TX, _UNKNOWN = kinds.SIDE_TX, kinds.UNKNOWN


@kernel
def any_flaw(rows: Words, port_count: int, flaws: npt.NDArray[np.uint8], limits: Ints) -> bool:
    """Whether a row breaks a rule of stream.wire, by its tables."""
    for i in range(len(rows)):
        time_ns, value, extra, small = rows[i, TIME], rows[i, VALUE], rows[i, EXTRA], rows[i, SMALL]
        kind = small >> KIND_BIT & 0xFF
        if (
            flaws[small >> KIND_BIT & 0xFFFF] != 0
            or small & 0xFFFF != 0
            or small >> PORT_BIT & 0xFFFF >= port_count
            or small >> SIDE_BIT & 0xFF > _SIDE_TX
            or time_ns < 0
            or time_ns > MAX_TIME_NS
            or rows[i, SEEN] < 0
            or rows[i, SEEN] > MAX_TIME_NS
            or rows[i, SPAN] < 0
            or rows[i, SPAN] > time_ns
            or (value != _UNKNOWN and (value < limits[0, kind] or value > limits[1, kind]))
            or (extra != _UNKNOWN and (extra < limits[2, kind] or extra > limits[3, kind]))
        ):
            return True
    return False


if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
    wire.look_by(any_flaw)
