"""A source of messages for captures that a test lists by hand; it may fail after so many of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stream.capture import capture
from stream.capture_manifest import Manifest, PartitionPlan, Range
from stream.capture_message import Captured
from stream.capture_reader import CaptureFolder
from stream.capture_values import captured_messages
from stream.offset_gaps import PartitionId
from stream.topics import TOPICS

ALL_TOPICS = tuple(topic.name for topic in TOPICS)


class UnpluggedError(Exception):
    """The source failed, as it was told to."""


class ListedSource:
    """Gives these messages, some at a time, in the order listed; `ends` are ends beyond the last message."""

    cluster_id = "listed"

    def __init__(
        self,
        messages: Iterable[Captured],
        *,
        embedded: bool = False,
        begins: dict[PartitionId, int] | None = None,
        ends: dict[PartitionId, int] | None = None,
        at_a_time: int = 3,
        fail_after: int | None = None,
    ) -> None:
        self.embedded = embedded
        self.given = 0
        self._messages = list(messages)
        self._begins = begins or {}
        self._ends = ends or {}
        self._at_a_time = at_a_time
        self._fail_after = fail_after

    def plan(self, topics: Sequence[str], _wanted: Range) -> tuple[PartitionPlan, ...]:
        """From the first message of each partition to the last."""
        offsets: defaultdict[PartitionId, list[int]] = defaultdict(list)
        for message in self._messages:
            if message.topic in topics:
                offsets[PartitionId(message.topic, message.partition)].append(message.offset)
        for partition in self._ends:
            offsets.setdefault(partition, [])
        return tuple(
            PartitionPlan(
                *partition,
                self._begins.get(partition, min(listed, default=0)),
                self._ends.get(partition, max(listed, default=-1) + 1),
            )
            for partition, listed in offsets.items()
        )

    def first_offsets(self, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """Where each of them begins."""
        return {partition: self._begins.get(partition, 0) for partition in partitions}

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        """What is asked for; raises UnpluggedError after `fail_after` messages."""
        wanted = {plan.id: plan for plan in partitions}
        told: list[Captured | PartitionId] = []
        for message in self._messages:
            plan = wanted.get(PartitionId(message.topic, message.partition))
            if plan is None or not plan.first <= message.offset < plan.end:
                continue
            if self._fail_after is not None and self.given >= self._fail_after:
                raise UnpluggedError
            self.given += 1
            told.append(message)
            if len(told) == self._at_a_time:
                yield told
                told = []
        yield [*told, *wanted]


def capture_listed(messages: Iterable[Captured], folder: Path, wanted: Range = Range()) -> Manifest:  # noqa: B008
    """A capture of these messages."""
    return capture(ListedSource(messages), folder, ALL_TOPICS, "fabric", wanted)


def messages_in(folder: Path) -> list[Captured]:
    """Every message of a capture, rebuilt, by topic, partition and offset."""
    opened = CaptureFolder(folder)
    return [message for part in opened.manifest.parts for message in captured_messages(opened, part)]


def in_place(messages: Iterable[Captured]) -> list[Captured]:
    """The messages as `messages_in` orders them."""
    return sorted(messages, key=lambda m: (ALL_TOPICS.index(m.topic), m.partition, m.offset))
