"""Which open cascades stops belong to: those of their queues, and those that blame the same roots."""

from __future__ import annotations

from analytics import layout
from analytics.open_cascades import OpenCascades
from analytics.sampled_cascade import SampledCascade

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
