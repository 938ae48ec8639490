"""Cumulative counters: deltas against the slow twin, in any cuts; and each oddity of a counter by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.counters import Counters, Deltas
from stream.kinds import GAP, RESET, UNKNOWN, WRAP
from tests.reference.counters import PlainCounter

SECOND_NS = 1_000_000_000
BYTES_PER_S = 12_500_000_000
"""100 Gb/s."""
FRAMES_PER_S = 148_809_524
"""Frames of 64 bytes, with 20 of preamble and gap, at 100 Gb/s."""
BITS = {"RESET": RESET, "GAP": GAP, "WRAP": WRAP}

SORTS = st.tuples(
    st.sampled_from([3, 8, 32, 48, 63, 64]),
    st.sampled_from([1, 7, 999_999_999, 1_000_000_000, 1_000_000_001, BYTES_PER_S]),
    st.sampled_from([0, 1, SECOND_NS // 3]),
    st.sampled_from([0, 1, 3, SECOND_NS]),
)
READINGS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([0, 1, 1, 2, 4, 5, SECOND_NS, SECOND_NS * 3 // 2, SECOND_NS * 3 // 2 + 1, 10**15]),
        st.booleans(),
        st.one_of(st.integers(0, 20), st.integers(2**32 - 5, 2**32 + 5), st.integers(0, 2**64 - 1)),
        st.one_of(st.none(), st.integers(0, 10**10)),
    ),
    max_size=40,
)


def take(counters: Counters, *readings: tuple[int, int], number: int = 0, since_ns: int | None = None) -> Deltas:
    """Feeds one series (time_ns, count)."""
    rows = len(readings)
    return counters.take(
        np.full(rows, number),
        np.array([time_ns for time_ns, _ in readings], np.int64),
        np.array([count for _, count in readings], np.uint64),
        None if since_ns is None else np.full(rows, since_ns),
    )


def one(bits: int = 64, most_per_s: int = BYTES_PER_S, period_ns: int = SECOND_NS, stamp_error_ns: int = 0) -> Counters:
    counters = Counters()
    counters.add(1, bits=bits, most_per_s=most_per_s, period_ns=period_ns, stamp_error_ns=stamp_error_ns)
    return counters


Told = tuple[int, int, int, int | None]
"""Number of the series, time, count, and since when it counts."""


def check(sorts: list[tuple[int, int, int, int]], parts: list[list[Told]]) -> None:
    """Takes the parts one after another, over snapshots, and compares with the twins."""
    counters, twins = Counters(), []
    for bits, most_per_s, stamp_error_ns, period_ns in sorts:
        counters.add(1, bits=bits, most_per_s=most_per_s, stamp_error_ns=stamp_error_ns, period_ns=period_ns)
        twins.append(PlainCounter(bits, most_per_s, stamp_error_ns, period_ns))
    made, expected = [], []
    for part in parts:
        deltas = counters.take(
            np.array([row[0] for row in part], np.int64),
            np.array([row[1] for row in part], np.int64),
            np.array([row[2] for row in part], np.uint64),
            np.array([UNKNOWN if row[3] is None else row[3] for row in part], np.int64),
        )
        made += [list(row) for row in zip(*(column.tolist() for column in deltas), strict=True)]
        for place, (number, time_ns, count, since_ns) in enumerate(part):
            window = twins[number].read(time_ns, count, since_ns)
            if window is not None:
                span_ns, value, quality = window
                bits = sum(BITS[name] for name in quality)
                expected.append([place, span_ns, UNKNOWN if value is None else value, bits])
        before, counters = counters, Counters.of_state(counters.state())
        counters.counted = before.counted
    assert made == expected
    counted = sum((twin.counted for twin in twins), start=type(counters.counted)())
    assert +counters.counted == +counted


def readings(sorts: list[tuple[int, int, int, int]], told: list[tuple[int, int, bool, int, int | None]]) -> list[Told]:
    """Times from steps, and counts of which most fit the series' bits."""
    rows, now_ns = [], 100
    for number, step_ns, back, count, since_ns in told:
        now_ns += -min(step_ns, now_ns) if back and step_ns < 10 else step_ns
        rows.append((number, now_ns, count % 2 ** sorts[number][0] if count % 3 else count, since_ns))
    return rows


@settings(derandomize=True, deadline=None, max_examples=300)
@given(sorts=st.lists(SORTS, min_size=3, max_size=3), told=READINGS, cut=st.integers(0, 40))
def test_deltas_are_those_of_the_twin_in_any_cut(
    sorts: list[tuple[int, int, int, int]], told: list[tuple[int, int, bool, int, int | None]], cut: int
) -> None:
    rows = readings(sorts, told)
    check(sorts, [rows[:cut], rows[cut:]])


