"""Facts about a fabric: devices, links and flows, JSON on low-rate topics, each a stream of its own with valid_from_ns.

The published JSON Schemas derive from these structs. A default is part of the format for good: a fact that leaves a
field out says the default, in a capture of whatever age.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stream.batch import StreamKey
from stream.kinds import INT64_MAX
from stream.ranges import (
    FabricName,
    FlowText,
    MarkNs,
    Name,
    OptionalName,
    PeriodNs,
    PriorityOrNone,
    Seq,
    SourceName,
    SpeedMbps,
    TimeNs,
)

MAX_PORTS = 65_536
MAX_ALIASES = 256
MAX_HOPS = 256
DEFAULT_DELAY_NS = 1000
"""Of a cable whose length nobody tells: two hundred metres."""
DSCPS = 64
PRIORITIES = 8

FactTopic = Literal["device", "link", "flow"]
Aliases = Annotated[tuple[Name, ...], Meta(max_length=MAX_ALIASES)]
TransportPort = Annotated[int, Meta(ge=0, le=65_535)]
QueueNumber = Annotated[int, Meta(ge=0, le=255)]
Priority = Annotated[int, Meta(ge=0, lt=PRIORITIES)]
OfDscps = Annotated[tuple[Priority, ...], Meta(min_length=DSCPS, max_length=DSCPS)]
OfPriorities = Annotated[tuple[Priority, ...], Meta(min_length=PRIORITIES, max_length=PRIORITIES)]
Queues = Annotated[tuple[QueueNumber, ...], Meta(min_length=PRIORITIES, max_length=PRIORITIES)]


class FactStream(msgspec.Struct, frozen=True):
    """The stream that a fact belongs to; nothing valid from before mark_ns follows on it."""

    source: SourceName
    epoch: Name
    seq: Seq
    mark_ns: MarkNs


class Peer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The far end of a port's cable, as the port's own device names it (LLDP)."""

    device: Name
    port: Name


class Port(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of a device with the other names it is known by and its speed in Mb/s (0 = unknown).

    `aliases`: ifname, ifalias, MAC, RDMA device, PCI address. `lag`: the port of the same device (bond, Port-Channel)
    that this one is a member of. `rail`: the rail of the fabric that it belongs to. A rank of a job is a port of its
    host too: `nic` is the port of the same device that it sends by, `job` the name of its job.
    """

    port: Name
    speed_mbps: SpeedMbps = 0
    aliases: Aliases = ()
    ips: Aliases = ()
    lag: OptionalName = ""
    rail: OptionalName = ""
    peer: Peer | None = None
    nic: OptionalName = ""
    job: OptionalName = ""


class PriorityMaps(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a device sorts packets: DSCP -> priority -> traffic class -> queue and priority group, each by its index.

    A map that nobody has read or configured is null; stream/priorities.py says what is then assumed.
    """

    dscp_to_priority: OfDscps | None = None
    priority_to_traffic_class: OfPriorities | None = None
    traffic_class_to_queue: Queues | None = None
    traffic_class_to_priority_group: Queues | None = None


class Device(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="device"):
    """A switch or host of the fabric, as one source knows it; the source's next version of it replaces this one."""

    fabric: FabricName
    device: Name
    role: OptionalName
    valid_from_ns: TimeNs
    stream: FactStream
    ports: Annotated[tuple[Port, ...], Meta(max_length=MAX_PORTS)] = ()
    aliases: Aliases = ()
    priorities: PriorityMaps | None = None


class Link(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="link"):
    """A cable between two ports; speed is nominal, delay is the one-way propagation time."""

    fabric: FabricName
    a_device: Name
    a_port: Name
    b_device: Name
    b_port: Name
    speed_mbps: SpeedMbps
    valid_from_ns: TimeNs
    stream: FactStream
    delay_ns: PeriodNs = DEFAULT_DELAY_NS


class Hop(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device on a flow's path; a port is "" where the flow begins or ends."""

    device: Name
    in_port: OptionalName = ""
    out_port: OptionalName = ""


class Flow(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="fact", tag="flow"):
    """A flow: its id (16 hex digits, the `flow` of records), its ends and, where known, its path."""

    fabric: FabricName
    flow: FlowText
    src_device: Name
    dst_device: Name
    src_ip: OptionalName
    dst_ip: OptionalName
    protocol: Annotated[int, Meta(ge=0, le=255)]
    src_port: TransportPort
    dst_port: TransportPort
    valid_from_ns: TimeNs
    stream: FactStream
    qpn: Annotated[int, Meta(ge=0, lt=1 << 24)] = 0
    priority: PriorityOrNone = 255
    size_bytes: Annotated[int, Meta(ge=-1, le=INT64_MAX)] = -1
    name: OptionalName = ""
    path: Annotated[tuple[Hop, ...], Meta(max_length=MAX_HOPS)] = ()


class Idle(msgspec.Struct, frozen=True, tag_field="fact", tag="idle"):
    """The idle value of a stream of facts: it has nothing to say, and nothing valid from before its mark follows.

    The seq of its stream is that of the next fact.
    """

    fabric: FabricName
    topic: FactTopic
    stream: FactStream


Fact = Device | Link | Flow

TOPIC_OF_FACT: dict[type, str] = {Device: "device", Link: "link", Flow: "flow"}


def fact_key(fact: Fact | Idle) -> bytes:
    """Kafka key: the fact's identity and valid_from_ns, so that compaction keeps each version; of idle values the last.

    No identity is empty, so that no fact has an idle value's key.
    """
    if isinstance(fact, Idle):
        return f"{fact.fabric}/@{fact.stream.source}/{fact.stream.epoch}".encode()
    if isinstance(fact, Device):
        identity = fact.device
    elif isinstance(fact, Link):
        identity = f"{fact.a_device}:{fact.a_port}-{fact.b_device}:{fact.b_port}"
    else:
        identity = fact.flow
    return f"{fact.fabric}/{identity}@{fact.valid_from_ns}".encode()


def fact_stream(fact: Fact | Idle) -> StreamKey:
    """The stream that the fact or idle value belongs to."""
    topic = fact.topic if isinstance(fact, Idle) else TOPIC_OF_FACT[type(fact)]
    return StreamKey(fact.fabric, fact.stream.source, fact.stream.epoch, topic, "")
