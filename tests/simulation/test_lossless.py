"""The fluid model of a lossless fabric: what can be worked out by hand comes out, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulation.lossless import (
    BYTES_PER_STEP,
    XOFF_BYTES,
    XON_BYTES,
    Burst,
    Plan,
    PlannedFlow,
    Slow,
    run,
    shortest_path,
    slowed_by,
)
from simulation.model_trace import CounterRow, write_model_trace
from simulation.trace import read_trace

MB = 1_000_000


def two_to_one(size_bytes: int, rate: float = 1.0, steps: int = 1_000) -> Plan:
    """Two hosts of one switch send to a third."""
    plan = Plan({"a", "b", "c"}, steps=steps)
    for number, host in enumerate("abc"):
        plan.cable((host, "eth0"), ("s", f"p{number}"))
    plan.flows = [PlannedFlow(((host, "eth0"), ("s", "p2")), (Burst(0, size_bytes, rate),)) for host in "ab"]
    return plan


@pytest.mark.parametrize("pausing", [True, False])
def test_two_senders_share_a_link_and_are_through_when_it_has_carried_all(pausing: bool) -> None:
    happened = run(two_to_one(MB), pausing=pausing)
    # The link carries 2 MB in 160 steps; the way there and out takes some more.
    assert max(happened.done) == pytest.approx(2 * MB / BYTES_PER_STEP, abs=4)
    assert sum(happened.sent_bytes[:, happened.ports.index(("s", "p2"))].tolist()) == pytest.approx(2 * MB, abs=20)


def test_an_ingress_stops_its_peer_at_the_threshold_and_lets_it_go_below_the_other() -> None:
    happened = run(two_to_one(MB))
    first = happened.pauses[0]
    # Each of two ingresses fills with half of line rate.
    assert first.step == pytest.approx(XOFF_BYTES / (BYTES_PER_STEP / 2), abs=3)
    assert {pause.port for pause in happened.pauses} == {("a", "eth0"), ("b", "eth0")}
    mine = [pause.step for pause in happened.pauses if pause.port == first.port]
    # A stopped one drains at half of line rate, and first what was on the cable.
    drained = XOFF_BYTES - XON_BYTES + BYTES_PER_STEP
    assert mine[1] - mine[0] == pytest.approx(drained / (BYTES_PER_STEP / 2), abs=2)
    assert happened.peak_bytes.max() < 2 * (XOFF_BYTES + 3 * BYTES_PER_STEP) + happened.sent_bytes.max()


def test_pauses_cost_nobody_anything_where_the_link_is_full_anyway() -> None:
    plan = two_to_one(MB)
    assert slowed_by(plan, run(plan)) < 0.01


def test_who_waits_behind_a_stopped_host_is_slowed() -> None:
    plan = two_to_one(MB, rate=0.4)
    plan.flows.append(PlannedFlow((("a", "eth0"), ("s", "p1")), (Burst(0, MB, 0.4),)))
    plan.slow.append(Slow("c", 20, 320, 0.0))
    happened = run(plan)
    assert slowed_by(plan, happened) > 0.1
    stopped = happened.stopped_steps.sum(axis=0)
    assert stopped[happened.ports.index(("s", "p2"))] > 250


def test_a_host_that_stalls_for_good_leaves_bytes_that_nothing_moves() -> None:
    plan = two_to_one(MB, steps=3_000)
    plan.slow.append(Slow("c", 0, 3_000, 0.0))
    happened = run(plan)
    assert 0 <= happened.stuck_from < 1_000
    assert happened.done == [-1, -1]


def test_equal_ways_are_chosen_between_and_longer_ones_are_not_taken() -> None:
    plan = Plan({"a", "b"})
    for spine in ("x", "y"):
        plan.cable(("la", f"to-{spine}"), (spine, "a"))
        plan.cable(("lb", f"to-{spine}"), (spine, "b"))
    plan.cable(("x", "y"), ("y", "x"))
    plan.cable(("a", "eth0"), ("la", "d"))
    plan.cable(("b", "eth0"), ("lb", "d"))
    ways = {shortest_path(plan.peers, plan.hosts, "a", "b", choice) for choice in range(4)}
    assert ways == {(("a", "eth0"), ("la", f"to-{spine}"), (spine, "b"), ("lb", "d")) for spine in ("x", "y")}


def test_a_run_is_read_back_as_a_trace_with_what_dirty_counters_add(tmp_path: Path) -> None:
    plan = two_to_one(MB)
    happened = run(plan)
    folder = write_model_trace(tmp_path / "t", plan, happened, "x", dirt=[CounterRow(0, ("s", "p0"), 7, 0, 9)])
    trace = read_trace(folder)
    assert trace.pauses is not None
    assert trace.counters is not None
    assert len(trace.pauses.time_ns) == len(happened.pauses)
    port = trace.ports.index["s", "p0"]
    assert trace.counters.rx_paused_ns is not None
    first = (trace.counters.port == port) & (trace.counters.end_ns == 100_000)
    assert trace.counters.rx_pause_frames[first].tolist() == [7]
    assert trace.counters.rx_paused_ns[first].tolist() == [9]
    told = trace.counters.port == trace.ports.index["a", "eth0"]
    assert (
        trace.counters.rx_paused_ns[told].sum()
        == happened.stopped_steps[:, happened.ports.index(("a", "eth0"))].sum() * 1_000
    )
    assert trace.flow_bytes is not None
    assert np.isclose(trace.flow_bytes.tx_bytes.sum(), 4 * MB, atol=50)
