"""Batches built by hand, for tests of what people and programs see."""

from stream import kinds
from stream.batch import Batch, StreamKey
from stream.record import empty_events

START_NS = 1_764_540_600_000_000_000


def _pauses() -> Batch:
    events = empty_events(3)
    events["time_ns"] = [START_NS, START_NS + 5_000, START_NS + 1_000_000]
    events["kind"] = [kinds.PFC_XOFF, kinds.PFC_XON, kinds.PFC_PAUSED]
    events["side"] = kinds.SIDE_RX
    events["priority"] = [3, 3, 4]
    events["port"] = [0, 0, 1]
    events["value"] = [kinds.UNKNOWN, 0, 412_000]
    events["extra"] = [0, 0, 37]
    events["span_ns"] = [0, 0, 1_000_000]
    events["quality"] = [kinds.EXACT, kinds.EXACT, kinds.ESTIMATED]
    stream = StreamKey("lab", "probe-h9", "boot1", "pfc", "h9")
    return Batch(stream, 7, START_NS + 1_000_000, ("eth0", "eth1"), events)


def _queues() -> Batch:
    events = empty_events(1)
    events["time_ns"] = START_NS + 100_000
    events["span_ns"] = 100_000
    events["kind"] = kinds.QUEUE_DEPTH
    events["side"] = kinds.SIDE_TX
    events["priority"] = 3
    events["value"] = 240_000
    events["extra"] = kinds.UNKNOWN
    events["flow"] = 0xC0FFEE
    return Batch(StreamKey("lab", "gnmi", "boot1", "queue", "tor4"), 0, START_NS + 100_000, ("p2",), events)


PAUSES = _pauses()
QUEUES = _queues()
