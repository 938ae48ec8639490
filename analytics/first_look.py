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
    kind_priority = -1
    least_value = most_value = least_extra = most_extra = 0
    for i in range(len(rows)):
        time_ns, seen_ns, span_ns = rows[i, TIME], rows[i, SEEN], rows[i, SPAN]
        value, extra, small = rows[i, VALUE], rows[i, EXTRA], rows[i, SMALL]
        if small >> KIND_BIT & 0xFFFF != kind_priority:
            kind_priority = small >> KIND_BIT & 0xFFFF
            if flaws[kind_priority] != 0:
                return True
            kind = kind_priority & 0xFF
            least_value, most_value = limits[0, kind], limits[1, kind]
            least_extra, most_extra = limits[2, kind], limits[3, kind]
        if (
            small & 0xFFFF != 0
            or small >> PORT_BIT & 0xFFFF >= port_count
            or small >> SIDE_BIT & 0xFF > _SIDE_TX
            # The sign of all of them at once.
            or time_ns | seen_ns | span_ns | (MAX_TIME_NS - time_ns) | (MAX_TIME_NS - seen_ns) | (time_ns - span_ns) < 0
            or ((value < least_value or value > most_value) and value != _UNKNOWN)
            or ((extra < least_extra or extra > most_extra) and extra != _UNKNOWN)
        ):
            return True
    return False


if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
    wire.look_by(any_flaw)
