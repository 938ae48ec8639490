"""A damaged file is named, with what is wrong with it, by every command and function that reads captures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pausetrace
from pausetrace.cli.main import main
from stream.errors import CaptureError
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import capture_listed


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:99])


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped": (flip, "is damaged: its bytes are not those that were written (SHA-256)"),
    "a folder": (make_a_folder, "is a folder in the place of a file"),
    "missing": (Path.unlink, "is missing"),
    "truncated": (truncate, "is truncated: 99 bytes of "),
}
READERS: dict[str, Callable[[str], int]] = {
    "analyze": lambda folder: main(["analyze", folder]),
    "replay": lambda folder: main(["replay", folder, "--dry-run"]),
    "capture verify": lambda folder: main(["capture", "verify", folder]),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "c"
    capture_listed(fabric_messages(), path)
    return path


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "c")


def the_file(folder: Path, table: str) -> Path:
    return sorted(folder.glob(f"{table}/topic=pfc/*/*.parquet"))[1]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", ["events", "messages"])
def test_every_command_names_the_file(
    damage: str, reader: str, table: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, wrong = DAMAGES[damage]
    path = the_file(folder, table)
    spoil(path)
    assert READERS[reader](str(folder)) == 1
    said = "".join(capsys.readouterr())
    assert f"{path} {wrong}" in said
    assert "Traceback" not in said


def test_what_a_worker_finds_is_told_as_if_it_were_found_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_file(folder, "events")
    flip(path)
    assert main(["analyze", str(folder), "--workers", "2"]) == 1
    assert f"{path} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", ["events", "messages"])
def test_read_capture_names_the_file(damage: str, table: str, folder: Path) -> None:
    spoil, wrong = DAMAGES[damage]
    path = the_file(folder, table)
    spoil(path)
    with pytest.raises(CaptureError, match=re.escape(f"{path} {wrong}")):
        list(pausetrace.read_capture(folder, "pfc"))
