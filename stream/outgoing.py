"""One stream on its way out: rows gather to batches with sequence numbers, a mark that never goes back, and losses.

In: a source's rows, marks and losses. Out: batches of 1,024 rows at most, ready to be encoded; no Kafka and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream import kinds, wire
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.record import EVENT, MAX_TIME_NS, Events, empty_events, joined

CLOCK_LEAD_NS = 5_000_000_000
"""A time further than this ahead of when the row was read is a wrong clock."""
NO_PORT = "-"
"""Port name of a row that speaks of a device's whole stream (SOURCE_LOST)."""
MAX_TEXT_CHARS = 256


class Loss(NamedTuple):
    """Rows that are gone, between these times of theirs."""

    rows: int
    first_ns: int
    last_ns: int

    def plus(self, other: Loss) -> Loss:
        """Both losses as one."""
        return Loss(self.rows + other.rows, min(self.first_ns, other.first_ns), max(self.last_ns, other.last_ns))


class Sealed(NamedTuple):
    """A batch to send, and what has to be reported if it gets lost: its own rows, and losses that it reports."""

    batch: Batch
    own: Loss | None
    reported: dict[int, Loss]


def allowed_mark(mark_ns: int, now_ns: int, *, live: bool) -> int:
    """The mark that may be promised: a live source with a wrong clock must not promise away what follows its repair."""
    if MAX_TIME_NS < mark_ns < MARK_END:
        raise WireError(f"mark_ns {mark_ns} is later than any time")
    return min(mark_ns, now_ns + CLOCK_LEAD_NS) if live and mark_ns != MARK_END else mark_ns


