"""How a device sorts packets, gathered leaf by leaf: DSCP to class, class to queue and group, priority to queue.

In: what single leaves say. Out: `PriorityMaps`; a map of which an entry is missing is not told. Where a device maps PFC
priorities to queues of their own, a priority is the one whose packets are in the class of that queue; else priority and
class are the same number.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream.facts import DSCPS, PRIORITIES, PriorityMaps

MOST_NAMES = 1024
"""Terms, and names of classes, of one device: what it invents beyond them is refused and counted."""


class Sorting:
    """What one device has told so far of the sorting of packets."""

    def __init__(self) -> None:
        self._class_of_dscp: dict[int, int] = {}
        self._queue_of_class: dict[int, int] = {}
        self._group_of_class: dict[int, int] = {}
        self._queue_of_priority: dict[int, int] = {}
        self._dscps_of_term: dict[str, tuple[int, ...]] = {}
        self._class_of_term: dict[str, str] = {}
        self._queue_of_class_name: dict[str, int] = {}
        self.refused = 0
        """Leaves about names for which there was no room."""

    def dscp_class(self, dscp: int, traffic_class: int) -> None:
        """Packets of a DSCP are of this class."""
        if 0 <= dscp < DSCPS and 0 <= traffic_class < PRIORITIES:
            self._class_of_dscp[dscp] = traffic_class

    def class_queue(self, traffic_class: int, queue: int) -> None:
        """Packets of a class leave by this queue."""
        if 0 <= traffic_class < PRIORITIES and 0 <= queue <= 255:
            self._queue_of_class[traffic_class] = queue

    def class_group(self, traffic_class: int, group: int) -> None:
        """Packets of a class wait in this priority group."""
        if 0 <= traffic_class < PRIORITIES and 0 <= group <= 255:
            self._group_of_class[traffic_class] = group

    def priority_queue(self, priority: int, queue: int) -> None:
        """A pause frame of a priority stops this queue."""
        if 0 <= priority < PRIORITIES and 0 <= queue <= 255:
            self._queue_of_priority[priority] = queue

    def term_dscp(self, term: str, dscps: tuple[int, ...]) -> None:
        """A classifier's term takes these DSCPs."""
        if self._has_room(self._dscps_of_term, term):
            self._dscps_of_term[term] = tuple(dscp for dscp in dscps if 0 <= dscp < DSCPS)

    def term_class(self, term: str, name: str) -> None:
        """A classifier's term puts packets into the class of this name."""
        if self._has_room(self._class_of_term, term):
            self._class_of_term[term] = name

    def class_name_queue(self, name: str, queue: int) -> None:
        """The class of this name leaves by this queue, whose number is the class's too."""
        if 0 <= queue <= 255 and self._has_room(self._queue_of_class_name, name):
            self._queue_of_class_name[name] = queue

    def maps(self) -> PriorityMaps:
        """The maps that are known as a whole."""
        class_of_dscp = self._class_of_dscp | self._by_terms()
        queue_of_class = dict(self._queue_of_class)
        for queue in self._queue_of_class_name.values():
            if queue < PRIORITIES:
                queue_of_class.setdefault(queue, queue)
        queues = _whole(queue_of_class, PRIORITIES)
        to_class = _class_of_priority(self._queue_of_priority, queues)
        by_dscp = _whole(class_of_dscp, DSCPS)
        if by_dscp is not None and to_class is not None:
            priority_of = {traffic_class: priority for priority, traffic_class in reversed([*enumerate(to_class)])}
            # A class that no priority is in keeps its own number.
            by_dscp = tuple(priority_of.get(traffic_class, traffic_class) for traffic_class in by_dscp)
        return PriorityMaps(by_dscp, to_class, queues, _whole(self._group_of_class, PRIORITIES))

    def _has_room(self, told: Mapping[str, object], name: str) -> bool:
        room = name in told or len(told) < MOST_NAMES
        self.refused += not room
        return room

    def _by_terms(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for term, dscps in self._dscps_of_term.items():
            traffic_class = self._queue_of_class_name.get(self._class_of_term.get(term, ""))
            if traffic_class is not None and traffic_class < PRIORITIES:
                found |= dict.fromkeys(dscps, traffic_class)
        return found


def _class_of_priority(queue_of: Mapping[int, int], queues: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if queues is None or len(queue_of) < PRIORITIES:
        return None
    found = []
    for priority in range(PRIORITIES):
        of_queue = [traffic_class for traffic_class, queue in enumerate(queues) if queue == queue_of[priority]]
        found.append(priority if priority in of_queue or not of_queue else of_queue[0])
    return tuple(found)


def _whole(told: Mapping[int, int], count: int) -> tuple[int, ...] | None:
    return tuple(told[number] for number in range(count)) if len(told) == count else None
