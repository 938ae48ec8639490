"""Captures of past format versions stay readable: each gives back the messages that were put into it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest

from stream.capture_manifest import VERSION, load_manifest
from stream.capture_message import Captured
from stream.capture_schema import COLUMNS
from stream.capture_verify import verify
from tests.stream.capture_format_1 import messages
from tests.stream.listed_source import in_place, messages_in

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
VERSIONS = range(1, VERSION + 1)


def put_in(version: int) -> list[Captured]:
    data = (CAPTURES / f"format-{version}.msgpack").read_bytes()
    return [
        Captured._make((*rest, tuple((name, value) for name, value in headers), value))
        for *rest, headers, value in msgspec.msgpack.decode(data)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_capture_of_every_format_gives_back_what_was_put_in(version: int) -> None:
    folder = CAPTURES / f"format-{version}"
    assert load_manifest(folder).plan.version == version
    assert messages_in(folder) == in_place(put_in(version))
    verdict = verify(folder, rows=True)
    assert verdict.problems == ()
    assert [gap.split(" ")[0] for gap in verdict.gaps] == ["ecn[1]@0:"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_capture_of_every_format_has_the_columns_that_the_page_names(version: int) -> None:
    for table, columns in COLUMNS.items():
        found = ds.dataset(CAPTURES / f"format-{version}" / table, partitioning=None).schema.names
        assert found == [column.name for column in columns]


def test_the_messages_of_format_1_are_those_of_its_script() -> None:
    assert put_in(1) == messages()
