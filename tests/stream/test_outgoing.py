"""A stream's rows become batches that keep its promises, whatever their number, order and fate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import kinds, wire
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.outbox import DELIVERY_FAILED, QUEUE_FULL
from stream.outgoing import CLOCK_LEAD_NS, NO_PORT, Loss, OutgoingStream, Sealed
from stream.record import MAX_TIME_NS, Events, empty_events

KEY = StreamKey("lab", "probe", "boot-1", "pfc", "leaf1")
NOW_NS = 1_000_000


def rows(times: list[int], ports: list[int] | None = None) -> Events:
    events = empty_events(len(times))
    events["kind"] = kinds.PFC_XOFF
    events["priority"] = 3
    events["time_ns"] = times
    events["port"] = ports or [0] * len(times)
    return events


def add(
    stream: OutgoingStream,
    times: list[int],
    *,
    ports: list[int] | None = None,
    names: tuple[str, ...] = ("eth0",),
    mark_ns: int | None = None,
    texts: tuple[tuple[int, str], ...] = (),
) -> list[Sealed]:
    return stream.add(rows(times, ports), names, mark_ns=mark_ns, texts=texts, now_ns=NOW_NS, now_s=0.0)


def sealed_after(stream: OutgoingStream, times: list[int], mark_ns: int | None = None) -> list[Batch]:
    made = add(stream, times, mark_ns=mark_ns)
    return [*(sealed.batch for sealed in made), stream.seal(0.0).batch]


def test_rows_promise_their_greatest_time_and_are_numbered() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    first = sealed_after(stream, [5, 9, 7])[0]
    second = sealed_after(stream, [9, 12])[0]
    assert (first.seq, first.mark_ns, len(first.events)) == (0, 9, 3)
    assert (second.seq, second.mark_ns, len(second.events)) == (3, 12, 2)


def test_a_mark_given_is_the_promise_and_never_goes_back() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    assert sealed_after(stream, [50], mark_ns=40)[0].mark_ns == 40
    assert sealed_after(stream, [45], mark_ns=30)[0].mark_ns == 40
    assert sealed_after(stream, [60], mark_ns=MARK_END)[0].mark_ns == MARK_END


def test_a_row_older_than_the_promise_is_flagged_late_and_sent_behind_the_mark() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    add(stream, [10])
    (before,) = add(stream, [4, 11])
    after = stream.seal(0.0).batch
    assert (before.batch.mark_ns, before.batch.events["time_ns"].tolist()) == (10, [10])
    assert (after.events["quality"] & kinds.LATE).tolist() == [kinds.LATE, 0]
    assert stream.late_rows == 1
    assert after.mark_ns == 11


def test_a_row_as_old_as_the_promise_is_not_late() -> None:
    stream = OutgoingStream(KEY, 10, live=False)
    assert not add(stream, [10])
    assert stream.late_rows == 0


def test_a_batch_holds_1024_rows_at_most() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    batches = sealed_after(stream, list(range(2500)))
    assert [len(batch.events) for batch in batches] == [MAX_EVENTS, MAX_EVENTS, 452]
    assert [batch.seq for batch in batches] == [0, 1024, 2048]
    assert [batch.mark_ns for batch in batches] == [1024, 2048, 2499]


@given(
    st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=40), min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.integers(0, 120)), min_size=8, max_size=8),
    st.booleans(),
)
def test_no_row_is_older_than_a_mark_before_it_unless_it_is_flagged(
    appends: list[list[int]], marks: list[int | None], often: bool
) -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    batches: list[Batch] = []
    for times, mark_ns in zip(appends, marks, strict=False):
        # Repeated, so that batches get full in the middle of rows without order.
        batches += [sealed.batch for sealed in add(stream, times * 60, mark_ns=mark_ns)]
        if often:
            batches.append(stream.seal(0.0).batch)
    batches.append(stream.seal(0.0).batch)
    promised_ns, seq = 0, 0
    for batch in batches:
        late = (batch.events["quality"] & kinds.LATE) != 0
        assert batch.seq == seq
        assert batch.mark_ns >= promised_ns
        assert ((batch.events["time_ns"] < promised_ns) == late).all()
        promised_ns, seq = batch.mark_ns, batch.next_seq
        assert wire.encode(batch, rows_checked=True) == wire.encode(batch)
    assert seq == sum(len(times) * 60 for times in appends)


def test_only_ports_that_occur_are_named_and_tables_of_several_appends_join() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    add(stream, [1, 2], ports=[2, 0], names=("a", "b", "c"))
    add(stream, [3, 4], ports=[1, 0], names=("c", "d"))
    batch = stream.seal(0.0).batch
    assert [batch.ports[port] for port in batch.events["port"]] == ["c", "a", "d", "c"]
    assert sorted(batch.ports) == ["a", "c", "d"]


def test_texts_follow_their_rows_into_the_batches() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    add(stream, [1])
    sealed = add(stream, list(range(1, 1030)), texts=((0, "first"), (1022, "fits"), (1023, "next"), (1028, "last")))
    assert sealed[0].batch.texts == ((1, "first"), (1023, "fits"))
    assert stream.seal(0.0).batch.texts == ((0, "next"), (5, "last"))


def test_the_rows_of_the_caller_stay_as_they_are() -> None:
    stream = OutgoingStream(KEY, 100, live=True)
    mine = rows([50], [1])
    stream.add(mine, ("a", "b"), mark_ns=None, texts=(), now_ns=NOW_NS, now_s=0.0)
    assert (mine["port"][0], mine["quality"][0], mine["seen_ns"][0]) == (1, 0, 0)


def test_a_live_row_far_ahead_of_when_it_was_seen_is_suspect_and_moves_no_mark() -> None:
    stream = OutgoingStream(KEY, 0, live=True)
    ahead = NOW_NS + CLOCK_LEAD_NS + 1
    batch = sealed_after(stream, [NOW_NS, ahead])[0]
    assert (batch.events["quality"] & kinds.CLOCK_SUSPECT).tolist() == [0, kinds.CLOCK_SUSPECT]
    assert batch.mark_ns == NOW_NS
    assert batch.events["seen_ns"].tolist() == [NOW_NS, NOW_NS]
    assert stream.suspect_rows == 1


def test_a_live_source_cannot_promise_the_far_future() -> None:
    stream = OutgoingStream(KEY, 0, live=True)
    assert sealed_after(stream, [NOW_NS], mark_ns=NOW_NS + 60_000_000_000)[0].mark_ns == NOW_NS + CLOCK_LEAD_NS


def test_a_replayed_row_may_have_any_time() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    batch = sealed_after(stream, [NOW_NS + 10 * CLOCK_LEAD_NS])[0]
    assert batch.events["quality"][0] == 0
    assert batch.mark_ns == NOW_NS + 10 * CLOCK_LEAD_NS


def test_a_batch_without_rows_is_an_idle_value_that_carries_the_mark() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    sealed_after(stream, [5])
    stream.promise(80, NOW_NS)
    batch = stream.seal(1.0).batch
    assert (len(batch.events), batch.seq, batch.mark_ns, batch.ports) == (0, 1, 80, ())
    assert stream.seal(1.0).batch.seq == 1


def test_lost_rows_are_told_by_the_next_batch() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    add(stream, [10, 20])
    lost = stream.seal(0.0)
    stream.lose_sealed(lost, QUEUE_FULL)
    add(stream, [30])
    batch = stream.seal(0.0).batch
    assert batch.lost == 2
    assert batch.seq == 2
    told = batch.events[-1]
    assert (told["kind"], told["value"], told["extra"]) == (kinds.SOURCE_LOST, 2, QUEUE_FULL)
    assert (told["time_ns"] - told["span_ns"], told["time_ns"]) == (10, 30)
    assert batch.ports[told["port"]] == NO_PORT
    assert told["quality"] == kinds.GAP
    assert not stream.has_losses
    wire.encode(batch)


def test_a_report_that_gets_lost_is_made_again_without_counting_the_rows_twice() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    stream.lose(3, Loss(7, 1, 2))
    add(stream, [30])
    stream.lose_sealed(stream.seal(0.0), DELIVERY_FAILED)
    batch = stream.seal(0.0).batch
    assert batch.lost == 8
    assert {int(row["extra"]): int(row["value"]) for row in batch.events} == {3: 7, DELIVERY_FAILED: 1}


def test_a_full_batch_leaves_its_report_to_the_next_one() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    stream.lose(3, Loss(7, 1, 2))
    (full,) = add(stream, [5] * MAX_EVENTS)
    assert not full.reported
    assert stream.seal(0.0).reported == {3: Loss(7, 1, 2)}


def test_a_loss_is_reported_within_the_range_of_times_after_the_last_mark() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    stream.promise(MARK_END, NOW_NS)
    stream.lose(3, Loss(1, 5, 6))
    batch = stream.seal(0.0).batch
    assert batch.events["time_ns"].tolist() == [MAX_TIME_NS]
    wire.encode(batch)


def test_a_loss_that_no_reader_would_take_is_refused() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    stream.lose(3, Loss(-1, 5, 6))
    with pytest.raises(WireError, match="row 0: its value is out of the kind's range"):
        stream.seal(0.0)


def test_a_row_that_no_reader_takes_is_refused_with_its_number_and_nothing_is_added() -> None:
    stream = OutgoingStream(KEY, 0, live=False)
    bad = rows([1, 2])
    bad["priority"][1] = 9
    with pytest.raises(WireError, match="row 1: its priority"):
        stream.add(bad, ("eth0",), mark_ns=None, texts=(), now_ns=NOW_NS, now_s=0.0)
    with pytest.raises(WireError, match="port"):
        add(stream, [1], ports=[1])
    unknown = rows([1])
    unknown["kind"] = 255
    with pytest.raises(WireError, match="kind does not exist"):
        stream.add(unknown, ("eth0",), mark_ns=None, texts=(), now_ns=NOW_NS, now_s=0.0)
    with pytest.raises(WireError, match="dtype"):
        stream.add(np.zeros(1, np.int64), ("eth0",), mark_ns=None, texts=(), now_ns=NOW_NS, now_s=0.0)
    with pytest.raises(WireError, match="text"):
        add(stream, [1], texts=((1, "no such row"),))
    with pytest.raises(WireError, match="later than any time"):
        add(stream, [1], mark_ns=MAX_TIME_NS + 1)
    assert (stream.mark_ns, len(stream.seal(0.0).batch.events)) == (0, 0)
