"""Tallies against a dictionary: the same under any keys, through joins, ends, growth, copies and snapshots."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.tallies import FIRST_KNOWN, LEAST, LONGEST, MOST, OF_LONGEST, SUM, Tallies
from stream.kinds import INT64_MAX
from stream.snapshot import pack, unpack

MEASURES = (SUM, LEAST, MOST, FIRST_KNOWN)
AMOUNTS = st.integers(0, 10**6) | st.integers(INT64_MAX - 2, INT64_MAX)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 3), st.sampled_from((-5, 0, 1, 2**40, INT64_MAX)), AMOUNTS,
        st.integers(-9, 9), st.integers(0, 9), st.integers(-1, 2),
    ),
    max_size=30,
)  # fmt: skip
PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] != pair[1])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ROWS),
        st.tuples(st.just("join"), PAIRS),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=12,
)  # fmt: skip


def together(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
    """What comes of the measures of one key's rows."""
    known = [row[3] for row in rows if row[3] >= 0]
    return (
        min(sum(row[0] for row in rows), INT64_MAX),
        min(row[1] for row in rows),
        max(row[2] for row in rows),
        known[0] if known else -1,
    )


@settings(derandomize=True, deadline=None, max_examples=200)
@given(steps=STEPS)
def test_they_tell_what_a_dictionary_tells(steps: list[tuple[str, object]]) -> None:
    tallies = Tallies(MEASURES)
    expected: defaultdict[int, dict[tuple[int, int], list[tuple[int, ...]]]] = defaultdict(dict)
    for what, how in steps:
        if what == "add":
            assert isinstance(how, list)
            tallies.add(np.array(how, np.int64).reshape(-1, 7))
            for slot, first, second, *measures in how:
                expected[slot].setdefault((first, second), []).append(tuple(measures))
        elif what == "join":
            assert isinstance(how, tuple)
            lives, ends = how
            tallies.join(np.array([how], np.int64))
            for key, rows in expected.pop(ends, {}).items():
                expected[lives].setdefault(key, []).extend(rows)
        elif what == "drop":
            assert isinstance(how, int)
            tallies.drop(np.array([how], np.int64))
            expected.pop(how, None)
        else:
            kept = tallies.state()
            tallies = Tallies(MEASURES)
            tallies.load(unpack("test", 1, pack("test", 1, kept)))
            assert pack("test", 1, tallies.state()) == pack("test", 1, kept)
    for slot in range(7):
        told = {(first, second): tuple(rest) for first, second, *rest in tallies.of(slot).tolist()}
        assert told == {key: together(rows) for key, rows in expected[slot].items()}


@settings(derandomize=True, deadline=None)
@given(pauses=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8), cut=st.integers(0, 8))
def test_the_longest_pause_is_the_first_of_equals_however_it_was_joined(
    pauses: list[tuple[int, int]], cut: int
) -> None:
    tallies = Tallies((LONGEST, OF_LONGEST, OF_LONGEST))
    for slot, part in enumerate((pauses[:cut], pauses[cut:])):
        tallies.add(np.array([(slot, 0, 0, begin, length, 0) for begin, length in part], np.int64).reshape(-1, 6))
    tallies.join(np.array([[0, 1]]))
    longest, *others = sorted(pauses, key=lambda pause: (-pause[1], pause[0]))
    ((_, _, begin, length, second),) = tallies.of(0).tolist()
    assert (begin, length, second) == (*longest, max((pause[1] for pause in others), default=0))


def test_a_table_that_grows_keeps_everything() -> None:
    tallies = Tallies((SUM,))
    rows = np.array([(key % 97, key, key * 31, 1) for key in range(20_000)], np.int64)
    for _ in range(3):
        tallies.add(rows)
    assert sum(len(tallies.of(slot)) for slot in range(97)) == len(rows)
    assert {tuple(row) for row in tallies.of(5).tolist()} == {(key, key * 31, 3) for key in range(5, 20_000, 97)}


def test_room_of_what_ended_is_used_again() -> None:
    tallies = Tallies((SUM,))
    sizes = []
    for turn in range(50):
        tallies.add(np.array([(3, key, turn, 1) for key in range(1_000)], np.int64))
        tallies.drop(np.array([3]))
        sizes.append(tallies.nbytes)
    assert sizes[-1] == sizes[0]


def test_keys_beyond_the_most_are_counted_and_those_within_go_on() -> None:
    tallies = Tallies((SUM,))
    tallies.add(np.array([(0, 1, 0, 5), (0, 2, 0, 5), (0, 3, 0, 5), (0, 1, 0, 5), (1, 1, 0, 5)]), most=2)
    assert sorted(tallies.of(0).tolist()) == [[1, 0, 10], [2, 0, 5]]
    assert (tallies.left_out(0), tallies.left_out(1)) == (1, 0)
    tallies.join(np.array([[1, 0]]))
    assert sorted(tallies.of(1).tolist()) == [[1, 0, 15], [2, 0, 5]]
    assert (tallies.left_out(0), tallies.left_out(1)) == (0, 1)


def test_a_copy_is_changed_alone() -> None:
    tallies = Tallies((SUM,))
    tallies.add(np.array([(0, 1, 0, 5)]))
    twin = tallies.copy()
    twin.add(np.array([(0, 1, 0, 5), (0, 2, 0, 1)]))
    assert (tallies.of(0).tolist(), sorted(twin.of(0).tolist())) == ([[1, 0, 5]], [[1, 0, 10], [2, 0, 1]])
