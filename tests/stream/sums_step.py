"""A small step for tests of what runs steps: one batch out for each batch in, its rows added up stream by stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from stream import kinds
from stream.batch import Batch, StreamKey
from stream.messages import Item
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp

POISON_NS = 666
"""Time of a row that the step cannot take."""


class Sums:
    """Its state is a sum of times for each stream; a batch out says how many rows of its stream came so far."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.sums: dict[StreamKey, int] = {}
        self.rows: dict[StreamKey, int] = {}
        self.up: set[StreamKey] = set()
        self.down: dict[StreamKey, int] = {}
        self.touched: set[StreamKey] = set()

    def process(self, batch: Sequence[Item]) -> list[Item]:
        out: list[Item] = []
        for item in batch:
            if isinstance(item, SourceUp):
                self.up.update(item.stream_keys())
            elif isinstance(item, SourceDown):
                self.down |= {
                    key: stream.last_seq for key, stream in zip(item.stream_keys(), item.streams, strict=True)
                }
            elif isinstance(item, Batch):
                out.append(self._take(item))
        return out

    def _take(self, batch: Batch) -> Batch:
        stream = batch.stream
        self.counters["batches"] += 1
        self.counters["unannounced"] += stream not in self.up
        # Changed before it fails, so that a caller has to go back.
        self.touched.add(stream)
        self.rows[stream] = self.rows.get(stream, 0) + len(batch.events)
        if (batch.events["time_ns"] == POISON_NS).any():
            raise ZeroDivisionError("poison")
        self.sums[stream] = self.sums.get(stream, 0) + int(batch.events["time_ns"].sum())
        row = empty_events(1)
        row["kind"] = kinds.PAUSE_INTERVAL
        row["time_ns"] = self.sums[stream]
        row["value"] = self.rows[stream]
        made = StreamKey(stream.fabric, f"{stream.source}|{stream.topic}", stream.epoch, "episode", stream.device)
        return Batch(made, batch.seq, batch.mark_ns, ("-",), row)

    def forget(self, gone: Callable[[StreamKey], bool]) -> None:
        for stream in [stream for stream in self.rows if gone(stream)]:
            del self.rows[stream], self.sums[stream]

    def take_touched(self) -> list[StreamKey]:
        touched, self.touched = sorted(self.touched & self.rows.keys()), set()
        return touched

    def snapshot_stream(self, stream: StreamKey) -> bytes:
        return msgspec.msgpack.encode((self.sums.get(stream, 0), self.rows[stream]))

    def restore_stream(self, stream: StreamKey, state: bytes) -> None:
        self.sums[stream], self.rows[stream] = msgspec.msgpack.decode(state)

    def snapshot(self) -> bytes:
        numbers = [[(list(key), number) for key, number in d.items()] for d in (self.sums, self.rows, self.down)]
        return msgspec.msgpack.encode((*numbers, [list(key) for key in self.up]))

    def restore(self, state: bytes) -> None:
        *numbers, up = msgspec.msgpack.decode(state)
        self.sums, self.rows, self.down = ({StreamKey(*key): number for key, number in d} for d in numbers)
        self.up = {StreamKey(*key) for key in up}
