"""Pauses as both ends of links log them, on clocks that differ and with rows lost: told alike however rows arrive."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import layout, pause_logs
from analytics.announced import Announced
from analytics.layout import MARK_GUESSED
from analytics.pause_logs import LAG_NS, PauseLogs
from stream import kinds
from stream.batch import MARK_END
from stream.facts import Device, FactStream
from tests.analytics.logged_pauses import (
    DEVICES,
    LINKS,
    MS,
    PEER,
    US,
    Field,
    Outcome,
    Pause,
    named,
    random_pauses,
    run,
    topology,
)
from tests.analytics.story import BEGIN_NS, event

SEEDS = st.integers(0, 1 << 32)
QUEUE = ("leaf0", "d0", 3)
REPAIRS = (
    "pauses_ended_by_next_xoff",
    "pauses_begun_before_xon",
    "pauses_ended_by_counters",
    "pauses_known_by_counters",
)


def a_bad_field(random: Random) -> Field:
    """Whatever goes wrong: clocks that differ and step, losses, counters that change, storms, silent devices."""
    span_ns = random.choice([30, 80, 140]) * MS
    pauses = random_pauses(random, span_ns, random.choice([30 * US, 300 * US, 3 * MS]), random.choice([0, 2 * US]))
    steps_at_ns = BEGIN_NS + random.randrange(span_ns)
    steps_too = random.random() < 0.6
    offsets, steps = dict.fromkeys(DEVICES, 0), dict.fromkeys(DEVICES, 0)
    for device in DEVICES:
        if random.random() < 0.3:
            offsets[device] = random.randint(-5 * MS, 5 * MS)
        if steps_too and random.random() < 0.3:
            steps[device] = random.randint(-MS, MS)

    def ahead(device: str, time_ns: int) -> int:
        return offsets[device] + (steps[device] if time_ns >= steps_at_ns else 0) + random.randint(-200, 200)

    field = Field(ahead)
    if random.random() < 0.2:
        field.reports.discard("leaf0")
    loss = random.choice([0, 0.05, 0.3, 0.6])
    field.log(pauses, lambda *_: random.random() < loss)
    if random.random() < 0.3:
        field.log([
            Pause((*pause.queue[:2], kinds.NO_PRIORITY), pause.start_ns, pause.end_ns)
            for pause in pauses if random.random() < 0.2
        ])  # fmt: skip
    end_ns = BEGIN_NS + span_ns + 20 * MS
    for device in DEVICES:
        choice = random.random()
        if choice < 0.5:
            field.count(pauses, device, random.choice([20 * US, 100 * US, MS]), end_ns, random.randrange(100 * US))
        elif choice < 0.6:
            field.count(pauses, device, 100 * US, BEGIN_NS + 50 * MS)
            field.count(pauses, device, random.choice([500 * US, 5 * MS]), end_ns, 51 * MS)
    field.rows = [row for row in field.rows if row[2]["kind"][0] != kinds.PFC_PAUSED or random.random() > 0.05]
    return field


def some_cuts(random: Random, field: Field) -> list[int]:
    """Ticks of some length, or a few times at random."""
    last_ns = field.end_ns() + 60 * MS
    if random.random() < 0.3:
        return [random.randint(BEGIN_NS, last_ns) for _ in range(random.randint(1, 6))]
    return list(range(BEGIN_NS, last_ns, random.choice([MS, 3 * MS, 10 * MS, 25 * MS])))


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.rows == other.rows
    assert +one.counters == +other.counters
    assert one.clocks == other.clocks


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=SEEDS)
def test_what_is_told_does_not_depend_on_how_rows_are_cut(seed: int) -> None:
    random = Random(seed)
    field = a_bad_field(random)
    if not field.rows:
        return
    whole = run(field, (), seed)
    for turn in range(2):
        made = run(field, some_cuts(random, field), seed + turn)
        assert_same(made, whole)
        assert made.late == 0


@settings(derandomize=True, deadline=None, max_examples=15)
@given(seed=SEEDS)
def test_a_snapshot_or_a_copy_at_any_moment_changes_nothing(seed: int) -> None:
    random = Random(seed)
    field = a_bad_field(random)
    if not field.rows:
        return

    def replaced(logs: PauseLogs) -> PauseLogs:
        choice = random.random()
        if choice < 0.3:
            return PauseLogs.of_state(logs.state())
        twin = logs.copy()
        if choice < 0.6:
            return twin
        # What a run ahead does to the copy is nothing to the other.
        fabric = topology()
        for turn_ns in twin.turns(layout.FOREVER, fabric):
            twin.release(turn_ns, fabric, field_counters)
        return logs

    field_counters = run(field).counters.copy()
    assert_same(run(field, some_cuts(random, field), seed, replaced), run(field, (), seed))


@settings(derandomize=True, deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_pauses_that_both_ends_log_come_out_as_they_were(seed: int) -> None:
    random = Random(seed)
    field, pauses = Field(), random_pauses(random, 60 * MS, shortest_ns=random.choice([0, 2 * US]))
    field.log(pauses)
    for device in DEVICES:
        field.count(pauses, device, random.choice([50 * US, MS]), BEGIN_NS + 90 * MS)
    if not pauses:
        return
    made = run(field, some_cuts(random, field), seed)
    assert made.pauses() == sorted(pauses, key=lambda pause: (pause.end_ns, pause.queue))
    assert not any(made.counters[name] for name in (*REPAIRS, "pauses_logged_at_one_end", "edges_of_no_pause"))
    assert all(row[0] != layout.MISSED for row in made.rows)


def often_paused(random: Random, span_ns: int = 60 * MS) -> list[Pause]:
    """Pauses all the time of one queue of every link."""
    pauses = []
    for port in LINKS:
        now_ns = BEGIN_NS
        while now_ns < BEGIN_NS + span_ns:
            now_ns += random.randint(20 * US, 500 * US)
            pauses.append(Pause((*port, 3), now_ns, now_ns + random.randint(3 * US, 50 * US)))
            now_ns = pauses[-1].end_ns
    return sorted(pauses, key=lambda pause: (pause.end_ns, pause.queue))


@settings(derandomize=True, deadline=None, max_examples=15)
@given(seed=SEEDS)
def test_clocks_that_differ_are_put_on_one_up_to_a_common_shift(seed: int) -> None:
    random = Random(seed)
    offsets = {device: random.randint(-2_500 * US, 2_500 * US) for device in DEVICES}
    field, pauses = Field(lambda device, _: offsets[device]), often_paused(random)
    field.log(pauses)
    made = run(field, some_cuts(random, field), seed).pauses()
    shift_ns = made[0].start_ns - pauses[0].start_ns
    assert [Pause(p.queue, p.start_ns - shift_ns, p.end_ns - shift_ns) for p in made] == pauses
    # The clock of one device is the fabric's.
    assert -shift_ns in {-offset_ns for offset_ns in offsets.values()}


@settings(derandomize=True, deadline=None, max_examples=15)
@given(seed=SEEDS)
def test_an_edge_that_one_end_has_lost_changes_nothing(seed: int) -> None:
    random = Random(seed)
    field, pauses = Field(), often_paused(random)
    loser = {(pause, stops): random.random() < 0.5 for pause in pauses[20:] for stops in (True, False)}
    lost = {key: random.random() < 0.3 for key in loser}
    field.log(pauses, lambda pause, stopped, stops: lost.get((pause, stops), False) and loser[pause, stops] == stopped)
    made = run(field, some_cuts(random, field), seed)
    assert made.pauses() == pauses
    assert made.counters["pauses_logged_at_one_end"] == sum(lost[pause, False] for pause in pauses[20:])
    assert not any(made.counters[name] for name in REPAIRS)


def each_ms(count: int, lasted_ns: int = 40 * US) -> list[Pause]:
    """A queue that is stopped every millisecond."""
    return [Pause(QUEUE, BEGIN_NS + n * MS, BEGIN_NS + n * MS + lasted_ns) for n in range(count)]


def marks_of(made: Outcome, start_ns: int) -> int:
    """What is known of the pause that began then."""
    (marks,) = (row[-1] for row in made.rows if row[0] == layout.CLOSE and row[3] == start_ns)
    return marks


def test_an_end_lost_at_both_ends_is_guessed_and_counted() -> None:
    pauses = each_ms(30)
    fifth = pauses[5]
    field = Field()
    field.log(pauses, lambda pause, _, stops: pause == fifth and not stops)
    made = run(field)
    assert made.pauses() == pauses
    assert marks_of(made, fifth.start_ns) == MARK_GUESSED
    assert made.counters["pauses_ended_by_next_xoff"] == 1


def test_a_beginning_lost_at_both_ends_is_guessed_and_counted() -> None:
    pauses = each_ms(30)
    fifth = pauses[5]
    field = Field()
    field.log(pauses, lambda pause, _, stops: pause == fifth and stops)
    made = run(field)
    assert made.pauses() == pauses
    assert marks_of(made, fifth.start_ns) & MARK_GUESSED
    assert made.counters["pauses_begun_before_xon"] == 1


@pytest.mark.parametrize("counted", [True, False])
def test_a_pause_that_both_ends_have_lost_is_known_by_counters_alone(counted: bool) -> None:
    pauses = each_ms(30)
    field = Field()
    field.log(pauses, lambda pause, *_: pause == pauses[5])
    if counted:
        field.count(pauses, "leaf0", 100 * US, BEGIN_NS + 40 * MS)
    made = run(field)
    others = [pause for pause in pauses if pause != pauses[5]]
    # It lasted 40 us somewhere in a window of 100 us: in the middle.
    found = [Pause(QUEUE, pauses[5].start_ns + 30 * US, pauses[5].start_ns + 70 * US)] * counted
    assert made.pauses() == sorted(others + found, key=lambda pause: pause.end_ns)
    assert made.counters["pauses_known_by_counters"] == int(counted)


@pytest.mark.parametrize("late_ns", [0, 15 * MS, 30 * MS])
def test_counters_of_a_device_say_nothing_long_before_somebody_logs_its_pauses(late_ns: int) -> None:
    pauses = each_ms(60)
    field = Field()
    field.log([pause for pause in pauses if pause.start_ns >= BEGIN_NS + late_ns])
    field.count(pauses, "leaf0", 100 * US, BEGIN_NS + 70 * MS)
    made = run(field)
    assert_same(run(field, range(BEGIN_NS, BEGIN_NS + 150 * MS, 10 * MS)), made)
    assert made.counters["pauses_known_by_counters"] == {0: 0, 15 * MS: 15, 30 * MS: 20}[late_ns]


def test_a_log_that_is_cut_short_makes_no_second_pause() -> None:
    pauses = each_ms(30)
    long = Pause(QUEUE, BEGIN_NS + 40 * MS, BEGIN_NS + 48 * MS)
    field = Field()
    field.log([*pauses, long], lambda pause, stopped, stops: pause == long and stopped and not stops)
    cut_ns = long.start_ns + 3 * MS
    # The stream of the stopped end was suspended: what it held open ends there by a guess.
    field.rows.append((*QUEUE[:2], event(
        kinds.PAUSE_INTERVAL, cut_ns, priority=3, side=kinds.SIDE_RX, extra=31, span_ns=3 * MS, value=3 * MS,
        quality=kinds.ESTIMATED,
    )))  # fmt: skip
    assert run(field).pauses() == [*pauses, Pause(QUEUE, long.start_ns, cut_ns)]


def test_pauses_that_name_no_priority_stop_every_queue_of_the_port() -> None:
    field = Field()
    field.log([Pause((*QUEUE[:2], kinds.NO_PRIORITY), BEGIN_NS, BEGIN_NS + 10 * US)])
    assert {pause.queue[2] for pause in run(field).pauses()} == set(range(8))


def test_where_two_logs_never_agree_the_stopped_end_is_believed() -> None:
    random, pauses = Random(5), each_ms(30)
    field = Field(lambda device, _: random.randint(-200 * US, 200 * US) if device == PEER[QUEUE[:2]][0] else 0)
    field.log(pauses)
    assert run(field).pauses() == pauses


def opened_and_counted() -> tuple[Field, int]:
    """A queue that is stopped to the end of what has been read, and whose counters say so up to there."""
    field, begin_ns = Field(), BEGIN_NS + 40 * MS
    field.log([*each_ms(30), Pause(QUEUE, begin_ns, begin_ns + 5 * MS)])
    field.count([Pause(QUEUE, begin_ns, begin_ns + 5 * MS)], "leaf0", 100 * US, begin_ns + 4 * MS)
    field.rows = [row for row in field.rows if int(row[2]["time_ns"][0]) <= begin_ns + 4 * MS]
    return field, begin_ns


@pytest.mark.parametrize("ahead", [True, False])
def test_a_run_ahead_does_not_take_the_end_of_what_was_read_for_the_end_of_a_pause(ahead: bool) -> None:
    field, begin_ns = opened_and_counted()

    def until_newest(logs: PauseLogs) -> PauseLogs:
        logs.newest_ns = field.end_ns() if ahead else layout.FOREVER
        return logs

    made = run(field, [field.end_ns() + 1], 0, until_newest)
    ended = [row for row in made.rows if row[0] == layout.CLOSE and row[3] == begin_ns]
    assert len(ended) == (0 if ahead else 1)


def test_a_pause_that_is_open_while_its_device_is_renamed_ends_under_the_new_name() -> None:
    pauses = [*each_ms(30), Pause(QUEUE, BEGIN_NS + 60 * MS, BEGIN_NS + 160 * MS)]
    field = Field(reports={"leaf0"})
    field.log(pauses)
    field.count(pauses, "leaf0", 100 * US, BEGIN_NS + 200 * MS)
    events = np.concatenate([row for *_, row in field.rows])
    fabric, logs, counters = topology(), PauseLogs(), Counter[str]()
    rows = []
    # Before the fact nobody knows that the old name means the same switch.
    for name, from_ns, to_ns in (("old", 0, BEGIN_NS + 120 * MS), ("leaf0", BEGIN_NS + 120 * MS, MARK_END)):
        place = fabric.place(name, "d0")
        fabric.extend()
        due = events[(events["time_ns"] >= from_ns) & (events["time_ns"] < to_ns)]
        logs.take(due, np.full(len(due), place), fabric, Announced(), counters)
        until_ns = to_ns if to_ns == MARK_END else to_ns - LAG_NS
        for turn_ns in logs.turns(until_ns, fabric):
            rows += logs.release(turn_ns, fabric, counters).tolist()
        fabric.add(Device("lab", "leaf0", "switch", 1, FactStream("inventory", "e1", 1, 1), aliases=("old",)))
        fabric.rebuild()
        logs.carry(fabric)
    told = [named(fabric, row) for row in rows]
    closed = [(row[1][0], row[3], row[4]) for row in told if row[0] == layout.CLOSE]
    assert closed[-1] == ("leaf0", pauses[-1].start_ns, pauses[-1].end_ns)
    assert {device for device, *_ in closed[:-1]} == {"old"}
    assert [(start_ns, end_ns) for _, start_ns, end_ns in closed] == [(p.start_ns, p.end_ns) for p in pauses]


@pytest.mark.parametrize(
    ("marks", "missed_ns", "expected_ns"), [(0, 50, 150), (0, -50, 100), (layout.MARK_GUESSED, -50, 50)]
)
def test_what_counters_count_beyond_a_windows_pauses_goes_to_the_last_in_it(
    marks: int, missed_ns: int, expected_ns: int
) -> None:
    rows = np.zeros((4, layout.ROW_COLUMNS), np.int64)
    ends = [(layout.CLOSE, 10, 20, 10, 1), (layout.CLOSE, 100, 200, 100, 2), (layout.CLOSE, 300, 1_100, 800, 3)]
    for row, (row_type, start_ns, end_ns, amount_ns, order) in zip(rows, ends, strict=False):
        row[[layout.ROW_TYPE, layout.ROW_START, layout.ROW_END]] = row_type, start_ns, end_ns
        row[[layout.ROW_AMOUNT, layout.ROW_ORDER, layout.ROW_ID]] = amount_ns, order, marks
    rows[3, [layout.ROW_TYPE, layout.ROW_END, layout.ROW_AMOUNT]] = layout.MISSED, 1_000, missed_ns
    right = pause_logs._set_right(rows, 3)
    # What ended after the window is left alone, and what is missed is told on where it is a time.
    assert right[:3, layout.ROW_AMOUNT].tolist() == [10, expected_ns, 800]
    assert len(right) == 3 + (missed_ns > 0)
