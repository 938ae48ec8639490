"""The items behind tests/data/captures/v1.msgpack: `python -m tests.stream.capture_v1 FILE` writes such a file.

The file in the repository is never written again: it shows that values of schema version 1 stay readable.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np

from stream import kinds, messages
from stream.batch import MARK_END, Batch, StreamKey
from stream.record import EVENT, empty_events
from tests.stream.sample_items import DEVICE, DOWN, FLOW, LINK, NOW_NS, UP

Row = dict[str, int]


def _batch(topic: str, device: str, rows: list[Row], ports: tuple[str, ...], seq: int, mark_ns: int) -> Batch:
    events = empty_events(len(rows))
    for index, row in enumerate(rows):
        for name, number in row.items():
            events[name][index] = number
    return Batch(StreamKey("dc-1", "gnmi:leaf-1", "boot-1", topic, device), seq, mark_ns, ports, events)


def _row(kind: str, after_ns: int, **fields: int) -> Row:
    code = kinds.BY_NAME[kind].code
    return {"kind": code, "time_ns": NOW_NS + after_ns, "seen_ns": NOW_NS + after_ns + 700, **fields}


def items() -> list[messages.Item]:
    """Values of several topics, with every field of the record in use somewhere."""
    pauses = [
        _row("PFC_XOFF", 10, value=65_535, priority=3, side=kinds.SIDE_RX, quality=kinds.EXACT),
        _row("PFC_XON", 20, priority=3, side=kinds.SIDE_RX, port=1, quality=kinds.EXACT | kinds.CLOCK_SUSPECT),
        _row("PFC_PAUSED", 1_000_000, span_ns=1_000_000, value=2_500, extra=kinds.UNKNOWN, side=kinds.SIDE_TX),
        _row("SOURCE_LOST", 1_000_001, value=12, extra=3, quality=kinds.GAP),
    ]
    queues = [
        _row("QUEUE_DEPTH", 0, span_ns=10_000_000, value=9_437_184, extra=1 << 20, priority=0, port=1),
        _row("PORT_BYTES", 0, span_ns=10_000_000, value=kinds.INT64_MAX, extra=0, side=kinds.SIDE_TX),
        _row("LINK_ERRORS", 0, value=1, extra=2, side=kinds.SIDE_RX),
    ]
    flows = [_row("FLOW_BYTES", 5, value=4096, extra=1, flow=0xFEDC_BA98_7654_3210, side=kinds.SIDE_TX, priority=7)]
    clocks = [_row("CLOCK_OFFSET", 5, value=-1_500, extra=90)]
    episodes = [
        _row("PAUSE_OPEN", 10, extra=1, priority=3, side=kinds.SIDE_RX),
        _row("PAUSE_INTERVAL", 20, span_ns=10, value=10, extra=1, priority=3, side=kinds.SIDE_RX),
    ]
    outlier = _batch(
        "kernel", "host-7", [_row("RUNQUEUE_OUTLIER", 7, value=4_000_000, extra=4242)], ("cpu3",), 5, NOW_NS
    )
    return [
        UP,
        DEVICE,
        LINK,
        FLOW,
        _batch("pfc", "leaf-1", pauses, ("Ethernet0", "Ethernet4"), 0, NOW_NS + 30),
        _batch("pfc", "leaf-1", [], (), 4, NOW_NS + 1_000_000_000),
        _batch("queue", "leaf-1", queues, ("Ethernet0", "Ethernet4"), 1 << 40, NOW_NS),
        _batch("flowbytes", "leaf-1", flows, ("Ethernet0",), 9, NOW_NS),
        _batch("host", "hôst-7", clocks, ("-",), 0, NOW_NS),
        Batch(outlier.stream, outlier.seq, outlier.mark_ns, outlier.ports, outlier.events, 77, ((0, "nccl\0worker"),)),
        _batch("episode", "leaf-1", episodes, ("Ethernet0",), 0, MARK_END),
        DOWN,
    ]


def plain(item: object) -> object:
    """All that the item says, also where it says it by leaving a field at its default."""
    if isinstance(item, msgspec.Struct) and not isinstance(item, Batch):
        return {"type": type(item).__name__} | {name: plain(getattr(item, name)) for name in item.__struct_fields__}
    if isinstance(item, tuple):
        return [plain(part) for part in item]
    if not isinstance(item, Batch):
        return item
    return {
        **item.stream._asdict(),
        "seq": item.seq,
        "mark_ns": item.mark_ns,
        "lost": item.lost,
        "ports": list(item.ports),
        "texts": [list(text) for text in item.texts],
        "rows": [dict(zip(EVENT.names or (), row, strict=True)) for row in np.asarray(item.events).tolist()],
    }


def main(path: Path) -> None:
    """Writes the values, and what they say beside them."""
    encoded = [messages.encode(item) for item in items()]
    path.write_bytes(msgspec.msgpack.encode([list(message) for message in encoded]))
    said = msgspec.json.encode([plain(item) for item in items()])
    path.with_suffix(".json").write_bytes(msgspec.json.format(said, indent=1) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
