"""Reads a trace folder (docs/trace-format.md): what the devices of a fabric saw, never what really went on.

In: a folder of CSV files. Out: a `Trace` of columns, checked against the devices and links that the folder names.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec
import numpy as np

from simulation.trace_columns import Counters, FlowBytes, Flows, HostPcie, Links, PauseEvents, Ports, Trace
from simulation.trace_flows import DEFAULT_PRIORITY, read_flows
from simulation.trace_steps import read_steps
from simulation.trace_table import LAYOUT, Ints, TraceTable, exists, find_table, first_again, read_json, read_table
from stream.errors import ConfigError, TraceError
from stream.kinds import UNKNOWN

WITHHOLDABLE = ("flows", "queues")
"""Evidence that `read_trace` can leave out: flows with their paths and bytes; depths, port bytes and ECN marks."""

OPTIONAL_FILES = ("pfc", "port_counters", "flows", "paths", "flow_port_bytes", "host_pcie")
"""Files that a trace need not have, by the names that they bear before .csv or .csv.gz."""

DEFAULT_DELAY_NS = 1000
DEFAULT_PERIOD_NS = 100_000
"""Width of a counter's bin where the file shows a single bin that starts at 0."""

MAX_SPEED_MBPS = (1 << 40) - 1
MAX_DELAY_NS = (1 << 40) - 1
EVENT_NAMES = {"xon_rx": 0, "xoff_rx": 1}
PORT = ("device", "port")
ONE_ROW = "leave one of the two rows"
TOO_FAST = 2
"""Bins and what was counted in them may be apart by a little, at most by one bin more; as of paused time."""


class _EventCounts(msgspec.Struct, frozen=True):
    """The only two fields of truth.json that the reader may see: they say whether pfc.csv is whole."""

    pfc_events_total: int = 0
    pfc_events_written: int = 0


def read_trace(path: Path, without: AbstractSet[str] = frozenset(), absent: AbstractSet[str] = frozenset()) -> Trace:
    """The trace in a folder, less the evidence to withhold; raises TraceError with file, line and a next step.

    `absent` names files (`OPTIONAL_FILES`) that are passed over as if the folder did not have them.
    """
    _refuse_unknown("withhold", without, WITHHOLDABLE)
    _refuse_unknown("leave out", absent, OPTIONAL_FILES)
    if not path.is_dir():
        raise TraceError(f"{path} is not a folder", "give the folder that holds devices.csv")
    devices, roles = _read_devices(path)
    device_index = {name: i for i, name in enumerate(devices)}
    ports, links = _read_links(path, device_index)
    notes: list[str] = []
    flows = None
    if "flows" not in without and "flows" not in absent:
        flows = read_flows(path, device_index, ports, paths_known="paths" not in absent)
    counter_table = _optional(path, "port_counters", ("bin_start_ns", "device", "port"), absent)
    bytes_table = None if flows is None else _optional(
        path, "flow_port_bytes", ("bin_start_ns", "device", "port", "flow", "tx_bytes"), absent
    )  # fmt: skip
    period_ns = _period_ns([table for table in (counter_table, bytes_table) if table is not None])
    return Trace(
        name=path.resolve().name,
        devices=devices,
        roles=roles,
        ports=ports,
        links=links,
        period_ns=period_ns,
        pauses=_read_pauses(path, ports, notes, absent),
        counters=None
        if counter_table is None
        else _counters(counter_table, ports, period_ns, "queues" not in without, notes),
        flows=flows,
        flow_bytes=None if bytes_table is None or flows is None else _flow_bytes(bytes_table, ports, flows, period_ns),
        pcie=_read_pcie(path, device_index, roles, ports, absent),
        steps=read_steps(path, device_index),
        notes=tuple(notes),
    )


def _refuse_unknown(what: str, names: AbstractSet[str], known: tuple[str, ...]) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise ConfigError(f"cannot {what} {', '.join(unknown)}", f"choose from: {', '.join(known)}")


def _required(folder: Path, name: str, columns: tuple[str, ...]) -> TraceTable:
    path = find_table(folder, name)
    if path is None:
        raise TraceError(f"{folder / name}.csv is missing", LAYOUT)
    return read_table(path, columns)


def _optional(folder: Path, name: str, columns: tuple[str, ...], absent: AbstractSet[str]) -> TraceTable | None:
    path = None if name in absent else find_table(folder, name)
    return None if path is None else read_table(path, columns)


