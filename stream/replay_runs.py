"""Which replays have left something on a target: each message of one bears its run in a header.

In: a target's topics. Out: what lies at both ends of their partitions, the runs of one replay apart from anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stream.capture_manifest import PartitionPlan
from stream.capture_message import PRELUDE, Captured
from stream.capture_source import KafkaSource
from stream.errors import ConfigError
from stream.kafka_settings import ClusterView, KafkaSettings
from stream.offset_gaps import PartitionId
from stream.replay_check import Origin, said_origin
from stream.replay_journal import Replay
from stream.topics import FACTS, RAW, full_name
from stream.watermarks import WatermarkQuery

_QUERY_S = 10.0
_OF_SOURCES = frozenset((*RAW, *FACTS))
"""Topics where the steps write nothing: correlate tells the roster of streams that are suspended."""


class Found(NamedTuple):
    """What of a replay lies on its target: its latest run and how far that moved times; `run` is 0 for none.

    `other` is a message that is not of this replay, in words.
    """

    run: int = 0
    shift_ns: int = 0
    other: str | None = None


def look_for_runs(settings: KafkaSettings, view: ClusterView, replay: Replay) -> Found:
    """Looks at the first and the last message of each partition of the fabric's events, facts and roster.

    A replay puts its messages behind what is there: whatever came before or after it is at one of these ends.
    """
    topics = dict.fromkeys((*PRELUDE, *RAW, *replay.topics))
    found = Found()
    for message, origin in _ends(settings, view, topics):
        if origin is not None and origin.run.startswith(f"{replay.digest}."):
            number = int(origin.run.rpartition(".")[2], 16)
            if number > found.run:
                found = found._replace(run=number, shift_ns=origin.shift_ns)
        elif found.other is None and (origin is not None or message.topic in _OF_SOURCES):
            place = f"{full_name(settings.prefix, message.topic)}[{message.partition}]@{message.offset}"
            found = found._replace(other=f"{place} is {f'of run {origin.run}' if origin else 'of no replay'}")
    return found


def guard_others(settings: KafkaSettings, found: Found) -> None:
    """Raises ConfigError where something else lies on the target: steps would take both for one fabric."""
    if found.other is not None:
        raise ConfigError(
            f"{settings.prefix}.* holds messages that are not of this replay: {found.other}",
            "give another --to-prefix, delete these topics, or give --beside-others if you mean it; a replay of the "
            "same capture with the same options is gone on with",
        )


def _ends(
    settings: KafkaSettings, view: ClusterView, topics: Iterable[str]
) -> Iterator[tuple[Captured, Origin | None]]:
    partitions = [
        PartitionId(topic, number)
        for topic in topics
        for number in range(view.partitions.get(full_name(settings.prefix, topic), 0))
    ]
    marks = WatermarkQuery(settings).ask(partitions, _QUERY_S) if partitions else {}
    firsts = {partition: (low, low + 1) for partition, (low, high) in marks.items() if low < high}
    lasts = {partition: (high - 1, high) for partition, (low, high) in marks.items() if low + 1 < high}
    if not firsts:
        return
    with KafkaSource(settings) as source:
        for ranges in (firsts, lasts):
            yield from _read(source, ranges)


def _read(
    source: KafkaSource, ranges: Mapping[PartitionId, tuple[int, int]]
) -> Iterator[tuple[Captured, Origin | None]]:
    for told in source.read([PartitionPlan(*partition, *ends) for partition, ends in ranges.items()]):
        for message in told:
            if isinstance(message, Captured):
                yield message, said_origin(message)
