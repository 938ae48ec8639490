"""Readings of cumulative counters become rows: which counter is which measure of which row, and what is worth sending.

In: series, each with its place in a row, and their readings. Out: `Rows` by topic, of windows that end at the reading.
A row of which nothing was counted is left out, but for the first, the one after something was, and one in QUIET_NS,
so that an idle host costs next to nothing and yet is seen to be watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from probes.probe import Rows
from stream.counters import Counters
from stream.kinds import BY_CODE, GAP, NO_PRIORITY, RESET, SIDE_NONE, UNKNOWN
from stream.record import MAX_TIME_NS, empty_events

Ints = npt.NDArray[np.int64]

QUIET_NS = 10_000_000_000
VALUE, EXTRA = 0, 1


class Place(NamedTuple):
    """The row that a counter belongs to.

    `extra` is the second measure where that is no count but a code; `quality` has bits that all its rows bear.
    """

    port: str
    kind: int
    priority: int = NO_PRIORITY
    side: int = SIDE_NONE
    extra: int | None = None
    text: str = ""
    quality: int = 0


class Series(NamedTuple):
    """One counter: its place, which measure it is, and what one count is worth in the measure's unit.

    `bits`, `most_per_s` and `stamp_error_ns` are those of stream/counters.py, before `worth`. Counters of one measure
    of one place, which add up, differ in `name`.
    """

    place: Place
    measure: int
    worth: int
    bits: int
    most_per_s: int
    stamp_error_ns: int = 0
    name: str = ""


class _Same:
    """Readings, when they were last read, whether they were taken in as of then, and when a row is due."""

    def __init__(self, numbers: Ints, readings: npt.NDArray[np.uint64], time_ns: int, due_ns: int) -> None:
        self.numbers, self.readings = numbers, readings
        self.time_ns, self.due_ns, self.taken = time_ns, due_ns, True

    def is_of(self, numbers: Ints, readings: npt.NDArray[np.uint64]) -> bool:
        """Whether these are the same readings of the same series."""
        return np.array_equal(self.readings, readings) and np.array_equal(self.numbers, numbers)


class CountedRows:
    """All counters of one poller. A series that is added again goes on from its last reading."""

    def __init__(self, period_ns: int) -> None:
        self._counters = Counters()
        self._period_ns = period_ns
        self._numbers: dict[Series, int] = {}
        self._places: dict[Place, int] = {}
        self._place_list: list[Place] = []
        self._cell: Ints = np.zeros(0, np.int64)
        """Of each series, twice its place, and one more for the second measure."""
        self._worth: Ints = np.zeros(0, np.int64)
        self._last: _Same | None = None
        self._sent_ns: Ints = np.zeros(0, np.int64)
        self._was_active: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def counted(self) -> Counter[str]:
        """How often what was met that is not plain counting."""
        return self._counters.counted

    def add(self, series: Sequence[Series]) -> Ints:
        """The numbers of these series, in their order."""
        cells: list[int] = []
        worth: list[int] = []
        for each in series:
            if each in self._numbers:
                continue
            place = self._places.setdefault(each.place, len(self._places))
            if place == len(self._place_list):
                self._place_list.append(each.place)
            self._numbers[each] = self._counters.add(
                1, bits=each.bits, most_per_s=each.most_per_s, stamp_error_ns=each.stamp_error_ns,
                period_ns=self._period_ns,
            )[0]  # fmt: skip
            cells.append(2 * place + each.measure)
            worth.append(each.worth)
        self._cell = np.concatenate((self._cell, np.array(cells, np.int64)))
        self._worth = np.concatenate((self._worth, np.array(worth, np.int64)))
        grown = len(self._place_list) - len(self._sent_ns)
        self._sent_ns = np.concatenate((self._sent_ns, np.zeros(grown, np.int64)))
        self._was_active = np.concatenate((self._was_active, np.zeros(grown, np.bool_)))
        return np.array([self._numbers[each] for each in series], np.int64)

    def take(self, numbers: Ints, readings: npt.NDArray[np.uint64], now_ns: int) -> list[Rows]:
        """The rows of the windows that these readings end.

        Readings that are the same as before cost next to nothing while no row is due: they are taken in once others
        follow, so that those have windows of their own.
        """
        last = self._last
        if last is not None:
            if last.time_ns < now_ns < last.due_ns and last.is_of(numbers, readings):
                last.time_ns, last.taken = now_ns, False
                return []
            if not last.taken:
                self._take(last.numbers, last.readings, last.time_ns)
        made = self._take(numbers, readings, now_ns)
        self._last = _Same(numbers, readings.copy(), now_ns, self._due_ns(numbers))
        return made

    def _due_ns(self, numbers: Ints) -> int:
        """When the next row of these series is due if nothing changes: at once after one that tells of something."""
        cells = self._cell[numbers]
        places = cells[cells % 2 == VALUE] // 2
        if not len(places):
            return MAX_TIME_NS
        return 0 if self._was_active[places].any() else int(self._sent_ns[places].min()) + QUIET_NS

    def _take(self, numbers: Ints, readings: npt.NDArray[np.uint64], now_ns: int) -> list[Rows]:
        deltas = self._counters.take(numbers, np.full(len(numbers), now_ns, np.int64), readings)
        if not len(deltas.row):
            return []
        series = numbers[deltas.row]
        cells = self._cell[series]
        places = len(self._place_list)
        worth = self._worth[series]
        unknown = deltas.value == UNKNOWN
        # A sum beyond 64 bits can only come of garbage: no counter goes so far in a window.
        room = np.iinfo(np.int64).max // worth // 16
        value = np.minimum(np.where(unknown, 0, deltas.value), room) * worth
        measures = np.zeros(2 * places, np.int64)
        np.add.at(measures, cells, value)
        known = np.zeros(2 * places, np.bool_)
        known[cells] = True
        known[cells[unknown]] = False
        measures[~known] = UNKNOWN
        span_ns = np.zeros(places, np.int64)
        np.maximum.at(span_ns, cells // 2, deltas.span_ns)
        quality = np.zeros(places, np.uint8)
        np.bitwise_or.at(quality, cells // 2, deltas.quality)
        has_value = np.zeros(places, np.bool_)
        has_value[cells[cells % 2 == VALUE] // 2] = True
        active = (measures.reshape(-1, 2) > 0).any(axis=1) | (quality & (RESET | GAP) > 0)
        due = active | self._was_active | (now_ns - self._sent_ns >= QUIET_NS)
        rows = np.flatnonzero(has_value & due)
        self._was_active[has_value] = active[has_value]
        self._sent_ns[rows] = now_ns
        return self._rows(rows, measures, span_ns, quality, now_ns)

    def _rows(
        self, rows: Ints, measures: Ints, span_ns: Ints, quality: npt.NDArray[np.uint8], now_ns: int
    ) -> list[Rows]:
        by_topic: dict[str, list[int]] = {}
        for row in rows.tolist():
            by_topic.setdefault(BY_CODE[self._place_list[row].kind].topic, []).append(row)
        made = []
        for topic, chosen in by_topic.items():
            places = [self._place_list[row] for row in chosen]
            ports: dict[str, int] = {}
            index = [ports.setdefault(place.port, len(ports)) for place in places]
            events = empty_events(len(chosen))
            events["time_ns"] = events["seen_ns"] = now_ns
            events["span_ns"] = span_ns[chosen]
            events["value"] = measures[0::2][chosen]
            events["extra"] = [
                _extra(place, int(measures[2 * row + EXTRA])) for row, place in zip(chosen, places, strict=True)
            ]
            events["port"] = index
            events["quality"] = quality[chosen] | np.array([place.quality for place in places], np.uint8)
            for field in ("kind", "priority", "side"):
                events[field] = [getattr(place, field) for place in places]
            texts = [(at, place.text) for at, place in enumerate(places) if place.text]
            made.append(Rows(topic, events, tuple(ports), texts))
        return made


def _extra(place: Place, counted: int) -> int:
    if place.extra is not None:
        return place.extra
    return counted if BY_CODE[place.kind].extra.name else 0
