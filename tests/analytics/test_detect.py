"""detect: each stream for itself becomes pauses and evidence, whatever is lost, doubled, late or without an end."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.detect import NO_PORT, Detect, episode_stream
from stream import kinds
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import PausetraceError
from stream.messages import Item, encode
from stream.record import Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.analytics.story import event

PFC = StreamKey("lab", "tap", "e1", "pfc", "leaf0")
XOFF, XON = kinds.PFC_XOFF, kinds.PFC_XON
PORTS = ("d0", "d1")


def frame(kind: int, time_ns: int, port: int = 0, priority: int = 3, side: int = kinds.SIDE_RX) -> Events:
    return event(kind, time_ns, port=port, priority=priority, side=side)


def value(seq: int, *rows: Events, mark_ns: int | None = None, lost: int = 0, stream: StreamKey = PFC) -> Batch:
    """A value of the stream; without a mark it is that of its last row."""
    events = np.concatenate([empty_events(0), *rows])
    if mark_ns is None:
        mark_ns = int(events["time_ns"][-1])
    return Batch(stream, seq, mark_ns, PORTS, events, lost)


def down(last_seq: int, at_ns: int, stream: StreamKey = PFC) -> SourceDown:
    return SourceDown("lab", "tap", "e1", at_ns, (StreamDown(stream.topic, stream.device, last_seq),))


def told(items: list[Item]) -> list[tuple[str, str, int, int, int]]:
    """Kind, port, time, duration and order of the rows that came out."""
    rows = []
    for batch in items:
        assert isinstance(batch, Batch)
        if len(batch.events) <= MAX_EVENTS:
            encode(batch)
        for row in batch.events:
            kind = kinds.BY_CODE[int(row["kind"])].name
            rows.append((kind, batch.ports[row["port"]], int(row["time_ns"]), int(row["span_ns"]), int(row["extra"])))
    return rows


def marks(items: list[Item]) -> list[int]:
    return [item.mark_ns for item in items if isinstance(item, Batch)]


def test_a_pause_is_told_when_it_opens_and_again_when_it_ends() -> None:
    detect = Detect()
    assert told(detect.process([value(0, frame(XOFF, 10))])) == [("PAUSE_OPEN", "d0", 10, 0, 1)]
    assert told(detect.process([value(1, frame(XON, 25))])) == [("PAUSE_INTERVAL", "d0", 25, 15, 1)]


def test_the_output_is_a_stream_of_its_own_numbered_from_zero() -> None:
    detect = Detect()
    (first,) = detect.process([value(5, frame(XOFF, 10), frame(XON, 20))])
    (second,) = detect.process([value(7, frame(XOFF, 30))])
    assert isinstance(first, Batch)
    assert isinstance(second, Batch)
    assert first.stream == second.stream == StreamKey("lab", "tap|pfc", "e1", "episode", "leaf0")
    assert (first.seq, second.seq) == (0, len(first.events))


def test_a_second_xoff_refreshes_the_pause_and_makes_no_row() -> None:
    detect = Detect()
    rows = told(detect.process([value(0, frame(XOFF, 10), frame(XOFF, 20), frame(XON, 30))]))
    assert rows == [("PAUSE_OPEN", "d0", 10, 0, 1), ("PAUSE_INTERVAL", "d0", 30, 20, 1)]
    assert detect.counters["pause_refreshes"] == 1


def test_an_xon_without_a_pause_is_counted_and_makes_no_row() -> None:
    detect = Detect()
    assert told(detect.process([value(0, frame(XON, 10))])) == []
    assert detect.counters["unmatched_xons"] == 1


@pytest.mark.parametrize("mark_ns", [5, 10, 15, 30])
@pytest.mark.parametrize("at_ns", [0, 12, 40])
def test_an_end_told_before_the_rows_is_the_same_as_one_told_after_them(mark_ns: int, at_ns: int) -> None:
    # It begins within the stream, so that a loss of unknown size is told as well.
    batch, end = value(7, frame(XOFF, 10), frame(XON, 20), frame(XOFF, 20), mark_ns=mark_ns), down(9, at_ns)
    before, after = Detect(), Detect()
    assert told(before.process([end, batch])) == told(after.process([batch, end]))


def test_ports_priorities_and_sides_are_paused_apart() -> None:
    detect = Detect()
    frames = [
        frame(XOFF, 10),
        frame(XOFF, 11, port=1),
        frame(XOFF, 12, priority=5),
        frame(XOFF, 13, side=kinds.SIDE_TX),
    ]
    assert [row[4] for row in told(detect.process([value(0, *frames)]))] == [1, 1, 1, 1]
    rows = told(detect.process([value(4, frame(XON, 20, priority=5))]))
    assert rows == [("PAUSE_INTERVAL", "d0", 20, 8, 1)]


def test_rows_out_of_order_within_the_mark_are_put_in_order() -> None:
    detect = Detect()
    assert told(detect.process([value(0, frame(XON, 20), mark_ns=5)])) == []
    rows = told(detect.process([value(1, frame(XOFF, 10), mark_ns=20)]))
    assert rows == [("PAUSE_OPEN", "d0", 10, 0, 1), ("PAUSE_INTERVAL", "d0", 20, 10, 1)]


def test_rows_of_one_instant_stay_in_the_order_of_their_stream() -> None:
    detect = Detect()
    rows = told(detect.process([value(0, frame(XOFF, 10), frame(XON, 10), frame(XOFF, 10), mark_ns=10)]))
    assert [(row[0], row[4]) for row in rows] == [("PAUSE_OPEN", 1), ("PAUSE_INTERVAL", 1), ("PAUSE_OPEN", 2)]


def test_rows_older_than_a_mark_that_was_sent_are_late_and_counted() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10), mark_ns=50)])
    assert told(detect.process([value(1, frame(XON, 49), mark_ns=60)])) == []
    assert detect.counters["late_rows"] == 1
    assert told(detect.process([value(2, frame(XON, 60), mark_ns=60)])) == [("PAUSE_INTERVAL", "d0", 60, 50, 1)]


def test_rows_that_are_read_again_count_once() -> None:
    detect = Detect()
    once = value(0, frame(XOFF, 10), frame(XON, 20))
    detect.process([once])
    overlap = value(1, frame(XON, 20), frame(XOFF, 30))
    assert told(detect.process([once, overlap])) == [("PAUSE_OPEN", "d0", 30, 0, 2)]
    assert detect.counters["duplicate_rows"] == 3


def test_a_gap_in_the_numbers_becomes_a_row_that_says_what_was_lost() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10))])
    (out,) = detect.process([value(4, frame(XON, 30))])
    rows = told([out])
    assert rows[0] == ("SOURCE_LOST", NO_PORT, 30, 0, 4)
    assert isinstance(out, Batch)
    assert int(out.events["value"][0]) == 3
    assert detect.counters["lost_rows"] == 3


def test_a_loss_without_rows_is_told_at_the_last_mark() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10))])
    (out,) = detect.process([value(4, mark_ns=70)])
    assert told([out]) == [("SOURCE_LOST", NO_PORT, 70, 0, 4)]


def test_a_loss_at_the_very_end_is_told_at_a_time_that_was() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10)), down(4, 90)])
    rows = told(detect.process([value(5, mark_ns=MARK_END)]))
    assert rows == [("SOURCE_LOST", NO_PORT, 10, 0, 4), ("PAUSE_INTERVAL", "d0", 90, 80, 1)]


def test_events_that_the_source_says_it_lost_are_told_once() -> None:
    detect = Detect()
    (out,) = detect.process([value(0, frame(XOFF, 10), lost=7)])
    assert isinstance(out, Batch)
    assert int(out.events["value"][0]) == 7
    assert told(detect.process([value(1, frame(XON, 20), lost=7)])) == [("PAUSE_INTERVAL", "d0", 20, 10, 1)]


def test_a_stream_that_is_joined_late_has_lost_an_unknown_number_of_rows() -> None:
    detect = Detect()
    (out,) = detect.process([value(100, frame(XOFF, 10))])
    assert isinstance(out, Batch)
    assert out.events["value"].tolist() == [kinds.UNKNOWN, 0]
    assert detect.counters["streams_joined_late"] == 1
    assert detect.counters["lost_rows"] == 0


def test_values_of_a_stream_that_come_together_go_out_together() -> None:
    apart, together = Detect(), Detect()
    other = StreamKey("lab", "tap", "e1", "pfc", "leaf1")
    values = [value(0, frame(XOFF, 10)), value(0, frame(XOFF, 15), stream=other), value(1, frame(XON, 20)),
              value(3, mark_ns=30)]  # fmt: skip
    singly = [row for each in values for row in told(apart.process([each]))]
    first, second = together.process(values)
    assert sorted(told([first, second])) == sorted(singly)
    assert marks([first, second]) == [30, 15]
    assert together.snapshot() == apart.snapshot()


def test_an_idle_value_moves_the_mark() -> None:
    detect = Detect()
    assert marks(detect.process([value(0, mark_ns=1_000)])) == [1_000]


def test_more_rows_than_a_value_holds_go_out_in_several_whose_marks_hold() -> None:
    detect = Detect()
    waiting = [
        value(i * 16, *[frame((XOFF, XON)[i % 2], 1_000 * (i + 1) + row, port=row % 2, priority=row // 2)
                        for row in range(16)], mark_ns=0)
        for i in range(100)
    ]  # fmt: skip
    out = detect.process([*waiting, value(1600, mark_ns=200_000)])
    batches = [item for item in out if isinstance(item, Batch) and len(item.events)]
    assert [len(batch.events) for batch in batches] == [MAX_EVENTS, 1600 - MAX_EVENTS]
    assert [batch.seq for batch in batches] == [0, MAX_EVENTS]
    assert batches[0].mark_ns <= int(batches[1].events["time_ns"][0])
    assert batches[1].mark_ns == 200_000
    whole = Detect(most_rows=1600).process([*waiting, value(1600, mark_ns=200_000)])
    assert told(whole) == told(out)
    assert [(batch.seq, len(batch.events)) for batch in whole if isinstance(batch, Batch)] == [(0, 1600)]


def test_windows_of_a_counter_that_tell_nothing_are_not_forwarded_but_states_of_zero_are() -> None:
    detect = Detect()
    queue = StreamKey("lab", "tap", "e1", "queue", "leaf0")
    rows = [event(kinds.QUEUE_DEPTH, 10, value=0), event(kinds.QUEUE_DEPTH, 20, value=9)]
    assert [row[2] for row in told(detect.process([value(0, *rows, stream=queue)]))] == [20]
    pcie = StreamKey("lab", "tap", "e1", "pcie", "h0")
    assert [row[0] for row in told(detect.process([value(0, event(kinds.PCIE_WIDTH, 10, value=0, extra=16),
                                                         stream=pcie)]))] == ["PCIE_WIDTH"]  # fmt: skip
    watchdog = event(kinds.BY_NAME["PFC_WATCHDOG"].code, 10, value=0)
    assert [row[0] for row in told(detect.process([value(0, watchdog)]))] == ["PFC_WATCHDOG"]


def test_what_correlate_does_not_ask_for_is_not_forwarded() -> None:
    detect = Detect()
    host = StreamKey("lab", "tap", "e1", "host", "h0")
    assert told(detect.process([value(0, event(kinds.BY_NAME["CLOCK_OFFSET"].code, 10, value=9), stream=host)])) == []


# The end of a stream


def test_source_down_ends_open_pauses_and_the_stream_once_the_last_row_has_been_read() -> None:
    detect = Detect()
    assert detect.process([down(1, 50)]) == []
    assert marks(detect.process([value(0, frame(XOFF, 10))])) == [10]
    out = detect.process([value(1, frame(XOFF, 20, port=1))])
    assert marks(out) == [MARK_END]
    assert told(out) == [
        ("PAUSE_OPEN", "d1", 20, 0, 1), ("PAUSE_INTERVAL", "d0", 50, 40, 1), ("PAUSE_INTERVAL", "d1", 50, 30, 1),
    ]  # fmt: skip
    assert isinstance(out[0], Batch)
    assert out[0].events["quality"].tolist() == [0, kinds.ESTIMATED, kinds.ESTIMATED]
    assert detect.counters["pauses_ended_by_source_down"] == 2


def test_the_end_of_all_priorities_and_sides_is_told_as_they_were_opened() -> None:
    detect = Detect()
    opened = [frame(XOFF, 10, priority=kinds.NO_PRIORITY), frame(XOFF, 10, priority=7, side=kinds.SIDE_TX)]
    *_, out = detect.process([value(0, *opened), down(1, 60)])
    assert isinstance(out, Batch)
    assert sorted(zip(out.events["priority"].tolist(), out.events["side"].tolist(), strict=True)) == [(7, 2), (255, 1)]


def test_rows_that_wait_for_their_mark_are_told_when_the_stream_ends() -> None:
    detect = Detect()
    out = detect.process([value(0, frame(XOFF, 10), frame(XON, 99), mark_ns=10), down(1, 100)])
    assert told(out) == [("PAUSE_OPEN", "d0", 10, 0, 1), ("PAUSE_INTERVAL", "d0", 99, 89, 1)]


def test_a_source_that_says_it_ended_before_what_it_told_sends_no_row_that_is_late() -> None:
    detect = Detect()
    out = detect.process([value(0, frame(XOFF, 10), mark_ns=500), down(0, 50)])
    assert marks(out) == [500, MARK_END]
    assert told(out)[-1] == ("PAUSE_INTERVAL", "d0", 500, 490, 1)


def test_pauses_that_end_before_other_rows_go_out_before_them() -> None:
    detect = Detect()
    flood = [frame(XOFF, 1_000 + row, port=1, priority=row % 8) for row in range(1_000)]
    windows = [event(kinds.PFC_PAUSED, 5_000 + row, value=1, span_ns=1) for row in range(1_100)]
    out = detect.process(
        [value(0, frame(XOFF, 10), mark_ns=10), value(1, *flood, mark_ns=10), value(1001, *windows[:1000], mark_ns=10),
         value(2001, *windows[1000:], mark_ns=10), down(2100, 2_000)]
    )  # fmt: skip
    last = -1
    for batch in out:
        assert isinstance(batch, Batch)
        assert not len(batch.events) or int(batch.events["time_ns"].min()) >= last
        last = batch.mark_ns
    assert last == MARK_END


def test_a_stream_without_a_single_row_ends_by_its_source_down() -> None:
    detect = Detect()
    assert detect.process([down(-1, 50)]) == []
    assert marks(detect.process([value(0, mark_ns=20)])) == [MARK_END]


def test_rows_after_the_end_are_counted_and_dropped() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10)), down(0, 50)])
    assert detect.process([value(1, frame(XON, 60))]) == []
    assert detect.counters["rows_after_the_end"] == 1


def test_a_source_that_comes_up_again_before_its_end_was_reached_goes_on() -> None:
    detect = Detect()
    up = SourceUp("lab", "tap", "e1", 0, (StreamUp("pfc", "leaf0"),))
    out = detect.process([value(0, frame(XOFF, 10)), down(5, 50), up, value(1, frame(XON, 20), mark_ns=60)])
    assert marks(out) == [10, 60]


def test_values_of_topics_that_are_not_raw_are_counted() -> None:
    detect = Detect()
    assert detect.process([value(0, mark_ns=1, stream=episode_stream(PFC))]) == []
    assert detect.counters["items_of_other_topics"] == 1


def test_unknown_kinds_are_counted_and_number_the_rows_after_them() -> None:
    detect = Detect()
    rows = np.concatenate([frame(XOFF, 10), frame(XON, 30)])
    skipped = Batch(PFC, 0, 30, PORTS, rows, skipped=2, positions=np.array([0, 3]))
    assert len(told(detect.process([skipped]))) == 2
    assert detect.counters["unknown_kinds"] == 2
    assert told(detect.process([value(4, frame(XOFF, 40))])) == [("PAUSE_OPEN", "d0", 40, 0, 2)]


# State


def test_a_stream_that_is_forgotten_is_read_from_its_start_again() -> None:
    detect = Detect()
    other = StreamKey("lab", "tap", "e1", "pfc", "leaf1")
    first, second = value(0, frame(XOFF, 10)), value(0, frame(XOFF, 10), stream=other)
    before = detect.process([first, second])
    detect.forget(lambda stream: stream.device == "leaf0")
    again = detect.process([first, second])
    assert told(again) == told(before[:1])
    assert detect.counters["duplicate_rows"] == 1


def test_a_forgotten_stream_still_knows_its_end() -> None:
    detect = Detect()
    detect.process([value(0, frame(XOFF, 10)), down(1, 50)])
    detect.forget(lambda stream: True)
    assert marks(detect.process([value(0, frame(XOFF, 10))])) == [10]
    assert marks(detect.process([value(1, frame(XON, 20))])) == [MARK_END]


@pytest.mark.parametrize("cut", range(7))
def test_a_snapshot_goes_on_where_it_was_taken(cut: int) -> None:
    items: list[Item] = [
        value(0, frame(XOFF, 10), frame(XON, 70), mark_ns=20),
        value(2, frame(XOFF, 30, port=1), mark_ns=40, lost=2),
        down(7, 200),
        value(3, frame(XON, 90), mark_ns=80),
        value(6, frame(XOFF, 100)),
        value(7, frame(XOFF, 110, port=1)),
    ]
    whole = Detect()
    expected = [whole.process([item]) for item in items]
    before, after = Detect(), Detect()
    out = [before.process([item]) for item in items[:cut]]
    after.restore(before.snapshot())
    assert after.snapshot() == before.snapshot()
    out += [after.process([item]) for item in items[cut:]]
    assert [list(map(encode, batches)) for batches in out] == [list(map(encode, batches)) for batches in expected]
    assert after.snapshot() == whole.snapshot()


def test_what_is_no_snapshot_of_detect_is_refused() -> None:
    good = Detect().snapshot()
    for wrong in (b"", b"nonsense", good[:-1], good.replace(b"detect", b"detecx")):
        with pytest.raises(PausetraceError):
            Detect().restore(wrong)
