"""Every way to damage a capture is named exactly, by `verify` and by the readers."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stream.capture import capture
from stream.capture_manifest import MANIFEST, Manifest, Range, encode_manifest, load_manifest
from stream.capture_verify import verify
from stream.errors import CaptureError
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import ALL_TOPICS, ListedSource, capture_listed, messages_in


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of several parts a partition, which nobody damages."""
    folder = tmp_path_factory.mktemp("original") / "capture"
    source = ListedSource(fabric_messages(batches=9, rows_each=5))
    capture(source, folder, ALL_TOPICS, "fabric", Range(), buffer_bytes=24_000)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(original, tmp_path / "capture")


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def rewrite(folder: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Writes another manifest whose own hash is right."""
    manifest = msgspec.structs.replace(change(load_manifest(folder)), sha256="")
    signed = msgspec.structs.replace(manifest, sha256=manifest.digest())
    (folder / MANIFEST).write_bytes(encode_manifest(signed))


def test_a_whole_capture_is_whole(folder: Path) -> None:
    for rows in (False, True):
        verdict = verify(folder, rows=rows)
        assert verdict.whole
        assert (verdict.problems, verdict.gaps) == ((), ())
        assert (verdict.messages, verdict.events) == (39, 180)
        assert verdict.files == len(files(folder))


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_anywhere_names_its_file(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    path = rng.choice(files(folder))
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))
    assert verify(folder).problems == (f"{path} is damaged: its bytes are not those that were written (SHA-256)",)
    with pytest.raises(CaptureError, match="is damaged: its bytes are not those") as caught:
        messages_in(folder)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(folder: Path) -> None:
    path = files(folder)[3]
    path.unlink()
    assert verify(folder).problems == (f"{path} is missing",)
    with pytest.raises(CaptureError, match="is missing; restore it from a copy, or capture again"):
        messages_in(folder)


@pytest.mark.parametrize("keep", [0, 100])
def test_a_truncated_file_is_named_with_its_sizes(keep: int, folder: Path) -> None:
    path = files(folder)[-1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:keep])
    assert verify(folder).problems == (f"{path} is truncated: {keep} bytes of {size:,}",)
    with pytest.raises(CaptureError, match="is truncated"):
        messages_in(folder)


def test_a_file_too_many_and_one_too_long_are_named(folder: Path) -> None:
    stranger = folder / "events/topic=pfc/hour=2026-09-22T14/copy.parquet"
    stranger.write_bytes(files(folder)[0].read_bytes())
    longer = files(folder)[-1]
    longer.write_bytes(longer.read_bytes() + b"\0")
    told = verify(folder).problems
    assert told[0] == f"{stranger} does not belong to the capture"
    assert told[1].startswith(f"{longer} is too long: ")
    assert len(told) == 2


def test_several_damages_are_all_named(folder: Path) -> None:
    first, second = files(folder)[0], files(folder)[5]
    first.unlink()
    second.write_bytes(b"")
    assert [problem.split(" is ")[0] for problem in verify(folder).problems] == [str(first), str(second)]


def test_a_missing_part_is_a_range_of_offsets(folder: Path) -> None:
    gone = load_manifest(folder).parts_of("pfc")[1]
    for file in gone.files:
        (folder / file.path).unlink()
    rewrite(folder, lambda m: msgspec.structs.replace(m, parts=tuple(part for part in m.parts if part != gone)))
    assert verify(folder).problems == (f"pfc[0]: offsets {gone.first} to {gone.end - 1} are in no part",)


def test_the_last_part_missing_is_a_range_too(folder: Path) -> None:
    gone = load_manifest(folder).parts_of("queue")[-1]
    for file in gone.files:
        (folder / file.path).unlink()
    rewrite(folder, lambda m: msgspec.structs.replace(m, parts=tuple(part for part in m.parts if part != gone)))
    assert verify(folder).problems == (f"queue[1]: offsets {gone.first} to {gone.end - 1} are in no part",)


def test_offsets_that_nobody_accounts_for_are_found(folder: Path) -> None:
    part = load_manifest(folder).parts_of("pfc")[0]
    longer = msgspec.structs.replace(part, messages=part.messages - 1)
    rewrite(folder, lambda m: msgspec.structs.replace(m, parts=tuple(longer if p == part else p for p in m.parts)))
    (problem,) = verify(folder).problems
    assert problem == f"pfc[0], offsets 0 to {part.end - 1}: {part.messages} messages of {part.messages - 1}"
    more = msgspec.structs.replace(part, end=part.end, unselected=3)
    rewrite(folder, lambda m: msgspec.structs.replace(m, parts=tuple(more if p == longer else p for p in m.parts)))
    assert verify(folder).problems == (
        f"pfc[0], offsets 0 to {part.end - 1}: 0 offsets hold no message, of which 3 are accounted for",
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_manifest_is_never_believed(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    path = folder / MANIFEST
    data = bytearray(path.read_bytes())
    # White space says nothing, so a space that becomes another one is no damage.
    places = [at for at, byte in enumerate(data) if chr(byte).isalnum()]
    at = rng.choice(places)
    data[at] = rng.choice([byte for byte in b"0123456789abcdef" if byte != data[at]])
    path.write_bytes(bytes(data))
    with pytest.raises(CaptureError, match=r"_manifest.json (is damaged|is of)"):
        verify(folder)


def test_what_is_no_capture_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="nowhere is no folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(CaptureError, match=r"holds no capture: it has no _manifest\.json"):
        verify(tmp_path)


def test_a_manifest_leads_nobody_out_of_its_folder(tmp_path: Path) -> None:
    capture_listed(fabric_messages(), tmp_path / "c")
    path = tmp_path / "c" / MANIFEST
    path.write_text(path.read_text().replace("events/topic=pfc", "../../events/topic=pfc", 1))
    with pytest.raises(CaptureError, match="is damaged"):
        verify(tmp_path / "c")
