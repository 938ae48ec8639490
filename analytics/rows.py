"""Episode events become rows of the kernel: where, when and in which order they take effect.

In: settled events with the topology's index of each one's port. Out: rows (columns ROW_* of analytics.layout), and the
flow of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from analytics import layout
from analytics.announced import Announced
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.record import Events, picked

Ints = npt.NDArray[np.int64]
Rows = tuple[Ints, npt.NDArray[np.uint64]]


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


def window_rows(
    events: Events,
    ports: Ints,
    horizon_ns: int,
    cursor_ns: int,
    destinations: Callable[[Events], Ints],
    counters: Counter[str],
) -> Rows:
    """Depths, bytes, marks and flows of egress queues over windows."""
    kind = events["kind"]
    depth, port_bytes = kind == kinds.QUEUE_DEPTH, kind == kinds.PORT_BYTES
    flow, ecn = kind == kinds.FLOW_BYTES, kind == kinds.ECN_MARKED
    used = (depth | port_bytes | flow | ecn) & (events["value"] > 0) & (events["side"] != kinds.SIDE_RX)
    events, ports = picked(events, used), ports[used]
    depth, port_bytes, flow, ecn = depth[used], port_bytes[used], flow[used], ecn[used]
    rows = np.zeros((len(events), layout.ROW_COLUMNS), np.int64)
    start_ns = events["time_ns"] - events["span_ns"]
    early = depth & (events["span_ns"] <= horizon_ns)
    counters["windows_longer_than_announced"] += int((depth & ~early).sum())
    # A window that began before windows as long as it were announced takes effect late.
    rows[:, layout.ROW_TIME] = np.where(early, np.maximum(start_ns, cursor_ns), events["time_ns"])
    rows[:, layout.ROW_START], rows[:, layout.ROW_END] = start_ns, events["time_ns"]
    rows[:, layout.ROW_TYPE] = np.select([depth, flow], [layout.DEPTH, layout.FLOW], layout.BYTES)
    priority = np.where(events["priority"] == kinds.NO_PRIORITY, 0, events["priority"])
    rows[:, layout.ROW_QUEUE] = ports * PRIORITIES + priority
    rows[:, layout.ROW_AMOUNT] = np.where(ecn, 0, events["value"])
    rows[flow, layout.ROW_ORDER] = destinations(picked(events, flow))
    rows[:, layout.ROW_ID] = np.select(
        [depth, port_bytes, ecn], [layout.REPORTS_DEPTH, layout.REPORTS_BYTES, layout.REPORTS_ECN], 0
    )
    return rows, events["flow"].copy()


def _told_by_receiver(told: Ints, start_ns: Ints, topology: Topology, announced: Announced) -> npt.NDArray[np.bool_]:
    """Whether the device of the stopped port itself reported pauses when the pause began."""
    device = topology.port_device[told]
    reports = np.zeros(len(told), np.bool_)
    for number in np.unique(device).tolist():
        here = device == number
        reports[here] = announced.reporting(topology.devices[number], start_ns[here], topology.names)
    return reports
