"""The library's way to a capture: columns in bounded pieces, the rows that are wanted, and clear errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

import pausetrace
from pausetrace.columns import Columns
from stream.capture_message import Captured
from stream.capture_schema import ROW_GROUP_ROWS
from stream.errors import CaptureError, ConfigError
from tests.stream.capture_samples import START_NS, fabric_messages, message, rows
from tests.stream.chosen_rows import WISHES, PlainRow, Wish, plain_rows, random_messages
from tests.stream.listed_source import capture_listed

MESSAGES = random_messages(seed=11)
ROWS = list(plain_rows(MESSAGES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("read") / "c"
    capture_listed(MESSAGES, path)
    return path


def read(folder: Path, topic: str, wish: Wish) -> list[Columns]:
    filters = {name: value for name, value in wish._asdict().items() if value is not None}
    return list(pausetrace.read_capture(folder, topic, **filters))


def plain(topic: str, columns: Columns) -> list[PlainRow]:
    return [
        PlainRow(topic, *row)
        for row in zip(
            columns.device.tolist(), columns.seq.tolist(), columns.time_ns.tolist(), columns.port.tolist(),
            columns.kind.tolist(), columns.priority.tolist(), columns.flow.tolist(), columns.value.tolist(),
            columns.text.tolist(), strict=True,
        )
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(WISHES)
def test_the_rows_that_are_wanted_come_and_no_other(folder: Path, wish: Wish) -> None:
    assume(wish.from_ns is None or wish.to_ns is None or wish.from_ns < wish.to_ns)
    for topic in ("pfc", "queue"):
        found = [row for columns in read(folder, topic, wish) for row in plain(topic, columns)]
        assert sorted(found) == sorted(row for row in ROWS if row.topic == topic and wish.is_met(row))


def test_each_piece_is_sorted_by_time_and_bounded(tmp_path: Path) -> None:
    batches = [rows("pfc", "leaf-1", 1000, START_NS + i * 10**9, i * 1000, step_ns=10**6) for i in range(70)]
    capture_listed([message(batch, 0, i, START_NS) for i, batch in enumerate(batches)], tmp_path / "c")
    pieces = list(pausetrace.read_capture(tmp_path / "c", "pfc"))
    assert [len(piece) for piece in pieces] == [ROW_GROUP_ROWS, 70_000 - ROW_GROUP_ROWS]
    assert all((np.diff(piece.time_ns) >= 0).all() for piece in pieces)
    assert np.concatenate([piece.seq for piece in pieces]).tolist() == list(range(70_000))


def test_topics_go_by_their_bare_or_full_name(folder: Path) -> None:
    bare, full = (sum(map(len, pausetrace.read_capture(folder, name))) for name in ("pfc", "fabric.pfc"))
    assert bare == full == sum(row.topic == "pfc" for row in ROWS)


def test_measures_have_their_names(tmp_path: Path) -> None:
    capture_listed(fabric_messages(), tmp_path / "c")
    (piece, *_) = pausetrace.read_capture(tmp_path / "c", "queue")
    assert piece.measure("peak_bytes").tolist() == piece.value.tolist()
    assert set(piece.to_dict()) >= {"time_ns", "device", "port", "kind", "value"}


@pytest.mark.parametrize(
    ("topic", "filters", "said"),
    [
        ("link", {}, "topic 'link' has no columns; choose from: pfc"),
        ("pcf", {}, "no topic 'pcf'; choose from: "),
        ("pfc", {"kinds": ["PFC_XOF"]}, "no kind 'PFC_XOF'; "),
        ("pfc", {"kinds": "PFC_XOFF"}, "is one name, not a list of names; give kinds=['PFC_XOFF']"),
        ("pfc", {"devices": "leaf-1"}, "is one name, not a list of names; give devices=['leaf-1']"),
        ("pfc", {"ports": [1]}, "ports=[1] is no list of names"),
        ("pfc", {"devices": None}, "devices=None is no list of names"),
        ("pfc", {"from_ns": 5, "to_ns": 5}, "nothing is between from_ns=5 and to_ns=5"),
        ("pfc", {"from_ns": "now"}, "give whole ns since the Unix epoch"),
        ("pfc", {"priorities": [3, 8]}, "priorities has 8, which is none of them; give a list of numbers 0 to 7"),
        ("pfc", {"priorities": 3}, "priorities=3 is no list of numbers"),
        ("pfc", {"flows": ["00000000000000ff"]}, "give a list of flow ids as int('16 HEX DIGITS', 16)"),
        ("pfc", {"flows": [-1]}, "flows has -1"),
    ],
)
def test_what_cannot_be_meant_is_told_at_the_call(folder: Path, topic: str, filters: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        pausetrace.read_capture(folder, topic, **filters)
    assert said in str(refused.value)


def test_values_that_do_not_decode_are_counted_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    poison = Captured("pfc", 3, 7, START_NS // 10**6, "create", b"dc-1/leaf-1", (), b"PTB1 no packed value")
    capture_listed([*fabric_messages(), poison], tmp_path / "c")
    assert sum(map(len, pausetrace.read_capture(tmp_path / "c", "queue"))) == 40
    assert caplog.messages == []
    assert sum(map(len, pausetrace.read_capture(tmp_path / "c", "pfc"))) == 40
    (said,) = caplog.messages
    assert "1 values of topic pfc do not decode" in said


def test_a_folder_without_a_capture_is_told_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="holds no capture"):
        pausetrace.read_capture(tmp_path, "pfc")


def test_a_damaged_file_is_told_before_a_row_of_it_comes(tmp_path: Path) -> None:
    capture_listed(fabric_messages(), tmp_path / "c")
    file = next((tmp_path / "c/events/topic=pfc").rglob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CaptureError, match=f"{file.name} is damaged"):
        list(pausetrace.read_capture(tmp_path / "c", "pfc"))
