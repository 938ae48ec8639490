"""A recorded trace as a source would have published it, for captures that tests make by hand."""

from __future__ import annotations

from pathlib import Path

from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch
from stream.capture_message import Captured
from stream.messages import Item, encode
from stream.partitioner import partition_of
from stream.topics import BY_NAME

TRACE = Path(__file__).parents[1] / "data/ns3/two_roots-ls-s1"
START_NS = 1_780_000_000_000_000_000
STRETCH = 10_000
"""So much longer the millisecond of the trace takes on Kafka's clock, which counts in milliseconds."""

Offsets = dict[tuple[str, int], int]


def trace_as_items(epoch: str = "boot-1", start_ns: int = START_NS) -> list[Item]:
    """Everything that the source says, in many small values."""
    return trace_items(trace_streams(read_trace(TRACE), "dc-1", "taps", epoch, start_ns), rows_per_value=7)


def put(item: Item, at_ns: int, offsets: Offsets, start_ns: int = START_NS) -> Captured:
    """The item as the next message of its partition, published at a time of the trace."""
    topic, key, value = encode(item)
    partition = partition_of(key, BY_NAME[topic].partitions)
    offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
    timestamp_ms = (start_ns + (at_ns - start_ns) * STRETCH) // 10**6
    return Captured(topic, partition, offset, timestamp_ms, "create", key, (), value)


def published_trace(epoch: str, start_ns: int, offsets: Offsets) -> list[Captured]:
    """The trace, each value when its last row had happened, the ends of its streams a millisecond later."""
    listed = []
    for item in trace_as_items(epoch, start_ns):
        at_ns = item.mark_ns if isinstance(item, Batch) else start_ns
        if encode(item).topic == "control" and offsets.get(("control", 0), -1) >= 0:
            at_ns = start_ns + 10**6
        listed.append(put(item, at_ns, offsets, start_ns))
    return listed
