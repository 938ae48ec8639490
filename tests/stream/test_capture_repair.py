"""A capture with damaged files, finished or not: the same command captures what was in them again, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stream.capture import capture
from stream.capture_manifest import Manifest, Part, Range, load_manifest
from stream.capture_message import Captured
from stream.capture_verify import verify
from stream.errors import CaptureError
from stream.offset_gaps import PartitionId
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import ALL_TOPICS, ListedSource, UnpluggedError, in_place, messages_in

LISTED = fabric_messages(batches=6, rows_each=5)


def run(source: ListedSource, folder: Path, told: list[str] | None = None) -> Manifest:
    tell = (lambda _: None) if told is None else told.append
    return capture(source, folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=24_000, tell=tell)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished capture of several parts a partition."""
    folder = tmp_path_factory.mktemp("original") / "capture"
    run(ListedSource(LISTED), folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(original, tmp_path / "capture")


def middle_part(folder: Path) -> Part:
    return load_manifest(folder).parts_of("pfc")[1]


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("table", ["events", "messages"])
def test_what_was_in_a_damaged_file_is_captured_again(damage: Callable[[Path], None], table: str, folder: Path) -> None:
    before, part = load_manifest(folder), middle_part(folder)
    path = next(folder / file.path for file in part.files if file.table == table)
    damage(path)
    (wrong,) = verify(folder).problems
    source, told = ListedSource(LISTED), list[str]()
    after = run(source, folder, told)
    assert told == [f"{wrong}: pfc[0], offsets {part.first} to {part.end - 1} are captured again"]
    assert source.given == part.messages
    assert verify(folder, rows=True).whole
    assert messages_in(folder) == in_place(LISTED)
    assert (after.messages, after.events) == (before.messages, before.events)
    # The same messages make the same bytes.
    assert sorted(file.sha256 for p in after.parts for file in p.files) == sorted(
        file.sha256 for p in before.parts for file in p.files
    )


def test_an_unfinished_capture_is_looked_through_before_it_goes_on(tmp_path: Path) -> None:
    with pytest.raises(UnpluggedError):
        run(ListedSource(LISTED, fail_after=20), tmp_path / "c")
    path = min(tmp_path.rglob("*.parquet"))
    flip(path)
    told: list[str] = []
    run(ListedSource(LISTED), tmp_path / "c", told)
    assert len(told) == 1
    assert told[0].startswith(f"{path} is damaged")
    assert verify(tmp_path / "c", rows=True).whole
    assert messages_in(tmp_path / "c") == in_place(LISTED)


def test_every_file_gone_is_a_capture_from_the_beginning(folder: Path) -> None:
    for path in folder.rglob("*.parquet"):
        path.unlink()
    run(ListedSource(LISTED), folder)
    assert verify(folder, rows=True).whole
    assert messages_in(folder) == in_place(LISTED)


@pytest.mark.parametrize("fail_after", [0, 5, 10])
def test_a_repair_that_failed_goes_on(fail_after: int, folder: Path) -> None:
    for path in sorted(folder.rglob("*.parquet"))[::2]:
        flip(path)
    with pytest.raises(UnpluggedError):
        run(ListedSource(LISTED, fail_after=fail_after), folder)
    with pytest.raises(CaptureError, match="is not finished"):
        messages_in(folder)
    run(ListedSource(LISTED), folder)
    assert verify(folder, rows=True).whole
    assert messages_in(folder) == in_place(LISTED)


def without_the_first(messages: list[Captured], first: int) -> ListedSource:
    """Kafka, when it has pfc[0] from an offset on."""
    kept = [m for m in messages if (m.topic, m.partition) != ("pfc", 0) or m.offset >= first]
    return ListedSource(kept, begins={PartitionId("pfc", 0): first})


def test_what_kafka_no_longer_has_is_left_as_it_is(folder: Path) -> None:
    part = middle_part(folder)
    flip(folder / part.files[0].path)
    before = load_manifest(folder)
    with pytest.raises(CaptureError, match="is damaged, and Kafka no longer has what was in its 1 damaged parts; rest"):
        run(without_the_first(LISTED, part.end), folder)
    assert load_manifest(folder) == before
    assert [problem.split(" is ")[0] for problem in verify(folder).problems] == [str(folder / part.files[0].path)]


def test_what_kafka_still_has_is_captured_again_beside_what_it_has_not(folder: Path) -> None:
    first, second = load_manifest(folder).parts_of("pfc")[:2]
    for part in (first, second):
        flip(folder / part.files[0].path)
    told: list[str] = []
    run(without_the_first(LISTED, second.first), folder, told)
    assert [text.rsplit(": ", 1)[1] for text in told] == [
        f"pfc[0], offsets 0 to {first.end - 1} cannot be captured again, since Kafka has them from {second.first} on",
        f"pfc[0], offsets {second.first} to {second.end - 1} are captured again",
    ]
    assert [problem.split(" is ")[0] for problem in verify(folder).problems] == [str(folder / first.files[0].path)]


def test_a_capture_of_something_else_is_never_repaired(folder: Path) -> None:
    flip(min(folder.rglob("*.parquet")))
    with pytest.raises(CaptureError, match="holds a finished capture of something else: prefix fabric, topics pfc"):
        capture(ListedSource(LISTED), folder, ALL_TOPICS, "other", Range())
