"""Numbers for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pausetrace.units import bytes_text, duration_text, parse_time, share_text, time_text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1_550, "1.55 µs"), (412_345, "412 µs"), (999_499, "999 µs"),
        (999_500, "1 ms"), (1_554_321, "1.55 ms"), (2_300_000_000, "2.3 s"), (119_000_000_000, "119 s"),
        (125_000_000_000, "2 min 5 s"), (5_000_000_000_000, "1 h 23 min"), (-1_554_321, "-1.55 ms"),
    ],
)  # fmt: skip
def test_durations_have_a_sensible_unit(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


def test_bytes_have_decimal_units() -> None:
    assert [bytes_text(count) for count in (0, 999, 2_914_560, 10**13)] == ["0 B", "999 B", "2.91 MB", "10 TB"]


def test_small_and_nearly_whole_shares_are_not_rounded_away() -> None:
    assert [share_text(ppm) for ppm in (0, 5, 1_000, 883_000, 999_500, 1_000_000)] == [
        "0 %", "<0.1 %", "0.1 %", "88.3 %", ">99.9 %", "100 %",
    ]  # fmt: skip


def test_times_are_utc_with_nanoseconds() -> None:
    assert time_text(1_796_076_600_368_238_001) == "2026-11-30T22:10:00.368238001Z"


@given(st.integers(0, 4_000_000_000_000_000_000))
def test_a_time_shown_is_the_time_read(time_ns: int) -> None:
    assert parse_time(time_text(time_ns)) == time_ns
    assert parse_time(time_text(time_ns, local=True)) == time_ns


@pytest.mark.parametrize("text", ["2026-11-30T22:10:00", "yesterday", "2026-11-30T22:10:00.1234567890Z", ""])
def test_a_time_without_zone_or_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


def test_a_zone_is_heeded() -> None:
    assert parse_time("1970-01-01T01:00:00.5+01:00") == 500_000_000
