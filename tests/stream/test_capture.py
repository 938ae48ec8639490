"""Captures from listed messages: what is kept, how the files lie, what is counted, and going on after a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stream.capture import capture
from stream.capture_manifest import JOURNAL, MANIFEST, Gap, OffsetRange, Range, load_manifest
from stream.capture_message import Captured
from stream.capture_verify import verify
from stream.errors import CaptureError, ConfigError
from stream.offset_gaps import RETENTION, PartitionId
from tests.stream.capture_samples import HOUR_NS, START_NS, STEP_NS, fabric_messages, message, rows
from tests.stream.listed_source import (
    ALL_TOPICS,
    ListedSource,
    UnpluggedError,
    capture_listed,
    in_place,
    messages_in,
)

PFC = PartitionId("pfc", 0)


def paths(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


def test_files_lie_by_table_topic_and_hour_and_are_sorted_by_time(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    manifest = capture_listed([message(rows("pfc", "leaf-1", 12, START_NS), 3, 0, START_NS)], folder)
    assert paths(folder) == [
        "events/topic=pfc/hour=2026-09-22T14/p3-000000.parquet",
        "events/topic=pfc/hour=2026-09-22T15/p3-000000.parquet",
        "messages/topic=pfc/hour=2026-09-22T14/p3-000000.parquet",
    ]
    first, second, _ = (pq.read_table(folder / path, partitioning=None) for path in paths(folder))
    assert first["time_ns"].to_pylist() == [START_NS + i * STEP_NS for i in range(6)]
    assert second["time_ns"].to_pylist() == [START_NS + i * STEP_NS for i in range(6, 12)]
    assert (manifest.messages, manifest.events, manifest.gaps) == (1, 12, 0)
    assert not (folder / JOURNAL).exists()


def test_rows_of_several_messages_are_merged_by_time(tmp_path: Path) -> None:
    late = rows("pfc", "leaf-2", 3, START_NS + 1)
    capture_listed(
        [message(rows("pfc", "leaf-1", 3, START_NS), 0, 0, START_NS), message(late, 0, 1, START_NS)], tmp_path / "c"
    )
    table = pq.read_table(tmp_path / "c" / paths(tmp_path / "c")[0], partitioning=None)
    assert table["device"].to_pylist() == ["leaf-1", "leaf-2"] * 3
    assert table["offset"].to_pylist() == [0, 1] * 3
    assert table["row"].null_count == 6


def test_row_groups_tell_their_times_so_that_readers_can_pass_over_them(tmp_path: Path) -> None:
    batches = [rows("pfc", "leaf-1", 1000, START_NS + n * 10**9, n * 1000, step_ns=10**6) for n in range(70)]
    listed = [message(batch, 0, offset, START_NS) for offset, batch in enumerate(batches)]
    capture_listed(listed, tmp_path / "c")
    metadata = pq.ParquetFile(tmp_path / "c" / paths(tmp_path / "c")[0]).metadata
    groups = [metadata.row_group(number).column(0) for number in range(metadata.num_row_groups)]
    assert [group.path_in_schema for group in groups] == ["time_ns"] * 2
    assert groups[0].statistics.min == START_NS
    assert groups[0].statistics.max < groups[1].statistics.min
    assert all(group.has_offset_index and group.has_column_index for group in groups)


def test_rows_of_very_many_hours_share_a_file(tmp_path: Path) -> None:
    capture_listed([message(rows("pfc", "leaf-1", 500, START_NS, step_ns=HOUR_NS), 0, 0, START_NS)], tmp_path / "c")
    assert paths(tmp_path / "c")[0] == "events/topic=pfc/hour=mixed/p0-000000.parquet"
    assert len(messages_in(tmp_path / "c")) == 1


def test_a_range_of_event_time_keeps_whole_messages_and_all_that_came_before_of_the_roster(tmp_path: Path) -> None:
    listed = fabric_messages(batches=4, rows_each=6)  # one batch an hour
    wanted = Range("event", START_NS + HOUR_NS + 1, START_NS + 2 * HOUR_NS + 1)
    manifest = capture_listed(listed, tmp_path / "c", wanted)
    kept = messages_in(tmp_path / "c")
    assert [m.offset for m in kept if m.topic == "pfc"] == [1, 2, 1, 2]
    assert [m.topic for m in kept if m.topic in ("control", "link")] == ["link", "control"]
    assert sum(part.unselected for part in manifest.parts) == len(listed) - len(kept)
    assert verify(tmp_path / "c").whole


def test_what_kafka_had_lost_is_named_and_what_it_never_had_is_counted(tmp_path: Path) -> None:
    listed = [message(rows("pfc", "leaf-1", 1, START_NS), 0, offset, START_NS) for offset in (4, 5, 9)]
    listed += [Captured("cascade", 0, offset, 1, "create", b"k", (), b"{}") for offset in (0, 2)]
    source = ListedSource(
        listed, begins={PFC: 2}, ends={PFC: 12, PartitionId("cascade", 0): 4, PartitionId("ecn", 0): 0}
    )
    manifest = capture(source, tmp_path / "c", ALL_TOPICS, "fabric", Range())
    (pfc,) = manifest.parts_of("pfc")
    assert pfc.gaps == (Gap(2, 4, RETENTION), Gap(6, 9, RETENTION), Gap(10, 12, RETENTION))
    (cascade,) = manifest.parts_of("cascade")
    assert (cascade.gaps, cascade.natural) == ((), 2)
    assert manifest.gaps == 7
    verdict = verify(tmp_path / "c")
    assert verdict.whole
    assert verdict.gaps[0] == f"pfc[0]@2: 2 messages {RETENTION}"


def offsets(first: int, end: int, partition: int = 0) -> Range:
    return Range("offset", offsets=(OffsetRange("pfc", partition, first, end),))


@pytest.mark.parametrize(
    ("wanted", "notes"),
    [
        (offsets(0, -1), ["pfc[0] begins at offset 5, and 0 was asked for"]),
        (offsets(5, 8), []),
        (offsets(5, 200, -1), ["pfc[0] ends at offset 8, and up to 200 were asked for"]),
    ],
)
def test_offsets_that_kafka_does_not_have_are_told_also_when_the_capture_goes_on(
    wanted: Range, notes: list[str], tmp_path: Path
) -> None:
    listed = [message(rows("pfc", "leaf-1", 2, START_NS), 0, offset, START_NS) for offset in (5, 6, 7)]
    for fail_after in (1, None):
        told: list[str] = []
        try:
            source = ListedSource(listed, fail_after=fail_after, at_a_time=1)
            capture(source, tmp_path / "c", ("pfc",), "fabric", wanted, tell=told.append)
        except UnpluggedError:
            assert fail_after
        assert told == notes


def test_a_range_of_times_in_which_nothing_happened_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    source = ListedSource(fabric_messages())
    capture(source, tmp_path / "c", ALL_TOPICS, "fabric", Range("event", 0, START_NS // 2), tell=told.append)
    assert told == ["no event lies in the range asked for"]


def test_a_capture_of_offsets_of_which_there_is_none_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = ListedSource([], begins={PFC: 9}, ends={PFC: 9})
    with pytest.raises(ConfigError, match=r"no message of the offsets asked for: pfc\[0\] .* it ends at 9"):
        capture(source, tmp_path / "new" / "c", ("pfc",), "fabric", offsets(100, 200))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("folder", "advice"), [("/proc/x1", "choose a folder where files can be written")])
def test_a_folder_that_cannot_be_made_is_told_with_what_to_do(folder: str, advice: str) -> None:
    with pytest.raises(CaptureError, match=advice):
        capture(ListedSource([]), Path(folder), ("pfc",), "fabric", Range())


def test_parts_are_written_when_memory_is_full_and_memory_stays_bounded(tmp_path: Path) -> None:
    listed = fabric_messages(batches=9, rows_each=5)
    manifest = capture(ListedSource(listed), tmp_path / "c", ALL_TOPICS, "fabric", Range(), buffer_bytes=24_000)
    assert len(manifest.parts_of("pfc")) > 2
    assert messages_in(tmp_path / "c") == in_place(listed)
    assert verify(tmp_path / "c", rows=True).whole


@pytest.mark.parametrize("fail_after", [0, 1, 7, 20, 38])
def test_a_capture_that_failed_goes_on_where_its_last_part_ended(fail_after: int, tmp_path: Path) -> None:
    listed = fabric_messages(batches=9, rows_each=5)
    folder = tmp_path / "c"
    source = ListedSource(listed, fail_after=fail_after)
    with pytest.raises(UnpluggedError):
        capture(source, folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=24_000)
    with pytest.raises(CaptureError, match="not finished; run the same"):
        load_manifest(folder)
    again = ListedSource(listed)
    capture(again, folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=24_000)
    assert messages_in(folder) == in_place(listed)
    assert verify(folder, rows=True).whole
    if fail_after == 38:
        assert again.given < len(listed)


def test_what_a_killed_process_left_behind_is_thrown_away(tmp_path: Path) -> None:
    listed, folder = fabric_messages(), tmp_path / "c"
    source = ListedSource(listed, fail_after=12)
    with pytest.raises(UnpluggedError):
        capture(source, folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=9_000)
    (folder / "_partial").mkdir(exist_ok=True)
    (folder / "_partial/p0-000009.parquet").write_bytes(b"half of a fi")
    stranger = folder / "events/topic=pfc/hour=2026-09-22T14/p0-000777.parquet"
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_bytes(b"whole, but not in the journal")
    with (folder / JOURNAL).open("ab") as journal:
        journal.write(b'{"line":"part","topic":"pfc","parti')
    capture_listed(listed, folder)
    assert messages_in(folder) == in_place(listed)
    assert verify(folder).whole
    assert not stranger.exists()


def test_another_capture_is_never_mixed_in(tmp_path: Path) -> None:
    listed, folder = fabric_messages(), tmp_path / "c"
    with pytest.raises(UnpluggedError):
        capture(ListedSource(listed, fail_after=5), folder, ALL_TOPICS, "fabric", Range())
    with pytest.raises(CaptureError, match=r"unfinished capture of something else: prefix fabric, topics pfc, .*all"):
        capture(ListedSource(listed), folder, ALL_TOPICS, "other", Range())
    with pytest.raises(CaptureError, match="something else"):
        capture(ListedSource(listed), folder, ALL_TOPICS, "fabric", Range("event", 5))
    elsewhere = ListedSource(listed)
    elsewhere.cluster_id = "elsewhere"
    with pytest.raises(CaptureError, match="of cluster listed, and this is elsewhere"):
        capture(elsewhere, folder, ALL_TOPICS, "fabric", Range())
    capture_listed(listed, folder)
    with pytest.raises(CaptureError, match="holds a finished capture; choose another folder"):
        capture_listed(listed, folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter").write_text("dear reader")
    with pytest.raises(CaptureError, match="is not empty and holds no capture"):
        capture_listed(listed, tmp_path / "full")


def test_the_manifest_says_what_the_capture_is_of(tmp_path: Path) -> None:
    capture_listed(fabric_messages(), tmp_path / "c")
    told = json.loads((tmp_path / "c" / MANIFEST).read_text())
    assert told["plan"]["format"] == "pausetrace-capture"
    assert told["plan"]["prefix"] == "fabric"
    assert told["plan"]["made_by"].startswith("pausetrace ")
    assert {file["path"] for part in told["parts"] for file in part["files"]} == set(paths(tmp_path / "c"))
