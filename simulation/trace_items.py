"""Cuts the streams of a trace into items, in an order in which they could arrive.

In: `TraceStreams`. Out: roster changes, facts and batches: by time, or in a random order that keeps each stream's own.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from simulation.trace_rows import StreamRows, TraceStreams
from stream.batch import MAX_EVENTS, Batch
from stream.facts import TOPIC_OF_FACT
from stream.messages import Item


def trace_items(streams: TraceStreams, rows_per_value: int = MAX_EVENTS, order: int | None = None) -> list[Item]:
    """Everything that the trace's source publishes; SOURCE_UP comes first.

    Without `order`: the facts and their end, the values by the time of their last row, the end of the data. With a
    seed for `order`: the data streams, fact streams and ends of streams interleave at random, each in its own order.
    """
    if not 1 <= rows_per_value <= MAX_EVENTS:
        raise ValueError(f"rows_per_value {rows_per_value} is not 1 to {MAX_EVENTS}")
    if order is not None:
        return [streams.up, *_interleaved(_sequences(streams, rows_per_value), random.Random(order))]
    values = [value for rows in streams.rows for value in _values(streams, rows, rows_per_value)]
    # The sort is stable: values of one stream with equal marks keep their order.
    values.sort(key=lambda value: value.mark_ns)
    return [streams.up, *streams.facts, streams.facts_down, *values, *streams.downs_before, streams.down]


def _values(streams: TraceStreams, rows: StreamRows, rows_per_value: int) -> list[Batch]:
    key, times = streams.key(rows), rows.events["time_ns"]
    return [
        # Rows as late as the last one may follow in the next value, so the mark is not beyond it.
        Batch(key, first, int(times[min(first + rows_per_value, len(times)) - 1]), rows.ports,
              rows.events[first : first + rows_per_value])
        for first in range(0, len(times), rows_per_value)
    ]  # fmt: skip


def _sequences(streams: TraceStreams, rows_per_value: int) -> list[deque[Item]]:
    facts: dict[str, deque[Item]] = {}
    for fact in streams.facts:
        facts.setdefault(TOPIC_OF_FACT[type(fact)], deque()).append(fact)
    ends: deque[Item] = deque([streams.facts_down, *streams.downs_before, streams.down])
    data: Iterable[deque[Item]] = (deque(_values(streams, rows, rows_per_value)) for rows in streams.rows)
    return [sequence for sequence in (ends, *facts.values(), *data) if sequence]


def _interleaved(sequences: list[deque[Item]], order: random.Random) -> list[Item]:
    """One merge of the sequences, each merge as likely as any other."""
    # A shuffle of one ticket per item: whose ticket is drawn gives its next item.
    tickets = [index for index, sequence in enumerate(sequences) for _ in sequence]
    order.shuffle(tickets)
    return [sequences[index].popleft() for index in tickets]
