"""Small cascades beside which ends of pauses were lost: how many pieces of others they may be, against a slow twin."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from analytics import layout, told_pauses
from analytics.engine import Engine
from analytics.told_pauses import MAX_PAUSES, ToldPauses
from analytics.topology import PRIORITIES, Topology
from simulation.degrade import Degradation, degrade
from simulation.trace import read_trace
from stream.cascade import Cascade
from tests.analytics.engine_by_names import facts
from tests.analytics.long_runs import NS3, START_NS, repeated, stretched, ticking
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import BEGIN_NS, Story
from tests.analytics.test_determinism import finals

US, MS = 1_000, 1_000_000
Pause = tuple[int, int, int, int]
"""Told queue, begin, end, whether its end was guessed."""


def topology() -> Topology:
    engine = Engine("lab", Counter())
    for fact in facts(leaf_spine(3, 2, 2)):
        engine.add_fact(fact)
    engine.advance(0, layout.GAP_NS, lambda closed: None)
    return engine.topology


def told(pauses: list[Pause]) -> ToldPauses:
    rows = np.zeros((len(pauses), layout.ROW_COLUMNS), np.int64)
    for row, (queue, begin_ns, end_ns, guessed) in zip(rows, pauses, strict=True):
        row[layout.ROW_TYPE], row[layout.ROW_QUEUE], row[layout.ROW_ID] = layout.CLOSE, queue, guessed
        row[layout.ROW_START] = begin_ns
        row[layout.ROW_TIME] = row[layout.ROW_END] = end_ns
    kept = ToldPauses()
    half = len(rows) // 2
    kept.take(rows[half:])
    kept.take(rows[:half])
    return kept


def slowly(
    pauses: list[Pause], queues: list[int], start_ns: int, end_ns: int, rounds: int, stopped_ns: int, where: Topology
) -> tuple[int, float]:
    """Pause by pause, by devices."""

    def ends(queue: int) -> set[int]:
        peer = int(where.port_peer[queue // PRIORITIES])
        return {int(where.port_device[port]) for port in (queue // PRIORITIES, peer) if port >= 0}

    here = set().union(*(ends(queue) for queue in queues))
    around = [p for p in pauses if start_ns - layout.GAP_NS <= p[2] <= end_ns + layout.GAP_NS]
    near = [p for p in around if ends(p[0]) & here]
    lost = [p for p in near if p[3] and any(o[0] == p[0] and o[2] > p[2] for o in around)]
    others = [p for p in near if not (p[0] in queues and start_ns <= p[2] <= end_ns)]
    beside = [p for p in lost if p in others]
    if not beside:
        return 0, 0.0
    usual_ns = sum(end - begin for _, begin, end, _ in others) // len(others) + layout.MEMORY_NS
    in_a_row = min(max(rounds, stopped_ns // usual_ns), 1 + (end_ns - start_ns) // usual_ns)
    return len(beside), len(beside) * (len(lost) / len(near)) ** (in_a_row - 1)


@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_those_of_the_twin(seed: int) -> None:
    random, where = Random(seed), topology()
    linked = np.flatnonzero(where.port_peer >= 0).tolist()
    ends = random.sample(range(30 * MS // US), 60)
    pauses = []
    for end_us in ends:
        length_ns = random.randint(0, 50) * US
        queue = random.choice(linked) * PRIORITIES + 3
        pauses.append((queue, end_us * US - length_ns, end_us * US, int(random.random() < 0.3)))
    queues = random.sample([queue for queue, *_ in pauses], 3)
    start_ns = random.randint(0, 20) * MS
    end_ns, rounds = start_ns + random.randint(0, 200) * US, random.randint(1, 6)
    stopped_ns = random.randint(0, 300) * US
    found = told(pauses).cut_off(queues, start_ns, end_ns, rounds, stopped_ns, where)
    assert found == pytest.approx(slowly(pauses, queues, start_ns, end_ns, rounds, stopped_ns, where))


def test_a_pause_that_never_ended_is_no_loss() -> None:
    where = topology()
    queue = int(np.flatnonzero(where.port_peer >= 0)[0]) * PRIORITIES + 3
    once = [(queue, 10 * US, 20 * US, 1)]
    assert told(once).cut_off([queue], 100 * US, 200 * US, 1, 0, where) == (0, 0.0)
    again = [*once, (queue, 30 * US, 40 * US, 0)]
    assert told(again).cut_off([queue], 100 * US, 200 * US, 1, 0, where) == (1, 1.0)


def test_what_no_cascade_can_ask_for_is_dropped_and_so_are_the_oldest_of_too_many() -> None:
    kept = told([(3, 10 * US, 20 * US, 0), (3, 30 * US, 40 * US, 0)])
    assert kept.forget(30 * US, 50 * US) == 0
    assert kept.near(0, 0)[:, 0].tolist() == [40 * US]
    many = told([(3, at, at + 1, 0) for at in range(MAX_PAUSES + 5)])
    assert len(many.near(0, 0)) == MAX_PAUSES
    assert many.forget(0, layout.FOREVER - layout.GAP_NS) == 5
    assert many.near(0, 0)[:, 0].min() == 6


def test_of_too_many_a_cascade_sees_the_same_however_rows_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, loss = read_trace(NS3 / "two_roots-ls-s1", frozenset()), Degradation("loss=.3", loss=0.3)
    lossy = degrade(trace, {}, loss, 0, source="trace", epoch="e1", start_ns=START_NS)
    assert lossy is not None
    streams = stretched(lossy.streams, 20)
    items = ticking(repeated(streams, 2, streams.end_ns - streams.from_ns + 3 * MS), MS)
    with_all = finals(items, 1_000_000)
    monkeypatch.setattr(told_pauses, "MAX_PAUSES", 20)
    at_once = finals(items, 1_000_000)
    assert at_once != with_all
    assert finals(items, 97) == at_once


DOWN, TO_H10 = ("spine0", "p1", 3), ("leaf1", "d0", 3)


def beside_twenty_stops() -> Cascade:
    """One stop of the spine by a leaf, at which a host stops a port twenty times later on."""
    story = Story(leaf_spine(2, 1, 2))
    story.depth(TO_H10, 0, 100 * US, 200_000)
    story.pause(DOWN, 50 * US, 80 * US)
    for number in range(20):
        begin_ns = (1_000 + 100 * number) * US
        story.pause(("leaf1", "d1", 3), begin_ns, begin_ns + 30 * US)
    first = min(story.finals(), key=lambda cascade: cascade.start_ns)
    assert first.pauses == 1
    return first


def test_a_lone_stop_beside_lost_ends_is_believed_less(monkeypatch: pytest.MonkeyPatch) -> None:
    sure = beside_twenty_stops()
    assert sure.confidence_parts["time"] == 1_000_000
    assert not any("piece of another" in what for what in sure.missing_evidence)
    take = ToldPauses.take

    def three_are_guessed(kept: ToldPauses, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        begun_us = (rows[:, layout.ROW_START] - BEGIN_NS) // US
        guessed = rows.copy()
        guessed[(begun_us >= 1_000) & (begun_us < 1_300), layout.ROW_ID] |= layout.MARK_GUESSED
        take(kept, guessed)

    monkeypatch.setattr(ToldPauses, "take", three_are_guessed)
    doubted = beside_twenty_stops()
    assert doubted.confidence_parts["time"] == 250_000
    assert (
        "3 ends that were guessed beside it, so that it may be a piece of another cascade" in doubted.missing_evidence
    )
    assert doubted.suspect_set


def test_of_more_pauses_than_are_asked_for_the_newest_count() -> None:
    kept = told([(8 * n, 1_000 * n, 1_000 * n + 500, 0) for n in range(10)])
    assert kept.near(0, 20_000)[:, told_pauses.START].tolist() == [1_000 * n for n in range(10)]
    assert kept.near(0, 20_000, 3)[:, told_pauses.START].tolist() == [7_000, 8_000, 9_000]
