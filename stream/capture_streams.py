"""Which streams a capture holds, from where to where, and the roster that fits them.

A capture of some topics, times or devices has rows of a part of the streams that its control topic tells of. Whoever
follows the roster would wait for the others for ever: here they are left out, and streams without an end get one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from stream.batch import MARK_END, StreamKey
from stream.capture_reader import CaptureFolder, Ints, Messages, read_messages
from stream.capture_select import RowFilter
from stream.errors import WireError
from stream.facts import Fact, Idle, fact_stream
from stream.messages import decode
from stream.offset_gaps import PartitionId
from stream.roster import (
    RosterChange,
    SourceDown,
    SourceResumed,
    SourceSuspended,
    SourceUp,
    StreamDown,
    StreamName,
    StreamUp,
    change_ns,
)
from stream.topics import FACTS, PACKED

SILENT_MS = 10_000
"""A stream silent for so long when the capture ends was dead: a live one sends idle values every second."""


class Told(NamedTuple):
    """A roster change or fact, and when Kafka got it; `offset` is -1 for a change that is not in the capture."""

    timestamp_ms: int
    item: RosterChange | Fact | Idle
    offset: int = -1

    @property
    def is_roster(self) -> bool:
        """Whether it is a change of the roster."""
        return isinstance(self.item, RosterChange)


@dataclass(slots=True)
class Span:
    """A stream's messages on one partition, from the first wanted one to the last."""

    first_offset: int
    last_offset: int
    first_seq: int
    next_seq: int
    mark_ns: int
    first_ns: int
    last_ns: int
    first_ms: int
    last_ms: int

    def join(self, later: Span) -> None:
        """Takes in what follows."""
        self.last_offset = later.last_offset
        self.first_seq = min(self.first_seq, later.first_seq)
        self.next_seq = max(self.next_seq, later.next_seq)
        self.mark_ns = max(self.mark_ns, later.mark_ns)
        self.first_ns = min(self.first_ns, later.first_ns)
        self.last_ns = max(self.last_ns, later.last_ns)
        self.first_ms = min(self.first_ms, later.first_ms)
        self.last_ms = max(self.last_ms, later.last_ms)


@dataclass(slots=True)
class CapturedStreams:
    """The streams of packed topics that are wanted, by partition and name."""

    spans: dict[tuple[PartitionId, StreamKey], Span] = field(default_factory=dict)
    messages: int = 0
    """Messages that are wanted."""

    @property
    def begin_ms(self) -> int:
        """Kafka's time of the first message wanted."""
        return min((span.first_ms for span in self.spans.values()), default=0)

    @property
    def end_ms(self) -> int:
        """Kafka's time of the last message wanted."""
        return max((span.last_ms for span in self.spans.values()), default=0)

    def by_stream(self) -> dict[StreamKey, Span]:
        """Each stream, whatever partitions it was on."""
        joined: dict[StreamKey, Span] = {}
        for (_, stream), span in self.spans.items():
            copy = Span(*(getattr(span, name) for name in Span.__slots__))
            if stream in joined:
                joined[stream].join(copy)
            else:
                joined[stream] = copy
        return joined


def captured_streams(folder: CaptureFolder, topics: Iterable[str], wanted: RowFilter) -> CapturedStreams:
    """Looks through the messages of these packed topics."""
    found = CapturedStreams()
    for part in folder.parts(topics):
        if part.messages == 0:
            continue
        messages = read_messages(folder, part)
        order = np.lexsort((messages.offset, messages.stream))
        bounds = np.searchsorted(messages.stream[order], np.arange(len(messages.streams) + 1))
        for index, stream in enumerate(messages.streams):
            if wanted.devices and stream.device not in wanted.devices:
                continue
            chosen = order[bounds[index] : bounds[index + 1]]
            if wanted.cuts_time:
                inside = (messages.last_ns[chosen] >= wanted.from_ns) & (messages.first_ns[chosen] < wanted.to_ns)
                # Between the first and the last one all are wanted: a stream with a hole would seem to have lost rows.
                places = np.flatnonzero(inside)
                chosen = chosen[places[0] : places[-1] + 1] if len(places) else chosen[:0]
            if not len(chosen):
                continue
            span = _span(messages, chosen)
            known = found.spans.get((part.id, stream))
            if known is None:
                found.spans[part.id, stream] = span
            else:
                known.join(span)
            found.messages += len(chosen)
    return found


