"""Whom nobody waits for any more: silent and slow streams, and never because of one wrong clock or of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from stream.batch import StreamKey
from stream.deadlines import Deadlines, FabricDeadlines, Judgement, Standing

S = 1_000_000_000
DEADLINE_S = 10.0
EPOCH_S = 1_000_000


def stream(name: str) -> StreamKey:
    return StreamKey("lab", name, "e1", "pfc", name)


class Fabric:
    """Sources a, b, c that are up to date, and others whose marks follow a rule; looked at every half second."""

    def __init__(self, healthy: int = 3) -> None:
        self.deadlines = FabricDeadlines(DEADLINE_S)
        self.mark_of: dict[StreamKey, Callable[[float], float]] = {
            stream(name): lambda now_s: now_s for name in "abcdefgh"[:healthy]
        }
        self.suspended: set[StreamKey] = set()
        self.now_s = 0.0

    def run(self, seconds: float) -> Judgement:
        """The last of the looks at so many seconds."""
        judged = Judgement({}, {})
        for _ in range(round(seconds * 2)):
            self.now_s += 0.5
            judged = self.deadlines.look(self.standing(), self.now_s)
        return judged

    def standing(self) -> Mapping[StreamKey, Standing]:
        return {
            key: Standing(int((EPOCH_S + mark_of(self.now_s)) * S), key in self.suspended)
            for key, mark_of in self.mark_of.items()
        }


def test_nobody_is_late_who_keeps_up() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("slower")] = lambda now_s: now_s - DEADLINE_S + 1
    assert fabric.run(100) == Judgement({}, {})


def test_a_stream_that_falls_silent_is_late_after_the_deadline_and_not_before() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("dead")] = lambda now_s: min(now_s, 20)
    assert not fabric.run(29.5).late
    assert fabric.run(2).late == {stream("dead"): (EPOCH_S + 20) * S}


def test_a_stream_that_speaks_but_stays_behind_is_late_too() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("slow")] = lambda now_s: now_s - 2 * DEADLINE_S
    assert not fabric.run(9).late
    assert set(fabric.run(3).late) == {stream("slow")}


def test_a_stream_that_was_announced_and_never_came_is_late() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("never")] = lambda _: 0
    assert set(fabric.run(12).late) == {stream("never")}


def test_a_clock_that_is_ahead_makes_nobody_late() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("ahead")] = lambda now_s: now_s + 3600
    assert not fabric.run(60).late


def test_nobody_is_late_while_nobody_speaks() -> None:
    fabric = Fabric()
    fabric.mark_of |= {key: lambda now_s: min(now_s, 20) + max(now_s - 80, 0) for key in list(fabric.mark_of)}
    assert not fabric.run(80).late
    assert not fabric.run(60).late


def test_the_few_that_speak_do_not_wait_for_the_many_that_died() -> None:
    fabric = Fabric(healthy=1)
    dead = {stream(f"dead {number}") for number in range(5)}
    fabric.mark_of |= {key: lambda now_s: min(now_s, 20) for key in dead}
    assert set(fabric.run(45).late) == dead


def test_a_restart_gives_everybody_time_again() -> None:
    fabric = Fabric()
    fabric.mark_of[stream("dead")] = lambda now_s: min(now_s, 20)
    assert fabric.run(60).late
    fabric.deadlines = FabricDeadlines(DEADLINE_S)
    assert not fabric.run(9).late
    assert fabric.run(3).late


@pytest.mark.parametrize(("behind_s", "resumed"), [(0, True), (4, True), (6, False), (60, False)])
def test_a_suspended_stream_has_caught_up_when_it_is_half_a_deadline_behind(behind_s: float, resumed: bool) -> None:
    fabric = Fabric()
    fabric.mark_of[stream("late")] = lambda now_s: now_s - behind_s
    fabric.suspended = {stream("late")}
    judged = fabric.run(30)
    assert bool(judged.caught_up) is resumed
    assert not judged.late


def test_old_replays_at_any_speed_are_judged_like_live_sources() -> None:
    fabric = Fabric()
    fabric.mark_of = {
        stream("a"): lambda now_s: 1000 * now_s - 500_000,
        stream("b"): lambda now_s: 1000 * now_s - 501_000,
        stream("dead"): lambda now_s: 1000 * min(now_s, 20) - 500_000,
    }
    assert not fabric.run(29).late
    assert set(fabric.run(3).late) == {stream("dead")}


def test_fabrics_are_judged_each_for_itself() -> None:
    class Step:
        now_s = 0.0

        def standing(self) -> dict[str, dict[StreamKey, Standing]]:
            moving = Standing(int(self.now_s * S), False)
            return {"quiet": {stream("x"): Standing(0, False)}, "busy": {stream("x"): moving, stream("y"): moving}}

        def resumable_from_ns(self, fabric: str) -> int:
            return 0

    step = Step()
    deadlines = Deadlines(DEADLINE_S, monotonic_s=lambda: step.now_s)
    for _ in range(60):
        step.now_s += 1
        assert deadlines.look(step) == {}
