"""What is in memory at a time is bounded, however large the capture: while it is made, and while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream.capture import capture
from stream.capture_blocks import blocks
from stream.capture_manifest import FileEntry, PartitionPlan, Range, load_manifest
from stream.capture_message import Captured
from stream.capture_part import _MESSAGE_COST_BYTES
from stream.capture_reader import CaptureFolder
from stream.capture_select import RowFilter
from stream.capture_streams import captured_streams
from stream.offset_gaps import PartitionId
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import ALL_TOPICS, ListedSource

BUFFER_BYTES = 24_000
SIZES = (10, 40)


class WatchedSource(ListedSource):
    """Counts the messages that it has given and that are not in a file yet."""

    folder: Path
    most_waiting = 0

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        for told in super().read(partitions):
            yield told
            written = sum(line.count(b'"messages":') and int(line.split(b'"messages":')[1].split(b",")[0])
                          for line in (self.folder / "_journal.jsonl").read_bytes().splitlines())  # fmt: skip
            self.most_waiting = max(self.most_waiting, self.given - written)


class WatchedFolder(CaptureFolder):
    """Counts the rows that have been read."""

    rows = 0

    def tables(self, entry: FileEntry, columns: Sequence[str] | None = None) -> Iterator[Any]:
        for table in super().tables(entry, columns):
            self.rows += len(table) if entry.table == "events" else 0
            yield table


@pytest.mark.parametrize("batches", SIZES)
def test_the_messages_that_wait_to_be_written_are_bounded(batches: int, tmp_path: Path) -> None:
    source = WatchedSource(fabric_messages(batches, 5))
    source.folder = tmp_path / "c"
    capture(source, source.folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=BUFFER_BYTES)
    assert 0 < source.most_waiting <= BUFFER_BYTES / _MESSAGE_COST_BYTES


@pytest.mark.parametrize("batches", SIZES)
def test_the_rows_ahead_of_the_analysis_are_bounded(batches: int, tmp_path: Path) -> None:
    source = ListedSource(fabric_messages(batches, 5))
    capture(source, tmp_path / "c", ALL_TOPICS, "fabric", Range(), buffer_bytes=BUFFER_BYTES)
    folder = WatchedFolder(tmp_path / "c")
    largest_part = max(part.events for part in load_manifest(tmp_path / "c").parts)
    streams = captured_streams(folder, ["pfc", "queue"], RowFilter())
    partitions = sorted({partition for partition, _ in streams.spans})
    released, lookahead, block_events = 0, 30, 10
    for block in blocks(
        folder, partitions, streams, RowFilter(), lookahead_events=lookahead, block_events=block_events
    ):
        rows = sum(len(batch.events) for batch in block.batches)
        # Messages of one time are never apart: one of each partition.
        assert rows <= max(block_events, 5 * len(partitions))
        assert folder.rows - released <= lookahead + (len(partitions) + 1) * largest_part
        released += rows
    assert released == load_manifest(tmp_path / "c").events
    assert released > 2 * (lookahead + (len(partitions) + 1) * largest_part) or batches == min(SIZES)
