"""One sequence of pauses from two logs, against its slow twin; and what counters of paused time make good."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import layout
from analytics.clocks import RX, TX, XOFF, XON
from analytics.layout import MARK_GUESSED, NEVER, Ints
from analytics.reconcile import (
    LOOK_NS,
    M_COLUMNS,
    M_FILLS,
    M_LAST,
    M_OPEN,
    M_QUEUE,
    MISSED_NS,
    N_COUNTED_ENDS,
    N_COUNTED_PAUSES,
    N_COUNTS,
    N_ONE_END,
    N_ROWS,
    REMEMBERED,
    WINDOW_COLUMNS,
    Grid,
    reconcile,
)
from stream.batch import MARK_END
from tests.reference.reconcile import UNKNOWN_PAUSE_NS, Edge, Pause, pauses_of

QUEUE = 11
US, MS = 1_000, 1_000_000
PERIOD_NS = 100 * US
Window = tuple[int, int, int]
"""Start, end, paused time."""


class Reconciled:
    """What comes of one queue's edges and windows; times are small, as if the epoch had just begun."""

    def __init__(self, edges: list[Edge], windows: list[Window] | None = None) -> None:
        order = sorted(edges, key=lambda e: (e.time_ns, _turn(e), not e.at_stopped))
        told = np.array([
            (QUEUE, XOFF if e.stops else XON, e.time_ns, NEVER if e.start_ns is None else e.start_ns,
             0 if e.start_ns is None else e.time_ns - e.start_ns, RX if e.at_stopped else TX, 0)
            for e in order
        ], np.int64).reshape(-1, 7)  # fmt: skip
        counted = np.zeros((len(windows or ()), WINDOW_COLUMNS), np.int64)
        for row, window in zip(counted, sorted(windows or (), key=lambda window: window[1]), strict=True):
            row[:4] = QUEUE, *window
        state = np.zeros((1, M_COLUMNS), np.int64)
        state[0, [M_QUEUE, M_OPEN, M_LAST, M_FILLS]] = QUEUE, NEVER, NEVER, NEVER
        rows = np.zeros((4 * len(told) + 3 * len(counted) + 2, layout.ROW_COLUMNS), np.int64)
        counts = np.zeros(N_COUNTS, np.int64)
        period_ns = PERIOD_NS if windows is not None else 0
        reconcile(
            told, counted, np.array([0, len(told)]), np.array([0, len(counted)]), np.zeros(1, np.int64),
            Grid(np.array([period_ns]), np.zeros(1, np.int64)), MARK_END, MARK_END, state, rows,
            np.zeros(REMEMBERED, np.int64), counts,
        )  # fmt: skip
        self.rows: Ints = rows[: counts[N_ROWS]]
        self.counts: Counter[int] = Counter(dict(enumerate(counts.tolist())))
        self.open_ns = int(state[0, M_OPEN])

    def pauses(self) -> list[Pause]:
        """All pauses in order."""
        closed = self.rows[self.rows[:, layout.ROW_TYPE] == layout.CLOSE].tolist()
        made = [
            Pause(row[layout.ROW_START], row[layout.ROW_END], bool(row[layout.ROW_ID] & MARK_GUESSED)) for row in closed
        ]
        return made if self.open_ns == NEVER else [*made, Pause(self.open_ns, None, False)]

    def missed(self) -> list[tuple[int, int, int, int]]:
        """Windows in which the queue was stopped for longer than is known: start, end, missed, known."""
        rows = self.rows[self.rows[:, layout.ROW_TYPE] == layout.MISSED]
        columns = [layout.ROW_START, layout.ROW_END, layout.ROW_AMOUNT, layout.ROW_ORDER]
        return [tuple(row) for row in rows[:, columns].tolist()]


def _turn(edge: Edge) -> int:
    return 1 if edge.stops else 2 if edge.start_ns == edge.time_ns else 0


def both(start_ns: int, end_ns: int) -> list[Edge]:
    """A pause as both ends log it."""
    return [
        edge for stopped in (True, False)
        for edge in (Edge(start_ns, True, stopped), Edge(end_ns, False, stopped, start_ns))
    ]  # fmt: skip


def xoff(time_ns: int) -> list[Edge]:
    return [Edge(time_ns, True, True)]


EDGES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 300, 900, 1_500, 20_000, 400_000, 3_000_000]), st.booleans(), st.booleans(),
        st.sampled_from([None, 0, 700, 5_000, 30_000, 500_000, 5_000_000]),
    ),
    max_size=25,
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=400)
@given(told=EDGES)
def test_whatever_two_logs_say_becomes_what_the_twin_makes_of_it(
    told: list[tuple[int, bool, bool, int | None]],
) -> None:
    edges, now_ns = [], 100 * MS
    for gap_ns, stops, at_stopped, lasted_ns in told:
        now_ns += gap_ns
        edges.append(Edge(now_ns, stops, at_stopped, None if stops or lasted_ns is None else now_ns - lasted_ns))
    edges = list(dict.fromkeys(edges))
    assert Reconciled(edges).pauses() == pauses_of(edges)


def test_a_lost_xon_is_put_where_the_median_pause_ends() -> None:
    usual = [edge for n, lasted in enumerate((10, 90, 30)) for edge in both(n * 500 * US, n * 500 * US + lasted * US)]
    made = Reconciled([*usual, *xoff(2 * MS), *both(3 * MS, 3 * MS + 40 * US)]).pauses()
    assert made[3:] == [Pause(2 * MS, 2 * MS + 30 * US, True), Pause(3 * MS, 3 * MS + 40 * US, False)]


