"""Which pauses a stream holds open, however its rows came, against a reading of them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from analytics import streams
from analytics.streams import Stream
from stream import kinds
from stream.record import Events, empty_events

Key = tuple[int, int, int]


def rows(chance: random.Random) -> tuple[Events, np.ndarray]:
    """Openings and ends of a few queues, of which some are lost, and rows of other kinds."""
    events = empty_events(chance.randrange(1, 300))
    events["time_ns"] = np.arange(len(events))
    for name, most in (("priority", 2), ("side", 3), ("extra", 4)):
        events[name] = [chance.randrange(most) for _ in events]
    events["kind"] = [
        chance.choice((kinds.PAUSE_OPEN, kinds.PAUSE_OPEN, kinds.PAUSE_INTERVAL, kinds.QUEUE_DEPTH)) for _ in events
    ]
    return events, np.array([chance.randrange(5) for _ in events])


def open_one_by_one(events: Events, numbers: np.ndarray) -> dict[Key, tuple[int, int]]:
    opens: dict[Key, tuple[int, int]] = {}
    for event, number in zip(events, numbers.tolist(), strict=True):
        queue = number, int(event["priority"]), int(event["side"])
        if event["kind"] == kinds.PAUSE_OPEN:
            opens[queue] = int(event["time_ns"]), int(event["extra"])
        elif event["kind"] == kinds.PAUSE_INTERVAL and opens.get(queue, (0, -1))[1] == event["extra"]:
            del opens[queue]
    return opens


@pytest.mark.parametrize("seed", range(20))
def test_what_is_open_at_a_gap_does_not_depend_on_when_rows_are_read(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    events, numbers = rows(chance)
    expected = open_one_by_one(events, numbers)
    monkeypatch.setattr(streams, "MOST_UNREAD", chance.choice((1, 7, 1_000)))
    stream = Stream()
    cuts = sorted(chance.choices(range(len(events)), k=3))
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        assert stream.follow(events[begin:end], numbers[begin:end], False) == []
    stream.suspend(len(events))
    ended = [
        (
            (number, int(event["priority"]), int(event["side"])),
            (int(event["time_ns"] - event["span_ns"]), event["extra"]),
        )
        for cut in stream.cut(len(events))
        for event, number in zip(cut.events, cut.numbers.tolist(), strict=True)
    ]
    assert ended == sorted(expected.items())
