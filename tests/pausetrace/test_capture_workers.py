"""Workers over a capture: what a worker cannot finish is never taken for finished, and none is left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pausetrace.capture_workers import detect_in_processes, without_rows_of_no_effect
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.capture_reader import CaptureFolder
from stream.capture_select import RowFilter
from stream.capture_streams import captured_streams, read_context
from stream.errors import PausetraceError
from stream.record import empty_events
from stream.topics import RAW
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import capture_listed


@pytest.fixture
def folder(tmp_path: Path) -> CaptureFolder:
    capture_listed(fabric_messages(), tmp_path / "c")
    return CaptureFolder(tmp_path / "c")


def test_a_worker_that_fails_is_an_error_and_not_an_end(folder: CaptureFolder) -> None:
    streams = captured_streams(folder, RAW, RowFilter())
    context = read_context(folder, streams, RAW, RowFilter())
    # No worker can make sense of this.
    context.ends = dict.fromkeys(context.ends, 3)  # type: ignore[arg-type]
    partitions = sorted({partition for partition, _ in streams.spans})
    with (
        detect_in_processes(2, folder, partitions, streams, context, RowFilter()) as found,
        pytest.raises(PausetraceError, match=r"a worker ended before its work was done \(exit status 1\)"),
    ):
        list(found)


def test_rows_of_no_effect_go_where_others_name_the_port_and_say_how_far_time_has_come() -> None:
    events = empty_events(6)
    events["time_ns"] = [1, 2, 3, 4, 5, 6]
    events["kind"] = kinds.PORT_BYTES
    events["side"] = [kinds.SIDE_RX, kinds.SIDE_TX, kinds.SIDE_RX, kinds.SIDE_RX, kinds.SIDE_RX, kinds.SIDE_RX]
    events["port"] = [0, 0, 1, 0, 0, 0]
    batch = Batch(StreamKey("dc-1", "s|queue", "e", "episode", "leaf-1"), 10, 7, ("p0", "p1"), events)
    left = without_rows_of_no_effect(batch)
    assert left.events["time_ns"].tolist() == [2, 3, 6]
    assert (left.next_seq, left.ports, left.mark_ns) == (16, ("p0", "p1"), 7)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_no_effect_are_those_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = empty_events(int(rng.integers(0, 12)))
    events["time_ns"] = rng.integers(0, 5, len(events))
    events["kind"] = rng.choice([kinds.PORT_BYTES, kinds.FLOW_BYTES, kinds.QUEUE_DEPTH], len(events), p=[0.6, 0.3, 0.1])
    events["side"] = rng.choice([kinds.SIDE_RX, kinds.SIDE_TX], len(events), p=[0.8, 0.2])
    events["port"] = rng.integers(0, 4, len(events))
    batch = Batch(StreamKey("dc-1", "s|queue", "e", "episode", "leaf-1"), 0, 7, ("p0", "p1", "p2", "p3"), events)
    bytes_in = np.isin(events["kind"], (kinds.PORT_BYTES, kinds.FLOW_BYTES)) & (events["side"] == kinds.SIDE_RX)
    keep = ~bytes_in
    if len(events):
        keep[np.argmax(events["time_ns"])] = True
    keep |= ~np.isin(events["port"], events["port"][keep])
    left = without_rows_of_no_effect(batch)
    assert left.events.tobytes() == events[keep].tobytes()
    assert left.skipped == len(events) - keep.sum()
