"""The fabric itself, on few switches: links, priorities, pauses that run out, losses, and that no byte disappears."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.fabric import layout as at
from simulation.fabric.bins import Bins
from simulation.fabric.fabric import Fabric, FlowTable
from simulation.fabric.routes import Routes
from simulation.fabric.settings import Settings
from simulation.fabric.topologies import leaf_spine
from simulation.fabric.wires import Cable, Topology, Wires, make_wires

PLAIN = Settings(dcqcn=False, buffer_bytes=1_000_000, nic_buffer_bytes=200_000)
MARKED = dataclasses.replace(PLAIN, dcqcn=True, kmin_bytes=20_000, kmax_bytes=100_000)
ACKED = dataclasses.replace(MARKED, acks=True, payload_bytes=1000, header_bytes=48)
TWO = dataclasses.replace(PLAIN, priorities=(3, 4))


def star(hosts: int) -> Wires:
    cables = [Cable(f"h{n}", "eth0", "s", f"p{n + 1}", 100_000) for n in range(hosts)]
    names = tuple(f"h{n}" for n in range(hosts))
    return make_wires(Topology("star", (*names, "s"), ("host",) * hosts + ("switch",), tuple(cables)))


def fabric_of(
    wires: Wires, pairs: list[tuple[int, int]], sizes: list[int], chosen: Settings, places: list[int] | None = None
) -> Fabric:
    """Flows between hosts by number, all with other ports."""
    routes = Routes(wires)
    src, dst = (wires.hosts[[pair[end] for pair in pairs]] for end in (0, 1))
    ports = np.arange(len(pairs))
    table = FlowTable(
        paths=routes.paths(src, dst, (ports, ports)),
        wire_bytes=np.array([chosen.wire_bytes(size) for size in sizes]),
        priority=np.array(places or [0] * len(pairs)),
        ack_paths=routes.paths(dst, src, (ports, ports)) if chosen.acks else None,
    )
    return Fabric(wires, table, chosen)


def started(fabric: Fabric, ticks: list[int] | None = None) -> Fabric:
    rows = np.arange(fabric.flow_count)
    fabric.start(rows, rows * 0 if ticks is None else np.array(ticks))
    return fabric


def sent(fabric: Fabric) -> list[int]:
    return fabric.flow[: fabric.flow_count, at.FLOW_SENT].tolist()


def delivered(fabric: Fabric) -> list[int]:
    return fabric.flow[: fabric.flow_count, at.FLOW_DELIVERED].tolist()


def test_one_flow_takes_the_time_of_its_bytes_and_its_way() -> None:
    fabric = started(fabric_of(star(2), [(0, 1)], [4_096_000], PLAIN))
    assert fabric.run(10_000)
    # 6,250 bytes a tick, in whole packets; two links of two ticks and a slot of one.
    assert fabric.flow[0, at.FLOW_DONE] in range(665 + 5, 665 + 8)
    assert delivered(fabric) == [PLAIN.wire_bytes(4_096_000)]


def test_two_flows_of_one_source_share_it() -> None:
    fabric = started(fabric_of(star(3), [(0, 1), (0, 2)], [2_000_000, 2_000_000], PLAIN))
    fabric.run(300)
    one, two = sent(fabric)
    assert abs(one - two) <= PLAIN.packet_bytes
    assert one + two == pytest.approx(300 * 6250, rel=0.01)


def test_an_incast_pauses_its_senders_and_shares_the_link_among_them() -> None:
    fabric = started(fabric_of(star(4), [(1, 0), (2, 0), (3, 0)], [3_000_000] * 3, PLAIN))
    fabric.run(1000)
    stopped = {fabric.wires.end(queue) for queue in np.unique(fabric.pause_log()[:, 1]).tolist()}
    assert stopped == {("h1", "eth0"), ("h2", "eth0"), ("h3", "eth0")}
    got = delivered(fabric)
    assert max(got) - min(got) < 0.2 * max(got)
    assert not fabric.into[:, at.IN_DROPPED].any()


def test_a_stopped_priority_leaves_the_other_its_link() -> None:
    # Both priorities of host 1 go to host 0, whose slot takes in next to nothing of the first one.
    wires = star(3)
    fabric = started(fabric_of(wires, [(1, 0), (1, 2)], [3_000_000, 3_000_000], TWO, places=[0, 1]))
    fabric.set_rate(int(wires.to_host[0]), 100)
    fabric.run(1500)
    first, second = fabric.flow[:2, at.FLOW_DELIVERED].tolist()
    assert second == TWO.wire_bytes(3_000_000)
    assert first < 100_000
    own = fabric.queue_of(int(wires.to_fabric[1]))
    assert fabric.out[own, at.OUT_PAUSED]
    assert not fabric.out[own + 1, at.OUT_PAUSED]


def test_two_priorities_share_a_link_evenly() -> None:
    fabric = started(fabric_of(star(3), [(1, 0), (2, 0)], [3_000_000, 3_000_000], TWO, places=[0, 1]))
    fabric.run(800)
    one, two = delivered(fabric)
    assert one == pytest.approx(two, rel=0.05)


@pytest.mark.parametrize(("silent", "moves_on"), [(True, True), (False, False)])
def test_a_pause_runs_out_unless_it_is_sent_again(silent: bool, moves_on: bool) -> None:
    wires = star(3)
    fabric = fabric_of(wires, [(1, 0)], [3_000_000], dataclasses.replace(PLAIN, pause_quanta=1000))
    fabric.rare[:, at.RARE_IS_SILENT] = silent
    fabric.set_rate(int(wires.to_host[0]), 1)
    started(fabric).run(200)
    own = int(wires.to_fabric[1])
    before = int(fabric.out[own, at.OUT_TX_BYTES])
    fabric.run(3000)
    assert (fabric.out[own, at.OUT_TX_BYTES] > before) == moves_on
    assert int((fabric.pause_log()[:, 2] == 0).sum() > 0) == moves_on


def test_what_errors_destroy_is_sent_again() -> None:
    wires = star(2)
    fabric = fabric_of(wires, [(0, 1)], [4_096_000], PLAIN)
    link = int(wires.to_fabric[0])
    fabric.set_errors(link, 0.1)
    assert started(fabric).run(10_000)
    lost = int(fabric.rare[link, at.RARE_LOST_BYTES])
    assert fabric.counts().lost_packets[link] == pytest.approx(100, abs=40)
    assert fabric.out[link, at.OUT_TX_BYTES] == PLAIN.wire_bytes(4_096_000) + lost
    assert delivered(fabric) == [PLAIN.wire_bytes(4_096_000)]


def test_what_finds_no_room_is_dropped_counted_and_sent_again() -> None:
    wires = star(4)
    fabric = fabric_of(wires, [(1, 0), (2, 0), (3, 0)], [1_000_000] * 3, PLAIN)
    fabric.into[:, at.IN_LIMIT] = 0
    assert started(fabric).run(20_000)
    assert fabric.into[:, at.IN_DROPPED].sum() > 0
    assert delivered(fabric) == [PLAIN.wire_bytes(1_000_000)] * 3


def test_a_gated_flow_stays_within_its_window() -> None:
    fabric = fabric_of(star(3), [(0, 1), (1, 2)], [2_000_000, 2_000_000], PLAIN)
    fabric.flow[1, at.FLOW_GATE], fabric.flow[0, at.FLOW_GATED], fabric.flow[1, at.FLOW_WINDOW] = 0, 1, 100_000
    started(fabric, [100, 0])
    for tick in range(10, 500, 10):
        fabric.run(tick)
        first, second = fabric.flow[0, at.FLOW_DELIVERED], fabric.flow[1, at.FLOW_SENT]
        assert second <= first + 100_000 + PLAIN.packet_bytes
    assert not fabric.waiting


def test_marks_slow_a_sender_down() -> None:
    for chosen in (MARKED, ACKED):
        fabric = started(fabric_of(star(3), [(1, 0), (2, 0)], [3_000_000] * 2, chosen))
        fabric.run(200)
        assert (fabric.flow[:2, at.FLOW_CNPS] > 0).all()
        assert (fabric.pace[:2, at.PACE_RATE] < fabric.state[at.LINE_RATE]).all()
        assert fabric.run(60_000)


def test_idle_time_is_leapt_over() -> None:
    fabric = started(fabric_of(star(2), [(0, 1)], [10_000], PLAIN), [2_000_000_000])
    assert fabric.run(3_000_000_000)
    assert fabric.now < 2_000_000_100


def test_bins_hold_what_totals_hold() -> None:
    fabric = started(fabric_of(star(4), [(1, 0), (2, 0), (3, 0)], [3_000_000] * 3, PLAIN))
    bins = Bins(fabric, 50_000)
    changed: list[int] = []
    bins.at(333, lambda: changed.append(fabric.now))
    while fabric.waiting:
        bins.run(10_000)
    rows = bins.finish()
    assert changed == [333]
    totals = fabric.counts()
    links = 2 * len(fabric.wires.topology.cables)
    for own, all_of in (
        (rows.tx_bytes, totals.tx_bytes),
        (rows.rx_pause_frames, totals.rx_xoffs),
        (rows.rx_paused_ns, totals.paused_ticks * 500),
    ):
        assert np.bincount(rows.link, own, links).tolist() == all_of[:links].tolist()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(1, 1000),
    chosen=st.sampled_from([PLAIN, MARKED, ACKED, TWO]),
    flows=st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 7), st.integers(1, 400_000), st.integers(0, 300), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    stop=st.integers(1, 500),
)
def test_no_byte_appears_or_is_lost(
    seed: int, chosen: Settings, flows: list[tuple[int, int, int, int, bool]], stop: int
) -> None:
    chosen = dataclasses.replace(chosen, seed=seed)
    wires = make_wires(leaf_spine(8, per_leaf=4, spines=2))
    pairs = [(a, (a + by) % 8) for a, by, *_ in flows]
    places = [int(second and len(chosen.priorities) > 1) for *_, second in flows]
    fabric = started(
        fabric_of(wires, pairs, [size for _, _, size, *_ in flows], chosen, places), [tick for *_, tick, _ in flows]
    )
    fabric.set_rate(int(wires.to_host[seed % 8]), 20_000)
    fabric.run(stop)
    _check(fabric)
    while fabric.waiting:
        fabric.run(fabric.now + 20_000)
    _check(fabric)
    assert not fabric.held.any()
    assert not fabric.into[:, [at.IN_HELD, at.IN_HEADROOM]].any()
    assert not fabric.node[:, at.NODE_SHARED].any()
    assert delivered(fabric) == fabric.flow[: fabric.flow_count, at.FLOW_TOTAL].tolist()


def _check(fabric: Fabric) -> None:
    own = fabric.flow[: fabric.flow_count]
    moving = int(own[:, at.FLOW_SENT].sum() - own[:, at.FLOW_DELIVERED].sum())
    assert moving == fabric.queued_bytes() + fabric.in_flight_bytes()
    accounts = int((fabric.into[:, at.IN_HELD] + fabric.into[:, at.IN_HEADROOM]).sum())
    sources = fabric.out[:, at.OUT_IS_SOURCE] == 1
    assert accounts == int(fabric.held.sum()) == int(fabric.out[~sources, at.OUT_BYTES].sum())
    shared = np.maximum(fabric.into[:, at.IN_HELD] - at.RESERVE_BYTES, 0)
    by_node = np.bincount(fabric.into[:, at.IN_NODE], shared, len(fabric.node))
    assert by_node.tolist() == fabric.node[:, at.NODE_SHARED].tolist()
    in_use = len(fabric.slab) - int(fabric.state[at.FREE_SLABS])
    assert (in_use == 0) == (not fabric.out[:, at.OUT_BYTES].any() and fabric.state[at.IN_FLIGHT] == 0)
