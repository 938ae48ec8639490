"""Rows as a source makes them."""

from __future__ import annotations

from collections.abc import Iterable

from stream import kinds
from stream.record import Events, empty_events


def xoff_rows(times_ns: Iterable[int]) -> Events:
    """One pause frame of priority 3 on port 0 at each time."""
    times = list(times_ns)
    rows = empty_events(len(times))
    rows["kind"] = kinds.PFC_XOFF
    rows["priority"] = 3
    rows["side"] = kinds.SIDE_RX
    rows["time_ns"] = times
    return rows
