"""A long input out of a short trace: the same streams go through its rows again and again, later and later.

In: a trace, and how often. Out: a roster change, facts, values in the order of event time, the ends of the streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from simulation.trace import read_trace
from simulation.trace_rows import StreamRows, TraceStreams, trace_streams
from stream.batch import Batch
from stream.messages import Item

PERIOD_NS = 40_000_000
"""From one time through the trace to the next: long enough that their cascades are not one."""
START_NS = 10**18


class RepeatedTrace:
    """The source's items, made as they are asked for; the same each time."""

    def __init__(self, folder: Path, times: int, rows_per_value: int = 64) -> None:
        self._streams: TraceStreams = trace_streams(read_trace(folder), folder.name, "trace", "test", START_NS)
        self._times = times
        self._rows_per_value = rows_per_value
        self.rows = times * sum(len(rows.events) for rows in self._streams.rows)

    def items(self) -> Iterator[Item]:
        """Everything in an order in which it could arrive, SOURCE_UP first and SOURCE_DOWN last."""
        streams = self._streams
        yield from (streams.up, *streams.facts, streams.facts_down)
        for time in range(self._times):
            values = [value for rows in streams.rows for value in self._values(rows, time)]
            values.sort(key=lambda value: value.mark_ns)
            yield from values
        down = streams.down
        last = tuple(
            type(stream)(stream.topic, stream.device, (stream.last_seq + 1) * self._times - 1)
            for stream in down.streams
        )
        at_ns = START_NS + self._times * PERIOD_NS
        yield type(down)(down.fabric, down.source, down.epoch, at_ns, last, down.reason)

    def _values(self, rows: StreamRows, time: int) -> Iterator[Batch]:
        key, count = self._streams.key(rows), len(rows.events)
        shift_ns = time * PERIOD_NS
        for first in range(0, count, self._rows_per_value):
            events = rows.events[first : first + self._rows_per_value].copy()
            for name in ("time_ns", "seen_ns"):
                events[name] += shift_ns
            whole = first + self._rows_per_value >= count
            # After its last row the trace is silent until its next time.
            mark_ns = START_NS + shift_ns + PERIOD_NS if whole else int(events["time_ns"][-1])
            yield Batch(key, time * count + first, mark_ns, rows.ports, events)
