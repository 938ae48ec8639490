"""Which open cascades stops belong to: those of their queues, and those that blame the same roots."""

from __future__ import annotations

import pytest

from analytics import layout
from analytics.open_cascades import OpenCascades
from analytics.sampled_cascade import PAUSED, SampledCascade

RULES = 5


def cascade(start_ns: int, queues: list[int], roots: dict[int, float]) -> SampledCascade:
    """One with these stopped queues and, by root, what it is blamed for."""
    made = SampledCascade(start_ns, queues[0])
    made.queues = {queue: [0.0] * 11 for queue in queues}
    made.members = {root: [ns] * RULES for root, ns in roots.items()}
    return made


def noted(*cascades: SampledCascade) -> OpenCascades:
    made = OpenCascades()
    for each in cascades:
        made.note(made.open(each))
    return made


def test_stops_belong_to_the_cascades_of_their_queues_and_roots_in_the_order_in_which_those_began() -> None:
    opened = noted(cascade(0, [1, 2], {40: 9.0}), cascade(5, [3], {44: 9.0}), cascade(7, [4], {48: 9.0}))
    assert opened.meeting([9], {52}) == []
    assert opened.meeting([3, 9], {52}) == [1]
    assert opened.meeting([4], {40}) == [0, 2]
    assert opened.meeting([2, 3], {48}) == [0, 1, 2]


def test_a_root_of_next_to_nothing_joins_nobody() -> None:
    small = 0.5 * layout.JOIN_SHARE
    opened = noted(cascade(0, [1], {40: 1.0 - small, 44: small}))
    assert opened.meeting([9], {44}) == []
    assert opened.meeting([9], {40}) == [0]


def test_what_is_over_is_met_no_more() -> None:
    opened = noted(cascade(0, [1], {40: 1.0}), cascade(1, [2], {40: 1.0}))
    opened.remove(0)
    assert len(opened) == 1
    assert opened.meeting([1], {40}) == [1]
    opened.remove(1)
    assert opened.meeting([1, 2], {40}) == []
    assert not opened


def test_a_queue_goes_to_who_told_of_it_last_and_its_former_cascade_takes_nothing_along() -> None:
    opened = noted(cascade(0, [1], {40: 1.0}), cascade(1, [1, 2], {44: 1.0}))
    assert opened.meeting([1], set()) == [1]
    opened.remove(0)
    assert opened.meeting([1], set()) == [1]


def test_numbers_grow_and_are_not_used_again() -> None:
    opened = noted(cascade(0, [1], {40: 1.0}), cascade(1, [2], {44: 1.0}))
    opened.remove(1)
    assert opened.open(cascade(2, [3], {48: 1.0})) == 2
    assert [number for number, _ in opened.numbered()] == [0, 2]
    assert [each.start_ns for each in opened] == [0, 2]
    again = OpenCascades(opened)
    assert [number for number, _ in again.numbered()] == [0, 1]
    assert again.meeting([3], set()) == [1]


def stopped(begin_ns: int, queue: int, paused_ns: float) -> SampledCascade:
    made = cascade(begin_ns, [queue], {40 + 4 * queue: paused_ns})
    made.queues[queue][PAUSED] = paused_ns
    made.last_ns = begin_ns + 1
    made.length_ns = 1
    return made


def test_pieces_are_one_cascade_while_most_of_one_was_stopped_when_they_met() -> None:
    opened = noted(stopped(0, 1, 900.0), stopped(5, 2, 40.0), stopped(5, 3, 40.0))
    opened.meet({0: 45.0, 1: 40.0})
    assert opened.together() == [[0, 1], [2]]
    opened[1].queues[2][PAUSED] = 80.0
    assert opened.together() == [[0, 1], [2]]
    opened[1].queues[2][PAUSED] = 81.0
    assert opened.together() == [[0], [1], [2]]
    opened.meet({0: 0.0, 1: 1.0})  # the root of the first alone, which was not stopped itself
    assert opened.together() == [[0, 1], [2]]
    assert opened.for_good() is None


@pytest.mark.parametrize(("ends", "one"), [((30, 30), True), ((30, 25), True), ((30, 24), False), ((24, 30), False)])
def test_pieces_that_met_and_went_on_beside_each_other_stay_one_cascade(ends: tuple[int, int], one: bool) -> None:
    opened = noted(stopped(0, 1, 900.0), stopped(10, 2, 300.0))
    for piece, end_ns in zip(opened, ends, strict=True):
        piece.last_ns, piece.length_ns = end_ns, 5
    assert opened.for_good() is None
    opened.meet({0: 1.0, 1: 1.0})
    assert opened.together() == ([[0, 1]] if one else [[0], [1]])
    assert opened.for_good() == ((0, 1) if one else None)


def test_what_met_a_piece_belongs_to_whatever_that_belongs_to() -> None:
    opened = noted(*(stopped(at, at, 10.0) for at in range(5)))
    opened.meet({1: 10.0, 3: 10.0})
    opened.meet({3: 1.0, 4: 10.0})
    opened.meet({0: 1.0, 2: 10.0})
    assert opened.together() == [[0, 2], [1, 3, 4]]


def test_a_piece_that_becomes_part_of_another_brings_along_what_it_met() -> None:
    opened = noted(*(stopped(at, at, 10.0) for at in range(4)))
    opened.meet({1: 6.0, 2: 10.0})
    opened.meet({0: 3.0, 2: 1.0})
    opened.meet({2: 0.0, 3: 4.0})
    opened.join(1, 2, "former")
    assert [number for number, _ in opened.numbered()] == [0, 1, 3]
    assert opened[1].former_ids == ["former"]
    assert opened[1].paused_ns() == 20.0
    assert opened.meeting([2], set()) == [1]
    assert opened.met() == [(0, 1, 3.0), (1, 0, 1.0), (2, 1, 4.0)]
    opened.remove(1)
    assert opened.met() == []


def test_a_third_that_met_both_did_not_meet_them_twice() -> None:
    opened = noted(*(stopped(at, at, 10.0) for at in range(3)))
    opened.meet({0: 2.0, 1: 2.0, 2: 3.0})
    opened.join(0, 1, "former")
    assert opened.met() == [(0, 1, 4.0), (1, 0, 3.0)]
    assert opened.together() == [[0], [2]]


def test_what_met_goes_on_in_a_copy() -> None:
    opened = noted(*(stopped(at, at, 10.0) for at in range(3)))
    opened.remove(0)
    opened.meet({1: 2.0, 2: 9.0})
    again = OpenCascades(opened, opened.met())
    assert again.met() == [(0, 1, 2.0), (1, 0, 9.0)]
    assert again.together() == [[0, 1]]
