"""Ledgers: the same in any order, joined or not, kept through a snapshot, and never beyond an int64."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.layout import MARK_COUNTED, MARK_GUESSED, MARK_UNLOGGED
from analytics.ledger import Ledger, Ledgers
from stream.kinds import INT64_MAX
from stream.snapshot import pack, unpack

AMOUNTS = st.integers(0, 10**6) | st.integers(INT64_MAX - 2, INT64_MAX)


CLOSES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 7),
        st.integers(0, 1000),
        AMOUNTS,
        st.integers(0, 7),
        st.just(5),
        st.integers(1000, 10**6),
    ),
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
    tables = [(edges, 6), (closes, 7), (blames, 4)]
    one = [np.array([(0, *row[1:]) for row in rows], np.int64).reshape(-1, width) for rows, width in tables]
    at_once.book(one[0], one[1], one[2])
    shuffled = random.Random(seed)
    for part in range(2):
        cut = [shuffled.sample(rows[part::2], len(rows[part::2])) for rows, _ in tables]
        arrays = [np.array(rows, np.int64).reshape(-1, width) for rows, (_, width) in zip(cut, tables, strict=True)]
        late.book(arrays[0], arrays[1], arrays[2])
    late.join(np.array([(0, 3), (1, 2)]), ["3", "2"])
    late.join(np.array([(0, 1)]), ["1"])
    joined = late.of(0)
    assert [late.of(slot) for slot in (1, 2, 3)] == [Ledger()] * 3
    assert sorted(joined.former_ids) == ["1", "2", "3"]
    joined.former_ids = []
    assert joined == at_once.of(0)
    assert all(amount <= INT64_MAX for amount in joined.root_ns().values())


@settings(derandomize=True, deadline=None, max_examples=30)
@given(closes=CLOSES, edges=EDGES, blames=BLAMES)
def test_ledgers_come_back_from_a_snapshot(
    closes: list[tuple[int, ...]], edges: list[tuple[int, ...]], blames: list[tuple[int, ...]]
) -> None:
    before, after = Ledgers(), Ledgers()
    tables = [np.array(rows, np.int64).reshape(-1, width) for rows, width in ((edges, 6), (closes, 7), (blames, 4))]
    before.book(tables[0], tables[1], tables[2])
    before.book_flows(np.array([[0, 4, 0, 1]]), np.array([2**64 - 1], np.uint64), np.array([7]))
    before.join(np.array([(0, 3)]), ["three"])
    after.load(unpack("test", 1, pack("test", 1, before.state())))
    assert [after.of(slot) for slot in range(4)] == [before.of(slot) for slot in range(4)]
    assert (after.of(0).flow_bytes, after.of(0).former_ids) == ({(4, 2**64 - 1, 1): 7}, ["three"])
    assert pack("test", 1, after.state()) == pack("test", 1, before.state())


def test_a_slot_that_is_joined_before_anything_was_booked_leaves_its_id() -> None:
    ledgers = Ledgers()
    ledgers.join(np.array([(1, 2)]), ["the id that ended"])
    assert ledgers.of(1) == Ledger(former_ids=["the id that ended"])


def test_what_has_ended_leaves_nothing() -> None:
    ledgers = Ledgers()
    ledgers.book(np.array([[2, 0, 8, 5, 5, 1]]), np.array([[2, 0, 10, 5, 1, 1, 15]]), np.array([[2, 0, 32, 5]]))
    ledgers.join(np.array([(2, 1)]), ["former"])
    ledgers.drop([2])
    assert ledgers.of(2) == Ledger()
    assert pack("test", 1, ledgers.state()) == pack("test", 1, Ledgers().state())


def test_the_longest_stop_is_one_whose_end_is_known() -> None:
    marks = [0, MARK_GUESSED, MARK_GUESSED | MARK_COUNTED, MARK_GUESSED | MARK_COUNTED | MARK_UNLOGGED]
    starts_ns, lasted_ns = [0, 1_000, 10_000, 20_000], [50, 9_000, 400, 300]
    closes = [(0, 3, start, lasted, mark, 5, start + lasted)
              for start, lasted, mark in zip(starts_ns, lasted_ns, marks, strict=True)]  # fmt: skip
    # Counters told of more paused time than there are pauses: the last one has it, and lasted no longer for that.
    closes.append((0, 3, 30_000, 70_000, 0, 5, 30_350))
    ledgers = Ledgers()
    ledgers.book(np.zeros((0, 6), np.int64), np.array(closes), np.zeros((0, 4), np.int64))
    tally = ledgers.of(0).queues[3]
    assert (tally.longest_from_ns, tally.longest_ns, tally.second_ns) == (10_000, 400, 350)
    assert (tally.pauses, tally.pause_ns) == (5, sum(lasted_ns) + 70_000)
    # Rows were lost of what nobody has logged, and of what ended nobody knows when.
    assert tally.guessed == 2
