"""Finds the offsets that a reader should have seen and did not, partition by partition.

In: the offset of every message in the order read. Out: gaps, each with the reason that the broker and topic allow.
"""

from __future__ import annotations

from typing import NamedTuple

from stream.topics import BY_NAME

TRUNCATED = "truncated by the embedded broker, which holds 5 MB or 100,000 record batches of a partition"
RETENTION = "removed by retention before they were read"
COMPACTED = "superseded by compaction"
TRANSACTIONS = "taken by markers of transactions or aborted"


class PartitionId(NamedTuple):
    """A partition of a topic, by its bare name."""

    topic: str
    partition: int


class OffsetGap(NamedTuple):
    """Offsets first_missing up to next_offset (not included) were not seen; `loss` is false where that is natural."""

    topic: str
    partition: int
    first_missing: int
    next_offset: int
    reason: str
    loss: bool

    @property
    def missing(self) -> int:
        """How many offsets."""
        return self.next_offset - self.first_missing

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.first_missing}: {self.missing} messages {self.reason}"


class OffsetTracker:
    """Next expected offset of each partition.

    On a real Kafka, the topics that steps write in transactions have natural gaps: markers take offsets, and what was
    aborted is not shown. A compacted topic has natural gaps too, and old messages of a real Kafka end by retention, so
    the first offset of a partition says nothing there. On the embedded broker every missing offset was truncated.
    """

    def __init__(self, *, embedded: bool) -> None:
        self._embedded = embedded
        self._next: dict[PartitionId, int] = {}

    def begin(self, partition: PartitionId, offset: int | None) -> None:
        """The partition is read from this offset on; None is from its beginning."""
        if offset is not None:
            self._next[partition] = offset
        elif self._embedded:
            self._next[partition] = 0
        else:
            self._next.pop(partition, None)

    def forget(self, partition: PartitionId) -> None:
        """The partition is not read any more."""
        self._next.pop(partition, None)

    def next_offset(self, partition: PartitionId) -> int | None:
        """Offset after the last message seen, or where reading began; None if that is not known yet."""
        return self._next.get(partition)

    def reached_end(self, partition: PartitionId, offset: int) -> None:
        """The reader stands at the end of the partition: what lies before it that was not seen is no message."""
        if offset > self._next.get(partition, -1):
            self._next[partition] = offset

    def saw(self, partition: PartitionId, offset: int) -> OffsetGap | None:
        """Takes in a message's offset; returns the gap in front of it, if there is one."""
        expected = self._next.get(partition, offset)
        self._next[partition] = offset + 1
        if offset <= expected:
            return None
        if self._embedded:
            reason, loss = TRUNCATED, True
        elif BY_NAME[partition.topic].compacted:
            reason, loss = COMPACTED, False
        elif BY_NAME[partition.topic].transactional:
            reason, loss = TRANSACTIONS, False
        else:
            reason, loss = RETENTION, True
        return OffsetGap(partition.topic, partition.partition, expected, offset, reason, loss)
