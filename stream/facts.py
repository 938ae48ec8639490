"""Facts about a fabric: devices, links and flows, JSON on low-rate topics, each a stream of its own with valid_from_ns.

The published JSON Schemas derive from these structs.
"""

from __future__ import annotations

import msgspec

from stream.batch import StreamKey


class FactStream(msgspec.Struct, frozen=True):
    """The stream that a fact belongs to; nothing valid from before mark_ns follows on it."""

    source: str
    epoch: str
    seq: int
    mark_ns: int


class Port(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of a device with the other names it is known by and its speed in Mb/s (0 = unknown)."""

    port: str
    speed_mbps: int = 0
    aliases: tuple[str, ...] = ()


class Device(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="device"):
    """A switch or host of the fabric."""

    fabric: str
    device: str
    role: str
    valid_from_ns: int
    stream: FactStream
    ports: tuple[Port, ...] = ()
    aliases: tuple[str, ...] = ()


class Link(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="link"):
    """A cable between two ports; speed is nominal, delay is the one-way propagation time."""

    fabric: str
    a_device: str
    a_port: str
    b_device: str
    b_port: str
    speed_mbps: int
    valid_from_ns: int
    stream: FactStream
    delay_ns: int = 1000


class Hop(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device on a flow's path; a port is "" where the flow begins or ends."""

    device: str
    in_port: str = ""
    out_port: str = ""


class Flow(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="flow"):
    """A flow: its id (16 hex digits, the `flow` of records), its ends and, where known, its path."""

    fabric: str
    flow: str
    src_device: str
    dst_device: str
    src_ip: str
    dst_ip: str
    protocol: int
    src_port: int
    dst_port: int
    valid_from_ns: int
    stream: FactStream
    qpn: int = 0
    priority: int = 255
    size_bytes: int = -1
    name: str = ""
    path: tuple[Hop, ...] = ()


Fact = Device | Link | Flow

TOPIC_OF_FACT: dict[type, str] = {Device: "device", Link: "link", Flow: "flow"}


def fact_key(fact: Fact) -> bytes:
    """Kafka key: the fact's identity and valid_from_ns, so that compaction keeps each version."""
    if isinstance(fact, Device):
        identity = fact.device
    elif isinstance(fact, Link):
        identity = f"{fact.a_device}:{fact.a_port}-{fact.b_device}:{fact.b_port}"
    else:
        identity = fact.flow
    return f"{fact.fabric}/{identity}@{fact.valid_from_ns}".encode()


def fact_stream(fact: Fact) -> StreamKey:
    """The stream that the fact belongs to."""
    return StreamKey(fact.fabric, fact.stream.source, fact.stream.epoch, TOPIC_OF_FACT[type(fact)], "")
