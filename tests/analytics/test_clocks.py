"""Clocks told apart by the pauses that both ends of a link log: against every difference, and whatever the indices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.clocks import (
    E_DELAY,
    E_DEVICE,
    E_KIND,
    E_OTHER,
    E_QUEUE,
    E_SIDE,
    E_TIME,
    EDGE_COLUMNS,
    MAX_OFFSET_NS,
    RX,
    SURE_VOTES,
    TOLERANCE_NS,
    TX,
    XOFF,
    Clocks,
)
from analytics.layout import Ints
from tests.reference.clocks import densest

NAMES = ["a", "b", "c", "d"]
DELAY_NS = 700
US, MS = 1_000, 1_000_000
Link = tuple[str, str, Sequence[int], Sequence[int]]
"""Stopped device, pauser, and when each has stamped XOFFs of one queue."""


def edges(links: Sequence[Link], names: Sequence[str] = NAMES) -> Ints:
    """Both logs of each link; link n is of queue n."""
    rows = []
    for queue, (told, sender, stopped_ns, sent_ns) in enumerate(links):
        for side, device, other, stamps in ((RX, told, sender, stopped_ns), (TX, sender, told, sent_ns)):
            for stamp_ns in stamps:
                row = np.zeros(EDGE_COLUMNS, np.int64)
                row[[E_QUEUE, E_KIND, E_TIME, E_SIDE, E_DELAY]] = queue, XOFF, stamp_ns, side, DELAY_NS
                row[[E_DEVICE, E_OTHER]] = names.index(device), names.index(other)
                rows.append(row)
    return np.array(rows, np.int64).reshape(-1, EDGE_COLUMNS)


def some_times(random: Random, count: int, first_ns: int = 0) -> list[int]:
    """Times that do not repeat each other's distances."""
    return sorted(first_ns + random.randrange(20 * MS) for _ in range(count))


def link(told: str, sender: str, times: Sequence[int], offsets: dict[str, int]) -> Link:
    """Both ends log all, each by its clock."""
    sent = [time_ns - DELAY_NS + offsets.get(sender, 0) for time_ns in times]
    return told, sender, [time_ns + offsets.get(told, 0) for time_ns in times], sent


def ahead(clocks: Clocks, names: Sequence[str] = NAMES) -> dict[str, int]:
    """Offsets by name."""
    return {name: clocks.offsets.get(place, 0) for place, name in enumerate(names)}


