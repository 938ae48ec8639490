"""The messages behind tests/data/captures/format-1: `python -m tests.stream.capture_format_1 FOLDER` writes such a one.

The folder in the repository is never written again: it shows that captures of format version 1 stay readable.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np

from stream import kinds, wire
from stream.batch import MARK_END, Batch, StreamKey
from stream.capture import capture
from stream.capture_manifest import Range
from stream.capture_message import NO_TIMESTAMP_MS, Captured
from stream.messages import encode
from stream.offset_gaps import PartitionId
from stream.record import empty_events
from tests.stream.capture_samples import HOUR_NS, START_NS, fabric_messages, rows
from tests.stream.capture_v1 import items
from tests.stream.listed_source import ALL_TOPICS, ListedSource

NOW_MS = START_NS // 1_000_000


def messages() -> list[Captured]:
    """Of everything that a capture tells apart, a little: hours, texts, headers, tombstones, what does not decode."""
    listed = fabric_messages(batches=2, rows_each=4)
    offsets: dict[tuple[str, int], int] = {}
    for message in listed:
        offsets[message.topic, message.partition] = message.offset

    def add(
        topic: str, key: bytes | None, value: bytes | None, partition: int = 0,
        headers: tuple[tuple[str, bytes | None], ...] = (), timestamp: tuple[int, str] = (NOW_MS, "create"),
    ) -> None:  # fmt: skip
        offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
        listed.append(Captured(topic, partition, offset, *timestamp, key, headers, value))

    for item in items():
        add(*encode(item))
    # Rows out of the order of time, with every second one a text, and one of a kind that nobody knows.
    events = empty_events(6)
    events["time_ns"] = START_NS + np.array([5, 3, 4, 0, 2, 1]) * HOUR_NS // 4
    events["kind"] = [kinds.BY_NAME["RUNQUEUE_OUTLIER"].code] * 5 + [250]
    batch = Batch(
        StreamKey("dc-1", "bpf", "boot-2", "kernel", "host-1"), 9, MARK_END, ("cpu0",), events, 3,
        tuple((row, f"comm {row}") for row in range(0, 6, 2)),
    )  # fmt: skip
    add("kernel", batch.key, wire.assemble(batch), 2, (("trace", b"\x00\xff"), ("trace", None)), (NOW_MS, "append"))
    late = rows("pfc", "leaf-9", 3, START_NS + 3 * HOUR_NS)
    add("pfc", late.key, wire.encode(late), 3, timestamp=(NO_TIMESTAMP_MS, ""))
    add("device", b"dc-1/leaf-1@7", None)
    add("health", None, b"no JSON \xff")
    add("state", b"detect", b"\x00\x01")
    add("pfc", b"dc-1/leaf-1", b"PTB1 no packed value")
    return listed


def main(folder: Path) -> None:
    """Writes the capture, and beside it the messages that are in it."""
    # Kafka had lost two messages, and three have been compacted away.
    ends = {PartitionId("ecn", 1): 2, PartitionId("flow", 0): 4}
    capture(ListedSource(messages(), ends=ends), folder, ALL_TOPICS, "fabric", Range())
    folder.with_suffix(".msgpack").write_bytes(msgspec.msgpack.encode([list(message) for message in messages()]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
