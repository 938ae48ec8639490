"""The same run told otherwise: other names, other times, other speeds. What is said of it must not depend on them.

In: a `Trace`. Out: a trace of what would have been seen then, and the way back from the cascades found in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from simulation.trace_columns import Trace
from simulation.trace_table import Ints
from stream.cascade import Cascade, Edge
from stream.facts import Hop
from stream.kinds import UNKNOWN


@dataclass(frozen=True, slots=True)
class OldNames:
    """What new names stand for: devices, and ports by the new name of their device; no port stays no port."""

    devices: Mapping[str, str]
    ports: Mapping[tuple[str, str], str]

    def device(self, new: str) -> str:
        """The device's old name."""
        return self.devices.get(new, new)

    def port(self, device: str, new: str) -> str:
        """The port's old name, by the new names of both."""
        return self.ports.get((device, new), new)


@dataclass(frozen=True, slots=True)
class Restorer:
    """The way back to the trace as it was, as far as the judge looks: roots, edges and times."""

    names: OldNames = field(default_factory=lambda: OldNames({}, {}))
    factor: float = 1.0
    """How much longer everything took."""

    def restored(self, cascade: Cascade, start_ns: int) -> Cascade:
        """The cascade under old names and at old times, all of them counted from start_ns."""
        names = self.names
        return msgspec.structs.replace(
            cascade,
            start_ns=start_ns + round((cascade.start_ns - start_ns) / self.factor),
            end_ns=start_ns + round((cascade.end_ns - start_ns) / self.factor),
            roots=tuple(
                msgspec.structs.replace(root, device=names.device(root.device), port=names.port(root.device, root.port))
                for root in cascade.roots
            ),
            edges=tuple(
                Edge(
                    names.device(edge.device),
                    names.port(edge.device, edge.ingress_port),
                    names.port(edge.device, edge.egress_port),
                    edge.share_ppm,
                    edge.held_bytes,
                )
                for edge in cascade.edges
            ),
        )


def renamed(trace: Trace, draw: np.random.Generator) -> tuple[Trace, OldNames]:
    """The trace with new names of devices and ports, whose alphabetical order is a random one.

    A name says nothing of a device's role. Flows keep their names, by which the judge knows them.
    """
    devices = _new_names("n", len(trace.devices), draw)
    ports: list[str] = [""] * len(trace.ports.names)
    for device in range(len(trace.devices)):
        own = np.flatnonzero(trace.ports.device == device)
        for port, name in zip(own.tolist(), _new_names("q", len(own), draw), strict=True):
            ports[port] = name
    owners = trace.ports.device.tolist()
    new_device = dict(zip(trace.devices, devices, strict=True))
    new_port = {
        (trace.devices[owner], old): new for owner, old, new in zip(owners, trace.ports.names, ports, strict=True)
    }
    flows = trace.flows
    if flows is not None:
        paths = tuple(
            tuple(
                Hop(
                    new_device[hop.device],
                    new_port.get((hop.device, hop.in_port), hop.in_port),
                    new_port.get((hop.device, hop.out_port), hop.out_port),
                )
                for hop in path
            )
            for path in flows.paths
        )
        flows = dataclasses.replace(flows, paths=paths)
    index = {(devices[owner], name): port for port, (owner, name) in enumerate(zip(owners, ports, strict=True))}
    variant = dataclasses.replace(
        trace,
        devices=devices,
        ports=dataclasses.replace(trace.ports, names=tuple(ports), index=index),
        flows=flows,
    )
    old_ports = {(devices[owner], new): old for owner, old, new in zip(owners, trace.ports.names, ports, strict=True)}
    return variant, OldNames(dict(zip(devices, trace.devices, strict=True)), old_ports)


def _new_names(letter: str, count: int, draw: np.random.Generator) -> tuple[str, ...]:
    """Names in random order; with zeros in front, so that the alphabet orders them as their numbers do."""
    width = len(str(count))
    return tuple(f"{letter}{number:0{width}}" for number in draw.permutation(count).tolist())


def scaled(trace: Trace, factor: float) -> Trace:
    """The trace of a fabric on which the same bytes take `factor` times as long on every link, slot and cable.

    Speeds are rounded to 1 Mb/s, times to 1 ns.
    """
    if factor == 1:
        return trace

    def longer(times: Ints) -> Ints:
        return np.where(times == UNKNOWN, UNKNOWN, np.rint(times * factor).astype(np.int64))

    def slower(speeds: Ints) -> Ints:
        return np.where(speeds > 0, np.maximum(np.rint(speeds / factor), 1), speeds).astype(np.int64)

    pauses, counters, flows = trace.pauses, trace.counters, trace.flows
    flow_bytes, pcie, ports, links = trace.flow_bytes, trace.pcie, trace.ports, trace.links
    return dataclasses.replace(
        trace,
        period_ns=round(trace.period_ns * factor),
        ports=dataclasses.replace(ports, speed_mbps=slower(ports.speed_mbps), delay_ns=longer(ports.delay_ns)),
        links=dataclasses.replace(links, speed_mbps=slower(links.speed_mbps), delay_ns=longer(links.delay_ns)),
        pauses=pauses and dataclasses.replace(pauses, time_ns=longer(pauses.time_ns)),
        counters=counters
        and dataclasses.replace(
            counters,
            end_ns=longer(counters.end_ns),
            span_ns=longer(counters.span_ns),
            rx_paused_ns=None if counters.rx_paused_ns is None else longer(counters.rx_paused_ns),
        ),
        flows=flows and dataclasses.replace(flows, start_ns=longer(flows.start_ns)),
        flow_bytes=flow_bytes
        and dataclasses.replace(flow_bytes, end_ns=longer(flow_bytes.end_ns), span_ns=longer(flow_bytes.span_ns)),
        pcie=pcie and dataclasses.replace(pcie, now_mbps=slower(pcie.now_mbps), max_mbps=slower(pcie.max_mbps)),
    )
