"""Feeds a capture to steps: batches of each stream in its order, all partitions in step with each other.

In: partitions of a capture. Out: blocks of batches as large as memory allows. What detect makes of a block is the same
as what it would make of the messages one by one: only those are joined between which nothing can happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stream.batch import Batch, StreamKey
from stream.capture_manifest import Part
from stream.capture_reader import CaptureFolder, Ints, LoadedPart, load_part
from stream.capture_select import RowFilter
from stream.capture_streams import CapturedStreams
from stream.offset_gaps import PartitionId
from stream.record import picked

LOOKAHEAD_EVENTS = 1 << 20
"""Rows in memory ahead of the slowest partition; one part of each partition is there whatever their sum."""
BLOCK_EVENTS = 1 << 18
"""Rows in a block, roughly: the steps take several times their memory to work on them."""
_FOREVER_MS = (1 << 63) - 1
_NEVER = (1 << 63) - 1


class Block(NamedTuple):
    """Everything that Kafka got up to until_ms and since the block before."""

    until_ms: int
    messages: int
    batches: list[Batch]


def blocks(
    folder: CaptureFolder,
    partitions: Sequence[PartitionId],
    streams: CapturedStreams,
    wanted: RowFilter,
    *,
    ends: Mapping[StreamKey, Set[int]] | None = None,
    lookahead_events: int = LOOKAHEAD_EVENTS,
    block_events: int = BLOCK_EVENTS,
) -> Iterator[Block]:
    """The rows of these partitions."""
    cursors = [
        _Cursor(folder, [part for part in folder.parts([p.topic]) if part.id == p], streams, wanted, ends or {})
        for p in partitions
    ]
    while True:
        _look_ahead(cursors, lookahead_events)
        next_ms = min((cursor.next_ms for cursor in cursors), default=_FOREVER_MS)
        if next_ms == _FOREVER_MS:
            return
        until_ms = min(cursor.frontier_ms for cursor in cursors)
        if until_ms == _FOREVER_MS:
            until_ms = max(cursor.last_ms for cursor in cursors)
        until_ms = _within(cursors, next_ms, until_ms, block_events)
        before = sum(cursor.messages for cursor in cursors)
        batches = [batch for cursor in cursors for batch in cursor.release(until_ms)]
        yield Block(until_ms, sum(cursor.messages for cursor in cursors) - before, batches)


def _look_ahead(cursors: Sequence[_Cursor], lookahead_events: int) -> None:
    """Loads parts until each partition has one, and more while there is room: of whoever is least far ahead."""
    for cursor in cursors:
        cursor.fill()
    waiting = sum(cursor.events for cursor in cursors)
    while waiting < lookahead_events:
        behind = min(
            (cursor for cursor in cursors if cursor.has_more), key=lambda cursor: cursor.frontier_ms, default=None
        )
        if behind is None:
            return
        waiting += behind.load()


def _within(cursors: Sequence[_Cursor], first_ms: int, last_ms: int, block_events: int) -> int:
    """The latest time up to which a block is no larger than it should be; first_ms at least."""
    if sum(cursor.events_until(last_ms) for cursor in cursors) <= block_events:
        return last_ms
    while first_ms < last_ms:
        middle = (first_ms + last_ms + 1) // 2
        if sum(cursor.events_until(middle) for cursor in cursors) <= block_events:
            first_ms = middle
        else:
            last_ms = middle - 1
    return first_ms


class _Cursor:
    """One partition: its parts that are loaded, and how far they have been released."""

    def __init__(
        self,
        folder: CaptureFolder,
        parts: Sequence[Part],
        streams: CapturedStreams,
        wanted: RowFilter,
        ends: Mapping[StreamKey, Set[int]],
    ) -> None:
        self._folder = folder
        self._parts = list(reversed(parts))
        self._streams = streams
        self._wanted = wanted
        self._ends = ends
        self._loaded: list[_PreparedPart] = []
        self._states: dict[StreamKey, _LastOfStream] = {}
        self.last_ms = -1
        self.messages = 0
        """Wanted messages released so far."""

    @property
    def has_more(self) -> bool:
        """Whether parts are left to be loaded."""
        return bool(self._parts)

    @property
    def events(self) -> int:
        """Rows loaded."""
        return sum(len(part.loaded.events) for part in self._loaded)

    @property
    def frontier_ms(self) -> int:
        """Up to here everything is loaded."""
        return self.last_ms if self._parts else _FOREVER_MS

    @property
    def next_ms(self) -> int:
        """When the next message came."""
        return next((part.next_ms for part in self._loaded if not part.released), _FOREVER_MS)

    def events_until(self, until_ms: int) -> int:
        """Rows loaded of messages that Kafka got up to then."""
        return sum(part.events_until(until_ms) for part in self._loaded)

    def fill(self) -> None:
        """Loads until something is there, if there is anything."""
        self._loaded = [part for part in self._loaded if not part.released]
        while not self._loaded and self._parts:
            self.load()

    def load(self) -> int:
        """Loads the next part; returns its rows."""
        part = self._parts.pop()
        if part.messages == 0:
            return 0
        loaded = load_part(self._folder, part)
        prepared = _PreparedPart(loaded, self._streams, self._wanted, self._states, self._ends, self.last_ms)
        self.last_ms = prepared.last_ms
        if prepared.released:
            return 0
        self._loaded.append(prepared)
        return len(loaded.events)

    def release(self, until_ms: int) -> Iterator[Batch]:
        """The batches of messages that Kafka got until then and that have not been released."""
        for part in self._loaded:
            yield from part.release(until_ms)
            self.messages += part.take_count()


@dataclass(slots=True)
class _LastOfStream:
    """Where the stream's last message left it."""

    next_seq: int
    lost: int


