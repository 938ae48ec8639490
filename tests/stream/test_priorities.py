"""Packets are sorted as the device's maps say; a map that nobody told is the identity, and that is said."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.facts import Device, FactStream, PriorityMaps
from stream.kinds import ESTIMATED
from stream.priorities import (
    NO_MAPS,
    Priorities,
    Sorting,
    maps_of,
    priorities_of_group,
    priorities_of_queue,
    sort_dscp,
    sort_priority,
)

# As a switch is set up for RoCEv2: DSCP 26 and 24 to 3, 48 to 6, all else to 0; 3 and 4 without loss.
ROCE = PriorityMaps(
    dscp_to_priority=tuple({24: 3, 26: 3, 34: 4, 48: 6}.get(dscp, 0) for dscp in range(64)),
    priority_to_traffic_class=(0, 0, 0, 3, 4, 0, 6, 0),
    traffic_class_to_queue=(0, 1, 2, 13, 14, 5, 7, 7),
    traffic_class_to_priority_group=(0, 0, 0, 3, 4, 0, 0, 7),
)


def test_a_dscp_is_followed_to_its_queue_and_group() -> None:
    assert sort_dscp(26, ROCE) == Sorting(3, 3, 13, 3, 0)
    assert sort_dscp(34, ROCE) == Sorting(4, 4, 14, 4, 0)
    assert sort_dscp(0, ROCE) == Sorting(0, 0, 0, 0, 0)
    assert sort_priority(6, ROCE) == Sorting(6, 6, 7, 0, 0)


def test_a_queue_is_followed_back_to_all_its_priorities() -> None:
    assert priorities_of_queue(13, ROCE) == Priorities((3,), 0)
    assert priorities_of_queue(0, ROCE) == Priorities((0, 1, 2, 5, 7), 0)
    assert priorities_of_queue(5, ROCE) == Priorities((), 0)
    assert priorities_of_group(0, ROCE) == Priorities((0, 1, 2, 5, 6, 7), 0)


def test_without_maps_everything_is_itself_and_estimated() -> None:
    for priority in range(8):
        assert sort_priority(priority, NO_MAPS) == Sorting(priority, priority, priority, priority, ESTIMATED)
        assert priorities_of_queue(priority, NO_MAPS) == Priorities((priority,), ESTIMATED)
    assert sort_dscp(26, NO_MAPS) == Sorting(3, 3, 3, 3, ESTIMATED)


@pytest.mark.parametrize("name", PriorityMaps.__struct_fields__)
def test_every_map_that_is_missing_is_said(name: str) -> None:
    maps = msgspec.structs.replace(ROCE, **{name: None})
    assert sort_dscp(26, maps).quality == ESTIMATED
    assert sort_priority(3, maps).quality == (0 if name == "dscp_to_priority" else ESTIMATED)
    on_the_way_out = name in ("priority_to_traffic_class", "traffic_class_to_queue")
    assert priorities_of_queue(13, maps).quality == (ESTIMATED if on_the_way_out else 0)


def test_numbers_that_are_none_are_refused() -> None:
    for dscp in (-1, 64):
        with pytest.raises(ValueError, match="no DSCP"):
            sort_dscp(dscp, ROCE)
    for priority in (-1, 8, 255):
        with pytest.raises(ValueError, match="no priority"):
            sort_priority(priority, ROCE)


def test_of_several_sources_each_map_is_the_one_told_last() -> None:
    def fact(maps: PriorityMaps | None) -> Device:
        return Device("lab", "leaf-1", "switch", 0, FactStream("s", "e", 0, 0), priorities=maps)

    other = PriorityMaps(traffic_class_to_queue=tuple(range(20, 28)))
    assert maps_of([fact(ROCE), fact(None), fact(other)]) == msgspec.structs.replace(
        ROCE, traffic_class_to_queue=other.traffic_class_to_queue
    )
    assert maps_of([]) == NO_MAPS


_NUMBERS = st.integers(0, 7)
_OF_8 = st.one_of(st.none(), st.tuples(*[_NUMBERS] * 8))
_MAPS = st.builds(PriorityMaps, st.one_of(st.none(), st.tuples(*[_NUMBERS] * 64)), _OF_8, _OF_8, _OF_8)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(maps=_MAPS, dscp=st.integers(0, 63))
def test_the_way_back_finds_what_the_way_there_did(maps: PriorityMaps, dscp: int) -> None:
    there = sort_dscp(dscp, maps)
    assert there == sort_priority(there.priority, maps)._replace(quality=there.quality)
    assert there.priority in priorities_of_queue(there.queue, maps).priorities
    assert there.priority in priorities_of_group(there.priority_group, maps).priorities