STAMPS = st.lists(st.integers(0, 60).map(lambda step: 100 * MS + step * 400), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(told=STAMPS, sent=STAMPS, shift=st.sampled_from([0, 2 * MS, -7 * MS, 30 * MS]), losing=st.booleans())
def test_as_many_stamps_agree_as_the_densest_difference_has(
    told: list[int], sent: list[int], shift: int, losing: bool
) -> None:
    sent = [time_ns + shift for time_ns in sent]
    one, other = ("a", "b") if losing else ("b", "a")
    clocks = Clocks()
    clocks.follow(edges([(one, other, told, [time_ns - DELAY_NS for time_ns in sent])]), NAMES)
    put = [time_ns - clocks.offsets.get(NAMES.index(one), 0) for time_ns in told]
    by = [time_ns - clocks.offsets.get(NAMES.index(other), 0) for time_ns in sent]
    agreeing = sum(any(abs(time_ns - stamp_ns) <= TOLERANCE_NS for stamp_ns in by) for time_ns in put)
    possible = densest([(told, sent)], TOLERANCE_NS, 2 * MAX_OFFSET_NS)
    fewer = min(len(told), len(sent))
    was = sum(any(abs(time_ns - stamp_ns) <= TOLERANCE_NS for stamp_ns in sent) for time_ns in told)
    agrees = 2 * was >= fewer
    # Stamps closer than the tolerance count more than once, and no more than there are can agree.
    stays = min(possible, fewer) - was < SURE_VOTES if agrees else 2 * possible < fewer or possible <= was
    if stays:
        # In step, or nothing that would be better.
        assert not any(clocks.offsets.values())
    elif agrees:
        # Another offset has more, unless it is the same one to the tolerance.
        assert not clocks.offsets or agreeing
    else:
        assert clocks.offsets
        assert agreeing


@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_offsets_spread_over_links_whatever_the_indices(seed: int) -> None:
    random = Random(seed)
    offsets = {name: random.randint(-4 * MS, 4 * MS) for name in NAMES}
    links = [
        link(one, other, some_times(random, random.randint(8, 30)), offsets)
        for one, other in (("a", "b"), ("c", "b"), ("c", "d"), ("b", "a"))
    ]
    found = []
    for names in (NAMES, NAMES[::-1], random.sample(NAMES, 4)):
        clocks, told = Clocks(), edges(links, names)
        assert clocks.follow(told[np.array(random.sample(range(len(told)), len(told)))], names)
        found.append(ahead(clocks, names))
    assert found[0] == found[1] == found[2]
    shift_ns = found[0]["a"] - offsets["a"]
    assert {name: offset_ns - shift_ns for name, offset_ns in found[0].items()} == offsets


def test_clocks_in_step_are_left_alone() -> None:
    random, clocks = Random(1), Clocks()
    jitter = {"a": 300, "b": -300}
    assert not clocks.follow(edges([link("a", "b", some_times(random, 30), jitter)]), NAMES)
    assert clocks.offsets == {}


def test_one_clock_that_differs_moves_and_those_in_step_stay() -> None:
    random, clocks = Random(1), Clocks()
    offsets = {"d": 3 * MS}
    links = [link(one, "b", some_times(random, 20), offsets) for one in "acd"]
    clocks.follow(edges(links), NAMES)
    assert ahead(clocks) == {"a": 0, "b": 0, "c": 0, "d": 3 * MS}


def test_a_clock_that_is_further_off_than_any_clock_that_is_set_stays_as_it_is() -> None:
    random, clocks = Random(1), Clocks()
    links = [link(one, "b", some_times(random, 20), {"d": MAX_OFFSET_NS + MS}) for one in "acd"]
    clocks.follow(edges(links), NAMES)
    assert ahead(clocks)["d"] == 0


def test_a_chance_agreement_does_not_move_a_clock_that_many_stamps_have_set() -> None:
    random, clocks = Random(1), Clocks()
    clocks.follow(edges([link("a", "b", some_times(random, 20), {"b": 2 * MS})]), NAMES)
    before = ahead(clocks)
    few = ("a", "b", [30 * MS], [34 * MS])
    clocks.follow(edges([few]), NAMES)
    assert ahead(clocks) == before
    assert before["b"] - before["a"] == 2 * MS


def test_a_clock_that_steps_is_followed() -> None:
    random, clocks = Random(1), Clocks()
    for offset_ns in (2 * MS, -1 * MS):
        clocks.follow(edges([link("a", "b", some_times(random, 20), {"b": offset_ns})]), NAMES)
        assert ahead(clocks)["b"] - ahead(clocks)["a"] == offset_ns


@pytest.mark.parametrize("steps", [-3, 1, 5])
def test_even_pauses_are_not_taken_one_for_another(steps: int) -> None:
    # On clocks that are some pauses apart most stamps agree as they are; on the right offset all of them do.
    times = [n * 13 * US for n in range(30)]
    clocks = Clocks()
    clocks.follow(edges([link("a", "b", times, {"b": steps * 13 * US})]), NAMES)
    moved = ahead(clocks)["b"] - ahead(clocks)["a"]
    assert moved == (steps * 13 * US if abs(steps) >= SURE_VOTES else 0)


@pytest.mark.parametrize(("stamps", "apart"), [(SURE_VOTES - 1, False), (SURE_VOTES, True)])
def test_ends_that_agree_on_nothing_are_apart_until_they_agree(stamps: int, apart: bool) -> None:
    random, clocks = Random(1), Clocks()
    # Powers of two: no two distances are alike.
    told, sent = [MS * 2**n // 8 for n in range(stamps)], [MS * 3**n // 81 for n in range(stamps)]
    clocks.follow(edges([("a", "b", told, sent)]), NAMES)
    found = bool(clocks.apart)
    clocks.follow(edges([link("a", "b", some_times(random, 20), {})]), NAMES)
    assert (found, clocks.apart) == (apart, set())


def test_more_stamps_than_are_compared_are_the_first_ones_however_they_come() -> None:
    random = Random(3)
    told = edges([link("a", "b", some_times(random, 400), {"b": 5 * MS})])
    found = []
    for turn in range(3):
        clocks = Clocks()
        clocks.follow(told[np.array(Random(turn).sample(range(len(told)), len(told)))], NAMES)
        found.append(clocks.offsets)
    assert found[0] == found[1] == found[2]
    assert abs(found[0][1] - found[0][0] - 5 * MS) <= TOLERANCE_NS


def followed() -> Clocks:
    random, clocks = Random(1), Clocks()
    clocks.follow(edges([link("a", "b", some_times(random, 20), {"b": 2 * MS})]), NAMES)
    return clocks


def test_a_snapshot_and_a_copy_are_the_same_clocks() -> None:
    clocks = followed()
    restored, twin = Clocks.of_state(clocks.state()), clocks.copy()
    assert restored.state() == clocks.state() == twin.state()
    told = edges([link("a", "b", some_times(Random(2), 20), {"b": -2 * MS})])
    before = clocks.state()
    twin.follow(told, NAMES)
    assert clocks.state() == before != twin.state()
    restored.follow(told, NAMES)
    assert restored.state() == twin.state()


def test_what_is_known_of_a_clock_goes_with_the_devices_new_name() -> None:
    clocks = followed()
    before = ahead(clocks)
    clocks.carry({1: 3})
    assert ahead(clocks) == {"a": before["a"], "b": 0, "c": 0, "d": before["b"]}
    # Two stamps are too few to move what the twenty have set.
    clocks.follow(edges([("a", "d", [30 * MS], [34 * MS])]), NAMES)
    assert ahead(clocks)["d"] == before["b"]


@pytest.mark.parametrize(("ahead_ns", "unplaced"), [(0, []), (2 * MS, ["c", "d"])])
def test_where_clocks_differ_one_that_no_pause_tells_of_is_known_to_nobody(ahead_ns: int, unplaced: list[str]) -> None:
    clocks = Clocks()
    clocks.follow(edges([link("a", "b", some_times(Random(1), 20), {"a": ahead_ns})]), NAMES)
    assert [name for name, out in zip(NAMES, clocks.unplaced(len(NAMES)), strict=True) if out] == unplaced
