"""The model against runs of a packet-level simulator that this project did not make, tick of 200 ns."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

from simulation.fabric import layout as at
from simulation.fabric.agreement import Agreement, agreement, paused_time
from simulation.fabric.fabric import Fabric
from simulation.fabric.recorded import play
from simulation.fabric.settings import Settings
from simulation.trace import read_trace
from simulation.trace_columns import Trace

TRACES = Path(__file__).parents[2] / "data" / "ns3"
TICK_NS = 200


class Case(NamedTuple):
    """The buffer is read from the levels of XOFF in truth_edges.csv; the slow ports are those of truth.json."""

    buffer_kb: int
    rates_mbps: Mapping[tuple[str, str], int] = MappingProxyType({})
    payload: int = 1000


WITH_PAUSES = {
    "slow_receiver-ft4-s1": Case(1500, {("h9", "pcie"): 31_500}),
    "slow_receiver_multi-ls-s1": Case(1500, {("h13", "pcie"): 31_500}),
    "nic_storm-ls-s1": Case(1500, {("h5", "pcie"): 100}),
    "degraded_link-ls-s1": Case(1500, {("leaf1", "p7"): 20_000}),
    "ecmp_collision-ls-s1": Case(4000),
    "incast-ls-s1": Case(1500),
    "incast-ft4-s1": Case(2500),
    "spine_downlink-ls-s2": Case(1500),
    "two_roots-ls-s1": Case(2500, {("h5", "pcie"): 24_000}),
    "ring_slow-ls-s1": Case(8000, {("h4", "pcie"): 24_000}),
}
NEGATIVES = {"microburst_ecn-ls-s1": Case(8000), "normal-ls-s1": Case(1500)}
RING = Case(1000, payload=1400)
"""Four switches in a ring; of the run without a deadlock the hosts' links have half the rate."""
HALF = {(host, "eth0"): 50_000 for host in ("h4", "h6", "h9", "h11")}


@functools.cache
def trace_of(name: str) -> Trace:
    return read_trace(TRACES / name)


