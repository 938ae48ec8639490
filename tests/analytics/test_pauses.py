"""Pairing of pause frames against its slow twin, in any cuts; and what each oddity of a log becomes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.pauses import CLOSED, SLOTS_PER_PORT, pair_pauses, slots
from stream import kinds
from stream.record import empty_events
from tests.reference.pauses import Episode, Frame, pair

FRAMES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=60)


class Pairing:
    """The kernel with its state, fed in pieces."""

    def __init__(self, queues: int) -> None:
        self.open_ns, self.order = np.full(queues, CLOSED), np.zeros(queues, np.int64)
        self.episodes: list[Episode] = []
        self.refreshes = self.unmatched = 0

    def feed(self, frames: list[Frame]) -> None:
        time_ns = np.array([frame.time_ns for frame in frames], np.int64)
        kind = np.array([kinds.PFC_XOFF if frame.stops else kinds.PFC_XON for frame in frames], np.uint8)
        slot = np.array([frame.queue for frame in frames], np.int64)
        out_kind, span = np.zeros(len(frames), np.uint8), np.zeros(len(frames), np.int64)
        order = np.zeros(len(frames), np.int64)
        refreshes, unmatched = pair_pauses(time_ns, kind, slot, self.open_ns, self.order, out_kind, span, order)
        self.refreshes += refreshes
        self.unmatched += unmatched
        for frame, made, lasted_ns, number in zip(
            frames, out_kind.tolist(), span.tolist(), order.tolist(), strict=True
        ):
            if made:
                self.episodes.append(
                    Episode(frame.time_ns, frame.queue, made == kinds.PAUSE_INTERVAL, lasted_ns, number)
                )


@settings(derandomize=True, deadline=None, max_examples=200)
@given(told=FRAMES, cut=st.integers(0, 60))
def test_frames_become_what_the_twin_makes_of_them(told: list[tuple[int, int, bool]], cut: int) -> None:
    frames, now_ns = [], 0
    for gap_ns, queue, stops in told:
        now_ns += gap_ns
        frames.append(Frame(now_ns, queue, stops))
    pairing = Pairing(4)
    pairing.feed(frames[:cut])
    pairing.feed(frames[cut:])
    twin = pair(frames)
    assert pairing.episodes == twin.episodes
    assert (pairing.refreshes, pairing.unmatched) == (twin.refreshes, twin.unmatched)


def test_every_port_priority_and_side_has_a_slot_of_its_own() -> None:
    events = empty_events(3 * 9 * 3)
    places = [(port, priority, side) for port in range(3) for priority in (*range(8), kinds.NO_PRIORITY)
              for side in range(3)]  # fmt: skip
    for name, column in zip(("port", "priority", "side"), zip(*places, strict=True), strict=True):
        events[name] = column
    assert sorted(slots(events, np.arange(3)).tolist()) == list(range(3 * SLOTS_PER_PORT))
