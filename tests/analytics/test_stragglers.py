"""Ranks whose own compute holds up their job are told; those that wait for them, or were once slow, are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import stragglers
from analytics.layout import FOREVER
from analytics.stragglers import Spell, StepRow, Stragglers, is_far
from stream.kinds import COMPUTE_TIME, STEP_TIME
from tests.reference.stragglers import Name, spells, z_of

MS = 1_000_000
JOB = 7


def rows_of(table: list[dict[Name, int]], lengths: list[int], job: int = JOB) -> list[StepRow]:
    """What training hooks would tell: all ranks begin together, and end together when the slowest has come."""
    rows, now_ns = [], 1_000 * MS
    for step, (computes, length) in enumerate(zip(table, lengths, strict=True)):
        for name, value in computes.items():
            rows.append(StepRow(now_ns + value, job, COMPUTE_TIME, *name, step, value))
            rows.append(StepRow(now_ns + length, job, STEP_TIME, *name, step, length))
        now_ns += length
    return rows


def told(rows: list[StepRow]) -> list[Spell]:
    found = Stragglers()
    return [spell for _, spell in found.take(rows)] + found.finish()


def steps(count: int, slow: dict[int, int], ranks: int = 8) -> tuple[list[dict[Name, int]], list[int]]:
    """`count` steps of ranks that compute 100 ms, a little apart; rank 0 takes as long as `slow` says in its steps."""
    table = [
        {(f"h{rank}", f"rank{rank}"): 100 * MS + (rank * 7 + step * 3) % 5 * 100_000 for rank in range(ranks)}
        for step in range(count)
    ]
    for step, value in slow.items():
        table[step]["h0", "rank0"] = value
    return table, [max(computes.values()) + 10 * MS for computes in table]


@given(
    st.lists(st.lists(st.integers(1, 40), min_size=3, max_size=7), min_size=1, max_size=20),
    st.integers(1, 60),
    st.integers(0, 3),
    st.integers(0, 15),
)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_spells_are_those_of_a_slow_and_plain_twin(
    computes: list[list[int]], length: int, slow_rank: int, from_step: int
) -> None:
    table = [{(f"h{rank}", "r"): value for rank, value in enumerate(values)} for values in computes]
    for values in table[from_step:]:
        if (name := (f"h{slow_rank}", "r")) in values:
            values[name] += 30
    lengths = [max(length, *values.values()) for values in table]
    found = told(rows_of(table, lengths))
    assert {((s.device, s.rank), s.first_step, s.steps) for s in found} == spells(table, lengths)


@given(st.integers(0, 50), st.lists(st.integers(0, 50), min_size=1, max_size=9))
@settings(max_examples=300, derandomize=True)
def test_far_is_a_robust_z_of_three_and_a_half(value: int, others: list[int]) -> None:
    assert is_far(value, others) is (z_of(value, others) >= 3.5)


def test_a_rank_that_becomes_slow_is_told_after_three_steps_and_again_at_the_end() -> None:
    table, lengths = steps(40, dict.fromkeys(range(20, 32), 130 * MS))
    first, rest = told(rows_of(table, lengths))
    assert (first.job, first.device, first.rank, first.first_step, first.steps) == (JOB, "h0", "rank0", 20, 3)
    assert (rest.first_step, rest.steps) == (23, 9)
    assert first.start_ns == 1_000 * MS + sum(lengths[:20])
    assert first.end_ns == 1_000 * MS + sum(lengths[:23])
    assert (first.compute_ns, first.step_ns, first.ranks) == (130 * MS, 140 * MS, 8)
    assert 100 * MS <= first.median_ns <= 100.4 * MS
    assert 100 * MS <= first.past_ns <= 100.4 * MS
    assert first.late_ns == first.compute_ns - first.median_ns


@pytest.mark.parametrize(
    ("slow", "count"),
    [
        (dict.fromkeys((20, 21), 130 * MS), 0),
        (dict.fromkeys((20, 21, 23, 24), 130 * MS), 0),
        (dict.fromkeys((20, 21, 22), 130 * MS), 1),
        # 5 % of a step of 115 ms are 5.75 ms.
        (dict.fromkeys((20, 21, 22), 105 * MS), 0),
        (dict.fromkeys(range(3, 40), 130 * MS), 2),
        ({}, 0),
    ],
)
def test_a_few_slow_steps_are_no_spell(slow: dict[int, int], count: int) -> None:
    assert len(told(rows_of(*steps(40, slow)))) == count


def test_a_rank_that_always_had_more_to_do_is_told_of_without_a_past() -> None:
    (first, _) = told(rows_of(*steps(40, dict.fromkeys(range(40), 130 * MS))))
    assert (first.first_step, first.past_ns) == (0, 0)


def test_where_all_ranks_become_slow_none_holds_up_the_others() -> None:
    table, _ = steps(40, {})
    for computes in table[20:]:
        computes.update({name: value * 2 for name, value in computes.items()})
    assert told(rows_of(table, [max(computes.values()) for computes in table])) == []


def test_of_three_ranks_none_is_told_from_the_others() -> None:
    assert told(rows_of(*steps(40, dict.fromkeys(range(20, 40), 130 * MS), ranks=3))) == []
    assert told(rows_of(*steps(40, dict.fromkeys(range(20, 40), 130 * MS), ranks=4)))


def test_without_the_length_of_steps_the_longest_compute_counts() -> None:
    rows = [row for row in rows_of(*steps(40, dict.fromkeys(range(20, 40), 130 * MS))) if row.kind == COMPUTE_TIME]
    assert [spell.step_ns for spell in told(rows)] == [130 * MS, 130 * MS]


def test_steps_alone_tell_nothing() -> None:
    rows = [row for row in rows_of(*steps(40, dict.fromkeys(range(20, 40), 130 * MS))) if row.kind == STEP_TIME]
    assert told(rows) == []


def test_jobs_do_not_meet() -> None:
    slow = rows_of(*steps(40, dict.fromkeys(range(20, 23), 130 * MS)), job=2)
    sound = rows_of(*steps(40, {}), job=1)
    assert [spell.job for spell in told([*slow, *sound])] == [2]


def test_a_further_job_takes_the_place_of_that_which_was_silent_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stragglers, "MAX_JOBS", 2)
    found = Stragglers()
    slow = dict.fromkeys(range(20, 33), 130 * MS)
    lengths = []
    for job in (1, 2, 3):
        rows = [row._replace(time_ns=row.time_ns + job) for row in rows_of(*steps(33, slow), job=job)]
        lengths.append([(spell.job, spell.steps) for _, spell in found.take(rows)])
    # What was slow of the first job to the end is told when it is forgotten; of the others at the very end.
    assert lengths == [[(1, 3)], [(2, 3)], [(1, 10), (3, 3)]]
    assert [(spell.job, spell.steps) for spell in found.finish()] == [(2, 10), (3, 10)]
    assert found.counters["jobs_forgotten"] == 1


def test_ranks_beyond_the_bound_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = dict.fromkeys(range(20, 23), 130 * MS)
    monkeypatch.setattr(stragglers, "MAX_RANKS", 3)
    found = Stragglers()
    assert found.take(rows_of(*steps(40, slow))) == []
    assert found.counters["ranks_not_followed"] == 40 * 5 * 2


def test_rows_of_a_step_that_is_over_are_counted() -> None:
    found = Stragglers()
    rows = rows_of(*steps(3, {}))
    found.take([*rows, rows[0]._replace(time_ns=max(row.time_ns for row in rows))])
    assert found.counters == {"steps_told_late": 1}


def later(rows: list[StepRow], by_ns: int) -> list[StepRow]:
    return [row._replace(time_ns=row.time_ns + by_ns) for row in rows]


@pytest.mark.parametrize("first_step", [1_000, 1 << 60])
def test_a_job_that_goes_on_from_an_earlier_step_begins_anew(first_step: int) -> None:
    before = [row._replace(step=row.step + first_step) for row in rows_of(*steps(5, {}))]
    again = later(rows_of(*steps(40, dict.fromkeys(range(20, 23), 130 * MS))), 10_000 * MS)
    found = Stragglers()
    spells_told = [spell for _, spell in found.take(before)] + [spell for _, spell in found.take(again)]
    assert [(spell.first_step, spell.steps) for spell in spells_told] == [(20, 3)]
    assert found.counters == {"jobs_begun_anew": 1}


@pytest.mark.parametrize("asked", [False, True])
def test_a_job_that_has_been_silent_for_long_is_over_whether_somebody_asks_or_not(asked: bool) -> None:
    rows = rows_of(*steps(25, dict.fromkeys(range(20, 25), 130 * MS)))
    found = Stragglers()
    told_of = found.take(rows)
    assert found.asks_since_ns() < rows[-1].time_ns
    silent_ns = max(row.time_ns for row in rows) + stragglers.SILENT_NS
    if asked:
        assert found.silent(silent_ns) == []
        told_of += found.silent(silent_ns + 1)
        assert found.asks_since_ns() == FOREVER
    told_of += found.take(later(rows_of(*steps(30, {})), silent_ns))
    assert [(spell.first_step, spell.steps) for _, spell in told_of] == [(20, 3)]
    assert found.finish() == []
    assert found.counters == {}


@pytest.mark.parametrize("seed", range(5))
def test_spells_do_not_depend_on_how_rows_come_in_or_on_restarts(seed: int) -> None:
    rows = rows_of(*steps(150, dict.fromkeys(range(20, 140), 130 * MS)))
    expected = told(rows)
    assert len(expected) == 3
    random = np.random.default_rng(seed)
    found, spelled = Stragglers(), []
    rows.sort()
    while rows:
        # Rows of one instant are taken together, as correlate takes them.
        cut = rows[min(int(random.integers(1, 300)), len(rows)) - 1].time_ns
        part = [row for row in rows if row.time_ns <= cut]
        rows = rows[len(part) :]
        random.shuffle(part)
        spelled += [spell for _, spell in found.take(part)]
        again = Stragglers()
        again.load(found.state())
        assert again.state() == found.state()
        found = again
    assert spelled + found.finish() == expected