def _read_devices(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    table = _required(folder, "devices", ("device", "kind"))
    names, kinds = table.texts("device"), table.texts("kind")
    if not names:
        table.fail(0, "no device")
    if len(names) > 65_535:
        table.fail(65_535, "more than 65,535 devices")
    seen: set[str] = set()
    for row, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if not name or len(name) > 256:
            table.fail(row, f"a device's name has 1 to 256 characters, not {len(name)}")
        if name in seen:
            table.fail(row, f"device {name!r} is there twice")
        if not kind:
            table.fail(row, f"device {name!r} has no kind", "write host, or switch for anything else")
        if kind != "host" and kind.strip().lower() == "host":
            table.fail(row, f"device {name!r} is of kind {kind!r}", "write host")
        seen.add(name)
    return names, tuple("host" if kind == "host" else "switch" for kind in kinds)


def _read_links(folder: Path, device_index: dict[str, int]) -> tuple[Ports, Links]:
    table = _required(folder, "links", ("a", "a_port", "b", "b_port", "speed_mbps"))
    if not table.count:
        raise TraceError(f"{table.path} has no link, only its first line", LAYOUT)
    speed = table.ints("speed_mbps", low=1, high=MAX_SPEED_MBPS)
    delay = (
        table.ints("delay_ns", high=MAX_DELAY_NS, empty=DEFAULT_DELAY_NS)
        if table.has("delay_ns")
        else np.full(table.count, DEFAULT_DELAY_NS, np.int64)
    )
    index: dict[tuple[str, str], int] = {}
    owners: list[int] = []
    local: list[int] = []
    next_local = [0] * len(device_index)
    for side in ("a", "b"):
        table.indices(side, device_index, "no such device in devices.csv")
    # Port order is that of the file's rows, a before b: the order in which people number their ports.
    cells = (table.texts(column) for column in ("a", "a_port", "b", "b_port"))
    for row, (a, a_port, b, b_port) in enumerate(zip(*cells, strict=True)):
        for device, port in ((a, a_port), (b, b_port)):
            if not port or len(port) > 256:
                table.fail(row, f"a port's name has 1 to 256 characters, not {len(port)}")
            if (device, port) in index:
                table.fail(row, f"{device}:{port} ends two links", "give each cable ports of its own")
            owner = device_index[device]
            index[device, port] = len(index)
            owners.append(owner)
            local.append(next_local[owner])
            next_local[owner] += 1
    a_ends = np.arange(0, 2 * table.count, 2, dtype=np.int64)
    peer = np.arange(2 * table.count, dtype=np.int64) ^ 1
    ports = Ports(
        device=np.array(owners, np.int64),
        names=tuple(port for _, port in index),
        local=np.array(local, np.int64),
        speed_mbps=np.repeat(speed, 2),
        peer=peer,
        delay_ns=np.repeat(delay, 2),
        index=index,
    )
    return ports, Links(a_ends, a_ends + 1, speed, delay)


def _ports_of(table: TraceTable, ports: Ports, columns: tuple[str, str] = PORT) -> Ints:
    return table.indices(columns, ports.index, "no such port in links.csv")


def _priorities(table: TraceTable) -> Ints:
    if table.has("prio"):
        return table.ints("prio", high=7, empty=DEFAULT_PRIORITY)
    return np.full(table.count, DEFAULT_PRIORITY, np.int64)


def _read_pauses(folder: Path, ports: Ports, notes: list[str], absent: AbstractSet[str]) -> PauseEvents | None:
    path = None if "pfc" in absent else find_table(folder, "pfc")
    if path is None:
        notes.append("no pfc.csv: no exact pause events, so its counters are taken as polls")
        return None
    counts = _event_counts(folder, notes)
    if counts.pfc_events_total > counts.pfc_events_written:
        notes.append(
            f"{path.name} holds {counts.pfc_events_written} of {counts.pfc_events_total} pause events and is left out"
        )
        return None
    table = read_table(path, ("time_ns", "device", "port", "event"))
    port = _ports_of(table, ports)
    if table.has("sender") and table.has("sender_port"):
        sender = _ports_of(table, ports, ("sender", "sender_port"))
        strangers = sender != ports.peer[port]
        if strangers.any():
            row = int(strangers.argmax())
            told, peer = (_port_text(table, row, pair) for pair in (PORT, ("sender", "sender_port")))
            table.fail(row, f"{peer} stopped {told}, but links.csv does not join them", "correct either file")
    xoff = table.indices("event", EVENT_NAMES, "the event is xoff_rx or xon_rx")
    if len(xoff) and not xoff.any():
        notes.append(f"{path.name} has {len(xoff):,} XONs and no XOFF: the events that begin pauses were lost")
    return PauseEvents(time_ns=table.ints("time_ns"), port=port, priority=_priorities(table), xoff=xoff)


def _port_text(table: TraceTable, row: int, columns: tuple[str, str]) -> str:
    return ":".join(table.texts(column)[row] for column in columns)


def _event_counts(folder: Path, notes: list[str]) -> _EventCounts:
    """What the writer counted; a truth that cannot be read is the judge's business."""
    path = folder / "truth.json"
    if not exists(path):
        return _EventCounts()
    try:
        return msgspec.json.decode(read_json(path), type=_EventCounts)
    except (TraceError, OSError, msgspec.DecodeError, UnicodeDecodeError) as err:
        notes.append(f"{path.name} cannot be read, so that nobody knows whether pfc.csv is whole: {err}")
        return _EventCounts()


def _period_ns(tables: list[TraceTable]) -> int:
    """Width of a bin: the least distance of two bins that the files show."""
    starts = np.unique(np.concatenate([table.ints("bin_start_ns") for table in tables] or [np.zeros(0, np.int64)]))
    if len(starts) > 1:
        return int(np.diff(starts).min())
    return int(starts[0]) if len(starts) and starts[0] > 0 else DEFAULT_PERIOD_NS


def _bins(table: TraceTable, period_ns: int) -> tuple[Ints, Ints]:
    """End and width of each row's bin."""
    if table.has("bin_ns"):
        span = table.ints("bin_ns", low=1, empty=period_ns)
    else:
        span = np.full(table.count, period_ns, np.int64)
    return table.ints("bin_start_ns", high=1 << 61) + span, span


def _counters(table: TraceTable, ports: Ports, period_ns: int, queues: bool, notes: list[str]) -> Counters:
    """The rows; what cannot have passed a port in its bin is not known."""

    def pause(column: str) -> Ints:
        return table.ints(column, empty=UNKNOWN) if table.has(column) else np.full(table.count, UNKNOWN, np.int64)

    def queue(column: str) -> Ints | None:
        return table.ints(column, empty=UNKNOWN) if queues and table.has(column) else None

    def sent(column: str) -> Ints | None:
        counted = queue(column)
        if counted is None:
            return None
        most = TOO_FAST * ports.speed_mbps[port].astype(np.float64) * span_ns / 8_000
        wrong = (counted != UNKNOWN) & (counted > most) & (most > 0)
        if wrong.any():
            row = int(wrong.argmax())
            notes.append(
                f"{table.path.name} has {int(wrong.sum()):,} bins of {column} with more than {TOO_FAST} times what a"
                f" link carries in that time, the first in line {row + 2}: they count as not told"
            )
        return np.where(wrong, UNKNOWN, counted)

    end_ns, span_ns = _bins(table, period_ns)
    port, priority = _ports_of(table, ports), _priorities(table)
    if (row := first_again(end_ns - span_ns, port, priority)) is not None:
        table.fail(row, f"this bin of {_port_text(table, row, PORT)} and its priority is there twice", ONE_ROW)
    return Counters(
        end_ns=end_ns,
        span_ns=span_ns,
        port=port,
        priority=priority,
        rx_paused_ns=pause("rx_paused_ns"),
        rx_pause_frames=pause("rx_pause_frames"),
        tx_pause_frames=pause("tx_pause_frames"),
        q_max_bytes=queue("q_max_bytes"),
        tx_bytes=sent("tx_bytes"),
        rx_bytes=sent("rx_bytes"),
        tx_ce_packets=queue("tx_ce_pkts"),
        rx_ce_packets=queue("rx_ce_pkts"),
    )


def _flow_bytes(table: TraceTable, ports: Ports, flows: Flows, period_ns: int) -> FlowBytes:
    end_ns, span_ns = _bins(table, period_ns)
    port = _ports_of(table, ports)
    flow = table.indices("flow", {name: row for row, name in enumerate(flows.names)}, "no such flow in flows.csv")
    if (row := first_again(end_ns - span_ns, port, flow)) is not None:
        name = flows.names[flow[row]]
        table.fail(row, f"this bin of {_port_text(table, row, PORT)} and flow {name} is there twice", ONE_ROW)
    return FlowBytes(
        end_ns=end_ns,
        span_ns=span_ns,
        port=port,
        flow=flow,
        tx_bytes=table.ints("tx_bytes"),
    )


def _read_pcie(
    folder: Path, device_index: dict[str, int], roles: tuple[str, ...], ports: Ports, absent: AbstractSet[str]
) -> HostPcie | None:
    table = _optional(folder, "host_pcie", ("host", "link_max_mbps", "link_now_mbps"), absent)
    if table is None:
        return None
    hosts = table.indices("host", device_index, "no such device in devices.csv")
    for row, host in enumerate(hosts.tolist()):
        if roles[host] != "host":
            table.fail(row, f"{table.texts('host')[row]!r} is a switch in devices.csv", "correct either file")
    if table.has("port"):
        port = _ports_of(table, ports, ("host", "port"))
    else:
        devices, first = np.unique(ports.device, return_index=True)
        first_port = np.full(len(device_index), -1, np.int64)
        first_port[devices] = first
        port = first_port[hosts]
        if (port < 0).any():
            row = int((port < 0).argmax())
            table.fail(row, f"host {table.texts('host')[row]!r} has no link in links.csv")
    if (again := first_again(port)) is not None:
        table.fail(again, f"the PCIe link of host {table.texts('host')[again]!r} is there twice", ONE_ROW)
    now, most = table.ints("link_now_mbps", high=MAX_SPEED_MBPS), table.ints("link_max_mbps", 1, MAX_SPEED_MBPS)
    if (now > most).any():
        row = int((now > most).argmax())
        table.fail(row, f"link_now_mbps is {now[row]}, more than link_max_mbps, {most[row]}", "correct either")
    return HostPcie(port=port, now_mbps=now, max_mbps=most)
