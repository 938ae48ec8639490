"""Longer lives for recorded traces: stretched in time or one after the other, and cut so that marks advance slowly.

In: the streams of a trace. Out: streams over many ticks, and items of one row each with idle values in between.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from simulation.trace import read_trace
from simulation.trace_rows import TraceStreams, trace_streams
from stream.batch import Batch
from stream.messages import Item
from stream.record import Events, empty_events

NS3 = Path(__file__).parents[1] / "data" / "ns3"
TRACES = tuple(sorted(folder.name for folder in NS3.iterdir() if folder.is_dir()))
START_NS = 1_700_000_000_000_000_000


@cache
def recorded(trace: str, without: frozenset[str] = frozenset()) -> TraceStreams:
    """The streams of a recorded trace, some evidence withheld."""
    return trace_streams(read_trace(NS3 / trace, without), "lab", "trace", "e1", START_NS)


def stretched(streams: TraceStreams, factor: int) -> TraceStreams:
    """The same rows, with every time and window longer by the factor."""

    def longer(events: Events) -> Events:
        events = events.copy()
        events["time_ns"] = (events["time_ns"] - streams.from_ns) * factor + streams.from_ns
        events["span_ns"] *= factor
        return events

    end_ns = (streams.end_ns - streams.from_ns) * factor + streams.from_ns
    up_streams = tuple(msgspec.structs.replace(up, period_ns=up.period_ns * factor) for up in streams.up.streams)
    return dataclasses.replace(
        streams,
        rows=tuple(dataclasses.replace(rows, events=longer(rows.events)) for rows in streams.rows),
        up=msgspec.structs.replace(streams.up, streams=up_streams),
        down=msgspec.structs.replace(streams.down, at_ns=end_ns),
        end_ns=end_ns,
    )


def repeated(streams: TraceStreams, times: int, every_ns: int) -> TraceStreams:
    """The same rows several times over, each time later by every_ns."""

    def again(events: Events) -> Events:
        copies = [events.copy() for _ in range(times)]
        for number, rows in enumerate(copies):
            rows["time_ns"] += number * every_ns
        return np.concatenate(copies)

    end_ns = streams.end_ns + (times - 1) * every_ns
    downs = tuple(
        msgspec.structs.replace(down, last_seq=(down.last_seq + 1) * times - 1) for down in streams.down.streams
    )
    return dataclasses.replace(
        streams,
        rows=tuple(dataclasses.replace(rows, events=again(rows.events)) for rows in streams.rows),
        down=msgspec.structs.replace(streams.down, at_ns=end_ns, streams=downs),
        end_ns=end_ns,
    )


def ticking(streams: TraceStreams, idle_ns: int) -> list[Item]:
    """Every row in a value of its own, by time; every idle_ns each stream tells how far it is by an empty value."""
    data = [(row["time_ns"], number, place) for number, rows in enumerate(streams.rows)
            for place, row in enumerate(rows.events)]  # fmt: skip
    data.sort()
    sent = [0] * len(streams.rows)
    items: list[Item] = [streams.up, *streams.facts, streams.facts_down]
    idle_at_ns = streams.from_ns + idle_ns
    for time_ns, number, place in data:
        while idle_at_ns <= time_ns:
            items += [
                Batch(streams.key(rows), sent[other], idle_at_ns, rows.ports, empty_events(0))
                for other, rows in enumerate(streams.rows)
            ]
            idle_at_ns += idle_ns
        rows = streams.rows[number]
        items.append(Batch(streams.key(rows), place, int(time_ns), rows.ports, rows.events[place : place + 1]))
        sent[number] = place + 1
    return [*items, streams.down]