class OutgoingStream:
    """Gathers rows of one stream; `mark_ns` is what the stream has promised: nothing older follows.

    Rows of one `add` may be in any order among themselves. A row older than what an earlier `add` promised is late:
    flagged, counted and sent behind the mark.
    """

    def __init__(self, key: StreamKey, from_ns: int, *, live: bool) -> None:
        self.key = key
        self.mark_ns = from_ns
        self.next_seq = 0
        self.lost = 0
        self.late_rows = 0
        self.suspect_rows = 0
        self.waiting_since_s: float | None = None
        """When the oldest row not sealed yet was added, on the caller's clock."""
        self.sealed_at_s = self.rest_s = 0.0
        """When it was last sealed, and how long after that its publisher says that it is idle."""
        self.newest_ns = 0
        """Time of its newest row that can be trusted."""
        self._live = live
        self._parts: list[Events] = []
        self._count = 0
        self._ports: dict[str, int] = {}
        self._texts: list[tuple[int, str]] = []
        self._losses: dict[int, Loss] = {}

    @property
    def owed_ns(self) -> int:
        """By how much its newest row is ahead of its mark: readers wait for a promise that reaches that row."""
        return max(self.newest_ns - self.mark_ns, 0)

    @property
    def has_losses(self) -> bool:
        """Whether a loss still has to be reported."""
        return bool(self._losses)

    def add(
        self,
        events: Events,
        ports: Sequence[str],
        *,
        mark_ns: int | None,
        texts: Sequence[tuple[int, str]],
        now_ns: int,
        now_s: float,
    ) -> list[Sealed]:
        """Takes rows whose port is an index into `ports`; returns the batches that got full.

        `mark_ns` is the promise from behind these rows on; None promises their greatest time.
        """
        if events.dtype != EVENT:
            raise WireError("the rows are not of the record's dtype", "make them with stream.record.empty_events")
        allowed_ns = None if mark_ns is None else self._allowed(mark_ns, now_ns)
        if not len(events):
            self.promise(mark_ns, now_ns)
            return []
        rows = joined([events])
        rows["device"] = 0
        if self._live:
            rows["seen_ns"][rows["seen_ns"] == 0] = now_ns
        wire.check_rows(self.key.topic, rows, len(ports))
        if any(not 0 <= row < len(rows) or len(text) > MAX_TEXT_CHARS for row, text in texts):
            raise WireError(f"a text belongs to no row or is longer than {MAX_TEXT_CHARS} characters")
        times = rows["time_ns"]
        late = times < self.mark_ns
        sealed: list[Sealed] = []
        if late.any():
            rows["quality"][late] |= kinds.LATE
            self.late_rows += int(late.sum())
            if self._count:
                # What is late on the wire then does not depend on how rows happened to share a value.
                sealed.append(self.seal(now_s))
        trusted = times
        if self._live and (suspect := times > rows["seen_ns"] + CLOCK_LEAD_NS).any():
            rows["quality"][suspect] |= kinds.CLOCK_SUSPECT
            self.suspect_rows += int(suspect.sum())
            trusted = times[~suspect]
        if len(trusted):
            self.newest_ns = max(self.newest_ns, int(trusted.max()))
        if allowed_ns is None:
            allowed_ns = int(trusted.max()) if len(trusted) else self.mark_ns
        self._append(rows, ports, texts, allowed_ns, now_s, sealed)
        return sealed

    def promise(self, mark_ns: int | None, now_ns: int) -> None:
        """Nothing older than mark_ns follows; a promise never goes back."""
        if mark_ns is not None:
            self.mark_ns = max(self.mark_ns, self._allowed(mark_ns, now_ns))

    def seal(self, now_s: float) -> Sealed:
        """Everything gathered as one batch; without rows it is an idle value that carries the mark."""
        losses = self._take_losses()
        own = None
        if self._count:
            times = np.concatenate([part["time_ns"] for part in self._parts])
            own = Loss(self._count, int(times.min()), int(times.max()))
        if losses:
            self._parts.append(self._loss_rows(losses))
        events = joined(self._parts)
        batch = Batch(self.key, self.next_seq, self.mark_ns, tuple(self._ports), events, self.lost, tuple(self._texts))
        self.next_seq = batch.next_seq
        self._parts, self._count, self._ports, self._texts = [], 0, {}, []
        self.waiting_since_s = None
        self.sealed_at_s = now_s
        return Sealed(batch, own, losses)

    def lose(self, reason: int, loss: Loss) -> None:
        """Rows are gone: the next batch says so."""
        self.lost += loss.rows
        self._remember(reason, loss)

    def lose_sealed(self, sealed: Sealed, reason: int) -> None:
        """A batch did not reach Kafka: its rows are lost, and what it reported has to be reported again."""
        if sealed.own is not None:
            self.lose(reason, sealed.own)
        for earlier_reason, loss in sealed.reported.items():
            self._remember(earlier_reason, loss)

    def _append(
        self,
        rows: Events,
        ports: Sequence[str],
        texts: Sequence[tuple[int, str]],
        mark_ns: int,
        now_s: float,
        sealed: list[Sealed],
    ) -> None:
        promised_ns = self.mark_ns
        is_split = len(rows) > MAX_EVENTS - self._count
        # oldest_from[i]: least time from row i on, which a batch that ends in front of row i must not promise away.
        oldest_from = np.minimum.accumulate(rows["time_ns"][::-1])[::-1] if is_split else None
        position = 0
        while position < len(rows):
            take = min(MAX_EVENTS - self._count, len(rows) - position)
            part = rows[position : position + take]
            self._texts += [
                (row - position + self._count, text) for row, text in texts if position <= row < position + take
            ]
            self._parts.append(self._with_own_ports(part, ports))
            self._count += take
            position += take
            if self.waiting_since_s is None:
                self.waiting_since_s = now_s
            so_far_ns = mark_ns
            if oldest_from is not None and position < len(rows):
                so_far_ns = min(mark_ns, int(oldest_from[position]))
            self.mark_ns = max(promised_ns, so_far_ns)
            if self._count == MAX_EVENTS:
                sealed.append(self.seal(now_s))

    def _with_own_ports(self, part: Events, ports: Sequence[str]) -> Events:
        """The rows with their ports as indexes into this batch's names, which hold only the ports that occur."""
        used = np.bincount(part["port"]).nonzero()[0]
        own = np.zeros(len(ports), np.uint16)
        own[used] = [self._ports.setdefault(ports[port], len(self._ports)) for port in used.tolist()]
        part["port"] = own[part["port"]]
        return part

    def _allowed(self, mark_ns: int, now_ns: int) -> int:
        return allowed_mark(mark_ns, now_ns, live=self._live)

    def _remember(self, reason: int, loss: Loss) -> None:
        known = self._losses.get(reason)
        self._losses[reason] = loss if known is None else known.plus(loss)

    def _take_losses(self) -> dict[int, Loss]:
        room = MAX_EVENTS - self._count
        taken = dict(list(self._losses.items())[:room])
        for reason in taken:
            del self._losses[reason]
        return taken

    def _loss_rows(self, losses: dict[int, Loss]) -> Events:
        rows = empty_events(len(losses))
        rows["kind"] = kinds.SOURCE_LOST
        rows["quality"] = kinds.GAP
        rows["port"] = self._ports.setdefault(NO_PORT, len(self._ports))
        for row, (reason, loss) in zip(rows, losses.items(), strict=True):
            time_ns = min(max(loss.last_ns, self.mark_ns), MAX_TIME_NS)
            row["time_ns"] = row["seen_ns"] = time_ns
            row["span_ns"] = max(time_ns - loss.first_ns, 0)
            row["value"] = loss.rows
            row["extra"] = reason
        wire.check_rows(self.key.topic, rows, len(self._ports))
        return rows
