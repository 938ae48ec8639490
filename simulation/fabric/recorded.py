"""Plays the flows of a recorded trace in the model, so that the two can be compared.

In: a trace folder's `Trace` and what is known of the run besides. Out: a `Fabric` with its flows started.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from simulation.fabric.fabric import Fabric, FlowTable
from simulation.fabric.routes import Routes
from simulation.fabric.settings import Settings
from simulation.fabric.wires import Cable, Topology, Wires, make_wires
from simulation.trace_columns import Trace
from stream.errors import TraceError


def topology_of(trace: Trace) -> Topology:
    """Devices and cables of the trace."""
    ports, links = trace.ports, trace.links
    ends = [(trace.devices[int(ports.device[p])], ports.names[p]) for p in range(len(ports.names))]
    columns = (links.a_port, links.b_port, links.speed_mbps, links.delay_ns)
    cables = [
        Cable(ends[a][0], ends[a][1], ends[b][0], ends[b][1], speed, delay)
        for a, b, speed, delay in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Topology(trace.name, trace.devices, trace.roles, tuple(cables))


def play(trace: Trace, settings: Settings, rates_mbps: Mapping[tuple[str, str], int]) -> Fabric:
    """The trace's flows on the trace's ways, each at its time.

    `rates_mbps` gives the true rates of ports that are slower than they say, both ways; the port `pcie` of a host is
    its slot. Raises TraceError where flows, their sizes or their ways are not known.
    """
    wires = make_wires(topology_of(trace), sending_nic=True)
    flows = trace.flows
    if flows is None or (flows.size_bytes < 0).any():
        raise TraceError(f"{trace.name} does not tell the sizes of its flows", "play one with size_bytes in flows.csv")
    routes = Routes(wires)
    own = {f: _switch_links(trace, wires, routes, f) for f in range(len(flows.names))}
    ports = (flows.src_port, flows.dst_port)
    table = FlowTable(
        paths=routes.paths(flows.src, flows.dst, ports, through=own),
        wire_bytes=np.array([settings.wire_bytes(size) for size in flows.size_bytes.tolist()], np.int64),
        priority=np.zeros(len(flows.names), np.int64),
        ack_paths=routes.paths(flows.dst, flows.src, (flows.dst_port, flows.src_port)) if settings.acks else None,
    )
    fabric = Fabric(_at_true_rates(wires, rates_mbps), table, settings)
    starts = flows.start_ns // settings.tick_ns
    fabric.start(np.arange(len(flows.names)), starts)
    return fabric


def _at_true_rates(wires: Wires, rates_mbps: Mapping[tuple[str, str], int]) -> Wires:
    """The links as they were configured in the run: thresholds of marks and headroom follow the true rate there."""
    speed = wires.speed_mbps.copy()
    slots = {name: k for k, name in enumerate(wires.topology.hosts)}
    for (device, port), mbps in rates_mbps.items():
        if port == "pcie":
            speed[[wires.to_host[slots[device]], wires.from_host[slots[device]]]] = mbps
        else:
            link = wires.index[device, port]
            speed[[link, link ^ 1]] = mbps
    return dataclasses.replace(wires, speed_mbps=speed)


def _switch_links(trace: Trace, wires: Wires, routes: Routes, f: int) -> tuple[int, ...]:
    """The links between switches on the recorded way of a flow; the rest of one that was cut short is the shortest."""
    flows = trace.flows
    assert flows is not None
    found: list[int] = []
    for hop in flows.paths[f][1:]:
        if not hop.out_port:
            break
        link = wires.index[hop.device, hop.out_port]
        found.append(link)
    towards = int(flows.dst[f])
    if found and routes.far_device(found[-1]) == towards:
        return tuple(found[:-1])
    device = (
        routes.far_device(found[-1]) if found else routes.far_device(int(wires.to_fabric[_host(wires, flows.src[f])]))
    )
    leaf = routes.far_device(int(wires.to_fabric[_host(wires, towards)]))
    while device != leaf:
        found.append(int(routes.next_links(device, leaf)[0]))
        device = routes.far_device(found[-1])
    return tuple(found)


def _host(wires: Wires, device: int) -> int:
    return int(np.flatnonzero(wires.hosts == device)[0])
