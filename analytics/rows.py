"""Episode events become rows of the kernel: where, when and in which order they take effect.

In: settled events with the topology's index of each one's port. Out: rows (columns ROW_* of analytics.layout), and the
flow of each.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.asked_names import INSIDE
from analytics.compiled import kernel
from analytics.flows import KnownFlows
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.record import (
    FLOW,
    KIND_BIT,
    PRIORITY_BIT,
    SIDE_BIT,
    SMALL,
    SPAN,
    TIME,
    VALUE,
    Events,
    Words,
    words,
)

Ints = npt.NDArray[np.int64]
Flows = npt.NDArray[np.uint64]
Rows = tuple[Ints, Flows]

_QUEUE_DEPTH, _PORT_BYTES, _FLOW_BYTES, _ECN_MARKED, _RX, _NO_PRIORITY = (
    kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.FLOW_BYTES, kinds.ECN_MARKED, kinds.SIDE_RX, kinds.NO_PRIORITY,
)  # fmt: skip
_PAUSE_OPEN, _PAUSE_INTERVAL = kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL


def without_effect(events: Events) -> npt.NDArray[np.bool_]:
    """Rows that change nothing but the names known and the newest time: bytes that came in."""
    kind = events["kind"]
    return ((kind == kinds.PORT_BYTES) | (kind == kinds.FLOW_BYTES)) & (events["side"] == kinds.SIDE_RX)


def with_window_rows(
    rows: Ints,
    flows: Flows,
    events: Events,
    ports: Ints,
    horizon_ns: int,
    cursor_ns: int,
    known: KnownFlows,
    topology: Topology,
    counters: Counter[str],
) -> Rows:
    """The rows given, and behind them depths, bytes, marks and flows of egress queues over windows.

    In one piece, since to join large arrays later costs as much as to make one.
    """
    first = len(rows)
    out, out_flows = (
        np.empty((first + len(events), layout.ROW_COLUMNS), np.int64),
        np.empty(first + len(events), np.uint64),
    )
    out[:first], out_flows[:first] = rows, flows
    count, longer = _windows(words(events), ports, horizon_ns, cursor_ns, out[first:], out_flows[first:].view(np.int64))
    counters["windows_longer_than_announced"] += longer
    out, out_flows = out[: first + count], out_flows[: first + count]
    of_flows = first + np.flatnonzero(out[first:, layout.ROW_TYPE] == layout.FLOW)
    out[of_flows, layout.ROW_ORDER] = known.destinations(out_flows[of_flows], out[of_flows, layout.ROW_END], topology)
    return out, out_flows


@kernel
def glance(events: Words, due_ns: int) -> tuple[int, int, int, int]:
    """How many rows are from before a time, the latest time, how many are of pauses, how many of parts of a host."""
    late = pauses = inside = 0
    newest_ns = layout.NEVER
    for i in range(len(events)):
        late += events[i, TIME] < due_ns
        newest_ns = max(newest_ns, events[i, TIME])
        kind = events[i, SMALL] >> KIND_BIT & 0xFF
        pauses += kind in (_PAUSE_OPEN, _PAUSE_INTERVAL)
        inside += INSIDE[kind]
    return late, newest_ns, pauses, inside


@kernel
def _windows(events: Words, ports: Ints, horizon_ns: int, cursor_ns: int, rows: Ints, flows: Ints) -> tuple[int, int]:
    """Fills `rows` and `flows`; returns how many windows there are, and how many are longer than was announced."""
    count = longer = 0
    for i in range(len(events)):
        small = events[i, SMALL]
        kind = small >> KIND_BIT & 0xFF
        if kind == _QUEUE_DEPTH:
            row_type, reports = layout.DEPTH, layout.REPORTS_DEPTH
        elif kind == _PORT_BYTES:
            row_type, reports = layout.BYTES, layout.REPORTS_BYTES
        elif kind == _ECN_MARKED:
            row_type, reports = layout.BYTES, layout.REPORTS_ECN
        elif kind == _FLOW_BYTES:
            row_type, reports = layout.FLOW, 0
        else:
            continue
        value = events[i, VALUE]
        if value <= 0 or small >> SIDE_BIT & 0xFF == _RX:
            continue
        end_ns, span_ns, priority = events[i, TIME], events[i, SPAN], small >> PRIORITY_BIT & 0xFF
        time_ns = end_ns
        if kind == _QUEUE_DEPTH:
            # A window that began before windows as long as it were announced takes effect late.
            if span_ns <= horizon_ns:
                time_ns = max(end_ns - span_ns, cursor_ns)
            else:
                longer += 1
        rows[count, layout.ROW_TIME] = time_ns
        rows[count, layout.ROW_TYPE] = row_type
        rows[count, layout.ROW_QUEUE] = ports[i] * PRIORITIES + (0 if priority == _NO_PRIORITY else priority)
        rows[count, layout.ROW_START], rows[count, layout.ROW_END] = end_ns - span_ns, end_ns
        rows[count, layout.ROW_AMOUNT] = 0 if kind == _ECN_MARKED else value
        rows[count, layout.ROW_ORDER], rows[count, layout.ROW_ID] = 0, reports
        flows[count] = events[i, FLOW]
        count += 1
    return count, longer
