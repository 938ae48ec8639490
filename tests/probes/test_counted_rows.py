"""Rows of counters against a plain account of what was counted: sums, units, spans, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probes.counted_rows import EXTRA, QUIET_NS, VALUE, CountedRows, Place, Series
from probes.probe import Reading
from stream.kinds import BY_NAME, ESTIMATED, PFC_PAUSED, PORT_BYTES, UNKNOWN
from tests.probes.recorded import NOW_NS, SECOND_NS, Row, rows

CNP = BY_NAME["CNP"].code
ERRORS = BY_NAME["RDMA_ERRORS"].code
MOST = 1_000_000
SERIES = (
    Series(Place("eth0", PFC_PAUSED, 3, 1), VALUE, 1_000, 64, MOST),
    Series(Place("eth0", PFC_PAUSED, 3, 1), EXTRA, 1, 64, MOST),
    Series(Place("eth0", CNP, side=1), VALUE, 1, 64, MOST, name="handled"),
    Series(Place("eth0", CNP, side=1), VALUE, 1, 64, MOST, name="ignored"),
    Series(Place("eth1", PORT_BYTES, side=2), VALUE, 1, 64, MOST),
    Series(Place("eth1", ERRORS, extra=7, text="mlx5_1", quality=ESTIMATED), VALUE, 1, 32, MOST),
)


def take(counted: CountedRows, counts: Sequence[int], second: int, series: Sequence[Series] = SERIES) -> list[Row]:
    numbers = counted.add(series)
    return rows(Reading(rows=counted.take(numbers, np.array(counts, np.uint64), NOW_NS + second * SECOND_NS)))


def test_measures_of_one_place_are_one_row_and_counters_of_one_measure_add_up() -> None:
    counted = CountedRows(SECOND_NS)
    assert take(counted, [5, 5, 100, 200, 7, 2**32 - 3], 0) == []
    assert take(counted, [8, 6, 101, 202, 7, 2], 1) == [
        Row("eth0", "PFC_PAUSED", 3_000, 1, 3, "rx"),
        Row("eth0", "CNP", 3, 0, None, "rx"),
        Row("eth1", "PORT_BYTES", 0, None, None, "tx"),
        Row("eth1", "RDMA_ERRORS", 5, 7, None, "none", 4 | ESTIMATED, text="mlx5_1"),
    ]


def test_what_is_unknown_of_one_counter_is_unknown_of_the_sum() -> None:
    counted = CountedRows(SECOND_NS)
    take(counted, [0, 0, 100, 200, 0, 0], 0)
    found = take(counted, [0, 0, 3, 201, 0, 0], 1)
    assert [row.value for row in found if row.kind == "CNP"] == [None]


def test_a_row_without_its_value_is_left_out() -> None:
    counted = CountedRows(SECOND_NS)
    for second in range(3):
        assert take(counted, [second], second, SERIES[1:2]) == []


def test_a_product_beyond_64_bits_does_not_become_negative() -> None:
    counted = CountedRows(SECOND_NS)
    series = (Series(Place("p", PORT_BYTES), VALUE, 1 << 40, 64, 1 << 61),)
    take(counted, [0], 0, series)
    (row,) = take(counted, [1 << 60], 1, series)
    assert row.value is not None
    assert row.value > 1 << 50


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=40))
def test_all_that_was_counted_is_told_once_in_windows_of_a_second(steps: list[list[int]]) -> None:
    counted = CountedRows(SECOND_NS)
    take(counted, [0] * 6, 0)
    total: Counter[tuple[str, str]] = Counter()
    last_ns: dict[tuple[str, str], int] = {}
    counts = [0] * 6
    for second, step in enumerate(steps, 1):
        counts = [before + more for before, more in zip(counts, step, strict=True)]
        for row in take(counted, counts, second):
            key = row.port, row.kind
            assert row.span_ns == SECOND_NS
            assert row.value is not None
            total[key] += row.value
            last_ns[key] = second * SECOND_NS
    expected = {
        ("eth0", "PFC_PAUSED"): 1_000 * counts[0], ("eth0", "CNP"): counts[2] + counts[3],
        ("eth1", "PORT_BYTES"): counts[4], ("eth1", "RDMA_ERRORS"): counts[5],
    }  # fmt: skip
    assert {key: total[key] for key in expected} == expected
    assert all(len(steps) * SECOND_NS - ns < QUIET_NS for ns in last_ns.values())
    assert last_ns.keys() == expected.keys()
    assert counted.counted["gaps"] == 0


def test_time_that_stands_still_or_goes_back_gives_no_rows() -> None:
    counted = CountedRows(SECOND_NS)
    take(counted, [0] * 6, 5)
    assert take(counted, [1] * 6, 5) == []
    assert take(counted, [1] * 6, 4) == []
    assert take(counted, [2] * 6, 6)
    assert UNKNOWN not in [row.value for row in take(counted, [3] * 6, 7)]
