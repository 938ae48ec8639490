"""Where each target stands, for metrics and for people: it exists from the first moment on, also while one is down.

In: what sessions and the decoder see. Out: plain numbers that any thread may read.
"""

from __future__ import annotations

import enum
from collections import Counter

import msgspec

from collectors.breaker import State


class Phase(enum.IntEnum):
    """What a session does now."""

    WAITING = 0
    CONNECTING = 1
    SUBSCRIBING = 2
    RECEIVING = 3
    STOPPED = 4


class TargetStatus(msgspec.Struct):
    """Of one target. Times are seconds since the Unix epoch, 0 = never."""

    name: str
    device: str
    address: str
    profile: str = ""
    phase: Phase = Phase.WAITING
    synced: bool = False
    breaker: State = State.CLOSED
    last_message_s: float = 0.0
    last_update_s: float = 0.0
    skew_ns: int = 0
    skew_known: bool = False
    bytes_read: int = 0
    messages: int = 0
    updates: int = 0
    rows: int = 0
    attempts: int = 0
    failures: int = 0
    last_failure: str = ""
    last_failure_text: str = ""
    failures_by_sort: dict[str, int] = {}
    drops: dict[str, int] = {}
    """What was left out, by reason."""
    refused_paths: tuple[str, ...] = ()

    @property
    def connected(self) -> bool:
        """Whether a subscription stands."""
        return self.phase in (Phase.SUBSCRIBING, Phase.RECEIVING)

    @property
    def up(self) -> bool:
        """Whether data comes."""
        return self.phase is Phase.RECEIVING

    def dropped(self, reason: str, count: int) -> None:
        """Something was left out."""
        if count:
            self.drops[reason] = self.drops.get(reason, 0) + count

    def failed(self, sort: str, text: str) -> None:
        """A session or an attempt ended badly."""
        self.failures += 1
        self.last_failure, self.last_failure_text = sort, text
        self.failures_by_sort[sort] = self.failures_by_sort.get(sort, 0) + 1


class Totals(msgspec.Struct):
    """Of one process."""

    counters: Counter[str]
    held_bytes: int = 0
    budget_bytes: int = 0
    paths: int = 0
