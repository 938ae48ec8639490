"""Windows of polled counters as lists and dictionaries: the slow twin of analytics.poll_windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream import kinds
from stream.record import Events


class Window(NamedTuple):
    """A window of one queue; `priority` 8 is all together. `first` and `second` as the tables have them."""

    port: int
    priority: int
    start_ns: int
    end_ns: int
    first: int
    second: int


def sorted_out(
    events: Events, ports: Sequence[int], since_ns: int, most_ns: int, peers: Sequence[int]
) -> dict[str, list[Window]]:
    """By table the windows that rows tell."""
    tables: dict[str, list[Window]] = {name: [] for name in ("own", "other", "depth", "sent", "received", "marked")}
    for row, port in zip(events, ports, strict=True):
        name = kinds.BY_CODE[int(row["kind"])].name
        time_ns, span_ns, value, extra = (int(row[field]) for field in ("time_ns", "span_ns", "value", "extra"))
        tx, rx = row["side"] == kinds.SIDE_TX, row["side"] == kinds.SIDE_RX
        priority = 8 if row["priority"] == kinds.NO_PRIORITY else int(row["priority"])
        times = (time_ns - min(max(span_ns, 1), most_ns), time_ns)
        if time_ns < since_ns:
            continue
        if name in ("PFC_PAUSED", "PFC_FRAMES"):
            stops = max(extra if name == "PFC_PAUSED" else value, -1)
            paused_ns = value if name == "PFC_PAUSED" and value >= 0 else -1
            if span_ns > 0 and not tx:
                tables["own"].append(Window(port, priority, *times, stops, paused_ns))
            elif span_ns > 0 and peers[port] >= 0 and stops >= 0:
                tables["other"].append(Window(peers[port], priority, *times, stops, stops))
        elif value > 0:
            if name == "QUEUE_DEPTH" and not rx:
                tables["depth"].append(Window(port, priority, *times, value, 0))
            elif name == "PORT_BYTES":
                tables["sent" if tx else "received"].append(Window(port, priority, *times, value, 0))
            elif name == "ECN_MARKED" and tx:
                tables["marked"].append(Window(port, priority, *times, value, 0))
    return tables


def apart(windows: Sequence[Window]) -> list[Window]:
    """Windows in order, without those that overlap one of their queue that ends sooner and is kept."""
    kept: list[Window] = []
    for window in sorted(windows, key=lambda w: (w[:2], w.end_ns, w.start_ns, w.second < 0, w.first, w.second)):
        if not kept or kept[-1][:2] != window[:2] or window.start_ns >= kept[-1].end_ns:
            kept.append(window)
    return kept


def summed(windows: Sequence[Window], priority: int, begin_ns: int, end_ns: int) -> dict[int, float]:
    """By port what windows of a priority counted in a period, each spread evenly and to whole numbers."""
    sums: dict[int, float] = {}
    for window in windows:
        inside_ns = min(window.end_ns, end_ns) - max(window.start_ns, begin_ns)
        if window.priority == priority and inside_ns > 0:
            part = round(window.first * (inside_ns / (window.end_ns - window.start_ns)))
            sums[window.port] = sums.get(window.port, 0.0) + part
    return sums


def highest(windows: Sequence[Window], priority: int, begin_ns: int, end_ns: int) -> dict[int, float]:
    """By port the largest value of any window that overlaps a period."""
    peaks: dict[int, float] = {}
    for window in windows:
        if window.priority == priority and window.start_ns < end_ns and window.end_ns > begin_ns:
            peaks[window.port] = max(peaks.get(window.port, 0.0), float(window.first))
    return peaks
