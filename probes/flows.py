"""Flows as programs know them: the 40 bytes that the flow id is the hash of, their counters, and facts about them.

In: keys and values of the maps of bpf/packets.bpf.c and bpf/tcp_retransmits.bpf.c. Out: addresses, `Flow` facts.
"""

from __future__ import annotations

import ipaddress

import numpy as np

from stream.facts import Flow
from stream.flow_id import flow_text
from stream.publisher import UNSENT

TUPLE = np.dtype([("source", "V16"), ("destination", "V16"), ("bytes", "V8")])
"""struct flow_tuple of bpf/xxh3.h."""
FLOW_KEY = np.dtype(
    [("tuple", TUPLE), ("ifindex", "<u4"), ("side", "u1"), ("dscp", "u1"), ("pcp", "u1"), ("unused", "u1")]
)
FLOW = np.dtype([(name, "<u8") for name in (
    "id", "slows", "packets", "bytes", "ect_1", "ect_0", "ce", "data", "acks", "sequence_naks", "rnr_naks",
    "other_naks", "cnps", "last_ns",
)])  # fmt: skip
RETRANSMITS = np.dtype([("id", "<u8"), ("segments", "<u8"), ("last_ns", "<u8")])
SEGMENTS = np.dtype([("all", "<u8"), ("unlisted", "<u8")])
NO_PCP = 255


def address_text(packed: bytes) -> str:
    """An address as people write it; an IPv4-mapped one as IPv4."""
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)


class Opened:
    """Which flows were told as facts already, as long as programs know them."""

    def __init__(self, fabric: str, device: str, own_addresses: frozenset[str]) -> None:
        self._fabric, self._device, self._own = fabric, device, own_addresses
        self._told: set[int] = set()

    def fact(self, flow: int, packed: bytes, now_ns: int, priority: int = 255) -> Flow | None:
        """The fact of a flow that is new. An end that is not this host goes by its address."""
        if flow in self._told:
            return None
        self._told.add(flow)
        source, destination = address_text(packed[:16]), address_text(packed[16:32])
        rest = packed[32:]
        return Flow(
            fabric=self._fabric,
            flow=flow_text(flow),
            src_device=self._device if source in self._own else source,
            dst_device=self._device if destination in self._own else destination,
            src_ip=source,
            dst_ip=destination,
            protocol=rest[0],
            src_port=int.from_bytes(rest[1:3], "big"),
            dst_port=int.from_bytes(rest[3:5], "big"),
            valid_from_ns=now_ns,
            stream=UNSENT,
            qpn=int.from_bytes(rest[5:8], "big"),
            priority=priority,
        )

    def forget(self, flow: int) -> None:
        """The programs no longer know the flow: if it comes again, it is told again."""
        self._told.discard(flow)
