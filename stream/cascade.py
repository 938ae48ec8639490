"""The cascade as published: who paused whom, where it began, why, which flows fed it; JSON, upserted by id.

Shares and confidences are integers in parts per million. The published JSON Schema derives from these structs.
"""

from __future__ import annotations

import msgspec

FINAL = "final"


class Contributor(msgspec.Struct, frozen=True):
    """A flow that fed a root: its bytes through the root while the root was active, and their share of all such bytes."""

    flow: str
    name: str
    src_device: str
    dst_device: str
    bytes: int
    share_ppm: int


class Root(msgspec.Struct, frozen=True):
    """Where the cascade began: a host (kind "host", port "") or an egress queue of a switch (kind "egress").

    kind "unknown" is a switch whose queues gave no evidence. `root_class` is a class of the concepts page or
    "unclassified"; `evidence` says in sentences what the class rests on.
    """

    device: str
    port: str
    priority: int
    kind: str
    share_ppm: int
    pause_ns: int
    root_class: str
    evidence: tuple[str, ...]
    contributors: tuple[Contributor, ...] = ()


class PausedQueue(msgspec.Struct, frozen=True):
    """An egress queue that was stopped, by whom, how often and for how long; depth counts hops from the root (1 = next).

    `share_ppm` is its part of the cascade's pause time; `caused_by` are the paused queues of the pauser that passed
    the pause on (empty where the pauser is a root).
    """

    device: str
    port: str
    priority: int
    paused_by_device: str
    paused_by_port: str
    pauses: int
    pause_ns: int
    share_ppm: int
    depth: int
    caused_by: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """At this device, the share of the cascade's XOFFs sent out of an ingress port that an egress queue caused."""

    device: str
    ingress_port: str
    egress_port: str
    share_ppm: int


class Cascade(msgspec.Struct, frozen=True):
    """One congestion cascade. `revision` counts provisional versions from 1; the last one is "final"."""

    id: str
    fabric: str
    revision: int | str
    start_ns: int
    end_ns: int
    mode: str
    confidence_ppm: int
    suspect_set: bool
    severity: str
    severity_reason: str
    pause_ns: int
    pauses: int
    roots: tuple[Root, ...]
    queues: tuple[PausedQueue, ...]
    edges: tuple[Edge, ...]
    missing_evidence: tuple[str, ...]
    losses: dict[str, int]
    merged_into: str | None = None


def cascade_key(cascade: Cascade) -> bytes:
    """Kafka key: fabric/id."""
    return f"{cascade.fabric}/{cascade.id}".encode()
