"""Polls of devices that are not aligned, put on one grid of periods: when, within its windows, a queue was stopped.

In: by stopped queue, windows of its own counters and of the pause frames that the other end of its link counted. Out:
stops and paused time in one period. Both ends count the same frames, so two windows that are shifted against each other
tell more of when they were than either does; what they leave open is taken as spread evenly.
"""

from __future__ import annotations

from analytics.compiled import kernel
from analytics.layout import Floats, Ints

ROUNDS = 10
"""Of scaling the frames to the windows of one end, then of the other; three are as good."""
MAX_EDGES = 192
"""Ends of windows that matter to one queue in one period; a queue that has more is taken as spread evenly."""
WINDOW_START, WINDOW_END, WINDOW_STOPS, WINDOW_PAUSED = range(4)
"""Columns of a window: ns; stops (or frames), paused ns, -1 where not known."""
OUT_STOPS, OUT_PAUSED, OUT_LENGTH, OUT_CUT = range(4)
OUT_COLUMNS = 4
"""Columns of what comes out: stops and paused ns in the period (paused -1: no window knows), and the length of the
windows that they are from, weighed by stops: one that is longer than the period tells of fewer periods; and whether a
window goes beyond the period, so that when it counted is not sure."""


@kernel
def locate(
    begin_ns: int,
    end_ns: int,
    own_bounds: Ints,
    own: Ints,
    other_bounds: Ints,
    other: Ints,
    out: Floats,
    edges: Ints,
    part: Floats,
) -> None:
    """Fills `out` for each queue; windows of queue i are own[own_bounds[i, 0] : own_bounds[i, 1]], and so for `other`.

    Windows of one queue and end do not overlap and are in order. Where `other` has any, it counts all frames: between
    its windows there were none. `edges` and `part` are room for MAX_EDGES.
    """
    for queue in range(len(own_bounds)):
        first, last = own_bounds[queue, 0], own_bounds[queue, 1]
        first_other, last_other = other_bounds[queue, 0], other_bounds[queue, 1]
        out[queue, OUT_STOPS] = out[queue, OUT_LENGTH] = 0.0
        out[queue, OUT_PAUSED] = 0.0
        count = 0
        simple = 2 * (last - first + last_other - first_other) + 2 > MAX_EDGES
        # The other end's windows say how much they hold where they lie inside what this end tells of.
        hull_begin, hull_end = end_ns, begin_ns
        for w in range(first, last):
            hull_begin, hull_end = min(hull_begin, own[w, WINDOW_START]), max(hull_end, own[w, WINDOW_END])
            start, stop = own[w, WINDOW_START], own[w, WINDOW_END]
            if start < begin_ns < stop or start < end_ns < stop:
                count += 1
        aligned = count == 0
        out[queue, OUT_CUT] = 0.0 if aligned else 1.0
        count = 0
        if not simple and not aligned and last_other > first_other:
            edges[0], edges[1] = begin_ns, end_ns
            count = 2
            for w in range(first, last):
                edges[count], edges[count + 1] = own[w, WINDOW_START], own[w, WINDOW_END]
                count += 2
            for w in range(first_other, last_other):
                edges[count], edges[count + 1] = other[w, WINDOW_START], other[w, WINDOW_END]
                count += 2
            for i in range(1, count):
                value, place = edges[i], i
                while place > 0 and edges[place - 1] > value:
                    edges[place] = edges[place - 1]
                    place -= 1
                edges[place] = value
            for i in range(count - 1):
                part[i] = float(edges[i + 1] - edges[i])
            for _ in range(ROUNDS):
                _scale(own, first, last, hull_begin, hull_end, edges, count, part, False)
                _scale(other, first_other, last_other, hull_begin, hull_end, edges, count, part, True)
            _scale(own, first, last, hull_begin, hull_end, edges, count, part, False)
        weight = 0.0
        known = False
        for w in range(first, last):
            start, stop = own[w, WINDOW_START], own[w, WINDOW_END]
            overlap = float(min(stop, end_ns) - max(start, begin_ns))
            if overlap <= 0.0:
                continue
            length = float(stop - start)
            share = overlap / length
            paused = float(own[w, WINDOW_PAUSED])
            stops = float(max(own[w, WINDOW_STOPS], 0))
            known = known or paused >= 0.0
            if count == 0 or own[w, WINDOW_STOPS] <= 0:
                inside, paused_inside = stops * share, max(paused, 0.0) * share
            else:
                inside, paused_inside = _inside(begin_ns, end_ns, start, stop, stops, paused, edges, count, part)
            out[queue, OUT_STOPS] += inside
            out[queue, OUT_PAUSED] += paused_inside
            mass = max(inside, paused_inside / 1e3, 1e-9)
            out[queue, OUT_LENGTH] += mass * length
            weight += mass
        if weight > 0.0:
            out[queue, OUT_LENGTH] /= weight
        if not known:
            out[queue, OUT_PAUSED] = -1.0


@kernel
def _scale(
    windows: Ints, first: int, last: int, hull_begin: int, hull_end: int, edges: Ints, count: int, part: Floats,
    between_is_none: bool,
) -> None:  # fmt: skip
    """Scales what lies in each window to what that counted; a window in which nothing is left is filled evenly."""
    w = first
    for i in range(count - 1):
        begin, end = edges[i], edges[i + 1]
        if end == begin:
            continue
        while w < last and windows[w, WINDOW_END] <= begin:
            w += 1
        covered = w < last and windows[w, WINDOW_START] <= begin
        if not covered and between_is_none:
            part[i] = 0.0
    for w in range(first, last):
        start, stop = windows[w, WINDOW_START], windows[w, WINDOW_END]
        if windows[w, WINDOW_STOPS] < 0 or start < hull_begin or stop > hull_end:
            continue
        total = 0.0
        for i in range(count - 1):
            if start <= edges[i] and edges[i + 1] <= stop:
                total += part[i]
        for i in range(count - 1):
            if start <= edges[i] and edges[i + 1] <= stop:
                if total > 0.0:
                    part[i] *= windows[w, WINDOW_STOPS] / total
                else:
                    part[i] = windows[w, WINDOW_STOPS] * float(edges[i + 1] - edges[i]) / float(stop - start)


@kernel
def _inside(
    begin_ns: int, end_ns: int, start: int, stop: int, stops: float, paused: float, edges: Ints, count: int,
    part: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Of one window, the stops and the paused time inside the period: time goes with stops, no piece is overfull."""
    inside = paused_inside = placed = room = room_inside = 0.0
    for i in range(count - 1):
        if start <= edges[i] and edges[i + 1] <= stop and edges[i + 1] > edges[i]:
            length = float(edges[i + 1] - edges[i])
            own = min(length, max(paused, 0.0) * part[i] / stops)
            placed += own
            room += length - own
            if begin_ns <= edges[i] and edges[i + 1] <= end_ns:
                inside += part[i]
                paused_inside += own
                room_inside += length - own
    rest = max(paused, 0.0) - placed
    if rest > 0.0 and room > 0.0:
        paused_inside += rest * room_inside / room
    return inside, paused_inside
