"""detect: raw events of each stream become pause intervals and the evidence rows that correlate needs.

A pure function of each stream for itself: it settles rows up to the stream's own mark in the order (time, seq), so the
order in which streams arrive cannot matter. One input stream (S, topic) gives one output stream (`S|topic`, episode).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analytics.pauses import CLOSED, SLOTS_PER_PORT, pair_pauses, slots
from stream import kinds, snapshot
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.messages import Item
from stream.record import EVENT, Events, empty_events
from stream.roster import SourceDown, SourceUp
from stream.topics import RAW

VERSION = 1
SEQUENCE_GAP = 4
"""Code of "sequence gap at a consumer" in kinds.LOSS_REASONS."""
MAX_ENDED = 100_000
"""Streams remembered after their end, so that what still comes of them is known as late; the oldest are forgotten."""
MAX_PORTS = 65_535
"""Ports of one stream, of which a row holds the index."""
NO_PORT = "-"
"""Port of rows that speak of the whole stream."""

_FORWARDED = np.zeros(256, bool)
_FORWARDED[
    [
        kinds.BY_NAME[name].code
        for name in (
            "PFC_PAUSED", "PFC_FRAMES", "PFC_WATCHDOG", "ECN_MARKED", "QUEUE_DEPTH", "PORT_BYTES", "LINK_ERRORS",
            "FLOW_BYTES", "PCIE_WIDTH", "PCIE_SPEED", "PCIE_RATE", "PCIE_ERRORS", "PCIE_STALL", "RDMA_ERRORS",
            "SOURCE_LOST",
        )
    ]
] = True  # fmt: skip

_STATE = np.zeros(256, bool)
"""Kinds that tell a state, of which 0 is one (no lane, no storm); of counters a row of 0 tells nothing."""
_STATE[
    [kinds.BY_NAME[name].code for name in ("PFC_WATCHDOG", "PCIE_WIDTH", "PCIE_SPEED", "PCIE_RATE", "SOURCE_LOST")]
] = True


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
    open_ns: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.zeros(0, np.int64))
    order: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: Events = field(default_factory=lambda: np.zeros(0, EVENT))
    mark_ns: int = -1
    reached_ns: int = 0
    """The last mark that is a time: what is known to have happened after it cannot be older."""
    next_seq: int = -1
    out_seq: int = 0
    lost: int = 0
    finished: bool = False

    def port_indices(self, names: Sequence[str]) -> list[int]:
        """Index of each port, with room made for new ones; raises WireError if a row could not hold an index."""
        new = [name for name in dict.fromkeys(names) if name not in self.ports]
        if len(self.ports) + len(new) > MAX_PORTS:
            raise WireError(f"a stream with more than {MAX_PORTS} ports")
        self.ports.update((name, index) for index, name in enumerate(new, len(self.ports)))
        self.open_ns = np.concatenate((self.open_ns, np.full(len(new) * SLOTS_PER_PORT, CLOSED)))
        self.order = np.concatenate((self.order, np.zeros(len(new) * SLOTS_PER_PORT, np.int64)))
        return [self.ports[name] for name in names]

    def plain(self) -> list[Any]:
        """The state for a snapshot: of the slots, those alone that a pause has ever touched."""
        used = np.flatnonzero(self.order)
        return [list(self.ports), used, self.open_ns[used], self.order[used], self.waiting.view(np.uint8), self.mark_ns,
                self.reached_ns, self.next_seq, self.out_seq, self.lost, self.finished]  # fmt: skip

    @classmethod
    def of_plain(cls, plain: list[Any]) -> _StreamState:
        """The state of `plain()`."""
        ports, used, open_ns, order, waiting, *rest = plain
        state = cls()
        state.port_indices(ports)
        state.open_ns[used], state.order[used] = open_ns, order
        state.waiting = waiting.view(EVENT)
        state.mark_ns, state.reached_ns, state.next_seq, state.out_seq, state.lost, state.finished = rest
        return state


class Detect:
    """The step; `counters` tells what it saw that was not plain sailing."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._streams: dict[StreamKey, _StreamState] = {}
        self._downs: dict[StreamKey, _Down] = {}
        self._touched: set[StreamKey] = set()
        self._ended: dict[StreamKey, None] = {}
        """Streams that are finished, the oldest first."""
        self._forgotten: set[StreamKey] = set()
        self._just_restored: list[StreamKey] = []

    def process(self, batch: Sequence[Item]) -> list[Item]:
        """Takes batches and roster changes in; returns batches of the episode topic."""
        out = self._end_restored()
        for item in batch:
            if isinstance(item, Batch):
                out += self._take(item)
            elif isinstance(item, SourceDown):
                out += self._source_down(item)
            elif isinstance(item, SourceUp):
                for key in item.stream_keys():
                    self._downs.pop(key, None)
        return out

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

    def _end_restored(self) -> list[Item]:
        """Ends of streams that came to us after the roster had told that they ended."""
        out: list[Item] = []
        for stream in self._just_restored:
            state = self._streams.get(stream)
            if state is not None and (down := self._read_to_its_end(stream, state)) is not None:
                out += self._settle(stream, state, 0, down)
        self._just_restored = []
        return out

    def _take(self, batch: Batch) -> list[Item]:
        if batch.stream.topic not in RAW:
            self.counters["items_of_other_topics"] += 1
            return []
        state = self._streams.setdefault(batch.stream, _StreamState())
        if state.finished:
            self.counters["rows_after_the_end"] += len(batch.events)
            return []
        self.counters["unknown_kinds"] += batch.skipped
        events, row_seq = batch.events, batch.row_seqs()
        lost = self._missing(state, batch)
        if state.next_seq > batch.seq:
            fresh = row_seq >= state.next_seq
            self.counters["duplicate_rows"] += int(len(fresh) - fresh.sum())
            events = events[fresh]
        state.next_seq = max(state.next_seq, batch.next_seq)
        if len(events):
            events = events.copy()
            # Only ports that rows use take up state: a value may name thousands of others.
            used = np.flatnonzero(np.bincount(events["port"]))
            index = np.zeros(len(batch.ports), np.uint16)
            index[used] = state.port_indices([batch.ports[port] for port in used.tolist()])
            events["port"] = index[events["port"]]
            late = events["time_ns"] < state.mark_ns
            if late.any():
                self.counters["late_rows"] += int(late.sum())
                events = events[~late]
        state.waiting = np.concatenate((state.waiting, events)) if len(state.waiting) else events
        state.mark_ns = max(state.mark_ns, batch.mark_ns)
        down = self._read_to_its_end(batch.stream, state)
        return self._settle(batch.stream, state, lost, down)

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

    def _settle(self, stream: StreamKey, state: _StreamState, lost: int, down: _Down | None) -> list[Item]:
        """Output for all rows up to the stream's mark, and for the end of the stream if `down` is given."""
        self._touched.add(stream)
        # Whether the roster told of the end before this or tells of it later must make no difference.
        told_ns = state.mark_ns
        if told_ns < MARK_END:
            state.reached_ns = told_ns
        if down is not None:
            state.mark_ns, state.finished = MARK_END, True
        ready = state.waiting["time_ns"] <= state.mark_ns
        rows, state.waiting = state.waiting[ready], state.waiting[~ready]
        rows = rows[np.argsort(rows["time_ns"], kind="stable")]
        episodes = [self._episodes(state, rows)]
        if lost:
            row = empty_events(1)
            row["kind"], row["value"], row["extra"] = kinds.SOURCE_LOST, lost, SEQUENCE_GAP
            known = len(rows) > 0 and rows["time_ns"][0] <= told_ns
            row["time_ns"] = rows["time_ns"][0] if known else state.reached_ns
            row["port"] = state.port_indices([NO_PORT])[0]
            episodes.insert(0, row)
        if down is not None:
            # A source that says it ended before what it has told is taken to have ended then.
            episodes.append(self._close_open_pauses(state, max(down.at_ns, state.reached_ns)))
        told = np.concatenate(episodes)
        out = self._emit(stream, state, told[np.argsort(told["time_ns"], kind="stable")])
        if state.finished:
            # Its number of rows is all that is still asked for.
            state.reached_ns = 0
            state.ports, state.open_ns, state.order = {}, state.open_ns[:0], state.order[:0]
            self._ended[stream] = None
            if len(self._ended) > MAX_ENDED:
                oldest = next(iter(self._ended))
                del self._ended[oldest], self._streams[oldest]
                self._downs.pop(oldest, None)
                self._forgotten.add(oldest)
        return out

    def _episodes(self, state: _StreamState, rows: Events) -> Events:
        count = len(rows)
        out_kind = np.zeros(count, np.uint8)
        span, order = np.zeros(count, np.int64), np.zeros(count, np.int64)
        identity = np.arange(len(state.ports))
        refreshes, unmatched = pair_pauses(
            rows["time_ns"].copy(), rows["kind"].copy(), slots(rows, identity), state.open_ns, state.order,
            out_kind, span, order,
        )  # fmt: skip
        self.counters["pause_refreshes"] += refreshes
        self.counters["unmatched_xons"] += unmatched
        paired = out_kind > 0
        forwarded = _FORWARDED[rows["kind"]] & ((rows["value"] != 0) | _STATE[rows["kind"]])
        keep = paired | forwarded
        episodes = rows[keep]
        paired = paired[keep]
        episodes["kind"][paired] = out_kind[keep][paired]
        episodes["span_ns"][paired] = span[keep][paired]
        episodes["value"][paired] = span[keep][paired]
        episodes["extra"][paired] = order[keep][paired]
        return episodes

    def _emit(self, stream: StreamKey, state: _StreamState, episodes: Events) -> list[Item]:
        out: list[Item] = []
        names = list(state.ports)
        for start in range(0, max(len(episodes), 1), MAX_EVENTS):
            part = episodes[start : start + MAX_EVENTS].copy()
            used, part["port"] = np.unique(part["port"], return_inverse=True)
            last = start + MAX_EVENTS >= len(episodes)
            mark_ns = state.mark_ns if last else int(part["time_ns"][-1])
            ports = tuple(names[port] for port in used)
            out.append(Batch(episode_stream(stream), state.out_seq, mark_ns, ports, part, lost=state.lost))
            state.out_seq += len(part)
        return out

    def _source_down(self, change: SourceDown) -> list[Item]:
        out: list[Item] = []
        for key, stream in zip(change.stream_keys(), change.streams, strict=True):
            if stream.topic in RAW:
                self._downs[key] = _Down(change.at_ns, stream.last_seq)
                state = self._streams.get(key)
                if state is not None and (down := self._read_to_its_end(key, state)) is not None:
                    out += self._settle(key, state, 0, down)
        return out

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
