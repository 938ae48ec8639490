"""Spans against a set of buckets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.spans import Spans

TIMES = st.integers(0, 300)
ROWS = st.lists(st.tuples(st.integers(0, 2), TIMES, TIMES), max_size=20)


def taken(parts: list[list[tuple[int, int, int]]]) -> Spans:
    spans = Spans(10)
    for rows in parts:
        keys, one, other = (np.array([row[column] for row in rows], np.int64) for column in range(3))
        spans.add(keys, np.minimum(one, other), np.maximum(one, other))
    return spans


@given(st.lists(ROWS, max_size=4), TIMES, TIMES, st.integers(0, 300))
@settings(max_examples=200, derandomize=True)
def test_spans_tell_what_a_set_of_buckets_tells(
    parts: list[list[tuple[int, int, int]]], one: int, other: int, before: int
) -> None:
    spans = taken(parts)
    buckets = {
        (key, bucket) for rows in parts for key, a, b in rows for bucket in range(min(a, b) // 10, max(a, b) // 10 + 1)
    }
    first, last = min(one, other) // 10, max(one, other) // 10
    expected = sorted({key for key, bucket in buckets if first <= bucket <= last})
    assert spans.between(min(one, other), max(one, other)) == expected
    assert sorted(spans.state()) == sorted(taken([[row for rows in parts for row in rows]]).state())
    again = Spans(10)
    again.load(spans.state())
    again.forget(before)
    if before // 10 > last:
        return
    late = sorted({key for key, bucket in buckets if max(first, before // 10) <= bucket <= last})
    assert again.between(max(min(one, other), before // 10 * 10), max(one, other)) == late


def test_all_of_a_key_moves_to_another() -> None:
    spans = taken([[(0, 0, 15), (1, 20, 25), (2, 90, 90)]])
    spans.move({0: 1})
    assert spans.state() == [[1, [[0, 2]]], [2, [[9, 9]]]]


def test_a_copy_goes_its_own_way() -> None:
    spans = taken([[(0, 0, 15)]])
    spans.copy().add(np.array([0]), np.array([16]), np.array([99]))
    assert spans.state() == [[0, [[0, 1]]]]
