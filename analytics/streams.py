"""A stream of the roster as correlate sees it: where it stands, which pauses it holds open, when it is suspended.

A gap begins where others stopped waiting for the stream and ends where it was resumed. What it tells of the time
between, or began to tell there, does not count; which rows those are depends on their times alone
(docs/decisions/0006).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from analytics.layout import FOREVER, Bools, Ints
from stream import kinds, messages
from stream.batch import MARK_END
from stream.facts import Fact
from stream.record import Events, empty_events, joined, picked

_COLUMNS = ("kind", "priority", "side", "time_ns", "extra")


MOST_UNREAD = 256
"""Rows of pauses that wait: to read them all at once takes a tenth of the time, and they are 16 KB."""


class Open(NamedTuple):
    """A pause that is open: when it began, and its order on its queue."""

    since_ns: int
    order: int


class Cut(NamedTuple):
    """Guessed ends of pauses that were open where a gap begins, and the number of the names of each one's port."""

    events: Events
    numbers: Ints


@dataclass(slots=True)
class Stream:
    """Where it stands and, after SOURCE_DOWN, the sequence number of its last row."""

    mark_ns: int = -1
    next_seq: int = 0
    last_seq: int | None = None
    period_ns: int = 0
    newest_ns: int = 0
    """Time of its newest row, for provisional looks alone: no part of a snapshot."""
    down: bool = False
    """Whether the roster has told of its end."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """From when until when it is suspended, in order; until FOREVER where nobody has resumed it yet."""
    cuts: int = 0
    """Of these gaps, at so many it has arrived, and what was open there has been ended."""
    opens: dict[tuple[int, int, int], Open] = field(default_factory=dict)
    """Its open pauses by number of the port's names, priority and side, but for what is unread."""
    held: list[Fact] = field(default_factory=list)
    """Facts told in a gap: they hold from its end on."""
    _unread: list[tuple[Events, Ints]] = field(default_factory=list)
    """Rows of pauses that may have opened or ended some, with the numbers of their ports' names."""
    _unread_rows: int = 0

    @property
    def suspended(self) -> bool:
        """Whether it has arrived at a gap that has no end yet: nobody waits for it."""
        return self.cuts > 0 and self.gaps[self.cuts - 1][1] == FOREVER

    @property
    def resumable(self) -> bool:
        """Whether the last gap that the roster told of has no end."""
        return bool(self.gaps) and self.gaps[-1][1] == FOREVER

    def can_suspend(self, at_ns: int) -> bool:
        """Whether a gap can begin there: not in one, and not again where the last one began."""
        return not self.gaps or self.gaps[-1][1] <= at_ns

    def can_resume(self, from_ns: int) -> bool:
        """Whether the last gap can end there: a change that is read again is of no use, nor is one behind the end."""
        return not self.down and self.resumable and from_ns > self.gaps[-1][0]

    def complete(self) -> bool:
        """Whether nothing is to be waited for any more."""
        return self.mark_ns == MARK_END or (self.last_seq is not None and self.next_seq > self.last_seq)

    def promised_ns(self) -> int:
        """Up to when nobody needs to wait for it: its mark, or the end of the gap that this lies in."""
        return next((until for begin, until in self.gaps if begin <= self.mark_ns < until), self.mark_ns)

    def out_of_gaps(self, time_ns: int) -> int:
        """The first time from this one on that is in no gap; FOREVER if there is none yet."""
        return next((until for begin, until in self.gaps if begin < time_ns < until), time_ns)

    def suspend(self, at_ns: int) -> None:
        """A gap begins."""
        self.gaps.append((at_ns, FOREVER))

    def resume(self, from_ns: int) -> list[Fact]:
        """The gap ends; returns the facts told in it."""
        self.gaps[-1] = (self.gaps[-1][0], from_ns)
        held, self.held = self.held, []
        return held

    def counted(self, events: Events) -> Bools:
        """Which rows neither lie in a gap nor began in one."""
        counted = np.ones(len(events), np.bool_)
        for begin, until in self.gaps:
            counted &= (events["time_ns"] <= begin) | (events["time_ns"] - events["span_ns"] >= until)
        return counted

    def follow(self, events: Events, numbers: Ints, pauses_alone: bool) -> list[Cut]:
        """Follows which pauses these rows open and close, and ends what is open at gaps between them."""
        if not pauses_alone:
            pause = (events["kind"] == kinds.PAUSE_OPEN) | (events["kind"] == kinds.PAUSE_INTERVAL)
            events, numbers = picked(events, pause), numbers[pause]
        if not len(events):
            return []
        # Of the instant at which a gap begins, rows may be read after what ended the others.
        in_last_gap = bool(self.gaps) and int(events["time_ns"].min()) <= self.gaps[-1][0]
        if self.cuts == len(self.gaps) and not in_last_gap:
            # Only a gap asks which pauses are open, and few streams ever have one.
            self._unread.append((events, numbers))
            self._unread_rows += len(events)
            if self._unread_rows >= MOST_UNREAD:
                self._read()
            return []
        self._read()
        cuts: list[Cut] = []
        opens = self.opens
        for number, kind, priority, side, time_ns, order in zip(
            numbers.tolist(), *(events[name].tolist() for name in _COLUMNS), strict=True
        ):
            if self.cuts < len(self.gaps) and time_ns > self.gaps[self.cuts][0]:
                cuts += self.cut(time_ns)
            queue = (number, priority, side)
            if kind == kinds.PAUSE_OPEN:
                opens[queue] = Open(time_ns, order)
                if self.cuts and time_ns <= self.gaps[self.cuts - 1][0]:
                    cuts.append(self._ends(self.gaps[self.cuts - 1][0]))
            elif (known := opens.get(queue)) is not None and known.order == order:
                del opens[queue]
        return cuts

    def _read(self) -> None:
        """Takes in what waits: of each queue the last pause counts, unless a later row ends it."""
        if not self._unread:
            return
        events, numbers = joined([part for part, _ in self._unread]), np.concatenate([part for _, part in self._unread])
        self._unread, self._unread_rows = [], 0
        if not len(events):
            return
        queues = (numbers << 16) + (events["priority"].astype(np.int64) << 8) + events["side"]
        by_queue = np.argsort(queues, kind="stable")
        events, queues = picked(events, by_queue), queues[by_queue]
        first = np.flatnonzero(np.append(True, queues[1:] != queues[:-1]))
        begins, orders = events["kind"] == kinds.PAUSE_OPEN, events["extra"]
        place = np.arange(len(events))
        last = np.maximum.reduceat(np.where(begins, place, -1), first)
        opened = last >= 0
        of_row = np.repeat(last, np.diff(np.append(first, len(events))))
        ends = (of_row >= 0) & (place > of_row) & (orders == orders[of_row])
        open_still = opened & ~np.logical_or.reduceat(ends, first)
        for queue in queues[first[opened & ~open_still]].tolist():
            self.opens.pop(_parts(queue), None)
        of_known = np.flatnonzero(of_row < 0)
        for queue, order in zip(queues[of_known].tolist(), orders[of_known].tolist(), strict=True):
            if (known := self.opens.get(_parts(queue))) is not None and known.order == order:
                del self.opens[_parts(queue)]
        since_ns = events["time_ns"][last[open_still]].tolist()
        for queue, began_ns, order in zip(
            queues[first[open_still]].tolist(), since_ns, orders[last[open_still]].tolist(), strict=True
        ):
            self.opens[_parts(queue)] = Open(began_ns, order)

    def cut(self, reached_ns: int) -> list[Cut]:
        """Ends the pauses that are open at gaps it has arrived at."""
        cuts = []
        while self.cuts < len(self.gaps) and reached_ns >= self.gaps[self.cuts][0]:
            cuts.append(self._ends(self.gaps[self.cuts][0]))
            self.cuts += 1
        while self.cuts > 1 and self.gaps[0][1] <= self.mark_ns:
            # What is that old is late anyway. The last one stays, so that it is known when it is told of again.
            del self.gaps[0]
            self.cuts -= 1
        return [cut for cut in cuts if len(cut.events)]

    def _ends(self, at_ns: int) -> Cut:
        self._read()
        ends, numbers = empty_events(len(self.opens)), np.zeros(len(self.opens), np.int64)
        for at, ((number, priority, side), pause) in enumerate(sorted(self.opens.items())):
            end = ends[at : at + 1]
            end["kind"], end["priority"], end["side"], end["extra"] = kinds.PAUSE_INTERVAL, priority, side, pause.order
            end["time_ns"] = max(at_ns, pause.since_ns)
            end["span_ns"] = end["value"] = max(at_ns - pause.since_ns, 0)
            end["quality"] = kinds.ESTIMATED
            numbers[at] = number
        self.opens.clear()
        return Cut(ends, numbers)

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        self._read()
        opens = [[*queue, *pause] for queue, pause in sorted(self.opens.items())]
        held = [list(messages.encode(fact)) for fact in self.held]
        plain = [self.mark_ns, self.next_seq, self.last_seq, self.period_ns, self.down]
        return [*plain, [list(gap) for gap in self.gaps], self.cuts, opens, held]

    @classmethod
    def of_state(cls, state: list[Any]) -> Stream:
        """Continues from `state()`."""
        mark_ns, next_seq, last_seq, period_ns, down, gaps, cuts, opens, held = state
        return cls(
            mark_ns, next_seq, last_seq, period_ns, 0, down, [(begin, until) for begin, until in gaps], cuts,
            {(number, priority, side): Open(*pause) for number, priority, side, *pause in opens},
            [cast("Fact", messages.decode(*message)) for message in held],
        )  # fmt: skip


def _parts(queue: int) -> tuple[int, int, int]:
    """Number, priority and side of a queue."""
    return queue >> 16, queue >> 8 & 0xFF, queue & 0xFF
