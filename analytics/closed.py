"""A cascade as it is handed over when it closes: by the engine, or by what adds up the periods of polled devices."""

from __future__ import annotations

from dataclasses import dataclass

from analytics.ledger import Ledger
from analytics.sampled_cascade import Part


@dataclass(frozen=True, slots=True)
class Closed:
    """A cascade that has closed (or, in a provisional run, is still open): its slot, id, times and ledger."""

    slot: int
    id: str
    start_ns: int
    end_ns: int
    ledger: Ledger
    still_open: bool
    sampled: Part | None = None
    """What sampling adds where devices of it are polled (analytics.sampled); its slot is -1 then."""