def _span(messages: Messages, chosen: Ints) -> Span:
    marks = messages.mark_ns[chosen]
    return Span(
        first_offset=int(messages.offset[chosen[0]]),
        last_offset=int(messages.offset[chosen[-1]]),
        first_seq=int(messages.seq[chosen].min()),
        next_seq=int((messages.seq + messages.rows + messages.skipped)[chosen].max()),
        mark_ns=int(marks[marks < MARK_END].max(initial=0)),
        first_ns=int(messages.first_ns[chosen].min()),
        last_ns=int(messages.last_ns[chosen].max()),
        first_ms=int(messages.timestamp_ms[chosen].min()),
        last_ms=int(messages.timestamp_ms[chosen].max()),
    )


_NOTES = {
    "streams_alive_at_the_end": "{:,} streams were alive when the capture ended: what was open then is not final",
    "silent_streams": (
        "{:,} streams fell silent before the capture ended, without an end: they were taken as ended there, and "
        "cascades as final that a live run holds open until it suspends them"
    ),
    "unreadable_facts_and_changes": "{:,} facts or roster changes cannot be read",
}
"""By counter, what it means to a reader."""


@dataclass(slots=True)
class Context:
    """What surrounds the rows: roster and facts in the order of Kafka's times, fitted to the streams there are.

    `cut` ends the streams that were still alive when the capture ended: what follows from it is not final.
    """

    told: list[Told] = field(default_factory=list)
    cut: list[SourceDown] = field(default_factory=list)
    ends: dict[StreamKey, set[int]] = field(default_factory=dict)
    """Sequence numbers with which a stream ended."""
    counters: Counter[str] = field(default_factory=Counter)

    @property
    def roster(self) -> list[RosterChange]:
        """The roster changes alone."""
        return [told.item for told in self.told if isinstance(told.item, RosterChange)]

    @property
    def facts(self) -> list[Told]:
        """The facts alone."""
        return [told for told in self.told if not told.is_roster]

    def notes(self) -> list[str]:
        """What does not go without saying, in sentences."""
        return [sentence.format(count) for name, sentence in _NOTES.items() if (count := self.counters[name])]


def read_context(folder: CaptureFolder, streams: CapturedStreams, topics: Sequence[str], wanted: RowFilter) -> Context:
    """The roster and facts of a capture for the wanted rows of these topics."""
    context = Context()
    # The roster comes before the facts of the same moment; within a topic its own order stays.
    told = [each for topic in ("control", *FACTS) for each in _items(folder, topic, context.counters)]
    # The end of a stream behind the times wanted does not concern them: it was alive until then.
    told = [each for each in told if not (isinstance(each.item, SourceDown) and each.item.at_ns >= wanted.to_ns)]
    told.sort(key=lambda each: each.timestamp_ms)
    spans = streams.by_stream()
    for timestamp_ms, item, _ in told:
        if not isinstance(item, RosterChange) and _fact_ns(item) < wanted.to_ns:
            _count_fact(spans, item, timestamp_ms)
    ups: dict[StreamKey, int] = {}
    ended = {key for _, item, _ in told if isinstance(item, SourceDown) for key in item.stream_keys()}
    empty = {key for _, item, _ in told if isinstance(item, SourceDown) for key in _without_rows(item)}
    for timestamp_ms, item, offset in told:
        change: RosterChange | Fact | Idle | None
        if isinstance(item, SourceUp):
            change = _fitted_up(item, spans, empty, topics, wanted)
            context.counters["streams_left_out"] += len(item.streams) - (len(change.streams) if change else 0)
            ups |= dict.fromkeys(change.stream_keys() if change else (), timestamp_ms)
        elif isinstance(item, SourceDown):
            change = _fitted_down(item, spans, ups)
        elif isinstance(item, SourceSuspended | SourceResumed):
            kept = [key for key in item.stream_keys() if key in ups]
            names = tuple(StreamName(key.topic, key.device) for key in kept)
            change = msgspec.structs.replace(item, streams=names) if kept and change_ns(item) < wanted.to_ns else None
        else:
            change = item if _fact_ns(item) < wanted.to_ns else None
        if change is not None:
            context.told.append(Told(timestamp_ms, change, offset))
    _end_the_endless(context, spans, ups, ended, streams.end_ms)
    context.told.sort(key=lambda each: each.timestamp_ms)
    for item in (*context.roster, *context.cut):
        if isinstance(item, SourceDown):
            for key, stream in zip(item.stream_keys(), item.streams, strict=True):
                context.ends.setdefault(key, set()).add(stream.last_seq)
    return context


