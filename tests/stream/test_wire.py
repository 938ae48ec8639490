"""The packed value: what goes in comes out, and nothing is sent that no reader would take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from stream import kinds, wire
from stream.batch import MAX_EVENTS, Batch, StreamKey
from stream.errors import WireError
from stream.record import EVENT, Events, empty_events
from tests.stream.batches import batches
from tests.stream.both_readers import agree
from tests.stream.hostile import Message

NOW_NS = 1_790_000_000_000_000_000
STREAM = StreamKey("dc-1", "gnmi:leaf-1", "boot-1", "pfc", "leaf-1")


def pauses(count: int) -> Events:
    events = empty_events(count)
    events["time_ns"] = NOW_NS + np.arange(count)
    events["seen_ns"] = NOW_NS + 1000
    events["kind"] = np.where(np.arange(count) % 2, kinds.PFC_XON, kinds.PFC_XOFF)
    events["priority"] = 3
    events["side"] = kinds.SIDE_RX
    return events


def batch(events: Events, topic: str = "pfc", ports: tuple[str, ...] = ("Ethernet0", "Ethernet4")) -> Batch:
    return Batch(STREAM._replace(topic=topic), 17, NOW_NS, ports, events)


def value_of(events: Events, topic: str = "pfc") -> bytes:
    """A value made without the checks of encode."""
    value = wire.encode(batch(empty_events(0), topic))
    return value[:8] + len(events).to_bytes(4, "little") + value[12:] + events.tobytes()


@given(batches())
def test_a_batch_comes_back_as_it_was_sent(sent: Batch) -> None:
    value = wire.encode(sent)
    came = wire.decode(sent.stream.topic, value, sent.key)
    assert (came.stream, came.seq, came.mark_ns, came.ports, came.lost, came.texts, came.skipped, came.positions) == (
        sent.stream, sent.seq, sent.mark_ns, sent.ports, sent.lost, sent.texts, 0, None,
    )  # fmt: skip
    assert came.events.dtype == EVENT
    assert came.events.tobytes() == sent.events.tobytes()
    assert wire.encode(came) == value
    assert agree(Message(sent.stream.topic, sent.key, value, "as sent")) == "taken"


@given(batches())
def test_rows_that_have_been_checked_make_the_same_value(sent: Batch) -> None:
    assert wire.encode(sent, rows_checked=True) == wire.encode(sent)


def test_names_are_looked_at_also_where_the_rows_have_been_checked() -> None:
    with pytest.raises(WireError, match="the names are not those of a batch"):
        wire.encode(replace(batch(pauses(1)), ports=("x" * 4096, "y")), rows_checked=True)


def test_an_idle_value_has_no_rows_and_a_new_mark() -> None:
    idle = replace(batch(empty_events(0)), ports=())
    came = wire.decode("pfc", wire.encode(idle), idle.key)
    assert (len(came.events), came.mark_ns, came.next_seq) == (0, NOW_NS, 17)


def test_the_largest_value_is_read() -> None:
    sent = batch(pauses(MAX_EVENTS))
    came = wire.decode("pfc", wire.encode(sent), sent.key)
    assert came.next_seq == 17 + MAX_EVENTS
    assert np.array_equal(came.events, sent.events)


def test_rows_lie_at_a_multiple_of_eight_whatever_the_length_of_the_names() -> None:
    for length in range(1, 20):
        value = wire.encode(batch(pauses(2), ports=("p" * length,)))
        assert (len(value) - 2 * EVENT.itemsize) % 8 == 0


def test_kind_0_stands_for_rows_that_were_left_out_and_is_never_given() -> None:
    assert 0 not in kinds.BY_CODE


def test_names_that_end_in_zero_bytes_are_told_from_the_padding() -> None:
    for text in ("", "\0", "\0" * 7, "\0" * 9):
        sent = replace(batch(pauses(1)), texts=((0, text),))
        assert wire.decode("pfc", wire.encode(sent)).texts == ((0, text),)


def test_rows_of_unknown_kind_are_skipped_and_counted_and_the_others_keep_their_numbers() -> None:
    events = pauses(6)
    events["kind"][[0, 3]] = 250
    events["port"][3] = 999
    came = wire.decode("pfc", value_of(events))
    assert came.skipped == 2
    assert came.row_seqs().tolist() == [18, 19, 21, 22]
    assert came.next_seq == 23
    assert np.array_equal(came.events, events[[1, 2, 4, 5]])


def test_a_text_follows_its_row_when_rows_before_it_are_skipped() -> None:
    sent = replace(batch(pauses(3)), texts=((0, "gone"), (2, "stays")))
    value = bytearray(wire.encode(sent))
    value[-3 * EVENT.itemsize + 52] = 250
    assert wire.decode("pfc", bytes(value)).texts == ((1, "stays"),)


def test_a_longer_record_of_a_later_version_is_read_by_its_stride() -> None:
    events = pauses(5)
    longer = b"".join(row.tobytes() + b"\xaa" * 8 for row in events)
    value = bytearray(value_of(events))[: -events.nbytes] + longer
    value[4:8] = (64).to_bytes(2, "little") + (2).to_bytes(2, "little")
    came = wire.decode("pfc", bytes(value))
    assert np.array_equal(came.events, events)


def test_rows_of_both_sides_in_one_value_are_read() -> None:
    events = pauses(4)
    events["side"] = [0, 1, 2, 1]
    assert np.array_equal(wire.decode("pfc", value_of(events)).events["side"], [0, 1, 2, 1])


@pytest.mark.parametrize(
    ("field", "number", "complaint"),
    [
        ("device", 1, "row 2: its device is beyond the names"),
        ("port", 2, "row 2: its port is beyond the names"),
        ("priority", 8, "row 2: its priority is not 0-7 or 255"),
        ("side", 3, "row 2: its side is not 0-2"),
        ("time_ns", -1, "row 2: its time_ns is out of range"),
        ("seen_ns", 1 << 62 | 1, "row 2: its seen_ns is out of range"),
        ("span_ns", NOW_NS + 3, "row 2: its span_ns is out of range"),
        ("value", 65536, "row 2: its value is out of the kind's range"),
        ("extra", 1, "row 2: its extra is out of the kind's range"),
        ("kind", kinds.QUEUE_DEPTH, "row 2: its kind does not belong on the topic"),
    ],
)
def test_an_error_names_the_row_as_sent_and_what_is_wrong_with_it(field: str, number: int, complaint: str) -> None:
    events = pauses(4)
    events["kind"][0] = 250
    events[field][2] = number
    with pytest.raises(WireError, match=complaint):
        wire.decode("pfc", value_of(events))


def test_any_kind_may_stand_on_the_episode_topic_and_loss_on_every_topic() -> None:
    events = empty_events(len(kinds.KINDS))
    events["kind"] = [kind.code for kind in kinds.KINDS]
    events["value"] = [kind.value.low for kind in kinds.KINDS]
    assert len(wire.decode("episode", value_of(events, "episode")).events) == len(kinds.KINDS)
    loss = empty_events(1)
    loss["kind"] = kinds.SOURCE_LOST
    assert len(wire.decode("pcie", value_of(loss, "pcie")).events) == 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"events": pauses(1025)}, "send at most 1024"),
        ({"events": pauses(4)["time_ns"]}, "not of the record's dtype"),
        ({"ports": ()}, "its port is beyond"),
        ({"ports": ("",)}, "ports"),
        ({"seq": -1}, "seq"),
        ({"seq": 1 << 80}, "do not encode"),
        ({"mark_ns": (1 << 62) + 1}, "mark_ns"),
        ({"lost": -1}, "lost"),
        ({"texts": ((4, "row 4 of 4"),)}, "row 4 of 4"),
        ({"stream": STREAM._replace(fabric="a/b")}, "fabric"),
        ({"stream": STREAM._replace(device="")}, "device"),
        ({"stream": STREAM._replace(source="s" * 225)}, "at most 224"),
        ({"stream": STREAM._replace(epoch="\ud800")}, "do not encode"),
        ({"stream": STREAM._replace(topic="device")}, "no packed values"),
        ({"skipped": 1}, "0 rows of unknown kind, of which the batch counts 1"),
    ],
)
def test_a_batch_that_no_reader_would_take_is_not_encoded(wrong: dict[str, object], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        wire.encode(replace(batch(pauses(4)), **wrong))


def test_a_source_does_not_send_a_kind_that_the_table_lacks() -> None:
    events = pauses(2)
    events["kind"][1] = 250
    with pytest.raises(WireError, match="1 rows of unknown kind, of which the batch counts 0"):
        wire.encode(batch(events))


def test_a_batch_that_lacks_its_rows_of_unknown_kind_comes_back_as_it_is() -> None:
    value = bytearray(wire.encode(replace(batch(pauses(6)), texts=((1, "one"), (5, "five")))))
    for row in (0, 3):
        value[-(6 - row) * EVENT.itemsize + 52] = 250
    once = wire.decode("pfc", bytes(value))
    again = wire.decode("pfc", wire.encode(once))
    assert again.texts == once.texts == ((0, "one"), (3, "five"))
    assert again.row_seqs().tolist() == once.row_seqs().tolist() == [18, 19, 21, 22]
    assert (again.skipped, again.next_seq) == (2, 23)
    assert np.array_equal(again.events, once.events)


def test_an_episode_stream_bears_the_longest_source_and_its_topic() -> None:
    longest = STREAM._replace(source="s" * 224 + "|flowbytes", topic="episode")
    sent = replace(batch(empty_events(0)), stream=longest)
    assert wire.decode("episode", wire.encode(sent), sent.key).stream == longest


def test_the_key_must_be_that_of_the_device() -> None:
    sent = batch(pauses(1))
    with pytest.raises(WireError, match="key b'dc-1/leaf-2' is not that of device dc-1/leaf-1"):
        wire.decode("pfc", wire.encode(sent), b"dc-1/leaf-2")
