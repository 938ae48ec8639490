"""How switches of a vendor tell what their queues count: the paths, names and units that a `Played` fabric answers in.

In: a played trace and one of its switches. Out: `Leaves`. A vendor tells here what its switches can tell, and no more;
tests hold its words to the collectors' profiles, which read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simulation.gnmi_targets.leaves import Leaves
from simulation.gnmi_targets.messages import Elem, Value, capabilities
from simulation.gnmi_targets.played import PACKET_BYTES, Played

NS_PER_US = 1_000
MIN_NS = 60_000_000_000


class Blobs(Leaves):
    """Leaves of a target that answers a path by one object, and knows nothing below or above it."""

    def matching(self, wanted: list[Elem]) -> list[str]:
        """The path itself."""
        return [path for path, elems in self._elems.items() if elems == wanted]


class PortOf(NamedTuple):
    """A port of a switch, and what is at the other end of its cable."""

    number: int
    """Among all ports of the trace."""
    name: str
    alias: str
    speed_mbps: int
    peer: str
    peer_port: str


Told = Callable[[Played, list[PortOf], int], Leaves]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A vendor: how it names its ports (from 0), what its Capabilities say and how its switches tell their counts.

    `least_ns` is the shortest interval that they take. What the metrics in `intervals` tell, the switches read as often
    as they are polled, since their operator has made them.
    """

    profile: str
    answer: bytes
    port: Callable[[int, str], str]
    told: Told
    least_ns: int = 0
    intervals: tuple[str, ...] = ()

    def ports(self, played: Played, device: int) -> list[PortOf]:
        """The ports of one switch."""
        ports, trace = played.trace.ports, played.trace
        found = []
        for number in (ports.device == device).nonzero()[0].tolist():
            peer = int(ports.peer[number])
            end = int(ports.device[peer])
            found.append(
                PortOf(
                    number, self.name_of(played, number), ports.names[number], int(ports.speed_mbps[number]),
                    trace.devices[end], self.name_of(played, peer),
                )
            )  # fmt: skip
        return found

    def name_of(self, played: Played, number: int) -> str:
        """What a port of the trace is called here; those of hosts bear the trace's names."""
        ports, trace = played.trace.ports, played.trace
        name = ports.names[number]
        if trace.roles[int(ports.device[number])] == "host":
            return name
        return self.port(int(ports.local[number]), name)

    def leaves(self, played: Played, device: int, period_ns: int) -> Leaves:
        """Everything that a switch tells; `period_ns` is how often its peaks are cleared where reading clears them."""
        return self.told(played, self.ports(played, device), period_ns)


def _openconfig(played: Played, ports: list[PortOf], period_ns: int) -> Leaves:
    """Pause frames of all priorities together, and no time: OpenConfig has no model of PFC."""
    leaves = _oc_ports(played, ports)
    for port in ports:
        counters = f"/interfaces/interface[name={port.name}]/ethernet/state/counters"
        leaves.put(f"{counters}/in-mac-pause-frames", _all(played, "rx_pause_frames", port))
        leaves.put(f"{counters}/out-mac-pause-frames", _all(played, "tx_pause_frames", port))
        for priority, queue in _oc_queues(leaves, played, port):
            leaves.put(f"{queue}/max-queue-len", _peak(played, port, priority, period_ns))
    return leaves


def _eos(played: Played, ports: list[PortOf], _period_ns: int) -> Leaves:
    """Pause frames and time by priority, no depth of egress queues."""
    leaves = _oc_ports(played, ports)
    for port in ports:
        for priority, _ in _oc_queues(leaves, played, port):
            state = f"/interfaces/interface[name={port.name}]/ethernet/pfc/priorities/priority[index={priority}]/state"
            leaves.put(f"{state}/in-frames", _count(played, "rx_pause_frames", port, priority))
            leaves.put(f"{state}/out-frames", _count(played, "tx_pause_frames", port, priority))
            leaves.put(f"{state}/pfc-on-total-rx-time", _count(played, "rx_paused_ns", port, priority))
    return leaves


