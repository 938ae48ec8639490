"""Random frames made by scapy, and what scapy itself reads in them: the oracle of the packet programs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from stream import kinds
from stream.flow_id import flow_id

MAC_CONTROL = "01:80:c2:00:00:01"
FIRST, MIDDLE, LAST, WRITE_ONLY, ACKNOWLEDGE, CNP = 0x00, 0x01, 0x02, 0x0A, 0x11, 0x81
WHOLE_PORT = 8


class FlowKey(NamedTuple):
    """As the program tells flows apart."""

    flow: int
    dscp: int
    pcp: int


class Seen(NamedTuple):
    """What a list of frames holds: pauses as (kind, priority, quanta), and counters by flow and name."""

    pauses: Counter[tuple[int, int, int]]
    pfc_frames: int
    pause_frames: int
    flows: dict[FlowKey, Counter[str]]


def pfc(quanta: dict[int, int]) -> Any:
    """A PFC frame with a class vector of these priorities."""
    fields: dict[str, Any] = {f"c{priority}_enabled": 1 for priority in quanta}
    fields |= {f"c{priority}_pause_time": time for priority, time in quanta.items()}
    return Ether(dst=MAC_CONTROL, src="02:00:00:00:00:01", type=0x8808) / MACControlClassBasedFlowControl(**fields)


def random_frames(seed: int, count: int, distinct: int = 4_000) -> list[bytes]:
    """So many frames, drawn from distinct ones, since scapy makes few a second.

    A quarter PFC, one in twenty 802.3x pauses, else RoCEv2 of 50 flows over IPv4 and IPv6, some tagged."""
    chosen = random.Random(seed)
    flows = [
        (chosen.randrange(2), chosen.randrange(1, 250), chosen.randrange(1, 250), chosen.randrange(1024, 65536), qpn)
        for qpn in (chosen.randrange(1, 1 << 24) for _ in range(50))
    ]
    return chosen.choices([bytes(_random_frame(chosen, flows)) for _ in range(distinct)], k=count)


def _random_frame(chosen: random.Random, flows: list[tuple[int, int, int, int, int]]) -> Any:
    what = chosen.random()
    if what < 0.25:
        priorities = [priority for priority in range(8) if chosen.random() < 0.4]
        return pfc({each: chosen.choice((0, chosen.randrange(1, 65536))) for each in priorities})
    if what < 0.3:
        time = chosen.choice((0, chosen.randrange(65536)))
        return Ether(dst=MAC_CONTROL, src="02:00:00:00:00:01", type=0x8808) / MACControlPause(pause_time=time)
    six, source, destination, port, qpn = chosen.choice(flows)
    ethernet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    if chosen.random() < 0.2:
        ethernet /= Dot1Q(vlan=chosen.randrange(1, 4095), prio=chosen.randrange(8))
    traffic_class = chosen.choice((26, 46)) << 2 | chosen.randrange(4)
    if six:
        ethernet /= IPv6(src=f"fd00::{source:x}", dst=f"fd00::1:{destination:x}", tc=traffic_class)
    else:
        ethernet /= IP(src=f"10.0.0.{source}", dst=f"10.0.1.{destination}", tos=traffic_class, id=0)
    opcode = chosen.choice((FIRST, MIDDLE, LAST, WRITE_ONLY, ACKNOWLEDGE, ACKNOWLEDGE, CNP))
    packet = ethernet / UDP(sport=port, dport=4791) / BTH(opcode=opcode, dqpn=qpn, psn=chosen.randrange(1 << 24))
    if opcode == ACKNOWLEDGE:
        return packet / AETH(syndrome=chosen.choice((0x00, 0x1F, 0x20, 0x2A, 0x60, 0x61, 0x63)), msn=1)
    if opcode == CNP:
        return packet / CNPPadding()
    return packet / Raw(chosen.randbytes(chosen.randrange(0, 1024)))


def read(frames: Iterable[bytes]) -> Seen:
    """What scapy reads in frames, counted as the program is to count it."""
    pauses: Counter[tuple[int, int, int]] = Counter()
    flows: dict[FlowKey, Counter[str]] = {}
    pfc_frames = pause_frames = 0
    for frame, times in Counter(frames).items():
        packet = Ether(frame)
        if MACControlClassBasedFlowControl in packet:
            pfc_frames += times
            control = packet[MACControlClassBasedFlowControl]
            for priority in range(8):
                if getattr(control, f"c{priority}_enabled"):
                    pauses[_pause(priority, getattr(control, f"c{priority}_pause_time"))] += times
        elif MACControlPause in packet:
            pause_frames += times
            pauses[_pause(kinds.NO_PRIORITY, packet[MACControlPause].pause_time)] += times
        else:
            _count(packet, len(frame), times, flows)
    return Seen(pauses, pfc_frames, pause_frames, flows)


def _pause(priority: int, quanta: int) -> tuple[int, int, int]:
    return (kinds.PFC_XOFF if quanta else kinds.PFC_XON), priority, quanta


def _count(packet: Any, length: int, times: int, flows: dict[FlowKey, Counter[str]]) -> None:
    network = packet[IPv6] if IPv6 in packet else packet[IP]
    traffic_class = network.tc if IPv6 in packet else network.tos
    transport = packet[BTH]
    flow = flow_id(network.src, network.dst, 17, packet[UDP].sport, packet[UDP].dport, transport.dqpn)
    key = FlowKey(flow, traffic_class >> 2, packet[Dot1Q].prio if Dot1Q in packet else 255)
    counters = flows.setdefault(key, Counter())
    counters["packets"] += times
    counters["bytes"] += length * times
    if traffic_class & 3:
        counters[("ect_1", "ect_0", "ce")[(traffic_class & 3) - 1]] += times
    if transport.opcode == CNP:
        counters["cnps"] += times
    elif transport.opcode == ACKNOWLEDGE:
        syndrome = packet[AETH].syndrome
        if syndrome >> 5 == 0:
            counters["acks"] += times
        elif syndrome >> 5 == 1:
            counters["rnr_naks"] += times
        else:
            counters["sequence_naks" if syndrome & 31 == 0 else "other_naks"] += times
    else:
        counters["data"] += times
