"""Steps that last longer than usual are told with their cost, who was waited for, and what is behind them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analytics.not_the_fabric import CLASS
from analytics.stalls import CASCADE, NOT_THE_FABRIC, UNKNOWN, Stall, Stalls, joined
from analytics.stragglers import StepRow
from stream.cascade import Cascade
from stream.kinds import COMPUTE_TIME, STEP_TIME
from tests.analytics.test_stragglers import MS, rows_of, steps
from tests.pausetrace.sample_cascades import SLOW_RECEIVER

LONG_RUNS = Path(__file__).parents[1] / "data/training"


def stalls_of(rows: list[StepRow]) -> list[Stall]:
    found = Stalls()
    found.take(rows)
    return found.finish()


def test_a_stall_has_its_cost_its_rank_and_what_a_mean_said() -> None:
    table, lengths = steps(40, dict.fromkeys(range(20, 32), 130 * MS))
    (stall,) = stalls_of(rows_of(table, lengths))
    usual = int(np.median(lengths[:20]))
    assert (stall.job, stall.first_step, stall.last_step, stall.long_steps, stall.ranks) == ("7", 20, 31, 12, 8)
    assert (stall.step_ns, stall.usual_ns) == (140 * MS, usual)
    assert stall.cost_rank_ns == 12 * 8 * (140 * MS - usual)
    assert stall.waiting_rank_ns == sum(8 * (130 * MS - int(np.median(list(c.values())))) for c in table[20:32])
    assert [(behind.device, behind.rank, behind.steps) for behind in stall.ranks_behind] == [("h0", "rank0", 12)]
    assert stall.mean_ns == pytest.approx(np.mean(list(table[25].values())), rel=0.001)
    assert stall.mean_usual_ns == pytest.approx(np.mean(list(table[5].values())), rel=0.001)
    assert stall.cause == NOT_THE_FABRIC


def test_long_steps_with_others_between_them_are_one_stall_and_fewer_than_three_are_none() -> None:
    table, lengths = steps(80, dict.fromkeys((20, 30, 40, 70), 130 * MS))
    (stall,) = stalls_of(rows_of(table, lengths))
    assert (stall.first_step, stall.last_step, stall.long_steps) == (20, 40, 3)
    assert stalls_of(rows_of(*steps(60, dict.fromkeys((20, 30), 130 * MS)))) == []


def test_where_all_compute_in_time_the_time_is_lost_in_the_exchange() -> None:
    table, lengths = steps(40, {})
    rows = []
    for row in rows_of(table, lengths):
        slow = row.step >= 20 and row.kind == STEP_TIME
        late = (40 if row.device in ("h3", "h4") else 0) * MS if slow else 0
        rows.append(row._replace(time_ns=row.time_ns + late + row.step * 50 * MS, value_ns=row.value_ns + late))
    (stall,) = stalls_of(rows)
    assert not stall.own_compute
    assert [behind.device for behind in stall.ranks_behind] == ["h3", "h4"]
    assert stall.cause == UNKNOWN


def cascade_at(stall: Stall, device: str, severity: str = "warning") -> Cascade:
    queue = msgspec.structs.replace(SLOW_RECEIVER.queues[0], device=device)
    return msgspec.structs.replace(
        SLOW_RECEIVER, queues=(queue,), roots=(), severity=severity, start_ns=stall.start_ns, end_ns=stall.start_ns + 1
    )


@pytest.mark.parametrize(
    ("device", "severity", "own_compute", "cause"),
    [
        ("h0", "warning", True, CASCADE),  # the rank's own host was held up
        ("h5", "warning", True, NOT_THE_FABRIC),  # another one was
        ("h0", "info", True, NOT_THE_FABRIC),
        ("h5", "critical", False, CASCADE),  # of whole steps, anybody's pause may be the reason
        ("h5", "info", False, UNKNOWN),
    ],
)
def test_a_cascade_is_behind_a_stall_or_it_is_not_the_fabric(
    device: str, severity: str, own_compute: bool, cause: str
) -> None:
    rows = rows_of(*steps(40, dict.fromkeys(range(20, 32), 130 * MS)))
    if not own_compute:
        rows = [row._replace(kind=STEP_TIME) for row in rows if row.kind == COMPUTE_TIME]
    (stall,) = stalls_of(rows)
    told = joined(stall, [cascade_at(stall, device, severity)])
    assert told.cause == cause
    assert told.cascades == ((SLOW_RECEIVER.id,) if cause == CASCADE else ())


LAYERS = ("compute", "pcie", "nic", "link", "queue", "storage", "application")


@pytest.mark.parametrize("layer", LAYERS)
def test_the_layer_where_it_began_is_joined_to_the_rank_that_was_waited_for(layer: str) -> None:
    (stall,) = stalls_of(rows_of(*steps(40, dict.fromkeys(range(20, 32), 130 * MS))))
    large = msgspec.structs.replace(SLOW_RECEIVER.roots[0], device="h9", share_ppm=900_000, layer=layer)
    small = msgspec.structs.replace(large, device="h8", share_ppm=100_000, layer="")
    cascade = msgspec.structs.replace(cascade_at(stall, "h0"), roots=(small, large), suspect_set=False)
    assert joined(stall, [cascade]).layer == layer
    assert joined(stall, [msgspec.structs.replace(cascade, suspect_set=True)]).layer == ""
    # Held up by nothing, the rank is late by itself: what its host reported says where, else it is the host's compute.
    own = msgspec.structs.replace(large, device="h0", root_class=CLASS, layer=layer)
    verdict = msgspec.structs.replace(cascade, roots=(own,), queues=(), pauses=0)
    told = joined(stall, [verdict])
    assert (told.cause, told.layer) == (NOT_THE_FABRIC, layer)
    other = msgspec.structs.replace(verdict, roots=(msgspec.structs.replace(own, device="h5"),))
    assert joined(stall, [other]).layer == "compute"


def test_one_cascade_long_before_explains_nothing() -> None:
    (stall,) = stalls_of(rows_of(*steps(40, dict.fromkeys(range(20, 32), 130 * MS))))
    early = msgspec.structs.replace(cascade_at(stall, "h0"), start_ns=stall.start_ns - 2, end_ns=stall.start_ns - 1)
    assert joined(stall, [early]).cause == NOT_THE_FABRIC


@pytest.mark.parametrize("seed", range(4))
def test_stalls_do_not_depend_on_how_rows_come_in(seed: int) -> None:
    rows = sorted(rows_of(*steps(60, dict.fromkeys(range(20, 50), 130 * MS))))
    expected, found, random = stalls_of(rows), Stalls(), np.random.default_rng(seed)
    while rows:
        cut = rows[min(int(random.integers(1, 300)), len(rows)) - 1].time_ns
        part = [row for row in rows if row.time_ns <= cut]
        rows = rows[len(part) :]
        random.shuffle(part)
        found.take(part)
    assert found.finish() == expected


def long_run(name: str, with_compute: bool) -> Iterator[StepRow]:
    """A recorded run of 256 ranks, of which every fourth is kept, and the one that slows down."""
    with gzip.open(LONG_RUNS / name / "steps.csv.gz", "rt") as file:
        for line in list(file)[1:]:
            step, host, start, computed, end = line.strip().split(",")
            start_ns = int(start)
            rank = f"rank{host[1:]}"
            if with_compute:
                yield StepRow(int(computed), 1, COMPUTE_TIME, host, rank, int(step), int(computed) - start_ns)
            yield StepRow(int(end), 1, STEP_TIME, host, rank, int(step), int(end) - start_ns)


@pytest.mark.parametrize("with_compute", [True, False])
def test_a_recorded_straggler_is_named_and_costs_what_the_truth_says(with_compute: bool) -> None:
    truth = json.loads((LONG_RUNS / "long_straggler-ls16-s6/truth.json").read_text())
    rows = sorted(long_run("long_straggler-ls16-s6", with_compute))
    (stall,) = stalls_of(rows)
    fault = truth["not_the_fabric"][0]
    named = [behind.device for behind in stall.ranks_behind]
    assert named == ([fault["host"]] if with_compute else ["h141", "h157"])
    assert stall.first_step == fault["first_step"]
    lengths, base = truth["step_ms"]["all"], truth["step_ms"]["base"]
    cost_rank_s = sum(length - base for length in lengths[fault["first_step"] :]) * stall.ranks / 1e3
    assert stall.cost_rank_ns / 1e9 == pytest.approx(cost_rank_s, rel=0.1)
    assert stall.cause == (NOT_THE_FABRIC if with_compute else UNKNOWN)


@pytest.mark.parametrize("with_compute", [True, False])
def test_a_recorded_healthy_run_has_no_stall(with_compute: bool) -> None:
    assert stalls_of(sorted(long_run("long_healthy-ls16-s14", with_compute))) == []
