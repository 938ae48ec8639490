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
from stream.record import Events, empty_events

_COLUMNS = ("kind", "priority", "side", "time_ns", "extra")


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
    down: bool = False
    """Whether the roster has told of its end."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """From when until when it is suspended, in order; until FOREVER where nobody has resumed it yet."""
    cuts: int = 0
    """Of these gaps, at so many it has arrived, and what was open there has been ended."""
    opens: dict[tuple[int, int, int], Open] = field(default_factory=dict)
    """Its open pauses by number of the port's names, priority and side."""
    held: list[Fact] = field(default_factory=list)
    """Facts told in a gap: they hold from its end on."""

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

    def follow(self, events: Events, numbers: Ints) -> list[Cut]:
        """Follows which pauses these rows open and close, and ends what is open at gaps between them."""
        pause = (events["kind"] == kinds.PAUSE_OPEN) | (events["kind"] == kinds.PAUSE_INTERVAL)
        if not pause.any():
            return []
        cuts: list[Cut] = []
        opens = self.opens
        expects_gap = self.cuts < len(self.gaps)
        for number, kind, priority, side, time_ns, order in zip(
            numbers[pause].tolist(), *(events[name][pause].tolist() for name in _COLUMNS), strict=True
        ):
            if expects_gap and self.cuts < len(self.gaps) and time_ns > self.gaps[self.cuts][0]:
                cuts += self.cut(time_ns)
            queue = (number, priority, side)
            if kind == kinds.PAUSE_OPEN:
                opens[queue] = Open(time_ns, order)
            elif (known := opens.get(queue)) is not None and known.order == order:
                del opens[queue]
        return cuts

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
        opens = [[*queue, *pause] for queue, pause in self.opens.items()]
        held = [list(messages.encode(fact)) for fact in self.held]
        plain = [self.mark_ns, self.next_seq, self.last_seq, self.period_ns, self.down]
        return [*plain, [list(gap) for gap in self.gaps], self.cuts, opens, held]

    @classmethod
    def of_state(cls, state: list[Any]) -> Stream:
        """Continues from `state()`."""
        mark_ns, next_seq, last_seq, period_ns, down, gaps, cuts, opens, held = state
        return cls(
            mark_ns, next_seq, last_seq, period_ns, down, [(begin, until) for begin, until in gaps], cuts,
            {(number, priority, side): Open(*pause) for number, priority, side, *pause in opens},
            [cast("Fact", messages.decode(*message)) for message in held],
        )  # fmt: skip
