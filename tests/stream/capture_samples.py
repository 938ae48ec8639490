"""Messages of a small fabric for tests of captures: two topics of rows, the roster and a link, over a few hours."""

from __future__ import annotations

from stream import kinds
from stream.batch import Batch, StreamKey
from stream.capture_message import Captured
from stream.facts import FactStream, Link
from stream.messages import Item, encode
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

HOUR_NS = 3_600_000_000_000
START_NS = 497_246 * HOUR_NS
"""2026-09-22T14:00:00Z"""
STEP_NS = 600_000_000_000
DEVICES = ("leaf-1", "leaf-2")


def rows(topic: str, device: str, count: int, start_ns: int, seq: int = 0, step_ns: int = STEP_NS) -> Batch:
    """A batch whose rows are `step_ns` apart; its mark is behind them."""
    events = empty_events(count)
    events["time_ns"] = [start_ns + i * step_ns for i in range(count)]
    events["kind"] = kinds.PFC_XOFF if topic == "pfc" else kinds.QUEUE_DEPTH
    events["value"], events["priority"] = [i % 100 for i in range(count)], 3
    events["port"] = [i % 2 for i in range(count)]
    stream = StreamKey("dc-1", "source", "boot-1", topic, device)
    return Batch(stream, seq, start_ns + count * step_ns, ("p1", "p2"), events)


def message(item: Item, partition: int, offset: int, time_ns: int) -> Captured:
    """An item as Kafka has it."""
    topic, key, value = encode(item)
    return Captured(topic, partition, offset, time_ns // 1_000_000, "create", key, (), value)


def fabric_messages(batches: int = 4, rows_each: int = 5) -> list[Captured]:
    """The roster, a link, and so many batches of each of two devices (one a partition) on two topics, then the end."""
    streams = [(topic, device) for topic in ("pfc", "queue") for device in DEVICES]
    ups = tuple(StreamUp(topic, device) for topic, device in streams)
    up = SourceUp("dc-1", "source", "boot-1", START_NS, (StreamUp("link"), *ups))
    link = Link("dc-1", "leaf-1", "p1", "leaf-2", "p1", 100_000, START_NS, FactStream("source", "boot-1", 0, START_NS))
    listed = [message(up, 0, 0, START_NS), message(link, 0, 0, START_NS)]
    for number in range(batches):
        begin_ns = START_NS + number * rows_each * STEP_NS
        for topic, device in streams:
            batch = rows(topic, device, rows_each, begin_ns, number * rows_each)
            listed.append(message(batch, DEVICES.index(device), number, begin_ns + rows_each * STEP_NS))
    end_ns = START_NS + batches * rows_each * STEP_NS
    downs = tuple(StreamDown(topic, device, batches * rows_each - 1) for topic, device in streams)
    down = SourceDown("dc-1", "source", "boot-1", end_ns, (StreamDown("link", "", 0), *downs))
    return [*listed, message(down, 0, 1, end_ns)]
