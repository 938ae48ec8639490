"""One queue's pauses from what both ends of its link log, in the plainest way and all at once, without counters.

The slow twin of analytics.reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_high
from typing import NamedTuple

TOGETHER_NS = 1_000
LOOK_NS = 2_000_000
UNKNOWN_PAUSE_NS = 20_000
LONGEST_GUESS_NS = 1_000_000
REMEMBERED = 15


class Edge(NamedTuple):
    """An XOFF or XON as one end logs it, on the fabric's clock; of an XON, when its pause began (None: unknown)."""

    time_ns: int
    stops: bool
    at_stopped: bool
    start_ns: int | None = None


class Pause(NamedTuple):
    """From when until when; whether one of both is a guess. `end_ns` is None where it is open still."""

    start_ns: int
    end_ns: int | None
    guessed: bool


@dataclass
class Said:
    """An edge after both ends have been put together."""

    time_ns: int
    stops: bool
    start_ns: int | None
    at_stopped: bool


def together(edges: Iterable[Edge]) -> list[Said]:
    """Edges of one kind that follow each other closely are one, at the time of the stopped end if it has logged it."""
    left = sorted(edges, key=lambda edge: (edge.time_ns, _turn(edge), not edge.at_stopped))
    said = []
    while left:
        first = left[0]
        same = [e for e in left if e.stops == first.stops and e.time_ns <= first.time_ns + TOGETHER_NS]
        left = [edge for edge in left if edge not in same]
        time_ns = next((edge.time_ns for edge in same if edge.at_stopped), first.time_ns)
        starts = [edge.start_ns for edge in same if edge.start_ns is not None]
        at_stopped = any(edge.at_stopped for edge in same)
        said.append(Said(time_ns, first.stops, max(starts, default=None), at_stopped))
    return said


def _turn(edge: Edge) -> int:
    if edge.stops:
        return 1
    return 2 if edge.start_ns == edge.time_ns else 0


def pauses_of(edges: Iterable[Edge]) -> list[Pause]:
    """The pauses in order; ends that nobody has logged are guessed."""
    made: list[Pause] = []
    clean: list[int] = []
    start_ns: int | None = None
    last_ns: int | None = None

    def likely_ns() -> int:
        return min(median_high(clean[-REMEMBERED:]), LONGEST_GUESS_NS) if clean else UNKNOWN_PAUSE_NS

    for edge in together(edges):
        now_ns = edge.time_ns
        if edge.stops:
            if start_ns is not None and now_ns <= start_ns + TOGETHER_NS:
                continue
            if start_ns is not None:
                last_ns = min(max(start_ns + likely_ns(), now_ns - LOOK_NS), now_ns)
                made.append(Pause(start_ns, last_ns, True))
            start_ns = now_ns if last_ns is None else max(now_ns, last_ns)
        elif start_ns is not None:
            last_ns = max(now_ns, start_ns)
            made.append(Pause(start_ns, last_ns, False))
            if edge.start_ns is not None and abs(edge.start_ns - start_ns) <= TOGETHER_NS:
                clean.append(last_ns - start_ns)
            start_ns = None
        else:
            if edge.start_ns is None:
                begin_ns = now_ns - likely_ns()
            elif not edge.at_stopped or (last_ns is not None and edge.start_ns <= last_ns):
                continue
            else:
                begin_ns = max(edge.start_ns, now_ns - LOOK_NS)
            begin_ns = begin_ns if last_ns is None else max(begin_ns, last_ns)
            if begin_ns < now_ns:
                made.append(Pause(begin_ns, now_ns, True))
                last_ns = now_ns
    if start_ns is not None:
        made.append(Pause(start_ns, None, False))
    return made
