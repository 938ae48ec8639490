"""A trace whose sources call everything by other names, as those of a real fabric do; a seed says by which.

Facts of the inventory keep the trace's names and tell some aliases, the hosts' probe tells others; links are LLDP's.
"""

from __future__ import annotations

import dataclasses
from random import Random
from typing import TypeVar

import msgspec

from simulation.trace_items import trace_items
from simulation.trace_rows import StreamRows, TraceStreams
from stream.facts import Device, Fact, FactStream, Flow, Link, Port
from stream.messages import Item
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

ChangeT = TypeVar("ChangeT", SourceUp, SourceDown)

DOMAIN = "dc1.example.net"


def mac_spellings(number: int) -> list[str]:
    """A MAC address as several systems write it."""
    digits = f"98039b{number:06x}"
    octets = [digits[at : at + 2] for at in range(0, 12, 2)]
    return [":".join(octets), "-".join(octets).upper(), ".".join(digits[at : at + 4] for at in range(0, 12, 4)), digits]


class Names:
    """What everything in a trace is called, by whom."""

    def __init__(self, streams: TraceStreams, seed: int) -> None:
        self._random = Random(seed)
        devices = [fact for fact in streams.facts if isinstance(fact, Device)]
        self._hosts = {fact.device for fact in devices if fact.role == "host"}
        self._ports: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        self._chosen: dict[tuple[str, ...], str] = {}
        number = 0
        for fact in devices:
            for at, port in enumerate(fact.ports):
                number += 1
                mac = mac_spellings(number)
                if fact.device in self._hosts:
                    rdma, pci = f"mlx5_{at}", f"0000:{0x41 + at:02x}:00.0"
                    told, asked = [rdma, pci, f"enp{65 + at}s0np0"], [rdma, f"{rdma}/1", pci, pci[5:], pci.upper()]
                else:
                    told = [f"Eth{at // 2 + 1}/{at % 2 + 1}", f"etp{number}"]
                    asked = [*told, told[0].upper(), port.port.upper()]
                told.append(self._random.choice(mac))
                self._ports[fact.device, port.port] = told, [*asked, *mac, told[-2]]

    def device(self, name: str, by: str) -> str:
        """What somebody calls a device."""
        short = [name, name.upper(), f"node-{name}"] if by != "probe" else []
        return self._choose((by, name), [*short, f"{name}.{DOMAIN}", f"{name.upper()}.{DOMAIN}."])

    def port(self, device: str, port: str, by: str) -> str:
        """What somebody calls a port."""
        return self._choose((by, device, port), self._ports[device, port][1]) if port else port

    def inventory(self, fact: Device) -> Device:
        """The inventory's fact: of hosts it knows the interface's name by the kernel alone, of switches everything."""
        ports = tuple(
            msgspec.structs.replace(port, aliases=tuple(told[2:3] if fact.device in self._hosts else told))
            for port, told in ((port, self._ports[fact.device, port.port][0]) for port in fact.ports)
        )
        return msgspec.structs.replace(fact, aliases=(f"node-{fact.device}",), ports=ports)

    def probe(self, fact: Device, stream: FactStream) -> Device:
        """What the probe on a host tells of it."""
        ports = []
        for port in fact.ports:
            rdma, pci, interface, mac = self._ports[fact.device, port.port][0]
            ports.append(Port(interface, aliases=(rdma, pci, mac)))
        return Device(fact.fabric, f"{fact.device}.{DOMAIN}", "host", fact.valid_from_ns, stream, tuple(ports))

    def link(self, link: Link) -> Link:
        """The link as LLDP tells it."""
        a, b = ((link.a_device, link.a_port), (link.b_device, link.b_port))
        return msgspec.structs.replace(
            link, a_device=self.device(a[0], "lldp"), a_port=self.port(*a, "lldp"),
            b_device=self.device(b[0], "lldp"), b_port=self.port(*b, "lldp"),
        )  # fmt: skip

    def flow(self, flow: Flow) -> Flow:
        """The flow as hosts tell it."""
        path = tuple(
            msgspec.structs.replace(
                hop, device=self.device(hop.device, "path"), in_port=self.port(hop.device, hop.in_port, "path"),
                out_port=self.port(hop.device, hop.out_port, "path"),
            )
            for hop in flow.path
        )  # fmt: skip
        ends = {"src_device": self.device(flow.src_device, "flow"), "dst_device": self.device(flow.dst_device, "flow")}
        return msgspec.structs.replace(flow, path=path, **ends)

    def rows(self, rows: StreamRows) -> StreamRows:
        """Rows as their source names device and ports: another one on every topic."""
        ports = tuple(self.port(rows.device, port, rows.topic) for port in rows.ports)
        return dataclasses.replace(rows, device=self.device(rows.device, rows.topic), ports=ports)

    def roster(self, change: ChangeT) -> ChangeT:
        """The roster names streams as their source names its devices."""
        streams = tuple(
            msgspec.structs.replace(stream, device=self.device(stream.device, stream.topic) if stream.device else "")
            for stream in change.streams
        )
        return msgspec.structs.replace(change, streams=streams)

    def _choose(self, key: tuple[str, ...], names: list[str]) -> str:
        """The same for the same key."""
        if key not in self._chosen:
            self._chosen[key] = self._random.choice(names)
        return self._chosen[key]


def many_names(streams: TraceStreams, seed: int, rows_per_value: int = 1024, order: int | None = None) -> list[Item]:
    """All items of the trace under other names, and what the probe on its hosts tells."""
    names = Names(streams, seed)

    def fact(fact: Fact) -> Fact:
        if isinstance(fact, Device):
            return names.inventory(fact)
        return names.link(fact) if isinstance(fact, Link) else names.flow(fact)

    hosts = [fact for fact in streams.facts if isinstance(fact, Device) and fact.role == "host"]
    told = [
        names.probe(host, FactStream("probe", "e1", number, streams.from_ns)) for number, host in enumerate(hosts)
    ]  # fmt: skip
    up = SourceUp(streams.up.fabric, "probe", "e1", streams.from_ns, (StreamUp("device"),))
    down = SourceDown(streams.up.fabric, "probe", "e1", streams.from_ns, (StreamDown("device", "", len(told) - 1),))
    other = dataclasses.replace(
        streams,
        up=names.roster(streams.up),
        facts=tuple(fact(each) for each in streams.facts),
        rows=tuple(names.rows(rows) for rows in streams.rows),
        down=names.roster(streams.down),
    )
    items = trace_items(other, rows_per_value, order)
    # The roster comes first; when the probe's facts arrive does not matter.
    at = Random(seed).randrange(1, len(items))
    return [up, *items[:at], *told, down, *items[at:]]
