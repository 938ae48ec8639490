"""The items of a trace: complete, each stream in its own order, and taken by the wire."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams, trace_streams
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.facts import fact_stream
from stream.messages import Item, decode, encode
from stream.roster import RosterChange, SourceUp

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(name="streams", scope="module")
def recorded_streams() -> TraceStreams:
    return trace_streams(read_trace(DATA / "ns3" / "slow_receiver-ft4-s1"), "lab", "trace", "e1", 10**18)


def rows_by_stream(items: list[Item]) -> dict[StreamKey, np.ndarray]:
    """The rows of each data stream, after a check that its numbers have no gap and its marks hold."""
    found: defaultdict[StreamKey, list[np.ndarray]] = defaultdict(list)
    next_seq: defaultdict[StreamKey, int] = defaultdict(int)
    marks: defaultdict[StreamKey, int] = defaultdict(int)
    for item in items:
        if isinstance(item, Batch):
            assert item.seq == next_seq[item.stream]
            assert item.events["time_ns"][0] >= marks[item.stream]
            next_seq[item.stream] = item.next_seq
            marks[item.stream] = item.mark_ns
            found[item.stream].append(item.events)
    return {key: np.concatenate(parts) for key, parts in found.items()}


@pytest.mark.parametrize("rows_per_value", [1, 7, 1000, 1024])
@pytest.mark.parametrize("order", [None, 0, 5])
def test_values_hold_every_row_once_and_in_order(streams: TraceStreams, rows_per_value: int, order: int | None) -> None:
    items = trace_items(streams, rows_per_value, order)
    assert isinstance(items[0], SourceUp)
    found = rows_by_stream(items)
    for rows in streams.rows:
        if len(rows.events):
            np.testing.assert_array_equal(found.pop(streams.key(rows)), rows.events)
    assert not found
    assert max(len(item.events) for item in items if isinstance(item, Batch)) <= rows_per_value


@pytest.mark.parametrize("order", [None, 3])
def test_facts_keep_their_own_order_and_none_is_missing(streams: TraceStreams, order: int | None) -> None:
    seqs: defaultdict[StreamKey, list[int]] = defaultdict(list)
    for item in trace_items(streams, order=order):
        if not isinstance(item, Batch | RosterChange | Cascade):
            seqs[fact_stream(item)].append(item.stream.seq)
    assert {key.topic for key in seqs} == {"device", "link", "flow"}
    assert all(found == list(range(len(found))) for found in seqs.values())


def test_without_an_order_facts_end_first_and_values_follow_by_time(streams: TraceStreams) -> None:
    items = trace_items(streams, 100)
    facts = len(streams.facts)
    assert items[1 + facts] == streams.facts_down
    assert items[-1] == streams.down
    marks = [item.mark_ns for item in items if isinstance(item, Batch)]
    assert len(marks) == len(items) - facts - 3
    assert marks == sorted(marks)


def test_an_order_is_the_same_for_the_same_seed_and_differs_for_another(streams: TraceStreams) -> None:
    def first_streams(order: int) -> list[str]:
        return [str(encode(item)) for item in trace_items(streams, 7, order)]

    assert first_streams(1) == first_streams(1)
    assert first_streams(1) != first_streams(2)


def test_every_item_survives_the_wire(streams: TraceStreams) -> None:
    for item in trace_items(streams, 50):
        again = decode(*encode(item))
        if isinstance(item, Batch):
            assert isinstance(again, Batch)
            assert (again.stream, again.seq, again.mark_ns, again.ports) == (
                item.stream, item.seq, item.mark_ns, item.ports,
            )  # fmt: skip
            np.testing.assert_array_equal(again.events, item.events)
        else:
            assert again == item


def test_a_value_of_no_rows_or_of_too_many_is_refused(streams: TraceStreams) -> None:
    for rows_per_value in (0, 1025):
        with pytest.raises(ValueError, match="is not 1 to 1024"):
            trace_items(streams, rows_per_value)
