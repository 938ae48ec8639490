"""One sequence of pauses for each queue, from what both ends of its link have logged and what its counters say.

In: edges on the fabric's clock, sorted by queue and time, windows of paused time, sorted by queue and end, and each
queue's state (columns M_*).
Out: the kernel's rows: pauses that open and close, and windows in which a queue was stopped for longer than is known.
An edge that one end alone has logged counts as much as one of both. What neither end has logged is made good as far as
it shows: an XOFF in a pause says that its XON was lost, an XON without a pause that its XOFF was, and a window that
counts less paused time than a pause would fill says that it ended before. Such ends are guessed by the queue's median
pause, and marked.
"""

from __future__ import annotations

from typing import NamedTuple

from analytics.clocks import RX, TOLERANCE_NS, XOFF, XON
from analytics.compiled import inlined, kernel
from analytics.layout import (
    CLOSE,
    FOREVER,
    MARK_COUNTED,
    MARK_GUESSED,
    MARK_UNLOGGED,
    MEMORY_NS,
    MISSED,
    NEVER,
    OPEN,
    ROW_AMOUNT,
    ROW_END,
    ROW_ID,
    ROW_ORDER,
    ROW_QUEUE,
    ROW_START,
    ROW_TIME,
    ROW_TYPE,
    Ints,
)

LOOK_NS = 2_000_000
"""So far ahead a row is asked for that says what was lost. A window of counters and a guessed pause are half as long at
most, so that both are over by then."""
MOST_WINDOW_NS = LOOK_NS // 2
FULL_SHARE = 0.9
"""A window that a pause fills counts at least this share of it: what is less no coarse counter explains."""
MISSED_NS = 500
"""Paused time that no pause explains, from here on: less is how two clocks of one device round."""
REMEMBERED = 15
"""Clean pauses of a queue, of which the median is the guess: the last ones, since what stops it changes."""

# Columns of a queue that was ever told of: its number; since when it is open (NEVER: it is not); the end of its last
# pause; its pauses; whether the start is a guess; up to when counters have said that it is stopped; whether both ends
# have logged it; the end of the last pause that counters alone know, and where that began if it fills
# its window (else NEVER); clean pauses and the last of them.
M_QUEUE, M_OPEN, M_LAST, M_ORDER, M_GUESSED, M_CHECKED, M_BOTH, M_COUNTED, M_FILLS, M_CLEAN, M_RING = range(11)
M_COLUMNS = M_RING + REMEMBERED
# Columns of a window, MOST_WINDOW_NS long at most: queue, start, end, paused time, how much of that pauses explain,
# whether that has been told.
W_QUEUE, W_START, W_END, W_PAUSED, W_COVERED, W_DONE = range(6)
WINDOW_COLUMNS = 6
# Columns of an edge here: told queue, kind, time and start on the fabric's clock, paused time, side, whether used.
R_QUEUE, R_KIND, R_TIME, R_START, R_PAUSED, R_SIDE, R_USED = range(7)
# Places in the counts that a run fills.
(N_ROWS, N_LOST_XONS, N_LOST_XOFFS, N_COUNTED_ENDS, N_COUNTED_PAUSES, N_ONE_END, N_REPEATED) = range(7)
N_COUNTS = 7


class Grid(NamedTuple):
    """By device: the length of its first window of paused time (0: it has none) and where that began."""

    period_ns: Ints
    phase_ns: Ints


