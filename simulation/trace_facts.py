"""Facts of a trace: its devices, links and flows, with the addresses that the flows' ids rest on.

A trace has no addresses: the k-th device of devices.csv, counted from 1, is fd00::k (k in hexadecimal).
"""

from __future__ import annotations

from collections import defaultdict

from simulation.trace_columns import Flows, Trace
from stream.facts import Device, Fact, FactStream, Flow, Link, Port
from stream.flow_id import flow_id, flow_text

PROTOCOL_UDP = 17
"""RoCEv2 runs over UDP."""


def device_address(device: int) -> str:
    """Address of the device with this index, which counts from 0."""
    return f"fd00::{device + 1:x}"


def trace_flow_ids(flows: Flows) -> list[int]:
    """Flow id of every flow, in the flows' order."""
    columns = (flows.src, flows.dst, flows.src_port, flows.dst_port, flows.qpn)
    return [
        flow_id(device_address(src), device_address(dst), PROTOCOL_UDP, src_port, dst_port, qpn)
        for src, dst, src_port, dst_port, qpn in zip(*(column.tolist() for column in columns), strict=True)
    ]


def trace_facts(trace: Trace, fabric: str, source: str, epoch: str, start_ns: int) -> tuple[Fact, ...]:
    """Devices, then links, then flows, numbered from 0 in each fact stream; valid from start_ns, flows from theirs."""

    def stream(seq: int) -> FactStream:
        return FactStream(source, epoch, seq, start_ns)

    facts: list[Fact] = []
    ports_of = _ports_by_device(trace)
    for row, (device, role) in enumerate(zip(trace.devices, trace.roles, strict=True)):
        facts.append(Device(fabric, device, role, start_ns, stream(row), ports=ports_of[row]))
    ports, links = trace.ports, trace.links
    owner = [trace.devices[device] for device in ports.device.tolist()]
    columns = (links.a_port, links.b_port, links.speed_mbps, links.delay_ns)
    for row, (a, b, speed, delay) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        facts.append(
            Link(fabric, owner[a], ports.names[a], owner[b], ports.names[b], speed, start_ns, stream(row), delay)
        )
    if trace.flows is not None:
        for row, flow in enumerate(trace_flow_ids(trace.flows)):
            facts.append(_flow(trace, trace.flows, row, flow, fabric, start_ns, stream(row)))
    return tuple(facts)


def _ports_by_device(trace: Trace) -> dict[int, tuple[Port, ...]]:
    ports = trace.ports
    found: defaultdict[int, tuple[Port, ...]] = defaultdict(tuple)
    for device, name, speed in zip(ports.device.tolist(), ports.names, ports.speed_mbps.tolist(), strict=True):
        found[device] += (Port(name, speed),)
    return found


def _flow(trace: Trace, flows: Flows, row: int, flow: int, fabric: str, start_ns: int, stream: FactStream) -> Flow:
    src, dst = int(flows.src[row]), int(flows.dst[row])
    return Flow(
        fabric=fabric,
        flow=flow_text(flow),
        src_device=trace.devices[src],
        dst_device=trace.devices[dst],
        src_ip=device_address(src),
        dst_ip=device_address(dst),
        protocol=PROTOCOL_UDP,
        src_port=int(flows.src_port[row]),
        dst_port=int(flows.dst_port[row]),
        valid_from_ns=start_ns + int(flows.start_ns[row]),
        stream=stream,
        qpn=int(flows.qpn[row]),
        priority=int(flows.priority[row]),
        size_bytes=int(flows.size_bytes[row]),
        name=flows.names[row],
        path=flows.paths[row],
    )