def _cumulus(played: Played, ports: list[PortOf], period_ns: int) -> Leaves:
    """Pause frames and time by priority, and the depth of egress queues."""
    leaves = _oc_ports(played, ports)
    for port in ports:
        for priority, queue in _oc_queues(leaves, played, port):
            state = f"/qos/interfaces/interface[interface-id={port.name}]/state/switch-priority[priority={priority}]"
            leaves.put(f"{state}/counters/in-pause-pkts", _count(played, "rx_pause_frames", port, priority))
            leaves.put(f"{state}/counters/out-pause-pkts", _count(played, "tx_pause_frames", port, priority))
            leaves.put(f"{state}/in-pause-duration", _count(played, "rx_paused_ns", port, priority, NS_PER_US))
            leaves.put(f"{queue}/max-queue-len", _peak(played, port, priority, period_ns))
    return leaves


def _oc_ports(played: Played, ports: list[PortOf]) -> Leaves:
    """What every switch with OpenConfig's models tells of its ports and neighbours."""
    leaves = Leaves()
    for port in ports:
        interface = f"/interfaces/interface[name={port.name}]"
        leaves.put(f"{interface}/ethernet/state/port-speed", f"SPEED_{port.speed_mbps // 1000}GB")
        leaves.put(f"{interface}/state/description", port.alias)
        leaves.put(f"{interface}/state/counters/in-octets", _all(played, "rx_bytes", port))
        leaves.put(f"{interface}/state/counters/out-octets", _all(played, "tx_bytes", port))
        neighbor = f"/lldp/interfaces/interface[name={port.name}]/neighbors/neighbor[id=1]/state"
        leaves.put(f"{neighbor}/system-name", port.peer)
        leaves.put(f"{neighbor}/port-id", port.peer_port)
    return leaves


def _oc_queues(leaves: Leaves, played: Played, port: PortOf) -> Iterator[tuple[int, str]]:
    """Puts what OpenConfig tells of a port's queues but for their depth; yields priority and path of each."""
    for priority in played.priorities:
        queue = f"/qos/interfaces/interface[interface-id={port.name}]/output/queues/queue[name={priority}]/state"
        leaves.put(f"{queue}/transmit-octets", _count(played, "tx_bytes", port, priority))
        leaves.put(f"{queue}/transmit-pkts", _count(played, "tx_bytes", port, priority, PACKET_BYTES))
        leaves.put(f"{queue}/ecn-marked-pkts", _count(played, "tx_ce_packets", port, priority))
        yield priority, queue


def _sonic_of_defaults(played: Played, ports: list[PortOf], _period_ns: int) -> Leaves:
    """With the watermarks as by default: cleared once a minute."""
    return _sonic(played, ports, MIN_NS)


def _sonic(played: Played, ports: list[PortOf], period_ns: int) -> Leaves:
    """Objects of decimal strings by port and by queue.

    Watermarks are of the last whole window of the watermark poll, and those of the telemetry interval, two minutes.
    """
    leaves = Blobs()
    queues = [(port, priority) for port in ports for priority in played.priorities]

    def of_ports(now_ns: int) -> Value:
        return {port.name: _sonic_port(played, port, now_ns) for port in ports}

    def of_queues(now_ns: int) -> Value:
        return {
            f"{port.name}:{priority}": {
                "SAI_QUEUE_STAT_PACKETS": played.count("tx_bytes", port.number, priority, now_ns) // PACKET_BYTES,
                "SAI_QUEUE_STAT_BYTES": played.count("tx_bytes", port.number, priority, now_ns),
                "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": played.count("tx_ce_packets", port.number, priority, now_ns),
                "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": played.peak(
                    port.number, priority, now_ns - now_ns % period_ns - period_ns, now_ns - now_ns % period_ns
                ),
            }
            for port, priority in queues
        }

    def watermarks(now_ns: int) -> Value:
        return {
            f"{port.name}:{priority}": {
                "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": played.peak(
                    port.number, priority, now_ns - now_ns % (2 * MIN_NS), now_ns
                )
            }
            for port, priority in queues
        }

    leaves.put("/COUNTERS/Ethernet*", of_ports)
    leaves.put("/COUNTERS/Ethernet*/Queues", of_queues)
    leaves.put("/PERIODIC_WATERMARKS/Ethernet*/Queues", watermarks)
    leaves.put("/PORT_TABLE", {port.name: {"speed": str(port.speed_mbps), "alias": port.alias} for port in ports})
    neighbours = {port.name: {"lldp_rem_sys_name": port.peer, "lldp_rem_port_id": port.peer_port} for port in ports}
    leaves.put("/LLDP_ENTRY_TABLE", neighbours)
    return leaves