@kernel
def reconcile(
    edges: Ints,
    windows: Ints,
    first_edge: Ints,
    first_window: Ints,
    of_device: Ints,
    grid: Grid,
    until_ns: int,
    known_ns: int,
    state: Ints,
    rows: Ints,
    scratch: Ints,
    counts: Ints,
) -> None:
    """Follows each queue of `state` up to a time; `first_edge` and `first_window` say where each one's begin, and end.

    All edges and windows up to `known_ns` are there. Edges that are used are marked, and of windows what explains them.
    """
    for queue in range(len(state)):
        windows_from, windows_to = first_window[queue], first_window[queue + 1]
        period_ns, phase_ns = grid.period_ns[of_device[queue]], grid.phase_ns[of_device[queue]]
        edge, last = first_edge[queue], first_edge[queue + 1]
        while True:
            while edge < last and edges[edge, R_USED]:
                edge += 1
            time_ns, both, sides = FOREVER, 0, 0
            kind = XOFF
            start_ns, paused_ns = NEVER, -1
            if edge < last:
                # One edge is what both ends, and perhaps several sources, have logged within the tolerance.
                kind, time_ns = edges[edge, R_KIND], edges[edge, R_TIME]
                near = edge
                while near < last and edges[near, R_TIME] <= edges[edge, R_TIME] + TOLERANCE_NS:
                    if edges[near, R_KIND] == kind and not edges[near, R_USED]:
                        if edges[near, R_SIDE] == RX and not sides & 1:
                            time_ns = edges[near, R_TIME]
                        sides |= 1 << edges[near, R_SIDE]
                        if edges[near, R_START] > start_ns:
                            start_ns, paused_ns = edges[near, R_START], edges[near, R_PAUSED]
                    near += 1
                both = int(sides == 3)
            opened_ns = state[queue, M_OPEN]
            if opened_ns != NEVER:
                end_ns, lasted = FOREVER, False
                if period_ns and not state[queue, M_GUESSED]:
                    end_ns, lasted = _counted_end(
                        queue, windows, windows_from, windows_to, period_ns, phase_ns, min(time_ns, known_ns), state,
                        scratch,
                    )  # fmt: skip
                if end_ns < FOREVER:
                    if end_ns >= until_ns:
                        break
                    counts[N_COUNTED_ENDS] += 1
                    likely_ns = end_ns - opened_ns
                    marks = MARK_GUESSED | MARK_COUNTED if lasted else MARK_GUESSED
                    _close(queue, end_ns, likely_ns, marks, windows, windows_from, windows_to, state, rows, counts)
                    continue
                if edge < last and kind == XOFF and time_ns > opened_ns + TOLERANCE_NS:
                    end_ns = min(max(opened_ns + _median(queue, state, scratch), time_ns - LOOK_NS), time_ns)
                    if end_ns >= until_ns:
                        break
                    counts[N_LOST_XONS] += 1
                    likely_ns = min(end_ns - opened_ns, _median(queue, state, scratch))
                    _close(
                        queue, end_ns, likely_ns, MARK_GUESSED, windows, windows_from, windows_to, state, rows, counts
                    )
                    continue
                if edge >= last or time_ns >= until_ns:
                    break
                if kind == XON:
                    clean = state[queue, M_GUESSED] == 0 and abs(start_ns - opened_ns) <= TOLERANCE_NS
                    marks = MARK_GUESSED if state[queue, M_GUESSED] != 0 else 0
                    counts[N_ONE_END] += state[queue, M_BOTH] != 0 and both == 0
                    end_ns = max(time_ns, opened_ns)
                    if clean:
                        state[queue, M_RING + state[queue, M_CLEAN] % REMEMBERED] = end_ns - opened_ns
                        state[queue, M_CLEAN] += 1
                    else:
                        paused_ns = end_ns - opened_ns
                    _close(queue, end_ns, paused_ns, marks, windows, windows_from, windows_to, state, rows, counts)
                else:
                    counts[N_REPEATED] += 1
            else:
                if edge >= last:
                    break
                last_ns = state[queue, M_LAST]
                if kind == XOFF:
                    if time_ns >= until_ns:
                        break
                    _open(queue, max(time_ns, last_ns), 0, state, rows, counts)
                else:
                    begin_ns = max(last_ns, time_ns - _median(queue, state, scratch), 0)
                    if start_ns != NEVER:
                        begin_ns = max(last_ns, start_ns, time_ns - LOOK_NS, 0)
                    # What a pause sent by the other end stopped, its XOFF alone says: links may be others since.
                    begun = start_ns != NEVER
                    over = begin_ns >= time_ns or (begun and (start_ns <= last_ns or not sides & 1))
                    if not over:
                        if begin_ns >= until_ns:
                            break
                        counts[N_LOST_XOFFS] += 1
                        _open(queue, begin_ns, 1, state, rows, counts)
                        continue
                    if time_ns >= until_ns:
                        break
                    counts[N_REPEATED] += 1
            state[queue, M_BOTH] |= both
            first_ns = edges[edge, R_TIME]
            near = edge
            while near < last and edges[near, R_TIME] <= first_ns + TOLERANCE_NS:
                if edges[near, R_KIND] == kind:
                    edges[near, R_USED] = 1
                near += 1
        for window in range(windows_from, windows_to):
            if windows[window, W_END] > until_ns or windows[window, W_DONE]:
                continue
            windows[window, W_DONE] = 1
            covered_ns = windows[window, W_COVERED]
            if state[queue, M_OPEN] != NEVER:
                covered_ns += max(0, windows[window, W_END] - max(windows[window, W_START], state[queue, M_OPEN]))
            missed_ns = windows[window, W_PAUSED] - covered_ns
            if missed_ns <= MISSED_NS and (missed_ns >= -MISSED_NS or covered_ns == 0):
                continue
            begin_ns, end_ns, told = windows[window, W_START], windows[window, W_END], state[queue, M_QUEUE]
            if covered_ns == 0:
                # Nobody has logged this pause. If that before fills its window up to here, it is the same one; else it
                # lay somewhere in the window. Its order is no other's, whenever that is found.
                goes_on = state[queue, M_FILLS] != NEVER and abs(begin_ns - state[queue, M_COUNTED]) <= TOLERANCE_NS
                fills = missed_ns >= FULL_SHARE * (end_ns - begin_ns)
                if not goes_on:
                    _close_counted(queue, MARK_COUNTED, state, rows, counts)
                    begin_ns += 0 if fills else max(0, (end_ns - begin_ns - missed_ns) // 2)
                    begin_ns = state[queue, M_FILLS] = max(begin_ns, state[queue, M_COUNTED])
                    counts[N_COUNTED_PAUSES] += 1
                    _row(rows, counts, OPEN, told, begin_ns, begin_ns, 0, ~begin_ns, 0)
                end_ns = end_ns if fills else min(begin_ns + missed_ns, end_ns)
                state[queue, M_COUNTED] = max(end_ns, state[queue, M_COUNTED])
                _explain(windows, windows_from, windows_to, begin_ns, end_ns, TOLERANCE_NS)
                if not fills:
                    # One that went on from a window that it filled is known up to here; another lies somewhere.
                    marks = MARK_COUNTED if goes_on else 0
                    _close_counted(queue, marks, state, rows, counts)
            else:
                _row(rows, counts, MISSED, told, begin_ns, end_ns, missed_ns, covered_ns, 0)
        # A window in which it might go on would be over by then.
        if state[queue, M_COUNTED] + MOST_WINDOW_NS + TOLERANCE_NS <= until_ns:
            _close_counted(queue, MARK_COUNTED, state, rows, counts)


@inlined
def _row(
    rows: Ints, counts: Ints, row_type: int, queue: int, start_ns: int, end_ns: int, amount: int, order: int, marks: int
) -> None:
    at = counts[N_ROWS]
    # What is missed in a window is known to those that ask within it.
    rows[at, ROW_TIME] = start_ns if row_type == MISSED else end_ns
    rows[at, ROW_TYPE], rows[at, ROW_QUEUE] = row_type, queue
    rows[at, ROW_START], rows[at, ROW_END], rows[at, ROW_AMOUNT] = start_ns, end_ns, amount
    rows[at, ROW_ORDER], rows[at, ROW_ID] = order, marks
    counts[N_ROWS] += 1


@kernel
def _open(queue: int, time_ns: int, guessed: int, state: Ints, rows: Ints, counts: Ints) -> None:
    state[queue, M_ORDER] += 1
    state[queue, M_OPEN] = state[queue, M_CHECKED] = time_ns
    state[queue, M_GUESSED] = guessed
    _row(rows, counts, OPEN, state[queue, M_QUEUE], time_ns, time_ns, 0, state[queue, M_ORDER], 0)


@kernel
def _close(
    queue: int, end_ns: int, paused_ns: int, marks: int, windows: Ints, first: int, last: int, state: Ints, rows: Ints,
    counts: Ints,
) -> None:  # fmt: skip
    """Ends the open pause, and notes which windows it explains."""
    opened_ns = state[queue, M_OPEN]
    _explain(windows, first, last, opened_ns, end_ns, 0)
    _row(rows, counts, CLOSE, state[queue, M_QUEUE], opened_ns, end_ns, paused_ns, state[queue, M_ORDER], marks)
    state[queue, M_OPEN], state[queue, M_LAST] = NEVER, end_ns


@kernel
def _close_counted(queue: int, marks: int, state: Ints, rows: Ints, counts: Ints) -> None:
    """Ends a pause that counters alone know, if one has not ended; `marks` says whether it filled a window."""
    begin_ns, end_ns = state[queue, M_FILLS], state[queue, M_COUNTED]
    if begin_ns != NEVER:
        told = state[queue, M_QUEUE]
        _row(
            rows,
            counts,
            CLOSE,
            told,
            begin_ns,
            end_ns,
            end_ns - begin_ns,
            ~begin_ns,
            marks | MARK_GUESSED | MARK_UNLOGGED,
        )
    state[queue, M_FILLS] = NEVER


@kernel
def _explain(windows: Ints, first: int, last: int, opened_ns: int, end_ns: int, rounding_ns: int) -> None:
    """Notes in windows that a pause lies there; one of no length counts a little, so that none is put over it.

    Windows that have no more than `rounding_ns` of it overlap with the one that it was found in: clocks round.
    """
    window = _first_ending(windows, first, last, opened_ns)
    while window < last and windows[window, W_END] < end_ns + MOST_WINDOW_NS:
        from_ns, to_ns = max(windows[window, W_START], opened_ns), min(windows[window, W_END], end_ns)
        if from_ns <= to_ns:
            inside = windows[window, W_START] <= opened_ns and end_ns <= windows[window, W_END]
            if inside or to_ns - from_ns > rounding_ns:
                windows[window, W_COVERED] += max(to_ns - from_ns, int(inside))
        window += 1


@kernel
def _first_ending(windows: Ints, first: int, last: int, from_ns: int) -> int:
    """The first of a queue's windows that ends at a time or later."""
    while first < last:
        middle = (first + last) // 2
        if windows[middle, W_END] < from_ns:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _counted_end(
    queue: int, windows: Ints, first: int, last: int, period_ns: int, phase_ns: int, known_ns: int, state: Ints,
    scratch: Ints,
) -> tuple[int, bool]:  # fmt: skip
    """When the open pause ended, by the first whole window that was not stopped throughout; FOREVER: not so far.

    And whether it was seen to last until then.
    """
    opened_ns = state[queue, M_OPEN]
    begin_ns = phase_ns + -((phase_ns - state[queue, M_CHECKED]) // period_ns) * period_ns
    while begin_ns + period_ns <= known_ns:
        paused_ns = _counted(windows, first, last, begin_ns, begin_ns + period_ns)
        if paused_ns < FULL_SHARE * period_ns:
            # Whether it had lasted up to this window: the ones before were full, or the part of one in which it began.
            lasted = state[queue, M_CHECKED] > opened_ns
            if not lasted:
                before_ns = _counted(windows, first, last, begin_ns - period_ns, begin_ns)
                if paused_ns == 0 and before_ns == 0:
                    # They have counted nothing of it at all: they stand still for another reason.
                    break
                lasted = before_ns >= FULL_SHARE * (begin_ns - opened_ns)
            if lasted:
                return begin_ns + paused_ns, True
            return min(opened_ns + _median(queue, state, scratch), begin_ns), False
        begin_ns += period_ns
        state[queue, M_CHECKED] = begin_ns
    return FOREVER, False


@kernel
def _counted(windows: Ints, first: int, last: int, begin_ns: int, end_ns: int) -> int:
    """The most that a queue was paused between two times, as its windows say; one that counted nothing is not there."""
    paused_ns = 0
    window = _first_ending(windows, first, last, begin_ns)
    while window < last and windows[window, W_END] < end_ns + MOST_WINDOW_NS:
        common_ns = min(windows[window, W_END], end_ns) - max(windows[window, W_START], begin_ns)
        # What is cut off by less is how two clocks of one device round.
        if common_ns > TOLERANCE_NS or common_ns >= windows[window, W_END] - windows[window, W_START]:
            paused_ns += min(windows[window, W_PAUSED], common_ns)
        window += 1
    return min(paused_ns, end_ns - begin_ns)


@kernel
def _median(queue: int, state: Ints, scratch: Ints) -> int:
    """The queue's median clean pause; without one the time in which one XOFF threshold drains."""
    count = min(state[queue, M_CLEAN], REMEMBERED)
    if count == 0:
        return MEMORY_NS
    for at in range(count):
        value = state[queue, M_RING + at]
        place = at
        while place > 0 and scratch[place - 1] > value:
            scratch[place] = scratch[place - 1]
            place -= 1
        scratch[place] = value
    return min(scratch[count // 2], MOST_WINDOW_NS)
