"""The cascade as published: who paused whom, where it began, why, which flows fed it; JSON, upserted by id.

Shares and confidences are integers in parts per million. The published JSON Schema derives from these structs.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stream.kinds import INT64_MAX
from stream.ranges import Count, FabricName, Name, OptionalName, Ppm, PriorityOrNone, Sentence, TimeNs

FINAL = "final"


class Contributor(msgspec.Struct, frozen=True):
    """A flow that fed a root: its bytes through the root while that was active, and their share of all such bytes."""

    flow: Name
    name: OptionalName
    src_device: OptionalName
    dst_device: OptionalName
    bytes: Count
    share_ppm: Ppm
    estimated: bool = False
    """Nobody counted the flow's bytes; they are its size, taken by its path."""


class Alternative(msgspec.Struct, frozen=True):
    """A class that a root of its kind might have had, and what speaks against it."""

    root_class: Name
    why_not: Sentence


class Root(msgspec.Struct, frozen=True):
    """Where the cascade began: a host (kind "host", port "") or an egress queue of a switch (kind "egress").

    kind "unknown" is a switch whose queues gave no evidence. `root_class` is a class of the concepts page or
    "unclassified"; `evidence` says in sentences what the class rests on. `layer` is where to look: host, compute,
    pcie, nic, link, queue, storage or application, "" where that is not known.
    """

    device: Name
    port: OptionalName
    priority: PriorityOrNone
    kind: Name
    share_ppm: Ppm
    pause_ns: Count
    root_class: Name
    evidence: tuple[Sentence, ...]
    contributors: tuple[Contributor, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    """Of roots that are asserted, the other classes in the order in which they are tried."""
    layer: OptionalName = ""


class PausedQueue(msgspec.Struct, frozen=True):
    """An egress queue that was stopped: by whom, how often and how long; depth counts hops from the root (1 = next).

    `share_ppm` is its part of the cascade's pause time; `caused_by` are the paused queues of the pauser that passed
    the pause on (empty where the pauser is a root).
    """

    device: Name
    port: OptionalName
    priority: PriorityOrNone
    paused_by_device: OptionalName
    paused_by_port: OptionalName
    pauses: Count
    pause_ns: Count
    share_ppm: Ppm
    depth: Count
    caused_by: tuple[Sentence, ...] = ()
    first_ns: TimeNs | None = None
    """When its first stop of the cascade began, and its last one ended; null where single stops are not known."""
    last_ns: TimeNs | None = None


class HeldBy(msgspec.Struct, frozen=True):
    """A root's part of the time that a flow was held up."""

    device: Name
    port: OptionalName
    priority: PriorityOrNone
    pause_ns: Count


class Damage(msgspec.Struct, frozen=True):
    """A flow's rate while it was held up, against its own median before the cascade.

    `deviation_milli`: how far below that it is, in thousandths of its scaled median absolute deviation (robust z,
    1.4826 MAD); null where its rate never varied before.
    """

    mbps: Count
    usual_mbps: Count
    deviation_milli: int | None = None


class Victim(msgspec.Struct, frozen=True):
    """A flow that roots held up which it did not feed: for how long its bytes stood in queues that they stopped.

    `roots` has all that held it up, also those with too little of the blame to count in `pause_ns`.

    `damage` is null where the flow was not seen sending before.
    """

    flow: Name
    name: OptionalName
    src_device: OptionalName
    dst_device: OptionalName
    pause_ns: Count
    roots: tuple[HeldBy, ...] = ()
    damage: Damage | None = None


class Edge(msgspec.Struct, frozen=True):
    """At this device, the share of the cascade's XOFFs sent out of an ingress port that an egress queue caused.

    `held_bytes` are the bytes from that ingress that those XOFFs found in the egress queue, all together; where they
    are known, the share is of all such bytes, so that it weighs an XOFF by what it found. Where they are not, a final
    cascade weighs XOFFs by how many ports the device had stopped by then, which share its buffer.
    """

    device: Name
    ingress_port: OptionalName
    egress_port: OptionalName
    share_ppm: Ppm
    held_bytes: Count = 0
    """0 where nobody counts the bytes of flows or of ports."""


class Cascade(msgspec.Struct, frozen=True):
    """One congestion cascade. `revision` counts provisional versions from 1; the last one is "final"."""

    id: Name
    fabric: FabricName
    revision: Annotated[int, Meta(ge=1, le=INT64_MAX)] | Annotated[str, Meta(pattern="^final$", max_length=5)]
    start_ns: TimeNs
    end_ns: TimeNs
    mode: Name
    confidence_ppm: Ppm
    suspect_set: bool
    severity: Name
    severity_reason: Sentence
    pause_ns: Count
    pauses: Count
    roots: tuple[Root, ...]
    queues: tuple[PausedQueue, ...]
    edges: tuple[Edge, ...]
    missing_evidence: tuple[Sentence, ...]
    losses: dict[Name, Count]
    merged_into: Name | None = None
    advice: tuple[Sentence, ...] = ()
    """What could be set better: "name: sentence" each."""
    victims: tuple[Victim, ...] = ()
    """The flows held up for longest; none where nobody counts the bytes of flows."""
    confidence_parts: dict[Name, Ppm] = {}
    """What the confidence was made of, each part 1 where nothing is missing: time, coverage, evidence, margin."""
    modes: dict[Name, Name] = {}
    """By device whether it is "exact" (it logs its pauses) or "sampled" (it is polled); none where all are exact."""
    periods: Count | None = None
    """Polls that carry pause, null where no device is polled: below 3, one of them decides too much."""
    poll_ns: Count | None = None
    """How long the longest of these polls is."""
    stall_rank_ns: Count = 0
    """What slow steps cost a job: by how much longer than usual they lasted, times its ranks; 0 where nobody knows."""


def cascade_key(cascade: Cascade) -> bytes:
    """Kafka key: fabric/id."""
    return f"{cascade.fabric}/{cascade.id}".encode()