def run(name: str, case: Case, end_ns: int | None = None, seed: int = 1) -> tuple[Fabric, int]:
    trace = trace_of(name)
    settings = Settings(
        tick_ns=TICK_NS,
        seed=seed,
        buffer_bytes=case.buffer_kb * 1000,
        nic_buffer_bytes=case.buffer_kb * 1000,
        payload_bytes=case.payload,
        header_bytes=48,
        acks=True,
    )
    fabric = play(trace, settings, case.rates_mbps)
    if end_ns is None:
        assert trace.counters is not None
        end_ns = int(trace.counters.end_ns.max())
    fabric.run(end_ns // TICK_NS)
    return fabric, end_ns


def compared(name: str, case: Case) -> Agreement:
    fabric, end_ns = run(name, case)
    trace = trace_of(name)
    pauses, ports = trace.pauses, trace.ports
    assert pauses is not None
    names = [(trace.devices[int(ports.device[p])], ports.names[p]) for p in pauses.port.tolist()]
    true = paused_time(zip(pauses.time_ns.tolist(), names, pauses.xoff.tolist(), strict=True), end_ns)
    log = fabric.pause_log()
    log = log[~fabric.wires.is_inside_host[log[:, 1]]]
    told = ((time * TICK_NS, fabric.wires.end(queue), bool(stop)) for time, queue, stop in log.tolist())
    return agreement(true, paused_time(told, end_ns))


def lost_bytes(fabric: Fabric) -> int:
    own = fabric.flow[: fabric.flow_count]
    there = fabric.queued_bytes() + fabric.in_flight_bytes()
    return int(own[:, at.FLOW_SENT].sum() - own[:, at.FLOW_DELIVERED].sum()) - there


def test_pause_time_by_port_agrees_with_packet_level_runs() -> None:
    found = [compared(name, case) for name, case in WITH_PAUSES.items()]
    assert np.mean([one.port_f1 for one in found]) >= 0.97, found
    assert np.mean([one.least_f1 for one in found]) >= 0.93, found


@pytest.mark.parametrize("name", NEGATIVES)
def test_what_paused_nobody_pauses_nobody(name: str) -> None:
    fabric, _ = run(name, NEGATIVES[name])
    assert not fabric.into[:, at.IN_XOFFS].any()
    assert (fabric.flow[: fabric.flow_count, at.FLOW_DONE] > 0).all()


def test_slow_ports_are_those_of_the_truth() -> None:
    for name, case in WITH_PAUSES.items():
        planted = json.loads((TRACES / name / "truth.json").read_text())["expected_roots"]
        told = {
            (root["device"], "pcie" if "pcie_mbps" in root else root["port"]): mbps
            for root in planted
            if (mbps := root.get("actual_mbps", root.get("pcie_mbps")))
        }
        assert told.items() <= case.rates_mbps.items()


@pytest.mark.parametrize("name", ["incast-ft4-s1", "two_roots-ls-s1"])
def test_bytes_are_conserved(name: str) -> None:
    fabric, _ = run(name, WITH_PAUSES[name], end_ns=600_000)
    into, out = fabric.into, fabric.out
    assert lost_bytes(fabric) == 0
    assert into[:, at.IN_DROPPED].sum() == 0
    in_buffers = int((into[:, at.IN_HELD] + into[:, at.IN_HEADROOM]).sum())
    assert in_buffers == int(fabric.held.sum())
    # What hosts send themselves, acknowledgements, waits in no switch.
    own = out[:, at.OUT_IS_SOURCE] == 1
    assert in_buffers == int(out[~own, at.OUT_BYTES].sum())
    assert in_buffers > 0


def test_a_buffer_is_empty_when_all_is_delivered() -> None:
    fabric, _ = run("incast-ls-s1", WITH_PAUSES["incast-ls-s1"], end_ns=20_000_000)
    assert (fabric.flow[: fabric.flow_count, at.FLOW_DONE] > 0).all()
    assert not fabric.held.any()
    assert not fabric.into[:, [at.IN_HELD, at.IN_HEADROOM]].any()
    assert not fabric.node[:, at.NODE_SHARED].any()


def test_equal_seeds_give_equal_logs_and_others_do_not() -> None:
    name = "ecmp_collision-ls-s1"
    first, again, other = (run(name, WITH_PAUSES[name], seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first.pause_log(), again.pause_log())
    assert np.array_equal(first.contents_log(), again.contents_log())
    for one, two in zip(first.counts(), again.counts(), strict=True):
        assert np.array_equal(one, two)
    assert not np.array_equal(first.pause_log(), other.pause_log())


def test_a_deadlock_locks_for_ever() -> None:
    fabric, _ = run("deadlock-hk-s4", RING, end_ns=3_000_000)
    stopped = {
        fabric.wires.end(queue)
        for queue in np.flatnonzero(fabric.out[:, at.OUT_PAUSED]).tolist()
        if not fabric.wires.is_inside_host[queue]
    }
    truth = json.loads((TRACES / "deadlock-hk-s4" / "truth.json").read_text())
    assert {tuple(port) for port in truth["expected_roots"][0]["cycle_ports"]} <= stopped
    members = truth["flows"]["deadlock_member"]
    assert (fabric.flow[members, at.FLOW_DONE] < 0).all()
    sent = fabric.flow[members, at.FLOW_SENT].copy()
    fabric.run(6_000_000 // TICK_NS)
    assert np.array_equal(sent, fabric.flow[members, at.FLOW_SENT])


def test_the_same_ring_with_slower_hosts_does_not_lock() -> None:
    fabric, _ = run("deadlock_none-hk-s1", RING._replace(rates_mbps=HALF), end_ns=5_000_000)
    assert not fabric.into[:, at.IN_XOFFS].any()
    done_us = (fabric.flow[:4, at.FLOW_DONE] * TICK_NS) / 1000
    assert np.abs(done_us / 3340 - 1).max() < 0.02
