"""Edges and blame by the bytes of flows: against a slow twin by names, and by short stories."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from analytics import flow_edges, layout
from analytics.engine import Closed, Engine
from analytics.flow_blame import with_flow_bytes
from analytics.flow_edges import Stops, held_bytes
from analytics.ledger import Ledger, QueueTally
from analytics.topology import PRIORITIES
from analytics.victims import FlowRows
from stream.facts import DEFAULT_DELAY_NS, Flow
from tests.analytics.engine_by_names import STREAM, facts, root_name
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import Story
from tests.reference.flow_edges import FlowBlame, FlowWindow, Queue, Stop
from tests.reference.topology import Fabric

US = 1_000
DELAY_NS = DEFAULT_DELAY_NS
"""Of a link whose length no fact tells."""


def engine_of(fabric: Fabric, destinations: dict[int, str], random: Random) -> Engine:
    """An engine that has read facts in some order."""
    engine = Engine("lab", Counter())
    known = facts(fabric)
    random.shuffle(known)
    for fact in known:
        engine.add_fact(fact)
    for flow, host in destinations.items():
        engine.add_flow(Flow("lab", f"{flow:016x}", "somewhere", host, "", "", 17, 0, 0, 0, STREAM), 0)
    engine.advance(0, layout.GAP_NS, lambda closed: None)
    return engine


def number(engine: Engine, queue: Queue) -> int:
    return engine.topology.port(*queue) * PRIORITIES + 3


def closed_cascade(engine: Engine, stops: list[Stop], windows: list[FlowWindow], random: Random) -> Closed:
    """A cascade of these stops, of which depths tell nothing."""
    shuffled = random.sample(windows, len(windows))
    flows = np.array([w.flow for w in shuffled], np.uint64)
    columns = [(number(engine, w.queue), w.start_ns, w.end_ns, w.sent) for w in shuffled]
    engine.sent.add(FlowRows(flows, *np.array(columns, np.int64).reshape(-1, 4).T))
    ledger = Ledger()
    for stop in random.sample(stops, len(stops)):
        told = number(engine, stop.queue)
        tally = ledger.queues.setdefault(told, QueueTally(pauser=int(engine.topology.port_peer[told // PRIORITIES])))
        tally.pauses += 1
        tally.pause_ns += stop.end_ns - stop.begin_ns
        ledger.stops[told, stop.begin_ns] = stop.end_ns
    return Closed(0, "id", 0, max(stop.end_ns for stop in stops), ledger, False)


def random_case(random: Random) -> tuple[Fabric, list[Stop], list[FlowWindow], dict[int, str]]:
    fabric = leaf_spine(random.randint(1, 3), random.randint(1, 2), random.randint(1, 2))
    queues = sorted(fabric.links)
    windows = [
        FlowWindow(flow, queue, start * 100 * US, (start + 1) * 100 * US, random.choice((1, 500, 1_500, 40_000)))
        for flow in range(1, 6) for queue in queues for start in range(6) if random.random() < 0.25
    ]  # fmt: skip
    stops: list[Stop] = []
    for queue in queues:
        at_us = random.randrange(300)
        while random.random() < 0.7:
            length_us = random.choice((0, 1, 30, 150))
            stops.append(Stop(queue, at_us * US, (at_us + length_us) * US))
            at_us += length_us + random.choice((1, 10, 50, 150))
    if not stops:
        stops.append(Stop(queues[0], 0, 5_000))
    hosts = sorted(fabric.hosts)
    return fabric, sorted(stops, key=lambda s: (s.begin_ns, s.queue)), windows, {
        flow: random.choice(hosts) for flow in range(1, 6) if random.random() < 0.8
    }  # fmt: skip


def twin_of(
    fabric: Fabric, stops: list[Stop], windows: list[FlowWindow], destinations: dict[int, str]
) -> FlowBlame:  # fmt: skip
    def ways(flow: int, device: str) -> list[str]:
        hops = fabric.distances.get(destinations.get(flow, ""), {})
        return [port for _, port in fabric.ports(device)
                if hops.get(fabric.links[device, port][0], 99) < hops.get(device, 0)]  # fmt: skip

    return FlowBlame(stops, windows, fabric.links, fabric.hosts, DELAY_NS, ways)


@pytest.mark.parametrize("seed", range(60))
def test_edges_and_blame_are_those_of_the_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(flow_edges, "STOPS_AT_ONCE", random.choice((1, 2, 4_096)))
    fabric, stops, windows, destinations = random_case(random)
    twin = twin_of(fabric, stops, windows, destinations)
    engine = engine_of(fabric, destinations, random)
    closed = closed_cascade(engine, stops, windows, random)
    told = with_flow_bytes(engine, closed)
    causes = {stop: twin.causes(stop) for stop in stops}
    if not any(causes.values()):
        assert told.ledger == closed.ledger
        return
    edges: Counter[tuple[Queue, Queue]] = Counter()
    passed: Counter[tuple[Queue, Queue]] = Counter()
    blamed: Counter[tuple[Queue, tuple[str, ...]]] = Counter()
    for stop in stops:
        for queue, share in causes[stop].items():
            weight = int(share * twin.mass[stop])
            edges[stop.queue, queue] += weight
            passed[stop.queue, queue] += weight * (twin.stopped_by(queue, stop) is not None)
        for root, share in twin.blame(stop).items():
            blamed[stop.queue, root] += round((stop.end_ns - stop.begin_ns) * int(share * 1e6 + 0.5) / 1e6)
    name = engine.topology.queue_name
    found = {(name(told)[:2], name(egress)[:2]): tally for (told, egress), tally in told.ledger.edges.items()}
    assert {pair: tally.weight for pair, tally in found.items()} == edges
    assert {pair: tally.passed_weight for pair, tally in found.items()} == passed
    whom = {
        (name(queue)[:2], tuple(map(str, root_name(engine, root)[:3]))): ns
        for (queue, root), ns in told.ledger.blamed_ns.items()
    }
    for pair in whom.keys() | blamed.keys():
        # Sums of floats in another order.
        assert abs(whom.get(pair, 0) - blamed[pair] // 2) <= len(stops)


# Stories: leaf1 stops the spine from 400 us on; of its ports to hosts d0 and d1 both hold queues by their depths

DOWN, TO_H10, TO_H11 = ("spine0", "p1", 3), ("leaf1", "d0", 3), ("leaf1", "d1", 3)


def two_queues(*, wide: bool = False) -> Story:
    """What comes by the spine waits for d0 alone: 100 kB come and stay there until the end."""
    story = Story(leaf_spine(2, 1, 2))
    story.pause(DOWN, 450 * US, 1050 * US)
    for queue in (TO_H10, TO_H11):
        story.depth(queue, 0, 1200 * US, 200_000)
    story.flow(1, "h00", "h10")
    story.flow(2, "h00", "h11")
    if wide:
        story.period_ns = 4_000 * US
    story.flow_sent(DOWN, 0, 400 * US, 1, 25_000)
    story.flow_sent(TO_H10, 1100 * US, 1200 * US, 1, 100_000)
    story.flow_sent(DOWN, 0, 400 * US, 2, 25_000)
    story.flow_sent(TO_H11, 0, 400 * US, 2, 25_000)
    return story


def shares(story: Story) -> dict[str, int]:
    (cascade,) = story.finals()
    return {root.port: root.share_ppm for root in cascade.roots}


def test_bytes_of_flows_tell_which_of_two_queues_a_stop_was_about() -> None:
    (cascade,) = two_queues().finals()
    (edge,) = [edge for edge in cascade.edges if edge.egress_port == "d0"]
    # Flow 2 has left but for what one us of cable makes of even flow; the stop found all of flow 1.
    assert (edge.device, edge.ingress_port) == ("leaf1", "u0")
    assert edge.share_ppm > 990_000
    assert abs(edge.held_bytes - 100_000) <= 1_000
    # Depths see two alike, flows see one: the mean.
    assert shares(two_queues()) == {"d0": pytest.approx(750_000, abs=5_000), "d1": pytest.approx(250_000, abs=5_000)}


def test_without_windows_of_flows_that_are_short_enough_depths_decide() -> None:
    story = two_queues(wide=True)
    (cascade,) = story.finals()
    assert shares(story) == {"d0": 500_000, "d1": 500_000}
    assert [edge.held_bytes for edge in cascade.edges] == [0, 0]


def test_a_switch_that_tells_of_no_flow_is_left_to_its_depths() -> None:
    story = two_queues()
    del story.rows["flowbytes", "leaf1"]
    assert shares(story) == {"d0": 500_000, "d1": 500_000}


def test_bytes_that_never_left_wait_where_their_flow_is_routed() -> None:
    story = two_queues()
    story.rows["flowbytes", "leaf1"] = [
        (port, row) for port, row in story.rows["flowbytes", "leaf1"] if port != "d0"
    ]  # fmt: skip
    assert shares(story) == {"d0": pytest.approx(750_000, abs=5_000), "d1": pytest.approx(250_000, abs=5_000)}


def test_bytes_in_a_queue_that_is_empty_by_its_depths_are_none() -> None:
    story = two_queues()
    story.rows["queue", "leaf1"] = [(port, row) for port, row in story.rows["queue", "leaf1"] if port != "d0"]
    assert shares(story) == {"d1": 1_000_000}


def test_more_work_than_is_allowed_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_edges, "MAX_LOOKS", 3)
    assert shares(two_queues()) == {"d0": 500_000, "d1": 500_000}


def test_stops_that_are_not_known_one_by_one_are_blamed_by_depths() -> None:
    random = Random(1)
    fabric = leaf_spine(2, 1, 2)
    engine = engine_of(fabric, {}, random)
    down, d0, d1 = ("spine0", "p1"), ("leaf1", "d0"), ("leaf1", "d1")
    windows = [FlowWindow(1, down, 0, 100 * US, 50_000), FlowWindow(1, d0, 900 * US, 1000 * US, 50_000)]
    closed = closed_cascade(engine, [Stop(down, 200 * US, 300 * US)], windows, random)
    told, other = number(engine, down), number(engine, d1)
    # Three more stops as long as that one, beyond those that are remembered.
    closed.ledger.queues[told].pause_ns = 400 * US
    closed.ledger.blamed_ns[told, other * 4 + layout.ROOT_EGRESS] = 400 * US
    blamed = with_flow_bytes(engine, closed).ledger.blamed_ns
    assert blamed == {
        (told, other * 4 + layout.ROOT_EGRESS): 350 * US,
        (told, number(engine, d0) * 4 + layout.ROOT_EGRESS): 50 * US,
    }
    assert closed.ledger.blamed_ns == {(told, other * 4 + layout.ROOT_EGRESS): 400 * US}


@pytest.mark.parametrize(("unplaced", "others"), [([], 20_000), (["h01"], 0)])
def test_flows_of_hosts_whose_clocks_nobody_knows_do_not_stand_at_a_device(unplaced: list[str], others: int) -> None:
    topology = (engine := engine_of(leaf_spine(1, 1, 3), {1: "h02", 2: "h02"}, Random(1))).topology
    queue = np.array([number(engine, place) for place in (("h00", "eth0"), ("h01", "eth0"), ("leaf0", "d2"))])
    begin_ns, end_ns = np.zeros(3, np.int64), np.full(3, 100 * US)
    rows = FlowRows(np.array([1, 2, 1], np.uint64), queue, begin_ns, end_ns, np.array([10_000, 20_000, 1_000]))
    stops = Stops(queue[:1], np.array([150 * US]), np.array([200 * US]), topology.port_peer[queue[:1] // PRIORITIES])
    strange = np.isin(np.arange(len(topology.devices)), [topology.find_device(host) for host in unplaced])
    way_out = topology.port("leaf0", "d2")
    found = held_bytes(stops, rows, lambda flow, device: [way_out], {}, topology, strange)
    assert (found.readings.own.tolist(), found.readings.others.tolist()) == ([9_000], [others])
