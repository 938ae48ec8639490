"""Sums of whole numbers: the same in any order, joined or not, kept through a snapshot, and never beyond an int64."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.ledger import Ledger, Ledgers, sums
from stream.kinds import INT64_MAX
from stream.snapshot import pack, unpack

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, INT64_MAX)), max_size=30)
AMOUNTS = st.integers(0, 10**6) | st.integers(INT64_MAX - 2, INT64_MAX)


@settings(derandomize=True, deadline=None)
@given(rows=ROWS)
def test_sums_are_those_of_a_dictionary(rows: list[tuple[int, int, int]]) -> None:
    expected: defaultdict[tuple[int, int], int] = defaultdict(int)
    for first, second, amount in rows:
        expected[first, second] += amount
    table = np.array(rows, np.int64).reshape(-1, 3)
    keys, summed = sums(table[:, :2], table[:, 2])
    assert dict(zip(map(tuple, keys.tolist()), summed.tolist(), strict=True)) == expected
    assert keys.tolist() == sorted(keys.tolist())


CLOSES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 1000), AMOUNTS, st.integers(0, 1), st.just(5)),
    max_size=20,
)
EDGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 7), st.integers(0, 10**6),
                           st.integers(0, 1), st.just(9)), max_size=20)  # fmt: skip
BLAMES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 7), AMOUNTS), max_size=20)


@settings(derandomize=True, deadline=None)
@given(closes=CLOSES, edges=EDGES, blames=BLAMES, seed=st.integers(0, 100))
def test_what_joins_late_sums_up_to_what_was_one_from_the_start(
    closes: list[tuple[int, ...]], edges: list[tuple[int, ...]], blames: list[tuple[int, ...]], seed: int
) -> None:
    at_once, late = Ledgers(), Ledgers()
    tables = [(edges, 6), (closes, 6), (blames, 4)]
    one = [np.array([(0, *row[1:]) for row in rows], np.int64).reshape(-1, width) for rows, width in tables]
    at_once.open(0)
    at_once.book(one[0], one[1], one[2])
    shuffled = random.Random(seed)
    for part in range(2):
        cut = [shuffled.sample(rows[part::2], len(rows[part::2])) for rows, _ in tables]
        arrays = [np.array(rows, np.int64).reshape(-1, width) for rows, (_, width) in zip(cut, tables, strict=True)]
        late.book(arrays[0], arrays[1], arrays[2])
    for slot in (3, 1, 2):
        late.join(0, slot, f"{slot}")
    joined = late.by_slot[0]
    assert sorted(joined.former_ids) == ["1", "2", "3"]
    joined.former_ids = []
    assert joined == at_once.by_slot[0]
    assert all(amount <= INT64_MAX for amount in joined.root_ns().values())


@settings(derandomize=True, deadline=None, max_examples=30)
@given(closes=CLOSES, edges=EDGES, blames=BLAMES)
def test_ledgers_come_back_from_a_snapshot(
    closes: list[tuple[int, ...]], edges: list[tuple[int, ...]], blames: list[tuple[int, ...]]
) -> None:
    before, after = Ledgers(), Ledgers()
    tables = [np.array(rows, np.int64).reshape(-1, width) for rows, width in ((edges, 6), (closes, 6), (blames, 4))]
    before.book(tables[0], tables[1], tables[2])
    before.book_flows(np.array([[0, 4, 0, 1]]), np.array([2**64 - 1], np.uint64), np.array([7]))
    after.load(unpack("test", 1, pack("test", 1, before.state())))
    assert after.by_slot == before.by_slot


def test_a_slot_that_is_joined_before_anything_was_booked_leaves_its_id() -> None:
    ledgers = Ledgers()
    ledgers.join(1, 2, "the id that ended")
    assert ledgers.by_slot == {1: Ledger(former_ids=["the id that ended"])}
