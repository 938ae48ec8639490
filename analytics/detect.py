"""detect: raw events of each stream become pause intervals and the evidence rows that correlate needs.

A pure function of each stream for itself: it settles rows up to the stream's own mark in the order (time, seq), so the
order in which streams arrive cannot matter. One input stream (S, topic) gives one output stream (`S|topic`, episode).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

import analytics.first_look  # noqa: F401 - values are looked at by it from now on
from analytics.layout import Ints
from analytics.pauses import ALWAYS, CLOSED, SLOTS_PER_PORT, UNLESS_ZERO, episodes_of, renumber_ports
from stream import kinds, snapshot
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.messages import Item
from stream.record import EVENT, TIME, WORDS, Events, Words, empty_events, joined, picked, words
from stream.roster import SourceDown, SourceUp
from stream.topics import RAW

VERSION = 2
SEQUENCE_GAP = 4
"""Code of "sequence gap at a consumer" in kinds.LOSS_REASONS."""
MAX_ENDED = 100_000
"""Streams remembered after their end, so that what still comes of them is known as late; the oldest are forgotten."""
MAX_PORTS = 65_535
"""Ports of one stream, of which a row holds the index."""
NO_PORT = "-"
"""Port of rows that speak of the whole stream."""

_FORWARDED = np.zeros(256, np.uint8)
for _name in (
    "PFC_PAUSED", "PFC_FRAMES", "ECN_MARKED", "QUEUE_DEPTH", "PORT_BYTES", "LINK_ERRORS", "FLOW_BYTES", "PCIE_ERRORS",
    "PCIE_STALL", "RDMA_ERRORS", "RUNQUEUE_OUTLIER", "SOFTIRQ_OUTLIER", "SOFTIRQ_RUN_OUTLIER", "HARDIRQ_OUTLIER",
    "NAPI_OUTLIER", "BLOCK_OUTLIER", "MEMORY_ERRORS", "CPU_THROTTLE", "PRESSURE", "GPU_ERRORS", "GPU_THROTTLE",
    "STEP_TIME", "COMPUTE_TIME",
):  # fmt: skip
    _FORWARDED[kinds.BY_NAME[_name].code] = UNLESS_ZERO
# Kinds that tell a state, of which 0 is one (no lane, no storm); of counters a row of 0 tells nothing.
for _name in ("PFC_WATCHDOG", "PCIE_WIDTH", "PCIE_SPEED", "PCIE_RATE", "SOURCE_LOST"):
    _FORWARDED[kinds.BY_NAME[_name].code] = ALWAYS

_NO_EVENTS = empty_events(0)


def episode_stream(stream: StreamKey) -> StreamKey:
    """The output stream of an input stream."""
    return StreamKey(stream.fabric, f"{stream.source}|{stream.topic}", stream.epoch, "episode", stream.device)


@dataclass(slots=True)
class _Down:
    at_ns: int
    last_seq: int


@dataclass(slots=True)
class _StreamState:
    ports: dict[str, int] = field(default_factory=dict)
    open_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    order: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    logged: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Whether the last XOFF of a slot told no quanta, as a log does."""
    waiting: Events = field(default_factory=lambda: np.zeros(0, EVENT))
    mark_ns: int = -1
    reached_ns: int = 0
    """The last mark that is a time: what is known to have happened after it cannot be older."""
    next_seq: int = -1
    out_seq: int = 0
    lost: int = 0
    finished: bool = False
    told: list[Events] = field(default_factory=list)
    """Episodes of this call of `process` that have not gone out yet."""
    named: tuple[str, ...] = ()
    named_index: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ports as the last value named them, and the index of each; -1 = not met in a row yet."""

    def index_of(self, names: tuple[str, ...]) -> Ints:
        """Index of each port, -1 for one without; most values of a stream name the same ports."""
        if names != self.named:
            self.named = names
            self.named_index = np.array([self.ports.get(name, -1) for name in names], np.int64)
        return self.named_index

    def port_indices(self, names: Sequence[str]) -> list[int]:
        """Index of each port, with room made for new ones; raises WireError if a row could not hold an index."""
        new = [name for name in dict.fromkeys(names) if name not in self.ports]
        if len(self.ports) + len(new) > MAX_PORTS:
            raise WireError(f"a stream with more than {MAX_PORTS} ports")
        if new:
            self.ports.update((name, index) for index, name in enumerate(new, len(self.ports)))
            self.open_ns = np.concatenate((self.open_ns, np.full(len(new) * SLOTS_PER_PORT, CLOSED)))
            none = np.zeros(len(new) * SLOTS_PER_PORT, np.int64)
            self.order, self.logged = np.concatenate((self.order, none)), np.concatenate((self.logged, none))
            self.named = ()
        return [self.ports[name] for name in names]

    def plain(self) -> list[Any]:
        """The state for a snapshot: of the slots, those alone that a pause has ever touched."""
        used = np.flatnonzero(self.order)
        return [list(self.ports), used, self.open_ns[used], self.order[used], self.logged[used],
                self.waiting.view(np.uint8), self.mark_ns, self.reached_ns, self.next_seq, self.out_seq, self.lost,
                self.finished]  # fmt: skip

    @classmethod
    def of_plain(cls, plain: list[Any]) -> _StreamState:
        """The state of `plain()`."""
        ports, used, open_ns, order, logged, waiting, *rest = plain
        state = cls()
        state.port_indices(ports)
        state.open_ns[used], state.order[used], state.logged[used] = open_ns, order, logged
        state.waiting = waiting.view(EVENT)
        state.mark_ns, state.reached_ns, state.next_seq, state.out_seq, state.lost, state.finished = rest
        return state


class Detect:
    """The step; `counters` tells what it saw that was not plain sailing.

    A batch that it gives has at most so many rows: by default as many as a value of Kafka.
    """

    def __init__(self, most_rows: int = MAX_EVENTS) -> None:
        self._most_rows = most_rows
        self.counters: Counter[str] = Counter()
        self._streams: dict[StreamKey, _StreamState] = {}
        self._downs: dict[StreamKey, _Down] = {}
        self._touched: set[StreamKey] = set()
        self._ended: dict[StreamKey, None] = {}
        """Streams that are finished, the oldest first."""
        self._forgotten: set[StreamKey] = set()
        self._just_restored: list[StreamKey] = []
        self._telling: dict[StreamKey, None] = {}
        """Streams of which something goes out at the end of this call of `process`, in the order of their first."""
        self._room: Words = np.zeros((MAX_EVENTS, WORDS), np.int64)

    def process(self, batch: Sequence[Item]) -> list[Item]:
        """Takes batches and roster changes in; returns batches of the episode topic."""
        out: list[Item] = []
        self._end_restored()
        for item in batch:
            if isinstance(item, Batch):
                self._take(item)
            elif isinstance(item, SourceDown | SourceUp):
                out += self._emit_all()  # what came before a change of the roster goes out before it takes effect
                self._change(item)
        return out + self._emit_all()

    def forget(self, gone: Callable[[StreamKey], bool]) -> None:
        """Drops the state of streams that another instance takes over: it has them from their last snapshot."""
        for key in [key for key in self._streams if gone(key)]:
            del self._streams[key]
            self._ended.pop(key, None)
        self._forgotten = {key for key in self._forgotten if not gone(key)}

    def take_touched(self) -> list[StreamKey]:
        """Streams whose state has changed since the last call, in order."""
        touched = sorted(self._touched & self._streams.keys() | self._forgotten - self._streams.keys())
        self._touched, self._forgotten = set(), set()
        return touched

    def snapshot_stream(self, stream: StreamKey) -> bytes | None:
        """The state of one stream as bytes; None if it ended so long ago that it is forgotten."""
        state = self._streams.get(stream)
        return snapshot.pack("detect stream", VERSION, state.plain()) if state is not None else None

    def restore_stream(self, stream: StreamKey, state: bytes) -> None:
        """Continues a stream from its snapshot."""
        restored = self._streams[stream] = _StreamState.of_plain(snapshot.unpack("detect stream", VERSION, state))
        if restored.finished:
            self._ended[stream] = None
        else:
            self._just_restored.append(stream)

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        streams = [[list(key), state.plain()] for key, state in sorted(self._streams.items())]
        downs = [[list(key), down.at_ns, down.last_seq] for key, down in sorted(self._downs.items())]
        return snapshot.pack("detect", VERSION, [streams, downs])

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot."""
        streams, downs = snapshot.unpack("detect", VERSION, state)
        self._streams = {StreamKey(*key): _StreamState.of_plain(plain) for key, plain in streams}
        self._downs = {StreamKey(*key): _Down(at_ns, last_seq) for key, at_ns, last_seq in downs}
        self._touched = set(self._streams)
        self._ended = dict.fromkeys(key for key, state in self._streams.items() if state.finished)
        self._just_restored = [key for key in self._streams if key not in self._ended]
        self._telling = {}

    def _end_restored(self) -> None:
        """Ends streams that came to us after the roster had told that they ended."""
        restored, self._just_restored = self._just_restored, []
        for stream in restored:
            self._end_if_read(stream)

    def _take(self, batch: Batch) -> None:
        if batch.stream.topic not in RAW:
            self.counters["items_of_other_topics"] += 1
            return
        state = self._streams.get(batch.stream)
        if state is None:
            state = self._streams[batch.stream] = _StreamState()
        if state.finished:
            self.counters["rows_after_the_end"] += len(batch.events)
            return
        events = batch.events
        if batch.skipped:
            self.counters["unknown_kinds"] += batch.skipped
        lost = self._missing(state, batch) if batch.seq != state.next_seq or batch.lost > state.lost else 0
        if state.next_seq > batch.seq:
            fresh = batch.row_seqs() >= state.next_seq
            self.counters["duplicate_rows"] += int(len(fresh) - fresh.sum())
            events = picked(events, fresh)
        state.next_seq = max(state.next_seq, batch.next_seq)
        down = self._read_to_its_end(batch.stream, state) if self._downs else None
        self._settle(batch.stream, state, events, batch.ports, batch.mark_ns, lost, down)

    def _missing(self, state: _StreamState, batch: Batch) -> int:
        """Rows lost before this batch: told by the source, or missing from the sequence; UNKNOWN if joined late."""
        lost = max(0, batch.lost - state.lost)
        state.lost = max(state.lost, batch.lost)
        if state.next_seq < 0:
            state.next_seq = 0
            if batch.seq > 0:
                self.counters["streams_joined_late"] += 1
                state.next_seq = batch.seq
                return kinds.UNKNOWN
        if batch.seq > state.next_seq:
            lost = max(lost, batch.seq - state.next_seq)
        self.counters["lost_rows"] += lost
        return lost

    def _settle(
        self,
        stream: StreamKey,
        state: _StreamState,
        events: Events,
        ports: tuple[str, ...],
        mark_ns: int,
        lost: int,
        down: _Down | None,
    ) -> None:
        """Takes rows in and tells of all up to the stream's new mark, and of the stream's end if `down` is given."""
        # Whether the roster told of the end before this or tells of it later must make no difference.
        told_ns = max(state.mark_ns, mark_ns)
        if told_ns < MARK_END:
            state.reached_ns = told_ns
        told, first_ns = self._episodes(state, events, ports, MARK_END if down is not None else told_ns)
        if lost:
            row = empty_events(1)
            row["kind"], row["value"], row["extra"] = kinds.SOURCE_LOST, lost, SEQUENCE_GAP
            row["time_ns"] = first_ns if first_ns is not None and first_ns <= told_ns else state.reached_ns
            row["port"] = state.port_indices([NO_PORT])[0]
            told = joined([row, told])
        if down is not None:
            state.finished = True
            # A source that says it ended before what it has told is taken to have ended then.
            told = _sorted(joined([told, self._close_open_pauses(state, max(down.at_ns, state.reached_ns))]))
        if len(told):
            state.told.append(told)
        self._telling[stream] = None

    def _episodes(
        self, state: _StreamState, events: Events, ports: tuple[str, ...], mark_ns: int
    ) -> tuple[Events, int | None]:
        """Moves the mark; returns the episodes of all rows up to it, and the time of the first of these rows if any."""
        before_ns, state.mark_ns = state.mark_ns, mark_ns
        if not len(state.waiting):
            if not len(events):
                return _NO_EVENTS, None
            rows = words(events)
            episodes = self._walked(state, rows, before_ns, mark_ns, state.index_of(ports))
            if episodes is not None:
                return episodes, int(rows[0, TIME])
        rows = words(self._ready(state, events, ports, before_ns))
        if not len(rows):
            return _NO_EVENTS, None
        episodes = self._walked(state, rows, 0, mark_ns, np.arange(len(state.ports)))
        assert episodes is not None
        return episodes, int(rows[0, TIME])

    def _walked(self, state: _StreamState, rows: Words, first_ns: int, last_ns: int, port_index: Ints) -> Events | None:
        """Episodes of rows that are in order; None if they are not."""
        if len(rows) > len(self._room):
            self._room = np.zeros_like(rows)
        count, refreshes, unmatched = episodes_of(
            rows, first_ns, last_ns, port_index, _FORWARDED, state.open_ns, state.order, state.logged, self._room
        )
        if count < 0:
            return None
        if refreshes:
            self.counters["pause_refreshes"] += refreshes
        if unmatched:
            self.counters["unmatched_xons"] += unmatched
        return self._room[:count].copy().view(EVENT).ravel() if count else _NO_EVENTS

    def _ready(self, state: _StreamState, events: Events, ports: tuple[str, ...], before_ns: int) -> Events:
        """All rows up to the mark, sorted and with our index of each port; the others wait."""
        if len(events):
            events = joined([events])
            # Only ports that rows use take up state: a value may name thousands of others.
            used = np.flatnonzero(np.bincount(events["port"]))
            index = np.zeros(len(ports), np.uint16)
            index[used] = state.port_indices([ports[port] for port in used.tolist()])
            events["port"] = index[events["port"]]
            late = events["time_ns"] < before_ns
            if late.any():
                self.counters["late_rows"] += int(late.sum())
                events = picked(events, ~late)
        events = joined([state.waiting, events])
        ready = events["time_ns"] <= state.mark_ns
        state.waiting = picked(events, ~ready)
        return _sorted(picked(events, ready))

    def _emit_all(self) -> list[Item]:
        out: list[Item] = []
        for stream in self._telling:
            out += self._emit(stream, self._streams[stream])
        self._touched.update(self._telling)
        self._telling = {}
        return out

    def _emit(self, stream: StreamKey, state: _StreamState) -> list[Item]:
        """The stream's episodes in values, of which the last tells its mark; after its end, most is forgotten."""
        out: list[Item] = []
        episodes, state.told = state.told[0] if len(state.told) == 1 else joined(state.told), []
        names = list(state.ports) if len(episodes) else []
        numbers = np.empty(len(names), np.int64)
        for start in range(0, max(len(episodes), 1), self._most_rows):
            part = episodes[start : start + self._most_rows]
            ports: tuple[str, ...] = ()
            if len(part):
                renumber_ports(words(part), numbers)
                ports = tuple(compress(names, (numbers >= 0).tolist()))
            last = start + self._most_rows >= len(episodes)
            mark_ns = state.mark_ns if last else int(part["time_ns"][-1])
            out.append(Batch(episode_stream(stream), state.out_seq, mark_ns, ports, part, lost=state.lost))
            state.out_seq += len(part)
        if state.finished:
            # Its number of rows is all that is still asked for.
            state.reached_ns = 0
            state.ports, state.open_ns, state.order, state.logged = (
                {},
                state.open_ns[:0],
                state.order[:0],
                state.logged[:0],
            )
            self._ended[stream] = None
            if len(self._ended) > MAX_ENDED:
                oldest = next(iter(self._ended))
                del self._ended[oldest], self._streams[oldest]
                self._downs.pop(oldest, None)
                self._forgotten.add(oldest)
        return out

    def _change(self, change: SourceUp | SourceDown) -> None:
        if isinstance(change, SourceUp):
            for key in change.stream_keys():
                self._downs.pop(key, None)
            return
        for key, stream in zip(change.stream_keys(), change.streams, strict=True):
            if stream.topic in RAW:
                self._downs[key] = _Down(change.at_ns, stream.last_seq)
                self._end_if_read(key)

    def _end_if_read(self, stream: StreamKey) -> None:
        state = self._streams.get(stream)
        if state is not None and (down := self._read_to_its_end(stream, state)) is not None:
            self._settle(stream, state, _NO_EVENTS, (), 0, 0, down)

    def _read_to_its_end(self, stream: StreamKey, state: _StreamState) -> _Down | None:
        """The stream's SOURCE_DOWN if it is known and the stream's last row has been read."""
        down = self._downs.get(stream)
        return down if down is not None and not state.finished and state.next_seq > down.last_seq else None

    def _close_open_pauses(self, state: _StreamState, at_ns: int) -> Events:
        open_slots = np.flatnonzero(state.open_ns != CLOSED)
        closing = empty_events(len(open_slots))
        closing["time_ns"] = np.maximum(at_ns, state.open_ns[open_slots])
        closing["span_ns"] = closing["time_ns"] - state.open_ns[open_slots]
        closing["value"] = closing["span_ns"]
        closing["extra"] = state.order[open_slots]
        closing["kind"] = kinds.PAUSE_INTERVAL
        closing["port"] = open_slots // SLOTS_PER_PORT
        priority = open_slots // 3 % 9
        closing["priority"] = np.where(priority == 8, kinds.NO_PRIORITY, priority)
        closing["side"] = open_slots % 3
        closing["quality"] = kinds.ESTIMATED
        state.open_ns[open_slots] = CLOSED
        self.counters["pauses_ended_by_source_down"] += len(open_slots)
        return closing


def _sorted(events: Events) -> Events:
    """The rows by time; those of one instant keep their order."""
    return picked(events, np.argsort(events["time_ns"], kind="stable"))