class _PreparedPart:
    """A part whose rows bear the port numbers of their streams, and that knows which messages may be joined."""

    def __init__(
        self,
        loaded: LoadedPart,
        streams: CapturedStreams,
        wanted: RowFilter,
        states: dict[StreamKey, _LastOfStream],
        ends: Mapping[StreamKey, Set[int]],
        since_ms: int,
    ) -> None:
        self.loaded = loaded
        messages = loaded.messages
        # By Kafka's time, but never out of the partition's own order.
        self._time_ms = np.maximum.accumulate(np.maximum(messages.timestamp_ms, since_ms))
        self.last_ms = int(self._time_ms[-1])
        self._next = 0
        self._released = 0
        self._ports = _number_ports_by_stream(loaded)
        # Messages by stream and offset; those that nobody wants are left out.
        order = np.lexsort((messages.offset, messages.stream))
        self._order = order[_wanted_messages(loaded, streams)[order]]
        # In the value as sent, rows left out by the filter stand like rows of unknown kind: they keep their numbers.
        self._all_rows = messages.rows + messages.skipped
        if wanted.cuts_rows:
            self._leave_out_rows(wanted)
        self._rows_before = np.concatenate(([0], np.cumsum(messages.rows)))
        self._joinable = self._find_joinable(states, ends)
        if not len(self._order):
            self._next = len(messages)

    @property
    def released(self) -> bool:
        """Whether nothing is left in it."""
        return self._next >= len(self.loaded.messages)

    @property
    def next_ms(self) -> int:
        """When its next message came."""
        return int(self._time_ms[self._next])

    def events_until(self, until_ms: int) -> int:
        """Rows of the messages up to then that have not been released."""
        rows = self._rows_before
        return int(rows[np.searchsorted(self._time_ms, until_ms, "right")] - rows[self._next])

    def take_count(self) -> int:
        """Wanted messages released since the last call."""
        count, self._released = self._released, 0
        return count

    def release(self, until_ms: int) -> Iterator[Batch]:
        """The batches of the messages up to then."""
        if self.released:
            return
        first, self._next = self._next, int(np.searchsorted(self._time_ms, until_ms, "right"))
        inside = (self._order >= first) & (self._order < self._next)
        chosen, joinable = self._order[inside], self._joinable[inside].copy()
        self._released += len(chosen)
        if not len(chosen):
            return
        stream = self.loaded.messages.stream[chosen]
        joinable[0] = False
        joinable[1:] &= stream[1:] == stream[:-1]
        begins = np.flatnonzero(~joinable)
        ends = np.append(begins[1:], len(chosen))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            yield self._batch(int(chosen[begin]), int(chosen[end - 1]))

    def _batch(self, first: int, last: int) -> Batch:
        """The rows of a run of messages of one stream."""
        loaded, messages = self.loaded, self.loaded.messages
        begin, end = int(loaded.start[first]), int(loaded.start[last] + messages.rows[last])
        skipped = int(self._all_rows[first] - messages.rows[first]) if first == last else 0
        return Batch(
            messages.streams[messages.stream[first]],
            int(messages.seq[first]),
            int(messages.mark_ns[last]),
            self._ports[messages.stream[first]],
            loaded.events[begin:end],
            int(messages.lost[first]),
            (),
            skipped,
            loaded.row[begin:end].astype(np.int64) if skipped else None,
        )

    def _leave_out_rows(self, wanted: RowFilter) -> None:
        loaded, messages = self.loaded, self.loaded.messages
        keep = wanted.rows(loaded.events, loaded.port, loaded.port_names)
        kept_before = np.concatenate(([0], np.cumsum(keep)))
        end = loaded.start + messages.rows
        loaded.start, messages.rows = kept_before[loaded.start], kept_before[end] - kept_before[loaded.start]
        loaded.events, loaded.row, loaded.port = picked(loaded.events, keep), loaded.row[keep], loaded.port[keep]

    def _find_joinable(
        self, states: dict[StreamKey, _LastOfStream], ends: Mapping[StreamKey, Set[int]]
    ) -> npt.NDArray[np.bool_]:
        """For each message in order: whether it and the one before make the same difference together as apart.

        They do not where rows are missing between them or were reported lost (detect says so at that moment), where
        a row is older than what the message before had promised (it is late then), or where the stream ends.
        """
        messages, order = self.loaded.messages, self._order
        if not len(order):
            return np.zeros(0, bool)
        stream, seq, lost, mark = (x[order] for x in (messages.stream, messages.seq, messages.lost, messages.mark_ns))
        next_seq = seq + self._all_rows[order]
        first_of_stream = np.append(True, stream[1:] != stream[:-1])
        before_seq, before_lost, before_mark = (np.append(0, values[:-1]) for values in (next_seq, lost, mark))
        last_of_stream = np.append(first_of_stream[1:], True)
        for at in np.flatnonzero(first_of_stream).tolist():
            state = states.get(messages.streams[stream[at]])
            before_seq[at], before_lost[at] = (state.next_seq, state.lost) if state is not None else (-1, 0)
        for at in np.flatnonzero(last_of_stream).tolist():
            states[messages.streams[stream[at]]] = _LastOfStream(int(next_seq[at]), int(lost[at]))
        smooth = (seq == before_seq) & (lost == before_lost)
        whole = self._all_rows[order] == messages.rows[order]
        ended = np.zeros(len(order), bool)
        ends_of = [sorted(ends.get(key, ())) for key in messages.streams]
        for turn in range(max(map(len, ends_of), default=0)):
            end = np.array([each[turn] if turn < len(each) else _NEVER for each in ends_of], np.int64)
            ended |= next_seq - 1 == end[stream]
        joinable: npt.NDArray[np.bool_] = (
            smooth & whole & ~first_of_stream & (self._oldest_ns()[order] >= before_mark) & (mark >= before_mark)
        )
        joinable[1:] &= smooth[:-1] & whole[:-1] & ~ended[:-1]
        return joinable

    def _oldest_ns(self) -> Ints:
        """Least time in each message; for ever where it has no rows."""
        messages, loaded = self.loaded.messages, self.loaded
        oldest = np.full(len(messages), np.iinfo(np.int64).max)
        with_rows = np.flatnonzero(messages.rows > 0)
        by_place = with_rows[np.argsort(loaded.start[with_rows], kind="stable")]
        if len(by_place):
            oldest[by_place] = np.minimum.reduceat(loaded.events["time_ns"], loaded.start[by_place])
        return oldest


