"""When, within its polls, a queue was stopped, by lists of elementary pieces: slow twin of analytics.poll_grid."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Window(NamedTuple):
    """A poll: stops or frames counted, and paused ns, -1 where not known."""

    start_ns: int
    end_ns: int
    stops: int
    paused_ns: int


def located(begin_ns: int, end_ns: int, own: list[Window], other: list[Window]) -> tuple[float, float, bool]:
    """Stops and paused ns (-1: unknown) of the period, and whether a poll goes beyond it."""
    cut = any(w.start_ns < edge < w.end_ns for w in own for edge in (begin_ns, end_ns))
    hull = (
        min([begin_ns if not own else end_ns, *(w.start_ns for w in own)]),
        max([end_ns if not own else begin_ns, *(w.end_ns for w in own)]),
    )
    refined = cut and bool(other)
    edges = sorted({begin_ns, end_ns, *(e for w in own + other for e in (w.start_ns, w.end_ns))})
    pieces = list(pairwise(edges))
    part = {piece: float(piece[1] - piece[0]) for piece in pieces}

    def within(window: Window) -> list[tuple[int, int]]:
        return [piece for piece in pieces if window.start_ns <= piece[0] and piece[1] <= window.end_ns]

    def scale(windows: list[Window], between_is_none: bool) -> None:
        for piece in pieces:
            if between_is_none and not any(w.start_ns <= piece[0] < w.end_ns for w in windows):
                part[piece] = 0.0
        for window in windows:
            if window.stops < 0 or window.start_ns < hull[0] or window.end_ns > hull[1]:
                continue
            total = sum(part[piece] for piece in within(window))
            for piece in within(window):
                if total > 0:
                    part[piece] *= window.stops / total
                else:
                    length = window.end_ns - window.start_ns
                    part[piece] = window.stops * (piece[1] - piece[0]) / length

    if refined:
        for _ in range(10):
            scale(own, False)
            scale(other, True)
        scale(own, False)
    stops = paused = 0.0
    known = False
    for window in own:
        overlap = min(window.end_ns, end_ns) - max(window.start_ns, begin_ns)
        if overlap <= 0:
            continue
        known = known or window.paused_ns >= 0
        if not refined or window.stops <= 0:
            share = overlap / (window.end_ns - window.start_ns)
            stops += max(window.stops, 0) * share
            paused += max(window.paused_ns, 0) * share
            continue
        placed = {
            piece: min(piece[1] - piece[0], max(window.paused_ns, 0) * part[piece] / window.stops)
            for piece in within(window)
        }
        room = {piece: piece[1] - piece[0] - ns for piece, ns in placed.items()}
        rest = max(window.paused_ns, 0) - sum(placed.values())
        here = [piece for piece in placed if begin_ns <= piece[0] and piece[1] <= end_ns]
        stops += sum(part[piece] for piece in here)
        paused += sum(placed[piece] for piece in here)
        if rest > 0 and sum(room.values()) > 0:
            paused += rest * sum(room[piece] for piece in here) / sum(room.values())
    return stops, paused if known else -1.0, cut
