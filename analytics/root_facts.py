"""What is known of one root, for the rules that give it a class.

In: nothing; verdict.py fills it from the engine's state. Out: `RootFacts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from analytics.host_evidence import Finding

HELD_LEAST_NS = 100_000
"""Of less, what a link sent while it held what others were stopped for says little: an XON is on its way meanwhile."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """An egress port of the root's sibling group: name, speed and what it sent while the group had an active root."""

    name: str
    speed_mbps: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class RootFacts:
    """What is known of one root; a number that nobody reported is None (or 0 for counts)."""

    kind: str
    device: str
    port: str
    speed_mbps: int
    faces_host: str
    """The host that the root egress leads to, "" if it leads to a switch."""
    pcie: tuple[tuple[int, int, int], ...]
    """(kind, least value in the time of the cascade, at most) of the root host."""
    stopped_ns: int
    stopped_span_ns: int
    """Of the egress that the root host stops: stopped time, and from its first stop to the end of its last."""
    sent_ratio: float | None
    """Of what it could, what that egress (or the root egress itself) sent between its first stop and its last."""
    ingress_ports: int
    """Ingress ports that were stopped because of the root egress."""
    sources: int
    """Hosts whose flows fed the root; 0 where flows are unknown."""
    max_mbps: int
    """Highest rate of the root egress in a window in which it was queued and not stopped."""
    queued_windows: int
    siblings: tuple[Sibling, ...]
    active_ns: int
    """Time of the byte windows in which the root's sibling group was active."""
    ring: tuple[str, ...] = ()
    """The queues of a ring that the root is one of, which stopped each other."""
    quiet_ns: int = 0
    """For how long all queues of the ring were stopped at once."""
    quiet_limit_ns: int = 0
    """What is longer than that is a deadlock."""
    stops: int = 0
    """Stops of the egress that the root host stops."""
    sent_share: float | None = None
    """Of its line rate, what that egress sent while its group was active."""
    main_host: str = ""
    """The host that most of the root egress' bytes went to."""
    main_host_share: float = 0.0
    reports_depth: bool = False
    """Of a root without evidence: whether its device reports depths at all."""
    depths_due: bool = False
    """Whether depths of the cascade's time may still come."""
    inside: tuple[Finding, ...] = ()
    """What the root host reported of itself in the time of the cascade, what decides its layer first."""
    reported: tuple[str, ...] = ()
    """Of HOST_TOPICS, those that the root host reported on in that time."""
    link_errors: tuple[str, ...] = ()
    """Errors at both ends of the root egress' link, in sentences, if they are more than a whole link has."""
    polled: bool = False
    """Whether devices of the cascade are polled."""
    held_ns: int = 0
    """Of a polled root egress, the least time in which it held what others were stopped for and could send it."""
    sent_held_bytes: int = 0
    """What it sent in the polls of that time, in it and before or after."""

    @property
    def held_mbps(self) -> int | None:
        """What a polled root egress can have sent at most while it held what others were stopped for."""
        return self.sent_held_bytes * 8_000 // self.held_ns if self.held_ns >= HELD_LEAST_NS else None

    @property
    def port_name(self) -> str:
        """The root's name among its siblings."""
        return f"{self.device}:{self.port}"
