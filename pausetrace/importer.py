"""Publishes a trace to Kafka as the probes and collectors of its fabric would have: roster, facts, rows, marks.

In: a `Trace`. Out: its streams on the topics, in time order, as fast as Kafka takes them or spread over wall seconds.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from simulation.trace_columns import Trace
from simulation.trace_rows import TraceStreams, trace_streams
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings
from stream.publisher import Publisher
from stream.topics import FACTS

CHUNK_ROWS = 20_000
"""Rows between two waits for Kafka, about a megabyte, so that nothing overflows however large the trace."""
SLICE_S = 0.05
GIVE_UP_S = 5.0
"""How long an import that was interrupted tries to tell the roster that its streams have ended."""

Progress = Callable[[float], None]


class Imported(NamedTuple):
    """What was published."""

    fabric: str
    epoch: str
    streams: int
    facts: int
    rows: int


def import_trace(
    trace: Trace,
    settings: KafkaSettings,
    fabric: str,
    start_ns: int,
    pace_s: float = 0.0,
    progress: Progress = lambda _share: None,
) -> Imported:
    """Publishes the trace, its time 0 at start_ns; `progress` is told the share done.

    With `pace_s` it takes so many wall seconds. Event times and marks stay the trace's own; a stream that has nothing
    to say sends an idle value every second, so that its mark follows. Raises BrokerError for what cannot be delivered.
    """
    # Two imports of one trace are two lives of its source: no reader may take the second for rows read again.
    epoch = f"{time.time_ns():x}-{secrets.token_hex(4)}"
    streams = trace_streams(trace, fabric, trace.name, epoch, start_ns)
    reached_ns = [streams.from_ns]
    ups = streams.up.streams
    facts_up = tuple(up for up in ups if up.topic in FACTS)
    rows_up = tuple(up for up in ups if up.topic not in FACTS)
    # A publisher ends all its streams at once, and the facts are complete long before the rows are.
    with (
        Publisher(settings, fabric, trace.name, epoch, live=False) as facts,
        Publisher(settings, fabric, trace.name, epoch, live=False, idle_mark_ns=lambda _: reached_ns[0]) as rows,
    ):
        facts.up(facts_up, start_ns)
        rows.up(rows_up, start_ns)
        try:
            _publish_facts(facts, streams)
            for until_ns in _boundaries(streams, pace_s, progress):
                _publish_rows(rows, streams, reached_ns[0], until_ns)
                reached_ns[0] = until_ns
                if pace_s:
                    if failure := rows.poll(SLICE_S):
                        raise failure
                else:
                    rows.flush()
        except BaseException:
            _abandon(rows, reached_ns[0])
            raise
        rows.down(streams.end_ns)
    return Imported(fabric, epoch, len(ups), len(streams.facts), sum(len(rows.events) for rows in streams.rows))


def _publish_facts(publisher: Publisher, streams: TraceStreams) -> None:
    for fact in streams.facts:
        # They come in the order of the trace, not of their times.
        publisher.fact(fact, streams.from_ns)
    publisher.down(streams.from_ns)


def _boundaries(streams: TraceStreams, pace_s: float, progress: Progress) -> Iterator[int]:
    """The times up to which to publish next, the last one beyond every row."""
    span_ns = streams.end_ns - streams.from_ns + 1
    if pace_s:
        begun_s = time.monotonic()
        while (share := (time.monotonic() - begun_s) / pace_s) < 1:
            progress(share)
            yield streams.from_ns + int(span_ns * share)
        progress(1.0)
    else:
        times = np.sort(np.concatenate([rows.events["time_ns"] for rows in streams.rows] or [np.zeros(0, np.int64)]))
        for index in range(CHUNK_ROWS, len(times), CHUNK_ROWS):
            progress(index / len(times))
            yield int(times[index])
        progress(1.0)
    yield streams.end_ns + 1


def _publish_rows(publisher: Publisher, streams: TraceStreams, from_ns: int, until_ns: int) -> None:
    for rows in streams.rows:
        first, last = np.searchsorted(rows.events["time_ns"], [from_ns, until_ns]).tolist()
        if first < last:
            publisher.append(rows.topic, rows.device, rows.events[first:last], rows.ports, mark_ns=until_ns)


def _abandon(publisher: Publisher, at_ns: int) -> None:
    """Ends the streams in the roster, so that no reader waits for what never comes; the first error counts."""
    try:
        publisher.down(at_ns, reason="interrupted", deadline_s=GIVE_UP_S)
    except BrokerError:
        return
