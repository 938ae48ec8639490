"""What the roster announces, in event time: when devices reported what themselves, and how long windows may be.

A roster change may be read long before or after rows of its time; what it says holds from its own time on.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.detect import episode_stream
from analytics.layout import FOREVER
from stream.batch import StreamKey
from stream.identity import Resolver
from stream.record import MAX_TIME_NS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_HORIZON_NS = 60_000_000_000
"""Evidence is waited for no longer than a minute: a longer window takes effect at its end."""


REPORTED = ("pfc", "ecn", "pcie", "kernel", "host")
"""Topics of which it matters to a verdict whether a device reported on them at all."""


class Announced:
    """The spans of streams by device, and the longest window by the time from which it has to be reckoned with.

    Streams bear their sources' names of devices; who asks gives the canonical name, and says what names mean.
    """

    def __init__(self) -> None:
        self._meant: tuple[int, dict[str, list[str]]] = (-1, {})
        """The streams' names of each device, and the generation of the resolver that said so."""
        self._spans: dict[str, dict[StreamKey, list[tuple[int, int]]]] = {}
        self._table: tuple[tuple[int, int], tuple[Ints, Ints, Ints]] | None = None
        """The spans of devices by number, and how many devices and which generation of names it was made for."""
        self._horizons: list[tuple[int, int]] = []
        self._polls: dict[StreamKey, tuple[int, int]] = {}
        """Of streams of polled pause counters, since when and how often."""
        self._polled_since_ns = FOREVER
        self._gaps: dict[StreamKey, list[tuple[int, int]]] = {}
        """When streams of devices were suspended."""

    def suspend(self, stream: StreamKey, at_ns: int) -> None:
        """A stream that nobody waits for from a time on."""
        self.down(stream, at_ns)
        if stream.device:
            self._gaps.setdefault(stream, []).append((at_ns, MAX_TIME_NS))

    def resume(self, stream: StreamKey, from_ns: int, period_ns: int) -> None:
        """A suspended stream that counts again from a time on."""
        self.up(stream, from_ns, period_ns)
        if gaps := self._gaps.get(stream):
            gaps[-1] = (gaps[-1][0], from_ns)

    def suspended(self, first_ns: int, last_ns: int, names: Resolver) -> set[str]:
        """The devices of which a stream was suspended at some time between two instants."""
        return {
            names.device(stream.device)
            for stream, gaps in self._gaps.items()
            if any(begin <= last_ns and first_ns < until for begin, until in gaps)
        }

    def up(self, stream: StreamKey, from_ns: int, period_ns: int) -> None:
        """A stream that begins."""
        if stream.topic in REPORTED:
            self._table = None
            if stream.device not in self._spans:
                self._meant = (-1, {})
            self._spans.setdefault(stream.device, {}).setdefault(stream, []).append((from_ns, MAX_TIME_NS))
        if stream.topic == "pfc" and period_ns > 0:
            self._polls.setdefault(stream, (from_ns, min(period_ns, MAX_HORIZON_NS)))
            self._polled_since_ns = min(self._polled_since_ns, from_ns)
        window_ns = min(period_ns, MAX_HORIZON_NS)
        if window_ns > self.horizon_ns(from_ns):
            insort(self._horizons, (from_ns, window_ns))
            longest = 0
            for entry in list(self._horizons):
                if entry[1] <= longest:
                    self._horizons.remove(entry)
                longest = max(longest, entry[1])

    def down(self, stream: StreamKey, at_ns: int) -> None:
        """A stream that has ended, or is suspended until it is `up` again."""
        spans = self._spans.get(stream.device, {}).get(stream)
        if spans:
            self._table = None
            spans[-1] = (spans[-1][0], at_ns)

    def reports(self, device: str, first_ns: int, last_ns: int, names: Resolver, topic: str = "pfc") -> bool:
        """Whether the device reported on one of the topics `REPORTED` itself at some time between two instants."""
        return any(begin <= last_ns and first_ns <= end for begin, end in self._spans_of(topic, device, names))

    def reported(self, first_ns: int, last_ns: int, known: list[str], names: Resolver) -> Bools:
        """By device, as `known` names them, whether it reported pauses itself at some time between two instants."""
        starts, begins, ends = self._pfc_spans(known, names)
        inside = (begins <= last_ns) & (first_ns <= ends)
        by = np.repeat(np.arange(len(known)), np.diff(starts))
        return np.bincount(by, inside, minlength=len(known)) > 0

    def covers(self, device: str, first_ns: int, last_ns: int, names: Resolver, topic: str) -> bool:
        """Whether the device reported on one of the topics `REPORTED` all the time between two instants."""
        return any(begin <= first_ns and last_ns <= end for begin, end in self._spans_of(topic, device, names))

    def has_ended(self, device: str, source: str, time_ns: int, names: Resolver) -> bool:
        """Whether a source of episodes that reported pauses of the device did so no more at a time."""
        spans = [
            span
            for name in self._names_of(device, names)
            for stream, spans in self._spans[name].items()
            if stream.topic == "pfc" and episode_stream(stream).source == source
            for span in spans
        ]
        return bool(spans) and not any(begin <= time_ns <= end for begin, end in spans)

    def reporting(self, devices: Ints, time_ns: Ints, known: list[str], names: Resolver) -> Bools:
        """At which of the times the device with the number there in `known` reported pauses itself."""
        starts, begins, ends = self._pfc_spans(known, names)
        first, count = starts[devices], starts[devices + 1] - starts[devices]
        covered = np.zeros(len(time_ns), np.bool_)
        for number in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > number)
            span = first[some] + number
            covered[some] |= (begins[span] <= time_ns[some]) & (time_ns[some] <= ends[span])
        return covered

    def _pfc_spans(self, known: list[str], names: Resolver) -> tuple[Ints, Ints, Ints]:
        """Where the spans of each device begin in the two other arrays: when it began to report pauses, and ended."""
        made_for = (len(known), names.generation)
        if self._table is None or self._table[0] != made_for:
            spans = [self._spans_of("pfc", device, names) for device in known]
            starts = np.cumsum([0, *map(len, spans)])
            begins, ends = np.array([span for each in spans for span in each], np.int64).reshape(-1, 2).T
            self._table = made_for, (starts, begins, ends)
        return self._table[1]

    def _names_of(self, device: str, names: Resolver) -> list[str]:
        """The names by which streams call a device."""
        generation, meant = self._meant
        if generation != names.generation:
            meant = {}
            for name in self._spans:
                meant.setdefault(names.device(name), []).append(name)
            self._meant = names.generation, meant
        return meant.get(device, [])

    def _spans_of(self, topic: str, device: str, names: Resolver) -> list[tuple[int, int]]:
        return [
            span
            for name in self._names_of(device, names)
            for stream, spans in self._spans[name].items()
            if stream.topic == topic
            for span in spans
        ]

    def horizon_ns(self, time_ns: int) -> int:
        """Longest window announced up to this time: how long evidence of an instant may take to arrive."""
        place = bisect_right(self._horizons, time_ns, key=lambda entry: entry[0])
        return self._horizons[place - 1][1] if place else 0

    def polled_since_ns(self) -> int:
        """Since when pause counters of some device are polled; FOREVER where none are."""
        return self._polled_since_ns

    def poll_ns(self, time_ns: int) -> int:
        """How often pause counters are polled: the median of what was announced up to a time, 0 for nothing."""
        periods = sorted(period_ns for from_ns, period_ns in self._polls.values() if from_ns <= time_ns)
        return periods[(len(periods) - 1) // 2] if periods else 0

    def longest_poll_ns(self, time_ns: int) -> int:
        """How often pause counters are polled by whoever polls them least, of what was announced up to a time."""
        return max((period_ns for from_ns, period_ns in self._polls.values() if from_ns <= time_ns), default=0)

    def changes(self, after_ns: int, before_ns: int) -> list[int]:
        """Times between two others from which longer windows have to be reckoned with."""
        return [from_ns for from_ns, _ in self._horizons if after_ns < from_ns < before_ns]

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        spans = [[list(stream), spans] for streams in self._spans.values() for stream, spans in streams.items()]
        gaps = [[list(stream), [list(gap) for gap in gaps]] for stream, gaps in self._gaps.items()]
        polls = [[list(stream), *poll] for stream, poll in self._polls.items()]
        return [spans, [list(entry) for entry in self._horizons], gaps, polls]

    @classmethod
    def of_state(cls, state: list[Any]) -> Announced:
        """Continues from `state()`."""
        announced = cls()
        for key, spans in state[0]:
            stream = StreamKey(*key)
            announced._spans.setdefault(stream.device, {})[stream] = [(begin, end) for begin, end in spans]
        announced._horizons = [(from_ns, window_ns) for from_ns, window_ns in state[1]]
        announced._polls = {StreamKey(*key): (from_ns, period_ns) for key, from_ns, period_ns in state[3]}
        announced._polled_since_ns = min((from_ns for from_ns, _ in announced._polls.values()), default=FOREVER)
        announced._gaps = {StreamKey(*key): [(begin, until) for begin, until in gaps] for key, gaps in state[2]}
        return announced
