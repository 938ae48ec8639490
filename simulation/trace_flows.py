"""Reads flows.csv and paths.csv of a trace folder: who sent to whom, and by which hops.

In: the folder, its devices and ports. Out: `Flows`, one row a flow in the file's order.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from simulation.trace_columns import Flows, Ports
from simulation.trace_table import Ints, TraceTable, find_table, first_again, read_table
from stream.facts import Hop
from stream.record import MAX_TIME_NS

UNKNOWN_SIZE_BYTES = -1
DEFAULT_PRIORITY = 3
"""The lossless priority of traces that name none."""


def read_flows(folder: Path, device_index: dict[str, int], ports: Ports, *, paths_known: bool = True) -> Flows | None:
    """The flows, with their paths unless paths.csv is to be passed over; None if the folder has no flows.csv."""
    path = find_table(folder, "flows")
    if path is None:
        return None
    table = read_table(path, ("flow", "src", "dst", "sport", "dport"))
    names = table.texts("flow")
    index: dict[str, int] = {}
    for row, name in enumerate(names):
        if index.setdefault(name, row) != row:
            table.fail(row, f"flow {name!r} is there twice", "give every flow a number of its own")
    flows = Flows(
        names=names,
        src=table.indices("src", device_index, "no such device in devices.csv"),
        dst=table.indices("dst", device_index, "no such device in devices.csv"),
        src_port=table.ints("sport", high=65_535),
        dst_port=table.ints("dport", high=65_535),
        qpn=table.ints("qpn", high=(1 << 24) - 1, empty=0) if table.has("qpn") else np.zeros(table.count, np.int64),
        priority=_column(table, "prio", DEFAULT_PRIORITY, high=7),
        size_bytes=_column(table, "size_bytes", UNKNOWN_SIZE_BYTES, high=1 << 62),
        start_ns=_column(table, "start_ns", 0, high=MAX_TIME_NS),
        paths=_read_paths(folder, index, device_index, ports) if paths_known else ((),) * len(names),
    )
    _check_distinct(table, flows)
    return flows


def _column(table: TraceTable, column: str, default: int, high: int) -> Ints:
    if table.has(column):
        return table.ints(column, high=high, empty=default)
    return np.full(table.count, default, np.int64)


def _check_distinct(table: TraceTable, flows: Flows) -> None:
    columns = (flows.src, flows.dst, flows.src_port, flows.dst_port, flows.qpn)
    seen: dict[tuple[int, ...], int] = {}
    for row, identity in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        first = seen.setdefault(identity, row)
        if first != row:
            table.fail(
                row,
                f"flow {flows.names[row]!r} has the ends and ports of flow {flows.names[first]!r}",
                "give it another sport, or a column qpn that tells the two apart",
            )


def _read_paths(
    folder: Path, flow_index: dict[str, int], device_index: dict[str, int], ports: Ports
) -> tuple[tuple[Hop, ...], ...]:
    path = find_table(folder, "paths")
    if path is None:
        return ((),) * len(flow_index)
    table = read_table(path, ("flow", "hop", "device", "in_port", "out_port"))
    flow = table.indices("flow", flow_index, "no such flow in flows.csv")
    hop = table.ints("hop", high=1000)
    devices = table.texts("device")
    table.indices("device", device_index, "no such device in devices.csv")
    # A path begins and may end without a port.
    ends = dict.fromkeys(((device, "") for device in device_index), 0)
    for column in ("in_port", "out_port"):
        table.indices(("device", column), ports.index | ends, "no such port in links.csv")
    order = np.lexsort((hop, flow))
    if (row := first_again(hop, flow)) is not None:
        table.fail(row, f"hop {hop[row]} of flow {table.texts('flow')[row]!r} is there twice")
    in_ports, out_ports = table.texts("in_port"), table.texts("out_port")
    hops = [Hop(devices[row], in_ports[row], out_ports[row]) for row in order.tolist()]
    bounds = np.searchsorted(flow[order], np.arange(len(flow_index) + 1)).tolist()
    return tuple(tuple(hops[first:last]) for first, last in pairwise(bounds))
