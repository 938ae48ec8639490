"""A fake fabric: every switch of a trace as a gNMI target that tells, by ON_CHANGE, when its queues stop and go on.

In: a trace, whose truth is known, and the time at which it begins. Out: targets with leaves of functions of time.
Hosts speak no gNMI: that they were stopped, the switch tells that stopped them.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from simulation.gnmi_targets.behaviour import Behaviour
from simulation.gnmi_targets.clocks import Clock
from simulation.gnmi_targets.leaves import Leaves, counter
from simulation.gnmi_targets.messages import capabilities
from simulation.gnmi_targets.server import FakeTarget
from simulation.trace_columns import Trace

MODEL = "pausetrace-fabric"
QUEUES = "/queues/queue[port={port}][priority={priority}]/state"
_SPEEDS = {10_000: "SPEED_10GB", 25_000: "SPEED_25GB", 100_000: "SPEED_100GB", 400_000: "SPEED_400GB"}


class Transition(NamedTuple):
    """A queue stops or goes on, as its switch tells: `side` rx was told so, tx told the host."""

    time_ns: int
    device: str
    port: str
    priority: int
    side: str
    stopped: bool


def transitions(trace: Trace, start_ns: int) -> list[Transition]:
    """What the switches will tell, in order of time."""
    assert trace.pauses is not None
    ports, pauses = trace.ports, trace.pauses
    found = []
    columns = (pauses.time_ns, pauses.port, pauses.priority, pauses.xoff)
    for time_ns, port, priority, xoff in zip(*(column.tolist() for column in columns), strict=True):
        side = "rx"
        if trace.roles[int(ports.device[port])] == "host":
            side, port = "tx", int(ports.peer[port])
        device = trace.devices[int(ports.device[port])]
        found.append(Transition(start_ns + time_ns, device, ports.names[port], priority, side, bool(xoff)))
    return found


def switch_leaves(trace: Trace, device: str, start_ns: int) -> Leaves:
    """What is always known of a switch: its ports, their speeds and neighbours, and octets that grow."""
    leaves, ports = Leaves(), trace.ports
    number = trace.devices.index(device)
    leaves.put("/lldp/state/system-name", device)
    for port in (ports.device == number).nonzero()[0].tolist():
        name, peer = ports.names[port], int(ports.peer[port])
        interface = f"/interfaces/interface[name={name}]"
        speed = _SPEEDS.get(int(ports.speed_mbps[port]), "SPEED_UNKNOWN")
        leaves.put(f"{interface}/ethernet/state/port-speed", speed)
        leaves.put(f"{interface}/state/counters/out-octets", counter(start_ns, 1_000_000, port))
        neighbor = f"/lldp/interfaces/interface[name={name}]/neighbors/neighbor[id=1]/state"
        leaves.put(f"{neighbor}/system-name", trace.devices[int(ports.device[peer])])
        leaves.put(f"{neighbor}/port-id", ports.names[peer])
        leaves.put(f"{neighbor}/port-id-type", "INTERFACE_NAME")
    return leaves


class FakeFabric:
    """`async with FakeFabric(trace) as fabric:` has a target for every switch; `play` makes the cascade happen."""

    def __init__(self, trace: Trace, start_ns: int, clock: Clock | None = None) -> None:
        self.trace = trace
        answer = capabilities(((MODEL, "Pausetrace", "1.0.0"),))
        switches = [name for name, role in zip(trace.devices, trace.roles, strict=True) if role != "host"]
        self.targets = {
            name: FakeTarget(switch_leaves(trace, name, start_ns), Behaviour(answer, target=name), clock)
            for name in switches
        }
        self._quiet(start_ns)

    def play(self, start_ns: int) -> list[Transition]:
        """The trace happens from then on; returns what the switches will tell."""
        told = transitions(self.trace, start_ns)
        for each in told:
            self.targets[each.device].leaves.change(each.time_ns, _leaf(each), each.stopped)
        self._count(start_ns)
        return told

    def _count(self, start_ns: int) -> None:
        """Of every bin of the trace, the peak of each queue, and the octets that had left by then."""
        sent: dict[tuple[str, str], int] = {}
        for end_ns, device, state, peak_bytes, tx_bytes in self._bins():
            if (device, state) not in sent:
                # The first bin begins here, not when the target was first asked.
                self._tell(device, state, start_ns, 0, 0)
            sent[device, state] = sent.get((device, state), 0) + tx_bytes
            self._tell(device, state, start_ns + end_ns, peak_bytes, sent[device, state])

    def _tell(self, device: str, state: str, time_ns: int, peak_bytes: int, sent_octets: int) -> None:
        leaves = self.targets[device].leaves
        leaves.change(time_ns, f"{state}/peak-bytes", peak_bytes)
        leaves.change(time_ns, f"{state}/sent-octets", sent_octets)

    def _bins(self) -> list[tuple[int, str, str, int, int]]:
        """End, switch, path of the queue's state, peak and octets of each bin, in order of time."""
        counters, ports = self.trace.counters, self.trace.ports
        if counters is None or counters.q_max_bytes is None or counters.tx_bytes is None:
            return []
        columns = (counters.end_ns, counters.port, counters.priority, counters.q_max_bytes, counters.tx_bytes)
        found = []
        for end_ns, port, priority, peak_bytes, tx_bytes in zip(*(each.tolist() for each in columns), strict=True):
            device = self.trace.devices[int(ports.device[port])]
            if device in self.targets:
                state = QUEUES.format(port=ports.names[port], priority=priority)
                found.append((end_ns, device, state, peak_bytes, tx_bytes))
        return sorted(found)

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(target.start() for target in self.targets.values()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(target.stop() for target in self.targets.values()))

    def _quiet(self, start_ns: int) -> None:
        """Before it begins, no queue is stopped."""
        seen = set()
        for each in transitions(self.trace, start_ns):
            if (leaf := (each.device, _leaf(each))) not in seen:
                seen.add(leaf)
                self.targets[each.device].leaves.change(start_ns, leaf[1], False)
        for device, state in dict.fromkeys((device, state) for _, device, state, _, _ in self._bins()):
            self._tell(device, state, start_ns, 0, 0)


def _leaf(of: Transition) -> str:
    state = QUEUES.format(port=of.port, priority=of.priority)
    return f"{state}/{'stopped' if of.side == 'rx' else 'stopping'}"
