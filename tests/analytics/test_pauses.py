"""Pairing of pause frames against its slow twin, in any cuts; and what each oddity of a log becomes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.pauses import ALWAYS, CLOSED, SLOTS_PER_PORT, UNLESS_ZERO, episodes_of, in_order
from stream import kinds
from stream.record import EVENT, empty_events, words
from tests.reference.pauses import Episode, Frame, pair

LAST_NS = 1 << 62
FRAMES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60)


class Pairing:
    """The kernel with its state, fed in pieces."""

    def __init__(self, queues: int) -> None:
        self.open_ns, self.order = np.full(queues, CLOSED), np.zeros(queues, np.int64)
        self.logged = np.zeros(queues, np.int64)
        self.episodes: list[Episode] = []
        self.refreshes = self.unmatched = 0

    def feed(self, frames: list[Frame]) -> None:
        """Frames on priorities of one port; other rows lie between."""
        events = empty_events(2 * len(frames))
        pauses, others = events[::2], events[1::2]
        pauses["time_ns"] = [frame.time_ns for frame in frames]
        pauses["kind"] = [kinds.PFC_XOFF if frame.stops else kinds.PFC_XON for frame in frames]
        pauses["value"] = [kinds.UNKNOWN if frame.logged else 100 for frame in frames]
        pauses["priority"] = [frame.queue for frame in frames]
        others["time_ns"] = pauses["time_ns"]
        others["kind"] = kinds.BY_NAME["CNP"].code
        out = words(events).copy()
        count, refreshes, unmatched = episodes_of(
            words(events),
            0,
            LAST_NS,
            np.zeros(1, np.int64),
            np.zeros(256, np.uint8),
            self.open_ns,
            self.order,
            self.logged,
            out,
        )
        self.refreshes += refreshes
        self.unmatched += unmatched
        for row in out[:count].view(EVENT).ravel():
            ends = row["kind"] == kinds.PAUSE_INTERVAL
            assert ends or row["kind"] == kinds.PAUSE_OPEN
            known = row["value"] != kinds.UNKNOWN
            assert row["value"] == row["span_ns"] or (not known and row["span_ns"] == 0)
            span_ns = int(row["span_ns"]) if known else -1
            self.episodes.append(
                Episode(int(row["time_ns"]), int(row["priority"]), bool(ends), span_ns, int(row["extra"]))
            )


@settings(derandomize=True, deadline=None, max_examples=200)
@given(told=FRAMES, cut=st.integers(0, 60))
def test_frames_become_what_the_twin_makes_of_them(told: list[tuple[int, int, bool, bool]], cut: int) -> None:
    frames, now_ns = [], 0
    for gap_ns, queue, stops, logged in told:
        now_ns += gap_ns
        frames.append(Frame(now_ns, queue, stops, logged))
    pairing = Pairing(SLOTS_PER_PORT)
    pairing.feed(frames[:cut])
    pairing.feed(frames[cut:])
    twin = pair(frames)
    assert pairing.episodes == twin.episodes
    assert (pairing.refreshes, pairing.unmatched) == (twin.refreshes, twin.unmatched)


def test_every_port_priority_and_side_is_paused_apart() -> None:
    events = empty_events(3 * SLOTS_PER_PORT)
    places = [(port, priority, side) for port in range(3) for priority in (*range(8), kinds.NO_PRIORITY)
              for side in range(3)]  # fmt: skip
    for name, column in zip(("port", "priority", "side"), zip(*places, strict=True), strict=True):
        events[name] = column
    events["kind"] = kinds.PFC_XOFF
    rows, open_ns, order = words(events), np.full(len(events), CLOSED), np.zeros(len(events), np.int64)
    none = np.zeros(256, np.uint8)
    assert episodes_of(rows, 0, LAST_NS, np.arange(3), none, open_ns, order, order.copy(), rows.copy())[0] == len(
        events
    )
    assert order.tolist() == [1] * len(events)


def test_rows_go_on_by_what_is_said_of_their_kind() -> None:
    events = empty_events(6)
    events["kind"] = [8, 8, 9, 9, 10, 10]
    events["value"] = [0, 5, 0, 5, 0, 5]
    events["port"] = [0, 1, 0, 1, 0, 1]
    forwarded = np.zeros(256, np.uint8)
    forwarded[[9, 10]] = UNLESS_ZERO, ALWAYS
    out = words(empty_events(6))
    none = np.zeros(0, np.int64)
    count, *_ = episodes_of(words(events), 0, LAST_NS, np.array([4, 700]), forwarded, none, none, none, out)
    expected = events[[3, 4, 5]]
    expected["port"] = [700, 4, 700]
    assert out[:count].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("times", "ports", "told"),
    [
        ([], [], True), ([5, 5, 9], [0, 0, 0], True), ([4, 5, 9], [0, 0, 0], False), ([5, 8, 7], [0, 0, 0], False),
        ([5, 9, 10], [0, 0, 0], False), ([5, 6, 7], [0, 1, 0], False),
    ],
)  # fmt: skip
def test_rows_are_in_order_between_two_marks_and_on_known_ports(times: list[int], ports: list[int], told: bool) -> None:
    events = empty_events(len(times))
    events["time_ns"], events["port"] = times, ports
    assert bool(in_order(words(events), 5, 9, np.array([0, -1]))) is told


def test_rows_out_of_order_change_nothing() -> None:
    events = empty_events(2)
    events["time_ns"], events["kind"] = [6, 5], kinds.PFC_XOFF
    open_ns, order = np.full(SLOTS_PER_PORT, CLOSED), np.zeros(SLOTS_PER_PORT, np.int64)
    none = np.zeros(256, np.uint8)
    port, out = np.zeros(1, np.int64), words(events).copy()
    assert episodes_of(words(events), 0, 9, port, none, open_ns, order, order.copy(), out)[0] == -1
    assert (open_ns == CLOSED).all()
    assert not order.any()
