"""The roster: which streams exist, told by records on the control topic.

A source says SOURCE_UP with all its streams before its first row, and SOURCE_DOWN with each stream's last sequence
number when it ends. correlate says SOURCE_SUSPENDED of streams that hold up the others for too long, and
SOURCE_RESUMED when they have caught up (docs/decisions/0006).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stream.batch import MAX_EVENTS, StreamKey
from stream.kinds import INT64_MAX
from stream.ranges import MAX_STREAMS, FabricName, Name, OptionalName, PeriodNs, SourceName, TimeNs


class StreamUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stream that begins; period_ns is the window that its counters sum over (0 = instants only)."""

    topic: Name
    device: OptionalName = ""
    period_ns: PeriodNs = 0


class StreamDown(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stream that ends; last_seq is the sequence number of its last row, -1 if it had none."""

    topic: Name
    device: OptionalName = ""
    last_seq: Annotated[int, Meta(ge=-1, le=INT64_MAX - MAX_EVENTS)] = -1


class _OfSource:
    """What all changes have in common."""

    __slots__ = ()

    def stream_keys(self: RosterChange) -> list[StreamKey]:  # type: ignore[misc]  # mixed into these alone
        """The streams' identities, in the order told."""
        return [StreamKey(self.fabric, self.source, self.epoch, s.topic, s.device) for s in self.streams]


class SourceUp(_OfSource, msgspec.Struct, frozen=True, tag_field="change", tag="SOURCE_UP"):
    """These streams of a source are up from from_ns on; nothing older comes on them."""

    fabric: FabricName
    source: SourceName
    epoch: Name
    from_ns: TimeNs
    streams: Annotated[tuple[StreamUp, ...], Meta(max_length=MAX_STREAMS)]


class SourceDown(_OfSource, msgspec.Struct, frozen=True, tag_field="change", tag="SOURCE_DOWN"):
    """These streams of a source ended at at_ns; a pause still open then ends there."""

    fabric: FabricName
    source: SourceName
    epoch: Name
    at_ns: TimeNs
    streams: Annotated[tuple[StreamDown, ...], Meta(max_length=MAX_STREAMS)]
    reason: OptionalName = "graceful"


class StreamName(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stream of the source that a change is about."""

    topic: Name
    device: OptionalName = ""


class SourceSuspended(_OfSource, msgspec.Struct, frozen=True, tag_field="change", tag="SOURCE_SUSPENDED"):
    """Nobody waits for these streams from at_ns on: later rows of theirs are late, a pause open at at_ns ends there."""

    fabric: FabricName
    source: SourceName
    epoch: Name
    at_ns: TimeNs
    streams: Annotated[tuple[StreamName, ...], Meta(max_length=MAX_STREAMS)]


class SourceResumed(_OfSource, msgspec.Struct, frozen=True, tag_field="change", tag="SOURCE_RESUMED"):
    """What these suspended streams tell of times from from_ns on counts again."""

    fabric: FabricName
    source: SourceName
    epoch: Name
    from_ns: TimeNs
    streams: Annotated[tuple[StreamName, ...], Meta(max_length=MAX_STREAMS)]


RosterChange = SourceUp | SourceDown | SourceSuspended | SourceResumed


def change_ns(change: RosterChange) -> int:
    """The event time of a change."""
    return change.from_ns if isinstance(change, SourceUp | SourceResumed) else change.at_ns


def announced_as(stream: StreamKey) -> StreamKey:
    """The stream that the roster tells of: an episode stream `S|topic` comes from stream topic of source S."""
    if stream.topic != "episode":
        return stream
    source, _, topic = stream.source.rpartition("|")
    return stream._replace(source=source, topic=topic)


def roster_key(change: RosterChange) -> bytes:
    """Kafka key: fabric/source."""
    return f"{change.fabric}/{change.source}".encode()
