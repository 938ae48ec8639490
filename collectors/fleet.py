"""What is known of each target of one profile: the series of its leaves, its ports' speeds, and how it sorts packets.

Tables of shape (targets, leaves), (targets, ports) and (targets, groups), so that rows of all targets are read by one
look-up; what a target does not have takes no room. A target's row in them is its slot; a slot that is given up is used
again, its series with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.paged_table import PagedTable
from collectors.path_map import (
    GROUP,
    NO_DIMENSION,
    OF_BYTES,
    OF_EVENTS,
    OF_PACKETS,
    OF_QUANTA,
    OF_STORMS,
    PRIORITY,
    QUANTUM_BITS,
    QUEUE,
    SETTING,
    PathMap,
)
from stream.counters import MOST, SECOND_NS, Counters
from stream.facts import PRIORITIES, PriorityMaps
from stream.kinds import ESTIMATED, NO_PRIORITY, UNKNOWN
from stream.priorities import NO_MAPS, priorities_of_group, priorities_of_queue, sort_priority

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

NO_SUCH = 254
"""In place of a priority: no priority's packets are in the queue, so that no row can speak of it."""
_NUMBERS = 256
_FRAME_BITS = 84 * 8
"""Of the shortest frame, with preamble and gap."""
_CODE_WORD_BITS = 5280
"""Of the shortest code word, RS(528,514) (IEEE 802.3, clause 91); no other event of a link is as frequent."""
_STORMS_PER_S = 1000
"""No PFC watchdog looks at a queue more often."""


