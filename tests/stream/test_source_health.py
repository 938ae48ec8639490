"""What sources lose, how far they are behind and who is silent is told as it is, source by source."""

from __future__ import annotations

from stream.batch import MARK_END, Batch, StreamKey
from stream.kinds import GAP, QUEUE_DEPTH
from stream.record import empty_events
from stream.roster import SourceDown, StreamDown
from stream.source_health import Coverage, SourceTallies, fabric_health

S = 1_000_000_000


def rows(
    device: str, seq: int, count: int, mark_ns: int, *, source: str = "gnmi", lost: int = 0, quality: int = 0
) -> Batch:
    events = empty_events(count)
    events["kind"], events["quality"] = QUEUE_DEPTH, quality
    return Batch(StreamKey("lab", source, "e1", "queue", device), seq, mark_ns, ("p1",), events, lost=lost)


def test_rows_that_came_and_those_lost_on_either_side_make_the_completeness() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 6, S, lost=5), rows("leaf1", 10, 10, 2 * S, lost=9)], 0.0)
    (told,) = tallies.told(7 * S, 1.0)
    # Lost before it was read here are 5, at the source since then 4, on the way rows 6 to 9.
    assert (told.rows, told.lost_rows, told.completeness_ppm) == (16, 8, 666_666)
    assert (told.state, told.time_ns, told.streams) == ("losing", 7 * S, 1)
    (again,) = tallies.told(8 * S, 2.0)
    assert (again.state, again.lost_rows) == ("ok", 8)


def test_rows_that_are_read_again_count_once() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 6, S), rows("leaf1", 0, 6, S), rows("leaf1", 4, 6, S)], 0.0)
    (told,) = tallies.told(S, 0.0)
    assert (told.rows, told.lost_rows) == (10, 0)


def test_a_source_is_as_far_behind_as_its_slowest_stream() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 1, 30 * S), rows("leaf2", 0, 1, 12 * S), rows("h1", 0, 1, 25 * S, source="p")], 0.0)
    told = {each.source: each for each in tallies.told(0, 0.0)}
    assert (told["gnmi"].behind_ns, told["gnmi"].mark_ns, told["gnmi"].state) == (18 * S, 12 * S, "behind")
    assert (told["p"].behind_ns, told["p"].state) == (5 * S, "ok")


def test_who_misses_five_values_while_others_are_heard_is_silent() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 1, S), rows("leaf2", 0, 1, S, source="other")], 0.0)
    # Nobody is heard: that may be Kafka.
    assert tallies.gone(6.0) == frozenset()
    tallies.took([rows("leaf1", 1, 0, 2 * S)], 6.0)
    assert tallies.gone(6.0) == {("lab", "other", "leaf2")}
    assert {told.source: told.state for told in tallies.told(0, 6.0)} == {"gnmi": "ok", "other": "silent"}


def test_a_source_that_says_so_has_ended_and_is_told_of_once() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 3, S), rows("leaf2", 0, 4, S)], 0.0)
    tallies.took([rows("leaf1", 3, 0, MARK_END)], 1.0)
    assert tallies.gone(1.0) == frozenset()
    tallies.took([SourceDown("lab", "gnmi", "e1", 2 * S, (StreamDown("queue", "leaf2", 3),))], 2.0)
    assert tallies.gone(2.0) == {("lab", "gnmi", "")}
    (told,) = tallies.told(9 * S, 2.0)
    assert (told.state, told.streams, told.rows, told.time_ns) == ("ended", 0, 7, 9 * S)
    assert tallies.told(10 * S, 3.0) == []
    tallies.took([rows("leaf1", 0, 1, 3 * S)], 4.0)
    assert [each.state for each in tallies.told(11 * S, 4.0)] == ["ok"]


def test_a_source_that_begins_again_before_it_is_told_of_has_not_ended() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 1, S), rows("leaf1", 1, 0, MARK_END), rows("leaf1", 0, 1, 2 * S)], 0.0)
    assert [each.state for each in tallies.told(0, 0.0)] == ["ok"]


def test_a_stream_without_a_value_for_ten_seconds_is_silent_and_an_idle_value_ends_that() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 1, S), rows("leaf2", 0, 1, S)], 0.0)
    tallies.took([rows("leaf2", 1, 0, 2 * S)], 9.0)
    (told,) = tallies.told(0, 10.5)
    assert (told.state, told.silent) == ("silent", ("leaf1",))
    tallies.took([rows("leaf1", 1, 0, 2 * S)], 11.0)
    (told,) = tallies.told(0, 12.0)
    assert (told.state, told.silent) == ("ok", ())


def test_devices_whose_counters_had_gaps_are_named_once() -> None:
    tallies = SourceTallies("detect")
    tallies.took([rows("leaf1", 0, 3, S, quality=GAP), rows("leaf2", 0, 3, S)], 0.0)
    assert [each.devices_with_gaps for each in tallies.told(0, 0.0)] == [("leaf1",)]
    assert [each.devices_with_gaps for each in tallies.told(0, 0.0)] == [()]


def test_streams_that_end_or_go_to_another_worker_are_told_of_no_more() -> None:
    tallies = SourceTallies("detect")
    for device in ("leaf1", "leaf2", "leaf3", "leaf4"):
        tallies.took([rows(device, 0, 1, S)], 0.0)
    tallies.took([rows("leaf1", 1, 0, MARK_END)], 0.0)
    tallies.took([SourceDown("lab", "gnmi", "e1", 2 * S, (StreamDown("queue", "leaf2", 0),))], 0.0)
    tallies.forget(lambda stream: stream.device == "leaf3")
    (told,) = tallies.told(0, 60.0)
    assert (told.streams, told.silent) == (1, ("leaf4",))


def test_coverage_is_the_part_of_the_switches_that_tells_something() -> None:
    of = Coverage(frozenset({"leaf1", "leaf2", "spine1"}), frozenset({"leaf1"}), {"depth": 1}, 4, 1)
    told = fabric_health("lab", of, "correlate", 9)
    assert (told.switches, told.reporting, told.coverage_ppm) == (3, 1, 333_333)
    assert (told.state, told.silent, told.silent_count) == ("silent", ("leaf2", "spine1"), 2)
    whole = fabric_health("lab", of._replace(reporting=of.switches, streams_suspended=0), "correlate", 9)
    assert (whole.state, whole.coverage_ppm, whole.silent) == ("ok", 1_000_000, ())
