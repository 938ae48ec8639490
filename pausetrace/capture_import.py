"""A trace folder as a capture: the same files as if the trace had been published to Kafka and captured from there.

In: a trace. Out: messages on partitions by their keys, with offsets from 0 and event times for Kafka's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulation.trace_columns import Trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream.batch import Batch
from stream.capture import Progress, capture
from stream.capture_manifest import Manifest, PartitionPlan, Range
from stream.capture_message import NS_PER_MS, Captured
from stream.cascade import Cascade
from stream.facts import Idle
from stream.messages import Item, encode
from stream.offset_gaps import PartitionId
from stream.partitioner import partition_of
from stream.roster import RosterChange, change_ns
from stream.topics import BY_NAME, DEFAULT_PREFIX, TOPICS

CHUNK = 500


class TraceSource:
    """A trace's messages, as `stream.capture` reads them."""

    cluster_id = ""
    embedded = True

    def __init__(self, trace: Trace, fabric: str, start_ns: int) -> None:
        streams = trace_streams(trace, fabric, trace.name, "import", start_ns)
        self._messages: defaultdict[PartitionId, list[Captured]] = defaultdict(list)
        for item in trace_items(streams):
            topic, key, value = encode(item)
            partition = PartitionId(topic, partition_of(key, BY_NAME[topic].partitions))
            log = self._messages[partition]
            log.append(Captured(*partition, len(log), _time_ns(item) // NS_PER_MS, "create", key, (), value))

    def plan(self, topics: Sequence[str], _wanted: Range) -> tuple[PartitionPlan, ...]:
        """All partitions of the topics."""
        return tuple(
            PartitionPlan(topic, number, 0, len(self._messages[PartitionId(topic, number)]))
            for topic in topics
            for number in range(BY_NAME[topic].partitions)
        )

    def first_offsets(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """All are there."""
        return dict.fromkeys(partitions, 0)

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        """The messages, partition by partition."""
        for plan in partitions:
            for first in range(plan.first, plan.end, CHUNK):
                yield [*self._messages[plan.id][first : min(first + CHUNK, plan.end)]]
            yield [plan.id]


def capture_trace(
    trace: Trace, folder: Path, fabric: str, start_ns: int, progress: Progress = lambda _: None
) -> Manifest:
    """Writes the capture, its trace's time 0 at start_ns."""
    source = TraceSource(trace, fabric, start_ns)
    return capture(source, folder, [topic.name for topic in TOPICS], DEFAULT_PREFIX, Range(), progress=progress)


def _time_ns(item: Item) -> int:
    """When a publisher that keeps up would have sent it."""
    if isinstance(item, Batch):
        return max(item.mark_ns, int(item.events["time_ns"].max(initial=0)))
    if isinstance(item, RosterChange):
        return change_ns(item)
    assert not isinstance(item, Cascade | Idle)
    return item.valid_from_ns