@settings(derandomize=True, deadline=None, max_examples=300)
@given(sorts=st.lists(SORTS, min_size=3, max_size=3), told=READINGS)
def test_deltas_of_one_reading_of_each_series_are_those_of_the_twin(
    sorts: list[tuple[int, int, int, int]], told: list[tuple[int, int, bool, int, int | None]]
) -> None:
    parts: list[list[Told]] = [[]]
    for row in readings(sorts, told):
        if parts[-1] and parts[-1][-1][0] >= row[0]:
            parts.append([])
        parts[-1].append(row)
    check(sorts, parts)


def test_the_first_reading_is_a_baseline_however_large_it_is() -> None:
    counters = one(most_per_s=FRAMES_PER_S)
    assert not len(take(counters, (0, 100_000_000)).row)
    deltas = take(counters, (SECOND_NS, 100_000_003))
    assert (deltas.value.tolist(), deltas.quality.tolist()) == ([3], [0])


def test_a_counter_that_began_anew_gives_a_gap_and_never_a_negative_delta() -> None:
    counters = one()
    deltas = take(counters, (0, 5_000), (SECOND_NS, 4_000), (2 * SECOND_NS, 4_700))
    assert deltas.value.tolist() == [UNKNOWN, 700]
    assert deltas.quality.tolist() == [RESET | GAP, 0]
    assert counters.counted["resets"] == 1


def test_a_restart_that_the_uptime_tells_is_one_though_the_counter_is_ahead_of_where_it_was() -> None:
    deltas = take(one(), (0, 1_000), (SECOND_NS, 2_000), since_ns=SECOND_NS // 2)
    assert (deltas.value.tolist(), deltas.quality.tolist()) == ([UNKNOWN], [RESET | GAP])


def test_a_leap_that_line_rate_cannot_make_is_a_counter_that_began_anew() -> None:
    deltas = take(one(), (0, 0), (SECOND_NS, BYTES_PER_S + 1), (2 * SECOND_NS, 2 * BYTES_PER_S + 1))
    assert deltas.value.tolist() == [UNKNOWN, BYTES_PER_S]
    assert deltas.quality.tolist() == [RESET | GAP, 0]


def test_a_stamp_that_may_be_off_allows_for_what_passed_meanwhile() -> None:
    counters = one(stamp_error_ns=SECOND_NS // 10)
    deltas = take(counters, (0, 0), (SECOND_NS, BYTES_PER_S * 11 // 10))
    assert deltas.value.tolist() == [BYTES_PER_S * 11 // 10]


@pytest.mark.parametrize("bits", [32, 48, 64])
def test_a_counter_wraps_where_the_way_round_fits_line_rate(bits: int) -> None:
    counters = one(bits, FRAMES_PER_S)
    deltas = take(counters, (0, 2**bits - 10), (SECOND_NS, 20))
    assert (deltas.value.tolist(), deltas.quality.tolist()) == ([30], [WRAP])
    deltas = take(counters, (2 * SECOND_NS, 10))
    assert (deltas.value.tolist(), deltas.quality.tolist()) == ([UNKNOWN], [RESET | GAP])


def test_a_counter_that_can_go_all_the_way_round_between_polls_tells_nothing() -> None:
    counters = one(bits=32)
    deltas = take(counters, (0, 0), (SECOND_NS, 1_000), (SECOND_NS + SECOND_NS // 4, 3_000))
    assert deltas.value.tolist() == [UNKNOWN, 2_000]
    assert deltas.quality.tolist() == [GAP, 0]
    assert counters.counted["unclear_rounds"] == 1


def test_polls_that_were_missed_leave_a_longer_window_with_all_that_was_counted() -> None:
    deltas = take(one(), (0, 0), (SECOND_NS, 10), (4 * SECOND_NS, 40))
    assert deltas.span_ns.tolist() == [SECOND_NS, 3 * SECOND_NS]
    assert deltas.value.tolist() == [10, 30]
    assert deltas.quality.tolist() == [0, GAP]


def test_what_is_read_again_or_late_changes_nothing() -> None:
    counters = one()
    deltas = take(counters, (0, 0), (SECOND_NS, 10), (SECOND_NS, 10), (SECOND_NS // 2, 5), (SECOND_NS, 11))
    assert deltas.row.tolist() == [1]
    assert take(counters, (2 * SECOND_NS, 25)).value.tolist() == [15]
    kept = ("duplicates", "out_of_order", "conflicts")
    assert [counters.counted[name] for name in kept] == [1, 1, 1]


def test_a_reading_of_more_bits_than_the_counter_has_is_left_out() -> None:
    counters = one(bits=32, most_per_s=FRAMES_PER_S)
    deltas = take(counters, (0, 1), (SECOND_NS, 2**32), (2 * SECOND_NS, 4))
    assert (deltas.row.tolist(), deltas.value.tolist(), deltas.span_ns.tolist()) == ([2], [3], [2 * SECOND_NS])
    assert counters.counted["readings_out_of_range"] == 1


def test_a_counter_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="0 a second"):
        Counters().add(1, bits=64, most_per_s=0, stamp_error_ns=0)
