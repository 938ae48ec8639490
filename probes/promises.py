"""What an agent may promise of each topic: nothing older follows than what its probes may still bring.

In: when each probe is opened and read, and when what it brought has been passed on. Out: marks. Safe for threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from probes.table import ProbeKind

RING_DELAY_NS = 5_000_000
"""So long an instant may be on its way from its time stamp into the ring that a read empties, with room for a virtual
CPU that is taken away in between and for the clock that is adjusted meanwhile. An older one is flagged as late."""


class _Claim:
    """`oldest_ns` is the oldest time that the next read may bring; None: it brings nothing from before itself."""

    __slots__ = ("is_open", "oldest_ns", "reads_ns", "topics")

    def __init__(self, kind: ProbeKind, oldest_ns: int) -> None:
        self.topics = kind.topics
        self.oldest_ns = oldest_ns if kind.instants else None
        self.reads_ns: list[int] = []
        """Times of reads that have not been passed on yet."""
        self.is_open = True


class Promises:
    """One claim a probe: rows of its instants since the last read, and of reads that are on their way."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._claims: dict[str, _Claim] = {}

    def opens(self, kind: ProbeKind) -> None:
        """From now on the probe may see something; what it read before it was closed may be on its way still."""
        with self._lock:
            claim = self._claims.get(kind.name)
            if claim is not None and claim.reads_ns:
                claim.is_open = True
            else:
                self._claims[kind.name] = _Claim(kind, self._clock_ns() - RING_DELAY_NS)

    def reads(self, kind: ProbeKind) -> int:
        """A read begins: returns the time it is of, behind which nothing is promised until it is `passed_on`."""
        with self._lock:
            now_ns = self._clock_ns()
            claim = self._claims.get(kind.name)
            if claim is None:  # nobody waits for one that was stuck until it has been read again
                claim = self._claims[kind.name] = _Claim(kind, now_ns)
            claim.reads_ns.append(now_ns)
            return now_ns

    def passed_on(self, kind: ProbeKind, read_ns: int) -> None:
        """All that the read of this time brought has been appended."""
        with self._lock:
            claim = self._claims.get(kind.name)
            if claim is not None and read_ns in claim.reads_ns:
                claim.reads_ns = [time_ns for time_ns in claim.reads_ns if time_ns > read_ns]
                claim.oldest_ns = read_ns - RING_DELAY_NS if kind.instants else None
                self._drop_if_over(kind, claim)

    def closes(self, kind: ProbeKind, failed_ns: int | None = None) -> None:
        """The probe sees nothing any more: what it has read is on its way still, but for a read that failed."""
        with self._lock:
            claim = self._claims.get(kind.name)
            if claim is not None:
                claim.reads_ns = [time_ns for time_ns in claim.reads_ns if time_ns != failed_ns]
                claim.is_open = False
                self._drop_if_over(kind, claim)

    def _drop_if_over(self, kind: ProbeKind, claim: _Claim) -> None:
        if not claim.is_open and not claim.reads_ns:
            del self._claims[kind.name]

    def forget(self, name: str) -> None:
        """Nobody waits for the probe, nor for what it has read: it is stuck."""
        with self._lock:
            self._claims.pop(name, None)

    def mark_ns(self, topic: str) -> int:
        """Nothing older than this follows on the topic."""
        with self._lock:
            oldest_ns = self._clock_ns()
            for claim in self._claims.values():
                if topic in claim.topics:
                    if claim.oldest_ns is not None and claim.oldest_ns < oldest_ns:
                        oldest_ns = claim.oldest_ns
                    oldest_ns = min(oldest_ns, *claim.reads_ns) if claim.reads_ns else oldest_ns
            return oldest_ns
