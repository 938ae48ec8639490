"""Stories: what goes wrong, where it truly began, and that shortcuts change nothing."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulation.fabric import SCENARIOS, Story, story
from simulation.fabric import layout as at
from simulation.fabric.settings import Settings
from simulation.fabric.story_truth import truth
from simulation.fabric.writing import write
from simulation.judge import score_case
from simulation.trace import read_trace
from simulation.truth import read_truth
from stream.errors import ConfigError

SMALL: dict[str, Any] = {
    "hosts": 64,
    "steps": 6,
    "message_bytes": 6_000_000,
    "compute_ns": 300_000,
    "fault_steps": (2, 4),
}
NO_PAUSE = ("healthy", "slow_rank", "link_errors")
NO_PLACE = ("pfc_deadlock",)


@functools.cache
def small(scenario: str, seed: int = 1) -> Story:
    return story(scenario, seed=seed, **SMALL)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in NO_PAUSE + NO_PLACE])
def test_pause_time_begins_where_the_fault_was_planted(scenario: str) -> None:
    told = small(scenario)
    shares = told.roots.shares()
    planted = {(root["device"], root["port"]) for root in truth(told)["expected_roots"]}
    assert sum(shares.get(root, 0.0) for root in planted) > 0.7
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("scenario", NO_PAUSE)
def test_nobody_is_paused_where_no_fault_stops_anybody(scenario: str) -> None:
    assert not len(small(scenario).run.pauses)


def test_a_narrow_slot_slows_every_step_while_it_lasts() -> None:
    told = small("pcie_narrow")
    first, last = 2, 4
    healthy = told.step_ns[:first].mean()
    assert (told.step_ns[first:last] > 2 * healthy).all()
    assert (np.abs(told.step_ns[last:] / healthy - 1) < 0.01).all()
    assert not told.run.fabric.into[:, at.IN_DROPPED].any()
    wire = told.run.fabric.flow[:, at.FLOW_TOTAL].sum() * told.plot.steps
    inner = told.counters.tx_bytes[np.isin(told.counters.link, told.plot.wires.to_fabric)].sum()
    assert inner == wire


def test_a_slow_rank_holds_up_its_job_without_any_pause() -> None:
    told = small("slow_rank")
    rank = int(np.flatnonzero(told.plot.ranks == told.topology.devices.index(told.plot.faults[0].device))[0])
    own = told.run.computed_ns - told.run.released_ns
    assert (own[2:4].argmax(axis=1) == rank).all()
    assert (told.step_ns[2:4] > 1.1 * told.step_ns[0]).all()
    assert truth(told)["not_the_fabric"][0]["host"] == told.plot.faults[0].device


def test_a_deadlock_ends_the_story() -> None:
    told = small("pfc_deadlock")
    assert told.run.is_locked
    assert len(told.run.released_ns) == 2
    assert truth(told)["expected_roots"] == [
        {"cls": "pfc_deadlock", "start_ns": told.run.fault_ns[0][0], "end_ns": told.run.fault_ns[0][1]}
    ]


def test_express_flows_end_as_stepped_ones_do() -> None:
    sizes = {"hosts": 256, "steps": 2, "message_bytes": 3_000_000, "compute_ns": 300_000, "fault_steps": (1, 2)}
    quick = story("pcie_narrow", **sizes)  # type: ignore[arg-type]  # sizes by name
    full = story("pcie_narrow", **sizes, use_express=False)  # type: ignore[arg-type]  # as above
    assert np.abs(quick.step_ns / full.step_ns - 1).max() < 0.005
    stopped = [np.unique(told.run.pauses[:, 1]) for told in (quick, full)]
    assert stopped[0].tolist() == stopped[1].tolist()
    paused = [told.counters.rx_paused_ns.sum() for told in (quick, full)]
    assert paused[0] == pytest.approx(paused[1], rel=0.02)
    for name in ("tx_bytes", "rx_bytes"):
        totals = [np.bincount(told.counters.link, getattr(told.counters, name), minlength=1) for told in (quick, full)]
        assert totals[0].tolist() == totals[1].tolist()
    assert quick.run.fabric.state[at.MOVES] * 10 < full.run.fabric.state[at.MOVES]


def test_equal_seeds_tell_the_same_story() -> None:
    one, two, other = (story("incast", seed=seed, **SMALL) for seed in (4, 4, 5))
    assert np.array_equal(one.run.pauses, two.run.pauses)
    assert np.array_equal(one.run.ended_ns, two.run.ended_ns)
    assert np.array_equal(one.counters.tx_bytes, two.counters.tx_bytes)
    assert one.roots.shares() == two.roots.shares()
    assert not np.array_equal(one.run.pauses, other.run.pauses)


def test_buffers_are_empty_after_a_story() -> None:
    fabric = small("two_faults").run.fabric
    assert not fabric.held.any()
    assert not fabric.into[:, [at.IN_HELD, at.IN_HEADROOM]].any()


def test_a_story_is_a_trace_like_any_other(tmp_path: Path) -> None:
    told = small("degraded_link")
    write(told, tmp_path / "one")
    trace = read_trace(tmp_path / "one")
    assert trace.period_ns == told.plot.bin_ns
    assert trace.pauses is not None
    assert len(trace.pauses.time_ns) == len(told.run.pauses)
    assert trace.counters is not None
    paused = trace.counters.rx_paused_ns
    assert paused is not None
    assert paused.sum() == told.counters.rx_paused_ns.sum()
    assert trace.steps is not None
    assert len(trace.steps.host) == 64 * 6
    known = read_truth(tmp_path / "one")
    assert known.planted[0].root_class == "link_degraded"
    assert sum(known.roots.values()) == pytest.approx(1)
    assert sum(known.edges.values()) == pytest.approx(1)
    assert set(known.label_of_flow.values()) >= {"contributor", "victim"}
    assert score_case(tmp_path / "one", []).windows[0].planted >= 1


def test_victims_are_those_that_the_run_without_the_fault_does_not_hold_up() -> None:
    labels = truth(small("pcie_narrow"))["flows"]
    told = small("pcie_narrow")
    slow = told.topology.devices.index(told.plot.faults[0].device)
    assert sorted(labels["contributor"]) == np.flatnonzero(told.flows.dst == slow).tolist()
    assert labels["victim"]
    assert len(labels["unaffected"]) > 100


def test_a_name_that_is_no_scenario_is_refused() -> None:
    with pytest.raises(ConfigError, match="no scenario 'nothing'"):
        story("nothing")


@pytest.mark.parametrize("scenario", ["pcie_narrow", "ecmp_collision", "degraded_link"])
def test_rails_tell_the_same_story(scenario: str) -> None:
    told = story(scenario, **SMALL | {"hosts": 256, "rails": 8})
    assert told.topology.hosts[9] == "s1r1"
    planted = {(root["device"], root["port"]) for root in truth(told)["expected_roots"]}
    assert sum(told.roots.shares().get(root, 0.0) for root in planted) > 0.7


def test_traffic_beside_the_training_moves_the_steps_a_little() -> None:
    told = story("healthy", **SMALL | {"message_bytes": 1_000_000, "compute_ns": 3_000_000, "background_load": 0.1})
    beside = ~told.flows.is_training
    early = beside & (told.flows.start_ns < told.run.end_ns - 2_000_000)
    assert early.sum() > 5
    assert (told.run.fabric.flow[early, at.FLOW_DONE] > 0).all()
    alone = story("healthy", **SMALL | {"message_bytes": 1_000_000, "compute_ns": 3_000_000})
    assert told.step_ns.sum() > alone.step_ns.sum()


def test_a_log_that_is_too_long_is_told_to_be_cut(tmp_path: Path) -> None:
    told = small("pcie_narrow")
    write(told, tmp_path / "cut", most_events=100)
    trace = read_trace(tmp_path / "cut")
    assert trace.pauses is None
    assert any("100 of" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"hosts": 8}, "hosts of a story cannot be 8"),
        ({"hosts": 70}, "hosts of a story cannot be 70"),
        ({"rails": 3}, "hosts of a story cannot be 64"),
        ({"steps": 0, "fault_steps": None}, "steps of a story cannot be 0"),
        ({"queue_pairs": 0}, "queue_pairs of a story cannot be 0"),
        ({"message_bytes": -5}, "message_bytes of a story cannot be -5"),
        ({"message_bytes": 10**12}, "message_bytes of a story cannot be 1000000000000"),
        ({"compute_ns": 10**15}, "bin_ns of a story cannot be 100000"),
        ({"bin_ns": 0}, "bin_ns of a story cannot be 0"),
        ({"jitter_ratio": 5.0}, "jitter_ratio of a story cannot be 5.0"),
        ({"background_load": 5.0}, "background_load of a story cannot be 5.0"),
        ({"fault_steps": (-3, 4)}, "fault_steps of a story cannot be"),
        ({"fault_steps": (50, 60)}, "fault_steps of a story cannot be"),
        ({"fault_steps": (3, 3)}, "fault_steps of a story cannot be"),
    ],
)
def test_a_story_that_cannot_be_played_is_an_error_that_says_what_can(sizes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        story("pcie_narrow", **{**SMALL, **sizes})


@pytest.mark.parametrize(
    "sizes", [{"priorities": (9,)}, {"priorities": ()}, {"priorities": (3, 3)}, {"tick_ns": 0}, {"pause_quanta": -1}]
)
def test_a_fabric_that_cannot_be_is_an_error(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(sizes))} of a fabric cannot be"):
        Settings(**sizes)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "two_faults"])
def test_a_story_of_one_step_and_the_fewest_hosts_has_its_fault_in_it(scenario: str) -> None:
    told = story(scenario, hosts=16, steps=1, message_bytes=1_000_000, compute_ns=100_000)
    assert all(begin < end for begin, end in told.run.fault_ns)
    assert truth(told)


def test_two_faults_need_two_steps() -> None:
    with pytest.raises(ConfigError, match="two steps at least"):
        story("two_faults", hosts=16, steps=1)