class Series:
    """The series of all targets by number, and the session in which each was read last."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.session: Int32s = np.zeros(0, np.int32)
        self.stopped: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        """Of a leaf that says whether its queue is stopped, what it said last; -1 is nothing."""
        self._free: list[int] = []

    def take(self, count: int) -> Ints:
        """Numbers of `count` series that have no reading yet."""
        again = [self._free.pop() for _ in range(min(count, len(self._free)))]
        if more := count - len(again):
            again += self.counters.add(more, bits=64, most_per_s=MOST, stamp_error_ns=0)
            if (room := len(self.session)) < again[-1] + 1:
                self.session = np.concatenate((self.session, np.zeros(max(room, more), np.int32)))
                self.stopped = np.concatenate((self.stopped, np.full(max(room, more), -1, np.int8)))
        return np.array(again, np.int64)

    def give_back(self, series: Ints) -> None:
        """Series that nobody reads any more."""
        self.counters.forget(series)
        self.stopped[series] = -1
        self._free += series.tolist()


class Fleet:
    """The targets of one profile. `period_ns` of a target is 0 where nobody promises one."""

    def __init__(self, paths: PathMap, series: Series) -> None:
        self.paths = paths
        self.series = series
        self.series_of = PagedTable(np.int32, -1)
        self.speed_mbps = PagedTable(np.int64, 0)
        self.told = PagedTable(np.uint8, 0)
        """By target and group, a bit for each half that the target tells."""
        self.setting = PagedTable(np.int64, UNKNOWN)
        self.storm = PagedTable(np.int8, -1)
        """By target and group, what its watchdog said last: 1 storm, 0 none, -1 not known."""
        self.priority: npt.NDArray[np.uint8] = np.zeros((0, 4, _NUMBERS), np.uint8)
        self.estimated: npt.NDArray[np.uint8] = np.zeros((0, 4, _NUMBERS), np.uint8)
        self.session: Int32s = np.zeros(0, np.int32)
        self.period_ns: Ints = np.zeros(0, np.int64)
        self.target: Int32s = np.zeros(0, np.int32)
        """By slot, its target; -1 of a free one."""
        self._free: list[int] = []

    def add(self, target: int, period_ns: int) -> int:
        """The slot of a new target."""
        slot = self._free.pop() if self._free else len(self.target)
        if slot == len(self.target):
            more = max(8, slot)
            self.target = np.concatenate((self.target, np.full(more, -1, np.int32)))
            self.session = np.concatenate((self.session, np.ones(more, np.int32)))
            self.period_ns = np.concatenate((self.period_ns, np.zeros(more, np.int64)))
            self.priority = np.concatenate((self.priority, np.zeros((more, 4, _NUMBERS), np.uint8)))
            self.estimated = np.concatenate((self.estimated, np.zeros((more, 4, _NUMBERS), np.uint8)))
            self._free += range(len(self.target) - 1, slot, -1)
        self.target[slot], self.period_ns[slot] = target, period_ns
        self.sort_packets(slot, NO_MAPS)
        return slot

    def remove(self, slot: int) -> None:
        """Gives up a target's slot and series."""
        self.target[slot] = -1
        if slot < self.series_of.shape[0]:
            self.forget(slot)
            for table in (self.speed_mbps, self.told, self.setting, self.storm):
                table.clear(slot)
        self._free.append(slot)

    def forget(self, slot: int, leaves: Ints | None = None) -> None:
        """Makes the series of a target begin anew, all or those of some leaves."""
        if slot >= self.series_of.shape[0]:
            return
        if leaves is None:
            _, own = self.series_of.row(slot)
            self.series_of.clear(slot)
        else:
            leaves = leaves[leaves < self.series_of.shape[1]]
            own = self.series_of[slot, leaves]
            leaves, own = leaves[own >= 0], own[own >= 0]
            self.series_of[slot, leaves] = -1
        self.series.give_back(own.astype(np.int64))

    def sort_packets(self, slot: int, maps: PriorityMaps) -> None:
        """Takes over how the target sorts packets: which priority a queue or a priority group stands for."""
        table = np.full((4, _NUMBERS), NO_SUCH, np.uint8)
        table[NO_DIMENSION] = NO_PRIORITY
        table[PRIORITY, :PRIORITIES] = np.arange(PRIORITIES)
        estimated = np.zeros((4, _NUMBERS), np.uint8)
        sortings = [sort_priority(priority, maps) for priority in range(PRIORITIES)]
        for dimension, of, numbers in (
            (QUEUE, priorities_of_queue, {sorting.queue for sorting in sortings}),
            (GROUP, priorities_of_group, {sorting.priority_group for sorting in sortings}),
        ):
            for number in numbers:
                found = of(number, maps)
                # Of a queue that several priorities share, the row speaks of the first, and is marked.
                table[dimension, number] = found.priorities[0]
                estimated[dimension, number] = found.quality | ESTIMATED * (len(found.priorities) > 1)
        self.priority[slot], self.estimated[slot] = table, estimated

    def know_speed(self, slot: int, port: int, speed_mbps: int) -> None:
        """Takes over a port's speed, which bounds its counters."""
        self.grow()
        if self.speed_mbps[slot, port] == speed_mbps:
            return
        self.speed_mbps[slot, port] = speed_mbps
        leaves = np.flatnonzero(self.paths.leaves.port == port)
        series = self.series_of[slot, leaves]
        known = series >= 0
        if known.any():
            self._limit(np.full(int(known.sum()), slot), leaves[known], series[known].astype(np.int64))

    def grow(self) -> None:
        """Makes room for all slots, leaves, ports and groups."""
        slots, paths = len(self.target), self.paths
        self.series_of.reserve(slots, len(paths.leaves.row))
        self.speed_mbps.reserve(slots, len(paths.ports))
        groups = len(paths.groups.kind)
        for table in (self.told, self.setting, self.storm):
            table.reserve(slots, groups)

    def series_at(self, slots: Ints, leaves: Ints) -> Ints:
        """The series of leaves of targets; new ones are made."""
        self.grow()
        series = self.series_of[slots, leaves].astype(np.int64)
        new = series < 0
        if new.any():
            width = self.series_of.shape[1]
            which = np.unique(slots[new] * width + leaves[new])
            slot, leaf = np.divmod(which, width)
            made = self.series.take(len(which))
            self.series_of[slot, leaf] = made
            self.series.session[made] = self.session[slot]
            self._limit(slot, leaf, made)
            self._tell_halves(slot, leaf)
            series = self.series_of[slots, leaves].astype(np.int64)
        return series

    def _tell_halves(self, slots: Ints, leaves: Ints) -> None:
        # A setting is kept: no row waits for it.
        told = self.paths.leaves.semantics[leaves] != SETTING
        slots, leaves = slots[told], leaves[told]
        half, which = halves_of(self.paths, leaves)
        halves = self.paths.halves
        bits = (1 << halves.half[half]).astype(np.uint8)
        self.told.add_bits(slots[which], halves.group[half], bits)

    def _limit(self, slots: Ints, leaves: Ints, series: Ints) -> None:
        told = self.paths.leaves
        speed = self.speed_mbps[slots, told.port[leaves]]
        speed = np.where(speed > 0, speed, self.paths.profile.max_speed_mbps)
        bound, numerator, denominator = told.bound[leaves], told.numerator[leaves], told.denominator[leaves]
        per_s = np.full(len(leaves), SECOND_NS)
        bits = ((OF_BYTES, 8), (OF_PACKETS, _FRAME_BITS), (OF_QUANTA, QUANTUM_BITS), (OF_EVENTS, _CODE_WORD_BITS))
        for of, bits_each in bits:
            per_s = np.where(bound == of, speed * 1_000_000 // bits_each + 1, per_s)
        per_s = np.where(bound == OF_STORMS, _STORMS_PER_S, per_s)
        most = per_s // numerator * denominator + per_s % numerator * denominator // numerator + 1
        error_ns = np.full(len(leaves), self.paths.profile.stamp_error_ms * 1_000_000)
        period_ns, own_ns = told.period_ns[leaves], self.period_ns[slots]
        sampled_ns = np.where(own_ns > 0, np.maximum(own_ns, told.least_period_ns[leaves]), 0)
        period_ns = np.where(period_ns == 0, sampled_ns, np.maximum(period_ns, 0))
        self.series.counters.limit(series, told.bits[leaves].astype(np.int64), most, error_ns, period_ns)


def halves_of(paths: PathMap, leaves: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """The numbers of all halves that leaves give to, and of each the place of its leaf among those given."""
    first = paths.leaves.first_half
    count = (first[leaves + 1] - first[leaves]).astype(np.int64)
    which = np.repeat(np.arange(len(leaves)), count)
    begins = np.cumsum(count) - count
    return first[leaves].astype(np.int64)[which] + np.arange(len(which)) - begins[which], which
