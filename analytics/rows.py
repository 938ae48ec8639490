"""Episode events become rows of the kernel: where, when and in which order they take effect.

In: settled events with the topology's index of each one's port. Out: rows (columns ROW_* of analytics.layout), and the
flow of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.announced import Announced
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
    picked,
    words,
)

Ints = npt.NDArray[np.int64]
Flows = npt.NDArray[np.uint64]
Rows = tuple[Ints, Flows]

_QUEUE_DEPTH, _PORT_BYTES, _FLOW_BYTES, _ECN_MARKED, _RX, _NO_PRIORITY = (
    kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.FLOW_BYTES, kinds.ECN_MARKED, kinds.SIDE_RX, kinds.NO_PRIORITY,
)  # fmt: skip
_PAUSE_OPEN, _PAUSE_INTERVAL = kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL


def pause_rows(events: Events, ports: Ints, topology: Topology, announced: Announced, counters: Counter[str]) -> Rows:
    """Pauses at the stopped queue; one that names no priority stops all of them."""
    pause = (events["kind"] == kinds.PAUSE_OPEN) | (events["kind"] == kinds.PAUSE_INTERVAL)
    # Orders count from 1; a row without one cannot be matched with its other half.
    pause &= events["extra"] > 0
    events, ports = picked(events, pause), ports[pause]
    received = events["side"] == kinds.SIDE_RX
    peer = topology.port_peer[ports]
    told = np.where(received, ports, peer)
    unlinked = told < 0
    counters["pauses_sent_on_unknown_links"] += int(unlinked.sum())
    events, told, received = picked(events, ~unlinked), told[~unlinked], received[~unlinked]
    delay = np.where(received, 0, topology.port_delay_ns[told])
    reports = _told_by_receiver(told, events["time_ns"] + delay - events["span_ns"], topology, announced)
    used = received | ~reports
    events, told, delay = picked(events, used), told[used], delay[used]
    no_priority = events["priority"] == kinds.NO_PRIORITY
    repeat = np.where(no_priority, PRIORITIES, 1)
    index = np.repeat(np.arange(len(events)), repeat)
    within = np.arange(len(index)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    events, told, delay, no_priority = picked(events, index), told[index], delay[index], no_priority[index]
    rows = np.zeros((len(events), layout.ROW_COLUMNS), np.int64)
    closing = events["kind"] == kinds.PAUSE_INTERVAL
    rows[:, layout.ROW_TIME] = rows[:, layout.ROW_END] = events["time_ns"] + delay
    rows[:, layout.ROW_START] = rows[:, layout.ROW_TIME] - events["span_ns"]
    rows[:, layout.ROW_TYPE] = np.where(closing, layout.CLOSE, layout.OPEN)
    rows[:, layout.ROW_QUEUE] = told * PRIORITIES + np.where(no_priority, within, events["priority"] % PRIORITIES)
    paused_ns = np.where(events["value"] < 0, events["span_ns"], events["value"])
    rows[:, layout.ROW_AMOUNT] = np.where(closing, paused_ns, 0)
    rows[:, layout.ROW_ORDER] = events["extra"]
    return rows, events["flow"].copy()


def without_effect(events: Events) -> npt.NDArray[np.bool_]:
    """Rows that change nothing but the names known and the newest time: bytes that came in."""
    kind = events["kind"]
    return ((kind == kinds.PORT_BYTES) | (kind == kinds.FLOW_BYTES)) & (events["side"] == kinds.SIDE_RX)


def with_window_rows(
    before: Sequence[Rows],
    events: Events,
    ports: Ints,
    horizon_ns: int,
    cursor_ns: int,
    known: KnownFlows,
    topology: Topology,
    counters: Counter[str],
) -> tuple[Rows, slice]:
    """Rows made before, and behind them depths, bytes, marks and flows of egress queues over windows; where those are.

    In one piece, since to join large arrays later costs as much as to make one.
    """
    first = sum(len(ids) for _, ids in before)
    rows = np.empty((first + len(events), layout.ROW_COLUMNS), np.int64)
    flows = np.empty(first + len(events), np.uint64)
    np.concatenate([made for made, _ in before], out=rows[:first])
    np.concatenate([ids for _, ids in before], out=flows[:first])
    count, longer = _windows(words(events), ports, horizon_ns, cursor_ns, rows[first:], flows[first:].view(np.int64))
    counters["windows_longer_than_announced"] += longer
    windows = slice(first, first + count)
    of_flows = first + np.flatnonzero(rows[windows, layout.ROW_TYPE] == layout.FLOW)
    rows[of_flows, layout.ROW_ORDER] = known.destinations(flows[of_flows], rows[of_flows, layout.ROW_END], topology)
    return (rows[: windows.stop], flows[: windows.stop]), windows


@kernel
def glance(events: Words, due_ns: int) -> tuple[int, int, int]:
    """How many rows are from before a time, the latest time, and how many rows are of pauses."""
    late = pauses = 0
    newest_ns = layout.NEVER
    for i in range(len(events)):
        late += events[i, TIME] < due_ns
        newest_ns = max(newest_ns, events[i, TIME])
        kind = events[i, SMALL] >> KIND_BIT & 0xFF
        pauses += kind in (_PAUSE_OPEN, _PAUSE_INTERVAL)
    return late, newest_ns, pauses


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


def _told_by_receiver(told: Ints, start_ns: Ints, topology: Topology, announced: Announced) -> npt.NDArray[np.bool_]:
    """Whether the device of the stopped port itself reported pauses when the pause began."""
    device = topology.port_device[told]
    reports = np.zeros(len(told), np.bool_)
    for number in np.unique(device).tolist():
        here = device == number
        reports[here] = announced.reporting(topology.devices[number], start_ns[here], topology.names)
    return reports
