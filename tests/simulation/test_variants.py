"""The same run under other names and at other speeds, and the way back."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from simulation.judge import score_case
from simulation.trace import read_trace
from simulation.trace_columns import Trace
from simulation.trace_rows import trace_streams
from simulation.variants import OldNames, Restorer, renamed, scaled
from stream.facts import Flow, Link
from stream.kinds import UNKNOWN
from tests.simulation.perfect_answer import perfect_cascade
from tests.simulation.small_trace import write_trace

NS3 = Path(__file__).parents[1] / "data" / "ns3"
TWO_ROOTS = NS3 / "two_roots-ls-s1"


@pytest.fixture(name="trace", scope="module")
def two_roots() -> Trace:
    return read_trace(TWO_ROOTS)


def test_new_names_are_told_everywhere_and_lead_back(trace: Trace) -> None:
    other, names = renamed(trace, np.random.default_rng(1))
    assert not set(other.devices) & set(trace.devices)
    before = trace_streams(trace, "lab", "trace", "e1", 0)
    after = trace_streams(other, "lab", "trace", "e1", 0)
    for old, new in zip(before.rows, after.rows, strict=True):
        assert (old.topic, old.device) == (new.topic, names.device(new.device))
        assert old.ports == tuple(names.port(new.device, port) for port in new.ports)
        assert old.events.tobytes() == new.events.tobytes()
    hops = 0
    for old_fact, fact in zip(before.facts, after.facts, strict=True):
        if isinstance(fact, Link) and isinstance(old_fact, Link):
            assert names.port(fact.a_device, fact.a_port) == old_fact.a_port
            assert names.device(fact.b_device) == old_fact.b_device
        if isinstance(fact, Flow) and isinstance(old_fact, Flow):
            assert fact.name == old_fact.name
            assert names.device(fact.src_device) == old_fact.src_device
            for hop, old_hop in zip(fact.path, old_fact.path, strict=True):
                assert names.device(hop.device) == old_hop.device
                assert names.port(hop.device, hop.in_port) == old_hop.in_port
                assert names.port(hop.device, hop.out_port) == old_hop.out_port
                hops += 1
    assert hops


def test_the_alphabet_orders_new_names_otherwise(trace: Trace) -> None:
    other, names = renamed(trace, np.random.default_rng(1))
    assert [names.device(device) for device in sorted(other.devices)] != sorted(trace.devices)
    ports = sorted(port for device, port in names.ports if names.device(device) == "leaf3")
    leaf3 = next(device for device in other.devices if names.device(device) == "leaf3")
    olds = [names.port(leaf3, port) for port in ports]
    assert len(set(olds)) == len(olds) > 4
    assert olds != sorted(olds)
    assert renamed(trace, np.random.default_rng(1))[0].devices == other.devices
    assert renamed(trace, np.random.default_rng(2))[0].devices != other.devices


def test_a_perfect_answer_under_new_names_is_perfect_once_they_are_led_back(trace: Trace) -> None:
    answer = perfect_cascade(TWO_ROOTS)
    _, names = renamed(trace, np.random.default_rng(1))
    device = {old: new for new, old in names.devices.items()}
    port = {(old_device, old): new for (owner, new), old in names.ports.items()
            for old_device in [names.device(owner)]}  # fmt: skip
    told = replace(
        answer,
        roots=tuple(
            replace(root, device=device[root.device], port=port.get((root.device, root.port), root.port))
            for root in answer.roots
        ),
        edges=tuple(
            replace(
                edge,
                device=device[edge.device],
                ingress_port=port[edge.device, edge.ingress_port],
                egress_port=port[edge.device, edge.egress_port],
            )
            for edge in answer.edges
        ),
    )
    (lost,) = score_case(TWO_ROOTS, [told]).windows
    assert lost.blame_distance == 1
    assert Restorer(names).restored(told, 0) == answer


def test_twice_the_time_for_the_same_bytes_at_half_the_speed(tmp_path: Path) -> None:
    links = "a,a_port,b,b_port,speed_mbps,delay_ns\nh0,eth0,s0,p1,100000,300\nh1,eth0,s0,p2,40000,500\n"
    trace = read_trace(write_trace(tmp_path, links=links))
    other = scaled(trace, 2.0)
    assert trace.pauses is not None
    assert other.pauses is not None
    assert other.pauses.time_ns.tolist() == [20_000, 100_000]
    assert other.links.speed_mbps.tolist() == [50_000, 20_000]
    assert other.links.delay_ns.tolist() == [600, 1000]
    assert other.ports.speed_mbps.tolist() == [50_000, 50_000, 20_000, 20_000]
    assert other.ports.delay_ns.tolist() == [600, 600, 1000, 1000]
    assert other.period_ns == 200_000
    assert other.counters is not None
    assert other.counters.end_ns.tolist() == [200_000, 200_000, 400_000]
    assert set(other.counters.span_ns.tolist()) == {200_000}
    assert other.counters.rx_paused_ns is not None
    assert other.counters.rx_paused_ns.tolist() == [80_000, 0, 0]
    assert other.counters.tx_bytes is not None
    assert other.counters.tx_bytes.tolist() == [5000, 60, 7000]
    assert other.counters.q_max_bytes is not None
    assert other.counters.q_max_bytes.tolist() == [4000, UNKNOWN, 0]
    assert other.flow_bytes is not None
    assert other.flow_bytes.end_ns.tolist() == [200_000, 200_000]
    assert other.flow_bytes.tx_bytes.tolist() == [12_000, 5000]
    assert other.pcie is not None
    assert (other.pcie.now_mbps.tolist(), other.pcie.max_mbps.tolist()) == ([50_000, 12_500], [50_000, 50_000])


def test_unknown_pause_time_stays_unknown_and_a_dead_slot_dead(tmp_path: Path) -> None:
    counters = "bin_start_ns,device,port,tx_bytes\n0,s0,p2,40000\n"
    pcie = "host,link_max_mbps,link_now_mbps\nh1,100000,0\n"
    other = scaled(read_trace(write_trace(tmp_path, port_counters=counters, host_pcie=pcie)), 0.5)
    assert other.counters is not None
    assert other.counters.rx_paused_ns is not None
    assert other.counters.rx_paused_ns.tolist() == [UNKNOWN]
    assert other.pcie is not None
    assert (other.pcie.now_mbps.tolist(), other.pcie.max_mbps.tolist()) == ([0], [200_000])


def test_what_the_trace_does_not_hold_is_not_scaled(tmp_path: Path) -> None:
    absent = dict.fromkeys(("pfc", "port_counters", "flows", "paths", "flow_port_bytes", "host_pcie"))
    other = scaled(read_trace(write_trace(tmp_path, **absent)), 2.0)
    assert (other.pauses, other.counters, other.flows, other.flow_bytes, other.pcie) == (None,) * 5


def test_times_of_a_cascade_are_led_back_from_the_start() -> None:
    answer = replace(perfect_cascade(TWO_ROOTS), start_ns=1_000_400, end_ns=1_003_000)
    back = Restorer(OldNames({}, {}), 2.0).restored(answer, 1_000_000)
    assert (back.start_ns, back.end_ns) == (1_000_200, 1_001_500)
    assert replace(back, start_ns=answer.start_ns, end_ns=answer.end_ns) == answer
