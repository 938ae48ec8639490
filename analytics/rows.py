"""Episode events become rows of the kernel: where, when and in which order they take effect.

In: settled events with the topology's index of each one's port. Out: rows (columns ROW_* of analytics.layout), and the
flow of each, in a RowStore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.asked_names import INSIDE
from analytics.compiled import kernel
from analytics.flows import KnownFlows
from analytics.row_store import RowStore
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.record import (
    FLOW,
    KIND_BIT,
    PORT_BIT,
    PRIORITY_BIT,
    QUALITY_BIT,
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

_QUEUE_DEPTH, _PORT_BYTES, _FLOW_BYTES, _ECN_MARKED, _RX, _NO_PRIORITY = (
    kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.FLOW_BYTES, kinds.ECN_MARKED, kinds.SIDE_RX, kinds.NO_PRIORITY,
)  # fmt: skip
_PAUSE_OPEN, _PAUSE_INTERVAL, _GAP = kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL, kinds.GAP
_IS_WINDOW = np.zeros(256, np.bool_)
_IS_WINDOW[[_QUEUE_DEPTH, _PORT_BYTES, _FLOW_BYTES, _ECN_MARKED]] = True


@kernel
def with_effect(events: Words, keep: layout.Bools, named: layout.Bools) -> int:
    """Marks in `keep` the rows that do not come to nothing, as bytes do that came in; returns how many.

    The newest row stays, since it says how far time has come, and so do all rows of a port that has no others, since
    they name it. `named`, by the number of a port, is False to begin with.
    """
    count = newest = 0
    for i in range(len(events)):
        small = events[i, SMALL]
        kind = small >> KIND_BIT & 0xFF
        keep[i] = (kind != _PORT_BYTES and kind != _FLOW_BYTES) or small >> SIDE_BIT & 0xFF != _RX
        count += keep[i]
        if events[i, TIME] > events[newest, TIME]:
            newest = i
    if len(events) > 0 and not keep[newest]:
        keep[newest] = True
        count += 1
    if count == len(events):
        return count
    for i in range(len(events)):
        if keep[i]:
            named[events[i, SMALL] >> PORT_BIT & 0xFFFF] = True
    for i in range(len(events)):
        if not keep[i] and not named[events[i, SMALL] >> PORT_BIT & 0xFFFF]:
            keep[i] = True
            count += 1
    return count


def add_window_rows(
    store: RowStore,
    parts: Iterable[tuple[Events, Ints]],
    horizon_ns: int,
    cursor_ns: int,
    known: KnownFlows,
    topology: Topology,
    counters: Counter[str],
) -> int:
    """Adds depths, bytes, marks and flows of egress queues over windows to the rows that wait; rows come with ports.

    Returns the latest time of any row, NEVER where there is none.
    """
    told = [(words(events), ports) for events, ports in parts]
    room = sum(len(events) for events, _ in told)
    rows, flows = store.room(room)
    of_flows = np.empty(room, np.int64)
    count = of_flow = longer = 0
    newest_ns = layout.NEVER
    for events, ports in told:
        made = _windows(events, ports, horizon_ns, cursor_ns, rows, flows.view(np.int64), of_flows, count, of_flow)
        count, of_flow = int(made[0]), int(made[1])
        longer, newest_ns = longer + int(made[2]), max(newest_ns, int(made[3]))
    counters["windows_longer_than_announced"] += longer
    of_flows = of_flows[:of_flow]
    rows[of_flows, layout.ROW_ORDER] = known.destinations(flows[of_flows], rows[of_flows, layout.ROW_END], topology)
    store.fill(count)
    return newest_ns


@kernel
def glance(events: Words, due_ns: int) -> tuple[int, int, int, int, int, int]:
    """How many rows are from before a time, the first and the latest time, and how many are of what.

    Of pauses, of parts of a host, of windows.

    Those of windows have no gap: nothing but the kernel reads them, if the names of their ports are known.
    """
    late = pauses = inside = windows = 0
    oldest_ns, newest_ns = layout.FOREVER, layout.NEVER
    for i in range(len(events)):
        late += events[i, TIME] < due_ns
        oldest_ns = min(oldest_ns, events[i, TIME])
        newest_ns = max(newest_ns, events[i, TIME])
        small = events[i, SMALL]
        kind = small >> KIND_BIT & 0xFF
        pauses += kind in (_PAUSE_OPEN, _PAUSE_INTERVAL)
        inside += INSIDE[kind]
        windows += _IS_WINDOW[kind] and small >> QUALITY_BIT & _GAP == 0
    return late, oldest_ns, newest_ns, pauses, inside, windows


@kernel
def _windows(
    events: Words, ports: Ints, horizon_ns: int, cursor_ns: int, rows: Ints, flows: Ints, of_flows: Ints, count: int,
    of_flow: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Fills `rows` and `flows` from `count` on, and `of_flows` with the places of rows of flows from `of_flow` on.

    Returns how many there are now of both, how many are of windows longer than was announced, and the latest time of
    an event.
    """
    longer = 0
    newest_ns = layout.NEVER
    for i in range(len(events)):
        newest_ns = max(newest_ns, events[i, TIME])
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
        if kind == _FLOW_BYTES:
            of_flows[of_flow] = count
            of_flow += 1
        count += 1
    return count, of_flow, longer, newest_ns
