"""How far polled devices are heard: by rows, by promises where there is nothing to tell, without who is far behind."""

from __future__ import annotations

import pytest

from analytics.announced import Announced
from analytics.detect import episode_stream
from analytics.heard import heard_ns
from analytics.layout import FOREVER
from analytics.streams import Stream
from stream.batch import StreamKey

S = 1_000_000_000
NOW = 1_000 * S


class Roster:
    """Streams of a fabric, each with where it stands, in seconds after NOW."""

    def __init__(self) -> None:
        self.announced = Announced()
        self.streams: dict[StreamKey, Stream] = {}

    def add(
        self, device: str, newest_s: float, mark_s: float, period_s: float = 1.0, topic: str = "pfc", *,
        down: bool = False,
    ) -> Roster:  # fmt: skip
        key = StreamKey("lab", "collector", "1", topic, device)
        self.announced.up(key, 0, int(period_s * S))
        newest_ns, mark_ns = NOW + int(newest_s * S), NOW + int(mark_s * S)
        period_ns = int(period_s * S)
        self.streams[episode_stream(key)] = Stream(mark_ns, period_ns=period_ns, newest_ns=newest_ns, down=down)
        return self

    @property
    def heard_s(self) -> float:
        return (heard_ns(self.streams, self.announced, NOW + 100 * S) - NOW) / S


def test_all_are_heard_up_to_the_last_row_of_who_told_first() -> None:
    assert Roster().add("leaf1", 10.2, 10.2).add("leaf2", 9.9, 9.9).add("leaf3", 10.5, 10.1).heard_s == 9.9


def test_who_has_nothing_to_tell_is_heard_by_its_promise() -> None:
    assert Roster().add("leaf1", 10.2, 10.2).add("quiet", -500, 10.0).heard_s == 10.0


def test_a_poll_that_is_due_is_waited_for_though_all_before_it_is_promised() -> None:
    roster = Roster().add("leaf1", 10.2, 10.2)
    assert roster.add("leaf2", 9.3, 10.2).heard_s == 9.3
    # It did not come, or had nothing to tell.
    assert roster.add("leaf2", 9.19, 10.17).heard_s == 10.17


@pytest.mark.parametrize(("behind_s", "heard_s"), [(2.9, 7.3), (3.1, 10.2)])
def test_who_is_two_polls_and_a_second_behind_is_not_waited_for(behind_s: float, heard_s: float) -> None:
    behind = 10.2 - behind_s
    assert Roster().add("leaf1", 10.2, 10.2).add("leaf2", behind, behind).heard_s == pytest.approx(heard_s)


def test_nobody_waits_for_who_is_gone_or_polled_less_often_or_tells_other_things() -> None:
    roster = Roster().add("leaf1", 10.2, 10.2).add("leaf2", 10.1, 10.1).add("leaf3", 9.8, 9.8, down=True)
    roster.add("slow", 8.0, 8.0, 10.0).add("leaf1", 9.0, 9.0, 60.0, "queue").add("h1", 9.5, 9.5, 1.0, "pcie")
    assert roster.heard_s == 10.1


def test_without_polled_devices_there_is_nothing_to_wait_for() -> None:
    roster = Roster().add("logs", 10.0, 10.0, 0.0)
    assert heard_ns(roster.streams, roster.announced, NOW) == FOREVER
