"""The table of kinds: codes that never change, names and topics that exist, ranges that fit their units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream import kinds, topics
from stream.kinds import KINDS, Kind, Measure

CODES = Path(__file__).parents[1] / "data" / "kinds.json"
UNITS = {"", "ns", "bytes", "packets", "frames", "events", "errors", "lanes", "MT/s", "Mb/s", "code"}


def test_no_kind_is_ever_renumbered_or_taken_out() -> None:
    pinned = json.loads(CODES.read_text())
    now = {kind.name: kind.code for kind in KINDS}
    assert {name: now.get(name) for name in pinned} == pinned
    assert now == pinned, f"add the new kinds to {CODES.name}"


def test_codes_and_names_are_unique_and_a_code_fits_its_byte() -> None:
    assert len(kinds.BY_CODE) == len(kinds.BY_NAME) == len(KINDS)
    assert all(1 <= kind.code <= 255 for kind in KINDS)
    assert [kind.code for kind in KINDS] == sorted(kind.code for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_is_described_for_people_and_stands_on_a_packed_topic(kind: Kind) -> None:
    assert kind.name.isupper()
    assert kind.name.replace("_", "").isalnum()
    assert kind.topic == "" or kind.topic in topics.PACKED
    assert kind.meaning.endswith(".")
    assert len(kind.meaning) > 20
    assert "*/" not in kind.meaning


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_measure_has_a_name_with_its_unit_and_a_range_that_leaves_unknown_out(kind: Kind) -> None:
    for measure in (kind.value, kind.extra):
        assert kinds.UNKNOWN < measure.low <= measure.high <= kinds.INT64_MAX
        assert (measure.name == "") == (measure.unit == "") == (measure is kinds.NOT_USED)
        assert measure.name.endswith("_ns") == (measure.unit == "ns"), measure.name
        assert measure.name.endswith("_code") == (measure.unit == "code"), measure.name
        if measure.unit in ("bytes", "packets", "frames"):
            assert measure.name.endswith(measure.unit), measure.name
    assert kind.value.name != kind.extra.name or kind.value is kinds.NOT_USED


def test_only_a_clock_offset_can_be_negative() -> None:
    negative = [kind.name for kind in KINDS if min(kind.value.low, kind.extra.low) < 0]
    assert negative == ["CLOCK_OFFSET"]


def test_every_packed_topic_has_a_kind_of_its_own() -> None:
    assert {kind.topic for kind in KINDS} - {""} == set(topics.PACKED)


def test_sides_and_qualities_keep_their_numbers() -> None:
    assert [kinds.SIDES.index(name) for name in ("none", "rx", "tx")] == [kinds.SIDE_NONE, kinds.SIDE_RX, kinds.SIDE_TX]
    assert [kinds.EXACT, kinds.RESET, kinds.WRAP, kinds.GAP, kinds.ESTIMATED, kinds.LATE, kinds.CLOCK_SUSPECT] == [
        1, 2, 4, 8, 16, 32, 64,
    ]  # fmt: skip
    assert [1 << bit for bit in range(len(kinds.QUALITY_BITS))] == [1, 2, 4, 8, 16, 32, 64]


def test_a_measure_without_a_stated_range_takes_every_count() -> None:
    assert (Measure("packets", "packets").low, Measure("packets", "packets").high) == (0, kinds.INT64_MAX)