def _items(folder: CaptureFolder, topic: str, counters: Counter[str]) -> Iterator[Told]:
    latest_ms = 0
    for part in folder.parts([topic]):
        messages = read_messages(folder, part, ("key", "json"))
        keys, texts = messages.columns["key"], messages.columns["json"]
        for at, (timestamp_ms, offset) in enumerate(
            zip(messages.timestamp_ms.tolist(), messages.offset.tolist(), strict=True)
        ):
            # Never back within the topic: its order is the one that readers of Kafka see.
            latest_ms = max(latest_ms, timestamp_ms)
            if texts[at] is None:
                continue
            try:
                item = decode(topic, keys[at], texts[at].encode())
            except WireError:
                counters["unreadable_facts_and_changes"] += 1
                continue
            assert isinstance(item, RosterChange | Fact | Idle)
            yield Told(latest_ms, item, offset)


def _fact_ns(fact: Fact | Idle) -> int:
    return fact.stream.mark_ns if isinstance(fact, Idle) else fact.valid_from_ns


def _count_fact(spans: dict[StreamKey, Span], fact: Fact | Idle, timestamp_ms: int) -> None:
    seq, time_ns = fact.stream.seq, _fact_ns(fact)
    next_seq = seq if isinstance(fact, Idle) else seq + 1
    mark_ns = min(fact.stream.mark_ns, time_ns)
    span = Span(0, 0, seq, next_seq, mark_ns, time_ns, time_ns, timestamp_ms, timestamp_ms)
    key = fact_stream(fact)
    if key in spans:
        spans[key].join(span)
    else:
        spans[key] = span


def _without_rows(change: SourceDown) -> list[StreamKey]:
    return [
        key for key, told in zip(change.stream_keys(), change.streams, strict=True) if told.last_seq < 0
    ]  # fmt: skip


def _fitted_up(
    change: SourceUp, spans: dict[StreamKey, Span], empty: set[StreamKey], topics: Sequence[str], wanted: RowFilter
) -> SourceUp | None:
    """The streams that have something in the capture, or are known never to have had any row."""
    if change.from_ns >= wanted.to_ns:
        return None
    kept: list[StreamUp] = []
    for key, told in zip(change.stream_keys(), change.streams, strict=True):
        never_had_rows = key in empty and (key.topic in topics or key.topic in FACTS)
        of_a_wanted_device = key.topic not in PACKED or not wanted.devices or key.device in wanted.devices
        if key in spans or (never_had_rows and of_a_wanted_device):
            kept.append(told)
    return msgspec.structs.replace(change, streams=tuple(kept)) if kept else None


def _fitted_down(change: SourceDown, spans: dict[StreamKey, Span], ups: dict[StreamKey, int]) -> SourceDown | None:
    """The ends of the streams kept; one whose last rows are not in the capture ends with the last that are."""
    kept: list[StreamDown] = []
    for key, told in zip(change.stream_keys(), change.streams, strict=True):
        if key not in ups:
            continue
        span = spans.get(key)
        last_seq = told.last_seq if span is None else min(told.last_seq, span.next_seq - 1)
        kept.append(msgspec.structs.replace(told, last_seq=last_seq))
    return msgspec.structs.replace(change, streams=tuple(kept)) if kept else None


def _end_the_endless(
    context: Context, spans: dict[StreamKey, Span], ups: dict[StreamKey, int], ended: set[StreamKey], end_ms: int
) -> None:
    """Ends for streams that the capture does not end: at once where they had fallen silent, else when it ends itself.

    Not all who tell facts send idle values, so that their silence says nothing: they end with the last one. Nobody
    waits for a stream that is suspended: it needs no end.
    """
    suspended: set[StreamKey] = set()
    for told in context.told:
        if isinstance(told.item, SourceSuspended):
            suspended.update(told.item.stream_keys())
        elif isinstance(told.item, SourceResumed):
            suspended.difference_update(told.item.stream_keys())
    for key in ups:
        span = spans.get(key)
        if key in ended or key in suspended or span is None:
            continue
        down = SourceDown(
            key.fabric, key.source, key.epoch, max(span.mark_ns, span.last_ns),
            (StreamDown(key.topic, key.device, span.next_seq - 1),), "the capture has no more of it",
        )  # fmt: skip
        if key.topic in FACTS or span.last_ms < end_ms - SILENT_MS:
            context.counters["silent_streams"] += key.topic not in FACTS
            context.told.append(Told(max(span.last_ms, ups[key]), down))
        else:
            context.counters["streams_alive_at_the_end"] += 1
            context.cut.append(down)
