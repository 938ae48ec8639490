"""How a device sorts packets: DSCP -> priority -> traffic class -> queue and priority group, and the way back.

In: the maps of a device's facts. Out: numbers, and the quality ESTIMATED where a map had to be assumed: one that nobody
has read or configured is taken for the identity, and a DSCP without a map for its class selector.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from stream.facts import DSCPS, PRIORITIES, Device, PriorityMaps
from stream.kinds import ESTIMATED

_IDENTITY = tuple(range(PRIORITIES))
_CLASS_SELECTORS = tuple(dscp // PRIORITIES for dscp in range(DSCPS))
"""The upper three bits of a DSCP are the IP precedence of old (RFC 2474, 4.2.2), which is what NICs assume as well."""

NO_MAPS = PriorityMaps()


class Sorting(NamedTuple):
    """Where packets of a priority go; `quality` is ESTIMATED if a map on the way was assumed, else 0."""

    priority: int
    traffic_class: int
    queue: int
    priority_group: int
    quality: int


class Priorities(NamedTuple):
    """All priorities whose packets are in a queue or priority group, none if it is not one of a map."""

    priorities: tuple[int, ...]
    quality: int


def maps_of(facts: Iterable[Device]) -> PriorityMaps:
    """The maps of one device by its facts in the order from which they hold: each map as it was told last."""
    maps = NO_MAPS
    for fact in facts:
        told = msgspec.structs.asdict(fact.priorities or NO_MAPS)
        maps = msgspec.structs.replace(maps, **{name: each for name, each in told.items() if each is not None})
    return maps


def sort_dscp(dscp: int, maps: PriorityMaps) -> Sorting:
    """Where packets with this DSCP go. Raises ValueError for a number that is no DSCP."""
    if not 0 <= dscp < DSCPS:
        raise ValueError(f"{dscp} is no DSCP: those are 0 to {DSCPS - 1}")
    sorting = sort_priority((maps.dscp_to_priority or _CLASS_SELECTORS)[dscp], maps)
    return sorting._replace(quality=sorting.quality | _estimated(maps.dscp_to_priority))


def sort_priority(priority: int, maps: PriorityMaps) -> Sorting:
    """Where packets of this priority go. Raises ValueError for a number that is no priority."""
    if not 0 <= priority < PRIORITIES:
        raise ValueError(f"{priority} is no priority: those are 0 to {PRIORITIES - 1}")
    traffic_class = (maps.priority_to_traffic_class or _IDENTITY)[priority]
    queue = (maps.traffic_class_to_queue or _IDENTITY)[traffic_class]
    group = (maps.traffic_class_to_priority_group or _IDENTITY)[traffic_class]
    told = (maps.priority_to_traffic_class, maps.traffic_class_to_queue, maps.traffic_class_to_priority_group)
    return Sorting(priority, traffic_class, queue, group, max(map(_estimated, told)))


def priorities_of_queue(queue: int, maps: PriorityMaps) -> Priorities:
    """The priorities whose packets leave by a queue: a switch counts by queue what PFC stops by priority."""
    found = tuple(priority for priority in _IDENTITY if sort_priority(priority, maps).queue == queue)
    return Priorities(found, max(_estimated(maps.priority_to_traffic_class), _estimated(maps.traffic_class_to_queue)))


def priorities_of_group(group: int, maps: PriorityMaps) -> Priorities:
    """The priorities whose packets wait in a priority group on their way in."""
    found = tuple(priority for priority in _IDENTITY if sort_priority(priority, maps).priority_group == group)
    told = (maps.priority_to_traffic_class, maps.traffic_class_to_priority_group)
    return Priorities(found, max(map(_estimated, told)))


def _estimated(told: tuple[int, ...] | None) -> int:
    return ESTIMATED if told is None else 0
