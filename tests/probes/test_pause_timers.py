"""Timers of pauses against a slow obvious twin that looks at one row after another."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import numpy as np

from probes.pause_timers import ALLOWED_NS, PauseTimers
from stream import kinds
from stream.record import Events, empty_events, joined

NS = 1_000_000
START_NS = 1_800_000_000_000_000_000
QUANTUM_NS = 512 / 10  # at 10 Gb/s
Row = tuple[int, int, int, int, int]
"""Time, port, side, priority, quanta."""


def rows(*told: Row) -> Events:
    events = empty_events(len(told))
    for event, (time_ns, port, side, priority, quanta) in zip(events, sorted(told), strict=True):
        event["time_ns"], event["port"], event["side"], event["priority"] = time_ns, port, side, priority
        event["value"], event["quality"] = quanta, kinds.EXACT
        event["kind"] = kinds.PFC_XOFF if quanta else kinds.PFC_XON
    return events


def ends(events: Events) -> list[tuple[int, int, int, int]]:
    """The rows that timers made: time, port, side, priority."""
    made = events[events["quality"] == kinds.ESTIMATED]
    assert set(made["kind"]) <= {kinds.PFC_XON}
    return [tuple(each) for each in made[["time_ns", "port", "side", "priority"]].tolist()]


def speeds(*mbps: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(mbps, np.int64)


def test_a_pause_without_an_xon_ends_when_its_quanta_have_run_out() -> None:
    timers = PauseTimers(2)
    stop = rows((START_NS, 1, 1, 3, 1000), (START_NS, 0, 2, kinds.NO_PRIORITY, 2000))
    assert ends(timers.ended(stop, speeds(10_000, 100_000), START_NS + 1)) == []
    later_ns = START_NS + 1000 * NS
    expected = [(START_NS + 5_120, 1, 1, 3), (START_NS + 102_400, 0, 2, kinds.NO_PRIORITY)]
    assert ends(timers.ended(rows(), speeds(10_000, 100_000), later_ns)) == expected
    assert ends(timers.ended(rows(), speeds(10_000, 100_000), later_ns)) == []


def test_a_port_of_unknown_speed_is_taken_for_ten_gigabit() -> None:
    timers = PauseTimers(1)
    found = timers.ended(rows((START_NS, 0, 1, 3, 1000)), speeds(0), START_NS + 10 * NS)
    assert ends(found) == [(START_NS + 51_200, 0, 1, 3)]


def test_refreshes_keep_a_pause_open_and_an_xon_in_time_needs_no_second_one() -> None:
    timers = PauseTimers(1)
    refreshed = [(START_NS + n * 30_000, 0, 1, 3, 1000) for n in range(20)]
    found = timers.ended(rows(*refreshed, (START_NS + 20 * 30_000, 0, 1, 3, 0)), speeds(10_000), START_NS + 100 * NS)
    assert ends(found) == []
    assert len(found) == 21
    late = timers.ended(rows((START_NS + 200 * NS, 0, 1, 3, 1000), (START_NS + 201 * NS, 0, 1, 3, 0)), speeds(10_000),
                        START_NS + 300 * NS)  # fmt: skip
    assert ends(late) == [(START_NS + 200 * NS + 51_200, 0, 1, 3)]
    assert (np.diff(late["time_ns"]) >= 0).all()


def test_a_row_that_is_still_on_its_way_may_refresh_a_timer_that_has_run_out() -> None:
    timers = PauseTimers(1)
    assert ends(timers.ended(rows((START_NS, 0, 1, 3, 1000)), speeds(10_000), START_NS + ALLOWED_NS)) == []
    refresh = rows((START_NS + 50_000, 0, 1, 3, 60_000))
    assert ends(timers.ended(refresh, speeds(10_000), START_NS + ALLOWED_NS + 1)) == []


def one_by_one(told: list[Row], mbps: list[int], now_ns: int) -> list[tuple[int, int, int, int]]:
    until: dict[tuple[int, int, int], int] = {}
    found = []
    for time_ns, port, side, priority, quanta in sorted(told):
        key = (port, side, priority)
        if 0 < until.get(key, 0) < time_ns:
            found.append((until[key], *key))
        until[key] = time_ns + quanta * 512_000 // mbps[port] if quanta else 0
    found += [(end, *key) for key, end in until.items() if 0 < end < now_ns - ALLOWED_NS]
    return sorted(found)


def test_random_pauses_in_random_batches_end_as_one_by_one() -> None:
    chosen = random.Random(7)
    mbps = [10_000, 25_000, 400_000]
    for _ in range(200):
        times = sorted(chosen.sample(range(20 * NS), 60))
        told = [
            (START_NS + time, chosen.randrange(3), chosen.choice((1, 2)), chosen.choice((0, 3, kinds.NO_PRIORITY)),
             chosen.choice((0, 100, 5_000, 65_535)))
            for time in times
        ]  # fmt: skip
        timers, parts = PauseTimers(3), []
        cuts = [0, *sorted(chosen.sample(range(1, 60), 5)), 60]
        for begin, end in itertools.pairwise(cuts):
            parts.append(timers.ended(rows(*told[begin:end]), speeds(*mbps), told[end - 1][0] + ALLOWED_NS))
        parts.append(timers.ended(rows(), speeds(*mbps), START_NS + 100 * NS))
        assert sorted(ends(joined(parts))) == one_by_one(told, mbps, START_NS + 100 * NS)
        real: Iterable[int] = (int((part["quality"] == kinds.EXACT).sum()) for part in parts)
        assert sum(real) == 60
