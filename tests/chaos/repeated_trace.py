"""A long input out of a short trace: the same streams go through its rows again and again, later and later.

In: a trace, and how often. Out: a roster change, facts, values and the ends of the streams, in an order in which they
could arrive; or the same published as a live source does it, through memory that is bounded.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from simulation.trace import read_trace
from simulation.trace_rows import StreamRows, TraceStreams, trace_streams
from stream.batch import Batch
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings
from stream.messages import Item
from stream.publisher import Publisher
from stream.record import Events
from stream.roster import SourceDown, StreamDown
from stream.topics import FACTS

PERIOD_NS = 40_000_000
"""From one time through the trace to the next: long enough that their cascades are not one."""
START_NS = 10**18
POLL_S = 0.02
DOWN_DEADLINE_S = 60.0


class RepeatedTrace:
    """The source's items, made as they are asked for; the same each time."""

    def __init__(self, folder: Path, times: int, rows_per_value: int = 64, seed: int | None = None) -> None:
        """`times` through the trace of a folder; with `seed`, streams arrive interleaved at random."""
        self._streams: TraceStreams = trace_streams(read_trace(folder), folder.name, "trace", "test", START_NS)
        self._times = times
        self._rows_per_value = rows_per_value
        self._seed = seed
        self.rows = times * sum(len(rows.events) for rows in self._streams.rows)
        self.values = times * sum(max(1, -(-len(rows.events) // rows_per_value)) for rows in self._streams.rows)

    def items(self) -> Iterator[Item]:
        """Everything in an order in which it could arrive, SOURCE_UP first and SOURCE_DOWN last."""
        streams = self._streams
        yield from (streams.up, *streams.facts, streams.facts_down)
        yield from self._by_time() if self._seed is None else self._interleaved(random.Random(self._seed))
        yield self._down()

    def publish(self, settings: KafkaSettings, pace_s: float, over: threading.Event) -> dict[str, int]:
        """Publishes it as a live source does, the rows over `pace_s` seconds; the publisher's counters.

        What the publisher cannot hold while the broker is away is lost and counted, as it is in the field.
        """
        streams = self._streams
        ups = streams.up.streams
        name = (settings, streams.up.fabric, streams.up.source, streams.up.epoch)
        with Publisher(*name, live=False) as facts, Publisher(*name, live=False) as rows:
            facts.up([up for up in ups if up.topic in FACTS], streams.from_ns)
            for fact in streams.facts:
                facts.fact(fact, mark_ns=fact.stream.mark_ns)
            facts.down(streams.from_ns)
            rows.up([up for up in ups if up.topic not in FACTS], streams.from_ns)
            begun_s = time.monotonic()
            for turn in range(self._times):
                for number, stream in enumerate(streams.rows):
                    due_s = begun_s + pace_s * (turn + number / len(streams.rows)) / self._times
                    while (left_s := due_s - time.monotonic()) > 0 and not over.is_set():
                        rows.poll(min(left_s, POLL_S))
                    if over.is_set():
                        return rows.counters
                    events = _later(stream.events, turn * PERIOD_NS)
                    mark_ns = START_NS + (turn + 1) * PERIOD_NS
                    rows.append(stream.topic, stream.device, events, stream.ports, mark_ns=mark_ns)
                    if not len(events):
                        rows.mark(stream.topic, stream.device, mark_ns)
            # It raises what was lost, which the counters say; that the roster was told shows in the outcome.
            with suppress(BrokerError):
                rows.down(self._down().at_ns, deadline_s=DOWN_DEADLINE_S)
            return rows.counters

    def _by_time(self) -> Iterator[Batch]:
        for turn in range(self._times):
            values = [value for rows in self._streams.rows for value in self._values(rows, turn)]
            yield from sorted(values, key=lambda value: value.mark_ns)

    def _interleaved(self, rng: random.Random) -> Iterator[Batch]:
        """Streams run ahead of each other at random, by half the trace's length at most."""

        def timed(rows: StreamRows) -> Iterator[tuple[float, int, Batch]]:
            delay_ns = rng.random() * self._times * PERIOD_NS / 2
            for turn in range(self._times):
                for value in self._values(rows, turn):
                    yield max(0, value.mark_ns - START_NS) + delay_ns, value.seq, value

        merged = heapq.merge(*map(timed, self._streams.rows), key=lambda entry: entry[:2])
        return (value for _, _, value in merged)

    def _down(self) -> SourceDown:
        down = self._streams.down
        last = tuple(
            StreamDown(stream.topic, stream.device, (stream.last_seq + 1) * self._times - 1) for stream in down.streams
        )
        at_ns = START_NS + self._times * PERIOD_NS
        return SourceDown(down.fabric, down.source, down.epoch, at_ns, last, down.reason)

    def _values(self, rows: StreamRows, turn: int) -> Iterator[Batch]:
        key, count = self._streams.key(rows), len(rows.events)
        shift_ns = turn * PERIOD_NS
        for first in range(0, max(count, 1), self._rows_per_value):
            events = _later(rows.events[first : first + self._rows_per_value], shift_ns)
            whole = first + self._rows_per_value >= count
            # After its last row the trace is silent until its next time.
            mark_ns = START_NS + shift_ns + PERIOD_NS if whole else int(events["time_ns"][-1])
            yield Batch(key, turn * count + first, mark_ns, rows.ports, events)


def _later(events: Events, shift_ns: int) -> Events:
    later = events.copy()
    for name in ("time_ns", "seen_ns"):
        later[name] += shift_ns
    return later