def test_a_pause_whose_end_is_lost_lasts_until_shortly_before_the_next_one() -> None:
    made = Reconciled([*xoff(2 * MS), *both(90 * MS, 91 * MS)])
    assert made.pauses()[0] == Pause(2 * MS, 90 * MS - LOOK_NS, True)
    (row,) = made.rows[(made.rows[:, layout.ROW_TYPE] == layout.CLOSE) & (made.rows[:, layout.ROW_START] == 2 * MS)]
    assert row[layout.ROW_AMOUNT] == UNKNOWN_PAUSE_NS


def test_a_pause_without_a_known_end_stays_open() -> None:
    assert Reconciled(xoff(2 * MS)).pauses() == [Pause(2 * MS, None, False)]


def test_a_lost_xoff_is_put_a_usual_pause_before_its_xon() -> None:
    made = Reconciled([*both(0, 40 * US), Edge(MS, False, True)]).pauses()
    assert made[1] == Pause(MS - 40 * US, MS, True)


def test_an_end_that_both_had_logged_before_and_one_logs_now_is_counted() -> None:
    assert Reconciled([*both(0, 40 * US), *both(MS, MS + US)[:2]]).counts[N_ONE_END] == 1
    assert Reconciled([*both(0, 40 * US)[:2], *both(MS, MS + US)[:2]]).counts[N_ONE_END] == 0


# Counters


def full(from_ns: int, to_ns: int) -> list[Window]:
    """Windows of a queue that is stopped from one time to another."""
    made = []
    for start_ns in range(from_ns // PERIOD_NS * PERIOD_NS, to_ns, PERIOD_NS):
        end_ns = start_ns + PERIOD_NS
        made.append((start_ns, end_ns, min(end_ns, to_ns) - max(start_ns, from_ns)))
    return made


@pytest.mark.parametrize("end_ns", [130 * US, 450 * US, 500 * US, 501 * US, 9_950 * US])
def test_counters_tell_when_a_pause_ended_whose_xon_is_lost(end_ns: int) -> None:
    made = Reconciled([*xoff(30 * US), *both(20 * MS, 21 * MS)], full(30 * US, end_ns) + full(20 * MS, 21 * MS))
    assert made.pauses() == [Pause(30 * US, end_ns, True), Pause(20 * MS, 21 * MS, False)]
    assert made.counts[N_COUNTED_ENDS] == 1
    assert made.missed() == []


def test_a_pause_that_fills_nearly_all_of_a_window_ends_with_it() -> None:
    made = Reconciled([*xoff(30 * US), *both(20 * MS, 21 * MS)], full(30 * US, 499 * US) + full(20 * MS, 21 * MS))
    assert made.pauses()[0] == Pause(30 * US, 500 * US, True)


def test_counters_that_count_nothing_of_a_pause_do_not_end_it() -> None:
    made = Reconciled(both(30 * US, 5 * MS), full(20 * MS, 21 * MS))
    assert Pause(30 * US, 5 * MS, False) in made.pauses()


def test_counters_in_step_with_the_log_say_nothing_new() -> None:
    edges = [*both(30 * US, 410 * US), *both(450 * US, 455 * US), *both(500 * US, 700 * US)]
    counted: Counter[tuple[int, int]] = Counter()
    for start_ns, end_ns, paused_ns in full(30 * US, 410 * US) + full(450 * US, 455 * US) + full(500 * US, 700 * US):
        counted[start_ns, end_ns] += paused_ns
    made = Reconciled(edges, [(*window, paused_ns) for window, paused_ns in counted.items()])
    assert made.pauses() == Reconciled(edges).pauses()
    assert made.missed() == []


def test_a_pause_that_nobody_logged_lies_in_the_middle_of_its_window() -> None:
    made = Reconciled([], [(300 * US, 400 * US, 20 * US)])
    assert made.pauses() == [Pause(340 * US, 360 * US, True)]
    assert made.counts[N_COUNTED_PAUSES] == 1


def test_windows_that_are_full_one_after_the_other_are_one_pause_whatever_clocks_round() -> None:
    made = Reconciled([], [(0, 100_050, 100_050), (99_990, 200_000, 99_000), (200_000, 300_000, 40_000)])
    assert made.pauses() == [Pause(0, 240_000, True)]
    assert made.counts[N_COUNTED_PAUSES] == 1


def test_a_pause_that_nobody_logged_ends_where_no_window_counts_on() -> None:
    made = Reconciled([], [(0, 100_000, 100_000), (100_000, 200_000, 100_000), (300_000, 400_000, 100_000)])
    assert made.pauses() == [Pause(0, 200_000, True), Pause(300_000, 400_000, True)]


def test_paused_time_beyond_the_pauses_known_is_told_with_its_window() -> None:
    edges = both(10 * US, 20 * US)
    assert Reconciled(edges, [(0, 100 * US, 40 * US)]).missed() == [(0, 100 * US, 30 * US, 10 * US)]
    assert Reconciled(edges, [(0, 100 * US, 10 * US + MISSED_NS)]).missed() == []


def test_a_pause_of_no_length_is_not_covered_by_one_that_counters_know() -> None:
    made = Reconciled(both(50 * US, 50 * US), [(0, 100 * US, 40 * US)])
    assert made.pauses() == [Pause(50 * US, 50 * US, False)]
    assert made.missed()[0][2] == 40 * US - 1


def test_windows_that_do_not_fit_the_first_one_end_no_pause_that_they_may_fill() -> None:
    longer = [(start_ns, start_ns + 250 * US, 240 * US) for start_ns in range(0, 5 * MS, 250 * US)]
    assert Reconciled(both(0, 5 * MS), longer).pauses() == [Pause(0, 5 * MS, False)]
