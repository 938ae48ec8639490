"""The whole analysis of a trace without Kafka: the same steps that workers run, over a folder's items."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analytics.offline import final_cascades
from simulation.polling import Polling, polled
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.cascade import Cascade


class Analysis(NamedTuple):
    """The final cascades, what the reader of the trace left out, and whether it has exact pause events at all."""

    cascades: tuple[Cascade, ...]
    notes: tuple[str, ...]
    has_pauses: bool


def analyze_trace(path: Path, without: AbstractSet[str], start_ns: int = 0, polled_ns: int = 0) -> Analysis:
    """The final cascades of a trace folder, its times counted from start_ns; `without` names evidence to withhold.

    With `polled_ns` as polls of all its devices, so often, would have shown it.
    """
    trace = read_trace(path, without)
    if polled_ns:
        trace = polled(trace, Polling(polled_ns), np.random.default_rng(0))
        streams = trace_streams(trace, trace.name, "trace", "analyze", start_ns)
        return Analysis(tuple(final_cascades(trace_items(streams))), trace.notes, has_pauses=True)
    streams = trace_streams(trace, trace.name, "trace", "analyze", start_ns)
    return Analysis(tuple(final_cascades(trace_items(streams))), trace.notes, trace.pauses is not None)
