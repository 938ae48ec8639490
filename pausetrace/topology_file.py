"""Reads a fabric's devices and links from files of people and inventories: docs/topology.md describes the layout.

In: a JSON file, or a folder with devices.csv and, where there are such, ports.csv and links.csv. Out: a `Topology`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from simulation.trace_table import TraceTable, find_table, read_table
from stream.errors import TopologyError, TraceError
from stream.facts import (
    DEFAULT_DELAY_NS,
    MAX_PORTS,
    Aliases,
    Device,
    FactStream,
    Link,
    Peer,
    Port,
    PriorityMaps,
)
from stream.ranges import FabricName, Name, OptionalName, PeriodNs, SpeedMbps

LAYOUT = "docs/topology.md describes the layout"
SEPARATOR = ";"
"""Between several names in one cell."""

ToldT = TypeVar("ToldT")


class TopologyPort(Port, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A port of a device with the other names it is known by and its speed in Mb/s (0 = unknown)."""


class TopologyMaps(PriorityMaps, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a device sorts packets: DSCP -> priority -> traffic class -> queue and priority group, each by its index."""


class TopologyDevice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A switch or host; `role` is "host" for a host and any other word for a switch."""

    device: Name
    role: OptionalName = ""
    aliases: Aliases = ()
    ports: Annotated[tuple[TopologyPort, ...], Meta(max_length=MAX_PORTS)] = ()
    priorities: TopologyMaps | None = None


class TopologyLink(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A cable between two ports, by any of their names; speed in Mb/s (0 = that of the ports)."""

    a_device: Name
    a_port: Name
    b_device: Name
    b_port: Name
    speed_mbps: SpeedMbps = 0
    delay_ns: PeriodNs = DEFAULT_DELAY_NS


class Topology(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A fabric's devices and links, as a file tells them."""

    devices: tuple[TopologyDevice, ...]
    links: tuple[TopologyLink, ...] = ()
    fabric: FabricName | None = None

    def facts(self, fabric: str, valid_from_ns: int, stream: FactStream) -> list[Device | Link]:
        """The facts of the file, each stream's seq from 0."""

        def own(seq: int) -> FactStream:
            return msgspec.structs.replace(stream, seq=seq)

        facts: list[Device | Link] = [
            Device(fabric, told.device, told.role, valid_from_ns, own(seq), told.ports, told.aliases, told.priorities)
            for seq, told in enumerate(self.devices)
        ]
        facts += [
            Link(
                fabric, told.a_device, told.a_port, told.b_device, told.b_port, told.speed_mbps, valid_from_ns,
                own(seq), told.delay_ns,
            )
            for seq, told in enumerate(self.links)
        ]  # fmt: skip
        return facts


def read_topology(path: Path) -> Topology:
    """The topology in a JSON file or a folder of CSV files; raises TopologyError with file, line and a next step."""
    topology = _read_csv(path) if path.is_dir() else _read_json(path)
    seen: set[str] = set()
    for told in topology.devices:
        if told.device in seen:
            raise TopologyError(f"{path}: device {told.device!r} is there twice", "tell all of it in one place")
        seen.add(told.device)
        if len({port.port for port in told.ports}) < len(told.ports):
            raise TopologyError(f"{path}: device {told.device!r} has a port twice", "tell all of it in one place")
    for link in topology.links:
        if (link.a_device, link.a_port) == (link.b_device, link.b_port):
            raise TopologyError(f"{path}: a link from {link.a_device}:{link.a_port} to itself", "correct its ends")
    return topology


def _read_json(path: Path) -> Topology:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Topology)
    except OSError as err:
        raise TopologyError(f"{path} cannot be read: {err.strerror}", "give a JSON file or a folder of CSV") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise TopologyError(f"{path}: {str(err)[:300]}", LAYOUT) from err


def _read_csv(folder: Path) -> Topology:
    try:
        devices = read_table(_found(folder, "devices"), ("device",))
        ports = _optional(folder, "ports", ("device", "port"))
        links = _optional(folder, "links", ("a", "a_port", "b", "b_port"))
        ports_of = _ports(ports, devices) if ports is not None else {}
        return Topology(
            tuple(_device(devices, row, ports_of) for row in range(devices.count)),
            tuple(_link(links, row) for row in range(links.count)) if links is not None else (),
        )
    except TraceError as err:
        # The tables are read as those of a trace are, whose errors point to its own page.
        raise TopologyError(err.message, err.next_step.replace("trace-format.md", "topology.md")) from err


def _found(folder: Path, name: str) -> Path:
    path = find_table(folder, name)
    if path is None:
        raise TopologyError(f"{folder / name}.csv is missing", LAYOUT)
    return path


def _optional(folder: Path, name: str, columns: tuple[str, ...]) -> TraceTable | None:
    path = find_table(folder, name)
    return None if path is None else read_table(path, columns)


def _device(table: TraceTable, row: int, ports_of: dict[str, list[TopologyPort]]) -> TopologyDevice:
    device = _cell(table, "device", row)
    told = {
        "device": device,
        "role": _cell(table, "role", row) or _cell(table, "kind", row),
        "aliases": _cells(table, "aliases", row),
    }
    return msgspec.structs.replace(_checked(table, row, told, TopologyDevice), ports=tuple(ports_of.get(device, ())))


def _ports(table: TraceTable, devices: TraceTable) -> dict[str, list[TopologyPort]]:
    known = set(devices.texts("device"))
    found: dict[str, list[TopologyPort]] = {}
    for row, device in enumerate(table.texts("device")):
        if device not in known:
            table.fail(row, f"device {device!r}: no such device in devices.csv", LAYOUT)
        peer = _cell(table, "peer_device", row), _cell(table, "peer_port", row)
        if any(peer) and not all(peer):
            table.fail(row, "a peer has both a device and a port", LAYOUT)
        told = {
            "port": _cell(table, "port", row),
            "speed_mbps": _number(table, "speed_mbps", row, 0),
            "aliases": _cells(table, "aliases", row),
            "ips": _cells(table, "ips", row),
            "lag": _cell(table, "lag", row),
            "rail": _cell(table, "rail", row),
            "peer": Peer(*peer) if all(peer) else None,
        }
        found.setdefault(device, []).append(_checked(table, row, told, TopologyPort))
    return found


def _link(table: TraceTable, row: int) -> TopologyLink:
    ends = ("a", "a_device"), ("a_port", "a_port"), ("b", "b_device"), ("b_port", "b_port")
    told: dict[str, Any] = {field: _cell(table, column, row) for column, field in ends}
    told["speed_mbps"] = _number(table, "speed_mbps", row, 0)
    told["delay_ns"] = _number(table, "delay_ns", row, DEFAULT_DELAY_NS)
    return _checked(table, row, told, TopologyLink)


def _cell(table: TraceTable, column: str, row: int) -> str:
    return table.texts(column)[row].strip() if table.has(column) else ""


def _cells(table: TraceTable, column: str, row: int) -> tuple[str, ...]:
    return tuple(part.strip() for part in _cell(table, column, row).split(SEPARATOR) if part.strip())


def _number(table: TraceTable, column: str, row: int, empty: int) -> int:
    text = _cell(table, column, row)
    if not text.isdecimal() and text:
        table.fail(row, f"{column} is {text!r}, not a whole number", LAYOUT)
    return int(text[:30]) if text else empty


def _checked(table: TraceTable, row: int, told: dict[str, Any], kind: type[ToldT]) -> ToldT:
    try:
        return msgspec.convert(msgspec.to_builtins(told), kind)
    except msgspec.ValidationError as err:
        table.fail(row, str(err), LAYOUT)