def _wanted_messages(loaded: LoadedPart, streams: CapturedStreams) -> npt.NDArray[np.bool_]:
    """Messages of the wanted streams between their first and last wanted one."""
    messages = loaded.messages
    spans = [streams.spans.get((loaded.part.id, stream)) for stream in messages.streams]
    # The last entry is for messages without rows, which have stream -1.
    first = np.array([_NEVER if span is None else span.first_offset for span in spans] + [_NEVER], np.int64)
    last = np.array([-1 if span is None else span.last_offset for span in spans] + [-1], np.int64)
    inside: npt.NDArray[np.bool_] = first[messages.stream] <= messages.offset
    return inside & (messages.offset <= last[messages.stream])


def _number_ports_by_stream(loaded: LoadedPart) -> dict[int, tuple[str, ...]]:
    """Writes into each row the number of its port among those of its stream; returns these by the stream's index."""
    messages = loaded.messages
    ports: dict[int, tuple[str, ...]] = {}
    local = np.zeros(len(loaded.port_names), np.uint16)
    order = np.lexsort((messages.offset, messages.stream))
    stream = messages.stream[order]
    begins = np.flatnonzero(np.append(True, stream[1:] != stream[:-1])) if len(stream) else np.zeros(0, np.int64)
    ends = np.append(begins[1:], len(stream))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        index = int(stream[begin])
        if index < 0:
            continue
        first, last = order[begin], order[end - 1]
        rows = slice(int(loaded.start[first]), int(loaded.start[last] + messages.rows[last]))
        used = np.flatnonzero(np.bincount(loaded.port[rows], minlength=len(loaded.port_names)))
        local[used] = np.arange(len(used))
        loaded.events["port"][rows] = local[loaded.port[rows]]
        ports[index] = tuple(loaded.port_names[number] for number in used.tolist())
    return ports
