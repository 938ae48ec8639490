"""Single events for people and as JSON objects."""

import pytest

from pausetrace.columns import Columns
from pausetrace.event_text import Row, measures_text, row_object, rows
from stream import kinds
from tests.pausetrace.sample_batches import PAUSES, QUEUES


def all_rows() -> list[Row]:
    return list(rows(Columns.of([PAUSES, QUEUES])))


def test_a_row_as_json_has_names_units_and_no_empty_fields() -> None:
    assert row_object(all_rows()[2]) == {
        "time": "2025-11-30T22:10:00.001000000Z",
        "time_ns": 1_764_540_600_001_000_000,
        "fabric": "lab",
        "device": "h9",
        "port": "eth1",
        "kind": "PFC_PAUSED",
        "priority": 4,
        "side": "rx",
        "span_ns": 1_000_000,
        "paused_ns": 412_000,
        "xoff_frames": 37,
        "quality": ("ESTIMATED",),
        "source": "probe-h9",
        "seq": 9,
    }


def test_an_unknown_measure_is_null_and_a_measure_without_meaning_is_left_out() -> None:
    shown = row_object(all_rows()[0])
    assert shown["quanta"] is None
    assert row_object(all_rows()[1]).keys().isdisjoint({"quanta", "paused_ns", "flow"})


def test_a_flow_is_shown_by_its_id() -> None:
    assert row_object(all_rows()[3])["flow"] == "0000000000c0ffee"


@pytest.mark.parametrize(
    ("kind", "value", "extra", "text"),
    [
        ("PFC_PAUSED", 412_000, 37, "paused 412 µs, xoff 37 frames"),
        ("PFC_XON", 0, 0, ""),
        ("PFC_XOFF", None, 0, ""),
        ("QUEUE_DEPTH", 240_000, None, "peak 240 kB"),
        ("PORT_BYTES", 2_914_560, 2_000, "2.91 MB, packets 2,000"),
        ("PCIE_RATE", 31_500, 100_000, "rate 31,500 Mb/s, max rate 100,000 Mb/s"),
        ("PCIE_WIDTH", 8, 16, "lanes 8, max 16 lanes"),
        ("LINK_ERRORS", 12, 1, "errors 12, error code 1 (CRC)"),
        ("LINK_ERRORS", 12, 999, "errors 12, error code 999"),
        ("SOURCE_LOST", 5, 3, "lost 5 events, reason code 3 (ring buffer full)"),
        ("PAUSE_INTERVAL", 5_000, 3, "paused 5 µs, order 3"),
        ("CLOCK_OFFSET", -1_500, 100, "offset -1.5 µs, error 100 ns"),
    ],
)
def test_measures_read_as_words_with_units(kind: str, value: int | None, extra: int | None, text: str) -> None:
    row = all_rows()[0]._replace(kind=kind, value=value, extra=extra)
    assert measures_text(row) == text


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_can_be_shown(kind: kinds.Kind) -> None:
    row = all_rows()[0]._replace(kind=kind.name, value=1, extra=1)
    assert bool(measures_text(row)) == bool(kind.value.name or kind.extra.name)
    assert {name for name in (kind.value.name, kind.extra.name) if name} <= row_object(row).keys()


def test_a_text_cannot_send_control_sequences() -> None:
    assert "\x1b" not in measures_text(all_rows()[0]._replace(text="\x1b[2J"))
