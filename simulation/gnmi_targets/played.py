"""A trace that happens: what every queue of its fabric has counted up to a time, however slowly or often it is played.

In: a trace with counters, and a `Pace`. Out: counts that only grow and peaks of windows, functions of time alone, so
that all who poll a device, whenever they do, are told one story.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulation.trace_columns import Trace
from simulation.trace_table import Ints
from stream.errors import ConfigError, TraceError

COUNTED = (
    "rx_paused_ns", "rx_pause_frames", "tx_pause_frames", "tx_bytes", "rx_bytes", "tx_ce_packets", "rx_ce_packets",
)  # fmt: skip
PACKET_BYTES = 1_048
"""Of the traces' packets: a trace counts bytes alone."""
FOREVER_NS = 1 << 61


@dataclass(frozen=True, slots=True)
class Pace:
    """A trace is played once, or again every `every_ns`.

    Each time it is played `times` times without a pause, `slower` times slower than it was: whatever happened in one of
    its bins happens so many times as often, so that loads, depths and shares of time are those of the trace.
    """

    slower: int = 1
    times: int = 1
    every_ns: int = 0


def pace_over(trace: Trace, over_ns: int, *, repeated: bool = False, every_ns: int = 0) -> Pace:
    """The pace at which its incident takes `over_ns`: from the first pause to the last, slowed down or `repeated`."""
    length_ns, first_ns, last_ns = _times(trace)
    if repeated:
        pace = Pace(1, max(1, over_ns // length_ns), every_ns)
    else:
        pace = Pace(max(1, -(-over_ns // max(last_ns - first_ns, 1))), 1, every_ns)
    if every_ns and every_ns < length_ns * pace.slower * pace.times:
        took_s = length_ns * pace.slower * pace.times * 1e-9
        raise ConfigError(f"the trace takes {took_s:.1f} s, more than from one time to the next", "make --every longer")
    return pace


def _times(trace: Trace) -> tuple[int, int, int]:
    """Length of the trace's counters, begin of the first bin with pause and end of the last; all of it without any."""
    counters = trace.counters
    if counters is None or not len(counters.port):
        raise TraceError(f"{trace.name} has no counters that devices could tell", "name a trace with port_counters.csv")
    length_ns = int(counters.end_ns.max())
    paused = counters.rx_pause_frames > 0
    if counters.rx_paused_ns is not None:
        paused |= counters.rx_paused_ns > 0
    if not paused.any():
        return length_ns, 0, length_ns
    begin_ns = counters.end_ns - counters.span_ns
    return length_ns, int(begin_ns[paused].min()), int(counters.end_ns[paused].max())


class Played:
    """The counters of all queues of a trace; a queue is (port, priority), by the trace's numbers of ports."""

    def __init__(self, trace: Trace, pace: Pace) -> None:
        self.trace, self.pace = trace, pace
        self._length_ns, self._first_ns, self._last_ns = _times(trace)
        self._cycle_ns = self._length_ns * pace.slower
        self._begin_ns = FOREVER_NS
        counters = trace.counters
        assert counters is not None
        priorities = sorted(set(counters.priority.tolist()))
        self.priorities = tuple(priorities)
        """Those that carry traffic; every port has a queue of each."""
        self._bin_ns = trace.period_ns
        bins = -(-self._length_ns // self._bin_ns)
        count = len(trace.ports.names)
        at = (counters.end_ns - 1) // self._bin_ns
        queue = counters.port * len(priorities) + np.searchsorted(priorities, counters.priority)
        self._sums: dict[str, Ints] = {}
        for name in COUNTED:
            values = getattr(counters, name)
            sums = np.zeros((bins + 1, count * len(priorities)), np.int64)
            if values is not None:
                np.add.at(sums, (at + 1, queue), np.maximum(values, 0))
            self._sums[name] = np.cumsum(sums, axis=0)
        self._peaks = np.zeros((bins, count * len(priorities)), np.int64)
        if counters.q_max_bytes is not None:
            np.maximum.at(self._peaks, (at, queue), counters.q_max_bytes)

    def begin(self, at_ns: int) -> None:
        """The trace begins then; until now nothing had happened."""
        self._begin_ns = at_ns

    @property
    def incident_ns(self) -> tuple[int, int]:
        """When, in the first play, the first queue is stopped and the last may go on."""
        first_ns = self._begin_ns + self._first_ns * self.pace.slower
        last_ns = self._begin_ns + (self.pace.times - 1) * self._cycle_ns + self._last_ns * self.pace.slower
        return first_ns, last_ns

    def count(self, name: str, port: int, priority: int, now_ns: int) -> int:
        """What a queue has counted since the fabric was switched on (a name of `COUNTED`)."""
        sums = self._sums[name][:, self._queue(port, priority)]
        cycles, into_ns = self._place(now_ns)
        # In a bin what it counted is spread evenly.
        whole, part_ns = divmod(into_ns, self._bin_ns * self.pace.slower)
        found = cycles * int(sums[-1]) + int(sums[min(whole, len(sums) - 1)])
        counted = found * self.pace.slower
        if whole + 1 < len(sums):
            counted += int(sums[whole + 1] - sums[whole]) * part_ns // self._bin_ns
        return counted

    def peak(self, port: int, priority: int, since_ns: int, now_ns: int) -> int:
        """The deepest that a queue was between two times, in bytes."""
        peaks = self._peaks[:, self._queue(port, priority)]
        (cycles, into_ns), (before, from_ns) = self._place(now_ns), self._place(since_ns)
        if (cycles, into_ns) == (before, from_ns):
            return 0
        bin_ns = self._bin_ns * self.pace.slower
        first, last = from_ns // bin_ns, -(-into_ns // bin_ns)
        if cycles == before:
            return int(peaks[first:last].max(initial=0))
        if cycles > before + 1:
            return int(peaks.max(initial=0))
        return max(int(peaks[first:].max(initial=0)), int(peaks[:last].max(initial=0)))

    def _queue(self, port: int, priority: int) -> int:
        return port * len(self.priorities) + self.priorities.index(priority)

    def _place(self, now_ns: int) -> tuple[int, int]:
        """How many cycles are over, and how many ns of the next are."""
        passed_ns = now_ns - self._begin_ns
        if passed_ns <= 0:
            return 0, 0
        plays, passed_ns = divmod(passed_ns, self.pace.every_ns or FOREVER_NS)
        cycles, into_ns = divmod(passed_ns, self._cycle_ns)
        if cycles >= self.pace.times:
            cycles, into_ns = self.pace.times, 0
        return plays * self.pace.times + cycles, into_ns
