"""In which order a replay sends: as Kafka got the messages, with the roster a little ahead."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from stream.capture_message import Captured
from stream.capture_reader import CaptureFolder
from stream.replay import Run
from stream.replay_check import Origin
from stream.replay_journal import Journal, Replay
from stream.replay_order import AFTER_ALL_MS, ROSTER_LEAD_MS, Due
from stream.replay_pace import Pace
from stream.replay_plan import Options, Plan
from stream.roster import SourceDown, SourceResumed, SourceSuspended, SourceUp, StreamDown, StreamName, StreamUp
from tests.stream.capture_samples import START_NS, fabric_messages, message, rows
from tests.stream.listed_source import capture_listed

SECOND_NS = 1_000_000_000


def due(listed: list[Captured], folder: Path) -> list[Due]:
    capture_listed(listed, folder)
    return list(Plan.of(CaptureFolder(folder), Options()).due())


def late_source(after_s: int) -> list[Captured]:
    """Rows of leaf-1 every second, and a source that comes up and goes down in between."""
    up = SourceUp("dc-1", "source", "boot-1", START_NS, (StreamUp("pfc", "leaf-1"),))
    other = SourceUp("dc-1", "source", "boot-1", START_NS + after_s * SECOND_NS, (StreamUp("pfc", "leaf-2"),))
    end = SourceDown("dc-1", "source", "boot-1", START_NS + after_s * SECOND_NS, (StreamDown("pfc", "leaf-2", 0),))
    at_ns = START_NS + after_s * SECOND_NS
    listed = [message(up, 0, 0, START_NS), message(other, 0, 1, at_ns), message(end, 0, 2, at_ns)]
    for number in range(20):
        now_ns = START_NS + number * SECOND_NS
        listed.append(message(rows("pfc", "leaf-1", 1, now_ns, number, SECOND_NS), 0, number, now_ns))
    listed.append(message(rows("pfc", "leaf-2", 1, at_ns), 1, 0, at_ns))
    return listed


def test_messages_come_in_the_order_of_kafkas_time_and_each_partition_in_its_own(tmp_path: Path) -> None:
    ordered = due(fabric_messages(batches=6), tmp_path / "c")
    rest = [each for each in ordered if each.message.topic != "control"]
    assert [each.at_ms for each in rest] == sorted(each.message.timestamp_ms for each in rest)
    of_partition = defaultdict(list)
    for each in ordered:
        of_partition[each.message.topic, each.message.partition].append(each.message.offset)
    assert all(offsets == sorted(offsets) for offsets in of_partition.values())


def test_the_roster_goes_ahead_of_the_rows_and_keeps_its_own_order(tmp_path: Path) -> None:
    ordered = due(late_source(10), tmp_path / "c")
    control = [each for each in ordered if each.message.topic == "control" and each.at_ms != AFTER_ALL_MS]
    assert [each.message.offset for each in control] == [0, 1, 2]
    assert [each.at_ms for each in control] == [each.message.timestamp_ms - ROSTER_LEAD_MS for each in control]
    before = ordered[: ordered.index(control[2])]
    rows_before = [each.message.timestamp_ms for each in before if each.message.topic == "pfc"]
    assert max(rows_before) < control[2].message.timestamp_ms - ROSTER_LEAD_MS <= max(rows_before) + 1000


def test_a_suspension_goes_before_the_first_value_that_it_is_about_and_overtakes_no_change_before_it(
    tmp_path: Path,
) -> None:
    # leaf-1 stood still at its tenth second; when that was told, its rows of 20 s were on their way.
    at_ns, told_ns = START_NS + 10 * SECOND_NS, START_NS + 30 * SECOND_NS
    stream = (StreamName("pfc", "leaf-1"),)
    listed = [each for each in late_source(5) if each.topic != "control" or each.offset < 2]
    listed.append(message(SourceSuspended("dc-1", "source", "boot-1", at_ns, stream), 0, 2, told_ns))
    listed.append(message(SourceResumed("dc-1", "source", "boot-1", at_ns + SECOND_NS, stream), 0, 3, told_ns))
    ordered = due(listed, tmp_path / "c")
    control = [each for each in ordered if each.message.topic == "control" and each.message.partition == 0]
    assert [each.message.offset for each in control[:4]] == [0, 1, 2, 3]
    assert [each.is_gap for each in control[:4]] == [False, False, True, True]
    reaching = next(each for each in ordered if each.message.topic == "pfc" and each.message.offset == 9)
    assert ordered.index(control[3]) < ordered.index(reaching)
    # The stream comes up in its own time and not with the suspension.
    assert control[1].at_ms == control[1].message.timestamp_ms - ROSTER_LEAD_MS


class RecordingSink:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.bytes = 0
        self.calls: list[str] = []

    def send(self, message: Captured, _origin: Origin) -> None:
        self.calls.append(message.topic)

    def there_already(self, message: Captured, _origin: Origin) -> None:
        raise AssertionError(message)

    def poll(self, wait_s: float) -> None:
        assert wait_s == 0

    def flush(self) -> None:
        self.calls.append("flush")


def test_a_change_of_the_roster_is_on_kafka_before_the_next_row_is_sent(tmp_path: Path) -> None:
    capture_listed(late_source(10), tmp_path / "c")
    plan = Plan.of(CaptureFolder(tmp_path / "c"), Options())
    journal = Journal.begin(Replay("", "", "", plan.topics, False, "", ""), 1, 0, 0, {})
    sink = RecordingSink()
    assert Run(plan, journal, Pace(0), lambda _: None).send_all(sink, set(), lambda: None, lambda: False)
    first = ["control", "flush"]
    assert sink.calls == [*first, *["pfc"] * 7, "control", *first, *["pfc"] * 14, *first]


def test_streams_that_were_alive_when_the_capture_ended_get_an_end_after_all_else(tmp_path: Path) -> None:
    ordered = due(late_source(10), tmp_path / "c")
    last = ordered[-1]
    assert (last.at_ms, last.message.topic, last.message.partition) == (AFTER_ALL_MS, "control", -1)
    assert b'"leaf-1","last_seq":19' in (last.message.value or b"")


def test_a_message_out_of_time_does_not_leave_its_place_in_the_partition(tmp_path: Path) -> None:
    listed = [
        message(rows("pfc", "leaf-1", 1, START_NS + number * SECOND_NS, number), 0, number, START_NS + at_s * SECOND_NS)
        for number, at_s in enumerate((0, 5, 2, 7))
    ]
    sent = [each for each in due(listed, tmp_path / "c") if each.message.topic == "pfc"]
    assert [each.message.offset for each in sent] == [0, 1, 2, 3]
    assert [each.at_ms - sent[0].at_ms for each in sent] == [0, 5000, 5000, 7000]
