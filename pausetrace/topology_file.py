"""Reads a fabric's devices and links from files of people and inventories: docs/topology.md describes the layout.

In: a JSON file, or a folder with devices.csv and, where there are such, ports.csv and links.csv. Out: a `Topology`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

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

LAYOUT = "correct it: docs/topology.md describes the layout"
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


class _Source(NamedTuple):
    """A topology as read, and where the device or link of an index stands, in words."""

    topology: Topology
    device_place: Callable[[int], str]
    link_place: Callable[[int], str]


def read_topology(path: Path) -> Topology:
    """The topology in a JSON file or a folder of CSV files.

    Raises TopologyError with a next step and the place: the line of a table, the field of a JSON object.
    """
    source = _read_csv(path) if path.is_dir() else _read_json(path)
    _require_single_devices(source)
    _require_single_links(source)
    return source.topology


def _require_single_devices(source: _Source) -> None:
    seen: set[str] = set()
    for index, told in enumerate(source.topology.devices):
        place = source.device_place(index)
        if told.device in seen:
            raise TopologyError(f"{place}: device {told.device!r} is there twice", "tell all of it in one place")
        seen.add(told.device)
        if len({port.port for port in told.ports}) < len(told.ports):
            raise TopologyError(f"{place}: device {told.device!r} has a port twice", "tell all of it in one place")


def _require_single_links(source: _Source) -> None:
    """No port ends two links, by whatever names of the file it is called: of two cables one would be lost."""
    topology = source.topology
    devices = {alias: told.device for told in topology.devices for alias in told.aliases}
    devices |= {told.device: told.device for told in topology.devices}
    ports: dict[tuple[str, str], str] = {}
    for told in topology.devices:
        ports |= {(told.device, alias): port.port for port in told.ports for alias in port.aliases}
        ports |= {(told.device, port.port): port.port for port in told.ports}
    ended: dict[tuple[str, str], str] = {}
    for index, link in enumerate(topology.links):
        place = source.link_place(index)
        named = (link.a_device, link.a_port), (link.b_device, link.b_port)
        ends = [(devices.get(device, device), port) for device, port in named]
        ends = [(device, ports.get((device, port), port)) for device, port in ends]
        if ends[0] == ends[1]:
            raise TopologyError(f"{place}: a link from {link.a_device}:{link.a_port} to itself", "correct its ends")
        for (device, port), end in zip(named, ends, strict=True):
            if end in ended:
                raise TopologyError(
                    f"{place}: {device}:{port} ends two links, also that of {ended[end]}",
                    "tell each cable once, and give each ports of its own",
                )
            ended[end] = place


def _read_json(path: Path) -> _Source:
    text = b""
    try:
        text = path.read_bytes()
        topology = msgspec.json.decode(text, type=Topology)
    except OSError as err:
        raise TopologyError(f"{path} cannot be read: {err.strerror}", "give a JSON file or a folder of CSV") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise TopologyError(f"{path}{_json_line(text, str(err))}: {str(err)[:300]}", LAYOUT) from err
    return _Source(topology, lambda index: f"{path}: $.devices[{index}]", lambda index: f"{path}: $.links[{index}]")


def _json_line(text: bytes, complaint: str) -> str:
    """The line of what is no JSON; of a wrong value, the complaint names the field."""
    if found := re.search(r"\(byte (\d+)\)", complaint):
        line = text.count(b"\n", 0, int(found[1])) + 1
    elif "truncated" in complaint:
        line = text.count(b"\n") + 1
    else:
        return ""
    return f":{line}"


def _read_csv(folder: Path) -> _Source:
    try:
        devices = read_table(_found(folder, "devices"), ("device",))
        ports = _optional(folder, "ports", ("device", "port"))
        links = _optional(folder, "links", ("a", "a_port", "b", "b_port"))
        ports_of = _ports(ports, devices) if ports is not None else {}
        topology = Topology(
            tuple(_device(devices, row, ports_of) for row in range(devices.count)),
            tuple(_link(links, row) for row in range(links.count)) if links is not None else (),
        )
    except TraceError as err:
        # The tables are read as those of a trace are, whose errors point to its own page.
        raise TopologyError(err.message, err.next_step.replace("trace-format.md", "topology.md")) from err
    return _Source(topology, devices.place, links.place if links is not None else str)


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
    seen: set[tuple[str, str]] = set()
    for row, device in enumerate(table.texts("device")):
        if device not in known:
            table.fail(row, f"device {device!r}: no such device in devices.csv", LAYOUT)
        peer = _cell(table, "peer_device", row), _cell(table, "peer_port", row)
        if any(peer) and not all(peer):
            table.fail(row, "a peer has both a device and a port", LAYOUT)
        told: dict[str, Any] = {
            "port": _cell(table, "port", row),
            "speed_mbps": _number(table, "speed_mbps", row, 0),
            "aliases": _cells(table, "aliases", row),
            "ips": _cells(table, "ips", row),
            "lag": _cell(table, "lag", row),
            "rail": _cell(table, "rail", row),
            "peer": Peer(*peer) if all(peer) else None,
        }
        if (device, told["port"]) in seen:
            table.fail(row, f"device {device!r} has a port twice: {told['port']!r}", "tell all of it in one place")
        seen.add((device, told["port"]))
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