def _sonic_port(played: Played, port: PortOf, now_ns: int) -> dict[str, int]:
    told = {
        "SAI_PORT_STAT_IF_IN_OCTETS": _all(played, "rx_bytes", port)(now_ns),
        "SAI_PORT_STAT_IF_OUT_OCTETS": _all(played, "tx_bytes", port)(now_ns),
    }
    for priority in played.priorities:
        stat = f"SAI_PORT_STAT_PFC_{priority}"
        told[f"{stat}_RX_PKTS"] = played.count("rx_pause_frames", port.number, priority, now_ns)
        told[f"{stat}_TX_PKTS"] = played.count("tx_pause_frames", port.number, priority, now_ns)
        told[f"{stat}_RX_PAUSE_DURATION_US"] = played.count("rx_paused_ns", port.number, priority, now_ns) // NS_PER_US
    return told


def _nxos(played: Played, ports: list[PortOf], period_ns: int) -> Leaves:
    """Pause frames by priority, and no time, in the model of NX-OS itself; ports and neighbours by OpenConfig."""
    leaves = _oc_ports(played, ports)
    for port in ports:
        for priority in played.priorities:
            queue = (
                f"/System/ipqos-items/queuing-items/policy-items/out-items/intf-items/If-list[name={port.name}]/queCmap-items"
                f"/QueuingStats-list[cmapName=c-out-8q-q{priority}][statType=ucast]"
            )
            leaves.put(f"{queue}/pfcRxPpp", _count(played, "rx_pause_frames", port, priority))
            leaves.put(f"{queue}/pfcTxPpp", _count(played, "tx_pause_frames", port, priority))
            leaves.put(f"{queue}/txBytes", _count(played, "tx_bytes", port, priority))
            leaves.put(f"{queue}/txPackets", _count(played, "tx_bytes", port, priority, PACKET_BYTES))
            leaves.put(f"{queue}/randEcnMarkedPackets", _count(played, "tx_ce_packets", port, priority))
            leaves.put(f"{queue}/maxQueueDepth", _peak(played, port, priority, period_ns))
    return leaves


def _count(played: Played, name: str, port: PortOf, priority: int, divided: int = 1) -> Callable[[int], int]:
    return lambda now_ns: played.count(name, port.number, priority, now_ns) // divided


def _all(played: Played, name: str, port: PortOf) -> Callable[[int], int]:
    return lambda now_ns: sum(played.count(name, port.number, priority, now_ns) for priority in played.priorities)


def _peak(played: Played, port: PortOf, priority: int, period_ns: int) -> Callable[[int], int]:
    return lambda now_ns: played.peak(port.number, priority, now_ns - period_ns, now_ns)


def _models(*names: str) -> bytes:
    return capabilities(tuple((name, "", "1.0.0") for name in names))


def _sonic_port_name(at: int, _name: str) -> str:
    return f"Ethernet{4 * at}"


SECOND_NS = 1_000_000_000
SPELLINGS: dict[str, Spelling] = {
    "openconfig": Spelling(
        "openconfig", _models("openconfig-interfaces", "openconfig-qos"), lambda _at, name: name, _openconfig
    ),
    "sonic": Spelling(
        "sonic", capabilities((("sonic-port", "SONiC", ""),), ("JSON", "JSON_IETF")),
        _sonic_port_name, _sonic, least_ns=SECOND_NS, intervals=("queue", "drops", "depth", "headroom"),
    ),
    "sonic-defaults": Spelling(
        "sonic", capabilities((("sonic-port", "SONiC", ""),), ("JSON", "JSON_IETF")),
        _sonic_port_name, _sonic_of_defaults, least_ns=SECOND_NS,
    ),
    "eos": Spelling(
        "arista-eos", capabilities((("arista-exp-eos", "Arista Networks <http://arista.com/>", ""),)),
        lambda at, _name: f"Ethernet{at + 1}/1", _eos,
    ),
    "cumulus": Spelling(
        "nvidia-cumulus", _models("nvidia-if-openconfig-ext", "openconfig-interfaces"),
        lambda at, _name: f"swp{at + 1}", _cumulus,
    ),
    "nxos": Spelling(
        "cisco-nxos", capabilities((("Cisco-NX-OS-device", "Cisco Systems, Inc.", "2025-01-01"),), ("JSON", "PROTO")),
        lambda at, _name: f"eth1/{at + 1}", _nxos, least_ns=SECOND_NS,
    ),
}  # fmt: skip
"""By the name that people give the vendor."""
