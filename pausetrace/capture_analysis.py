"""The whole analysis of a capture without Kafka: the steps that workers run live, fed from files.

In: a capture's folder, which rows are wanted, and over how many processes detect spreads. Out: final cascades, the
same for any number of processes and the same as live.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from analytics.correlate import Correlate
from analytics.warm_up import warm_up
from pausetrace.capture_workers import Detected, detect_blocks, detect_in_processes, prepare_processes
from stream.capture_reader import CaptureFolder, count_undecodable
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams, Context, Told, captured_streams, read_context
from stream.cascade import FINAL, Cascade
from stream.errors import CaptureError, ConfigError
from stream.messages import Item
from stream.topics import RAW

Progress = Callable[[int, int], None]
"""Told the messages analyzed so far, and all of them."""


class CaptureAnalysis(NamedTuple):
    """`cascades` are final; `unfinished` had not ended when the capture did, and stand as they were then."""

    cascades: tuple[Cascade, ...]
    unfinished: tuple[Cascade, ...]
    notes: tuple[str, ...]


def analyze_capture(
    path: Path, wanted: RowFilter, *, workers: int = 1, progress: Progress = lambda _done, _all: None
) -> CaptureAnalysis:
    """The cascades of a capture; raises CaptureError for one that is damaged or has no roster."""
    if workers < 1:
        raise ConfigError(f"{workers} workers cannot do anything", "give a number from 1")
    folder = CaptureFolder(path)
    topics = [topic for topic in RAW if topic in folder.manifest.plan.topics]
    if "control" not in folder.manifest.plan.topics or not topics:
        raise CaptureError(
            f"{path} has {', '.join(folder.manifest.plan.topics)}: an analysis needs the roster and raw topics",
            "capture with control, device, link, flow and the topics of events",
        )
    if workers > 1:
        prepare_processes()
    streams = captured_streams(folder, topics, wanted)
    context = read_context(folder, streams, topics, wanted)
    final, unfinished, rows = _run(folder, streams, context, wanted, workers, progress)
    notes = [] if rows or wanted.everything else ["no row of the capture matches what was chosen"]
    return CaptureAnalysis(final, unfinished, (*notes, *_notes(folder, topics, context)))


def _run(
    folder: CaptureFolder,
    streams: CapturedStreams,
    context: Context,
    wanted: RowFilter,
    workers: int,
    progress: Progress,
) -> tuple[tuple[Cascade, ...], tuple[Cascade, ...], int]:
    """Cascades that are final, those that are not, and the number of rows that they rest on."""
    partitions = sorted({partition for partition, _ in streams.spans})
    correlate = Correlate()
    # The whole roster first: a change that is told before its time harms nobody, one that comes too late does.
    final: list[Item] = correlate.process(context.roster)
    facts = deque(context.facts)
    at_the_end: list[Item] = []
    done = rows = 0
    detected: AbstractContextManager[Iterator[Detected]]
    if workers == 1:
        detected = closing(detect_blocks(folder, partitions, streams, context, wanted))
    else:
        detected = detect_in_processes(workers, folder, partitions, streams, context, wanted)
    with detected as found:
        # While others read the first rows.
        final += correlate.process([*_told_until(facts, streams.begin_ms)])
        if workers > 1:
            warm_up(polled=False)
        for block in found:
            if block.at_the_end:
                at_the_end += block.episodes
                continue
            final += correlate.process([*_told_until(facts, block.until_ms), *block.episodes])
            done += block.messages
            rows += block.rows
            progress(done, streams.messages)
    final += correlate.process([each.item for each in facts])
    # Whatever now comes rests on the assumption that nothing more happened.
    unfinished = correlate.process([*context.cut, *at_the_end]) if context.cut else []
    return _cascades(final), tuple(msgspec.structs.replace(c, revision=1) for c in _cascades(unfinished)), rows


def _told_until(facts: deque[Told], until_ms: int) -> Iterator[Item]:
    """Takes the facts that Kafka got up to then."""
    while facts and facts[0].timestamp_ms <= until_ms:
        yield facts.popleft().item


def _cascades(items: Iterable[Item]) -> tuple[Cascade, ...]:
    found = [item for item in items if isinstance(item, Cascade) and item.revision == FINAL]
    return tuple(sorted(found, key=lambda cascade: (cascade.start_ns, cascade.fabric, cascade.id)))


def _notes(folder: CaptureFolder, topics: Sequence[str], context: Context) -> list[str]:
    notes = context.notes()
    if count := sum(count_undecodable(folder, part.files) for part in folder.parts(topics)):
        notes.append(f"{count:,} values do not decode and are left out: column error of the messages says why")
    if count := folder.manifest.gaps:
        notes.append(f"Kafka had lost {count:,} messages of the capture's range before they were read")
    return notes
