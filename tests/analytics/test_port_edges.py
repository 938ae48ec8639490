"""Edges by the bytes of whole ports: against a slow twin by names, what fitting promises, and by short stories."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics import port_edges
from analytics.engine import Engine
from analytics.flow_edges import Stops
from analytics.layout import Ints
from analytics.port_edges import alone_bytes, fit, parts_by_ports
from analytics.topology import PRIORITIES
from stream.facts import DEFAULT_DELAY_NS
from tests.analytics.random_runs import leaf_spine, ring
from tests.analytics.test_flow_blame import engine_of, number
from tests.reference.flow_edges import Queue, Stop
from tests.reference.port_edges import DevicePorts, PortWindow
from tests.reference.topology import Fabric

US = 1_000
WIDTH_NS = 100 * US


def stops_of(engine: Engine, stops: list[Stop]) -> Stops:
    topology = engine.topology
    queue = np.array([number(engine, stop.queue) for stop in stops], np.int64)
    begin_ns, end_ns = (np.array([stop[at] for stop in stops], np.int64) for at in (1, 2))
    return Stops(queue, begin_ns, end_ns, topology.port_peer[queue // PRIORITIES])


def windows_of(engine: Engine, sent: list[PortWindow], depths: list[PortWindow], random: Random) -> Ints:
    rows = [
        (w.end_ns, w.start_ns, number(engine, w.queue), w.amount, depth)
        for depth, windows in enumerate((sent, depths)) for w in windows
    ]  # fmt: skip
    return np.array(random.sample(rows, len(rows)), np.int64).reshape(-1, 5)


def found(
    engine: Engine, stops: list[Stop], pauses: list[Stop], sent: list[PortWindow], depths: list[PortWindow],
    random: Random,
) -> dict[int, dict[Queue, float]]:  # fmt: skip
    """By the place of a stop, the parts of the queues in what it found."""
    told = [(number(engine, stop.queue), stop.begin_ns, stop.end_ns) for stop in random.sample(pauses, len(pauses))]
    parts = parts_by_ports(
        stops_of(engine, stops), np.array(sorted(told), np.int64).reshape(-1, 3),
        windows_of(engine, sent, depths, random), engine.topology,
    )  # fmt: skip
    assert parts.not_looked_at == 0
    by_stop: dict[int, dict[Queue, float]] = {}
    for stop, egress, part in zip(parts.stop.tolist(), parts.egress.tolist(), parts.part.tolist(), strict=True):
        by_stop.setdefault(stop, {})[engine.topology.queue_name(egress)[:2]] = part
    return by_stop


def random_case(
    random: Random,
) -> tuple[Fabric, list[Stop], list[PortWindow], list[PortWindow]]:  # fmt: skip
    fabric = leaf_spine(random.randint(1, 3), random.randint(1, 2), random.randint(1, 3))
    if random.random() < 0.2:
        fabric = ring(3, 1)
    queues = sorted(fabric.links)
    density = random.choice((0.0, 0.3, 0.9))
    spans = [
        (queue, place * WIDTH_NS + shift, (place + 1) * WIDTH_NS + shift)
        for queue in queues for shift in [random.choice((0, 0, 0, 30 * US))] for place in range(6)
    ]  # fmt: skip
    sent = [PortWindow(*span, random.choice((1, 500, 500, 400_000))) for span in spans if random.random() < density]
    depths = [PortWindow(*span, random.choice((1, 500, 500, 90_000))) for span in spans if random.random() < 0.6]
    stops = []
    for queue in queues:
        at_us = random.choice((0, 100, 100, random.randrange(300)))
        while random.random() < 0.7:
            length_us = random.choice((0, 1, 30, 150))
            stops.append(Stop(queue, at_us * US, (at_us + length_us) * US))
            at_us += length_us + random.choice((1, 10, 50, 100))
    return fabric, sorted(stops, key=lambda stop: (stop.begin_ns, stop.queue)), sent, depths


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_those_of_the_twin(seed: int) -> None:
    random = Random(seed)
    fabric, stops, sent, depths = random_case(random)
    engine = engine_of(fabric, {}, random)
    topology = engine.topology
    told = found(engine, stops, stops, sent, depths, random)
    twins: dict[str, DevicePorts] = {}
    for place, stop in enumerate(stops):
        device, ingress = fabric.links[stop.queue]
        if device in fabric.hosts:
            assert place not in told
            continue
        if device not in twins:
            n = topology.find_device(device)
            fan = topology.fan_ports[topology.fan_start[n] : topology.fan_start[n + 1]]
            ports = [topology.ports[port][1] for port in fan.tolist()]
            may = topology.feasible[topology.feasible_start[n] : topology.feasible_start[n + 1]]
            pairs = {(i, j) for at, i in enumerate(ports) for to, j in enumerate(ports) if may[at * len(ports) + to]}
            twins[device] = DevicePorts(
                device, ports, pairs, fabric.links, sent, depths, stops, DEFAULT_DELAY_NS,
                int(topology.port_speed_mbps[fan[0]]),
            )  # fmt: skip
        expected = twins[device].parts(ingress, stop.begin_ns - DEFAULT_DELAY_NS)
        assert told.get(place, {}) == pytest.approx({(device, port): part for port, part in expected.items()}, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_fitted_table_has_the_sums_asked_for_and_keeps_its_odds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # What makes it the nearest one: cross ratios are those of what was known before (Deming and Stephan 1940).
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 6))
    before = generator.uniform(0.1, 1.0, (count, count))
    split = before / before.sum(axis=1, keepdims=True)
    came, left = (np.round(generator.uniform(1_000, 9_000, count)) for _ in range(2))
    left *= came.sum() / left.sum()
    rounds = getattr(fit, "py_func", fit)
    monkeypatch.setattr(port_edges, "ROUNDS", 500)
    table = np.zeros((count, count))
    rounds(came, left, np.ones((count, count), np.bool_), split, table)
    assert table.sum(axis=1) == pytest.approx(came)
    assert table.sum(axis=0) == pytest.approx(left)
    odds, known = (t[:1, :1] * t / (t[:1] * t[:, :1]) for t in (table, split))
    assert odds == pytest.approx(known, rel=1e-6)


def two_flows() -> tuple[Fabric, list[Stop], list[PortWindow], list[PortWindow]]:
    """Two hosts send at different times, each over a spine of its own, and are then stopped at one instant."""
    fabric = leaf_spine(2, 2, 2)
    sent = [
        PortWindow(queue, place * WIDTH_NS, (place + 1) * WIDTH_NS, 1_000_000)
        for place in range(6)
        for queue in ((("h00", "eth0"), ("leaf0", "u0")) if place % 2 else (("h01", "eth0"), ("leaf0", "u1")))
    ]
    depths = [PortWindow(("leaf0", port), 500 * US, 600 * US, 200_000) for port in ("u0", "u1")]
    stops = [Stop((host, "eth0"), 560 * US, 580 * US) for host in ("h00", "h01")]
    return fabric, stops, sent, depths


def test_bytes_of_ports_tell_whose_bytes_stand_in_equal_queues() -> None:
    fabric, stops, sent, depths = two_flows()
    engine = engine_of(fabric, {}, Random(1))
    told = found(engine, stops, stops, sent, depths, Random(1))
    assert told[0][("leaf0", "u0")] > 0.95
    assert told[1][("leaf0", "u1")] > 0.95


def test_a_queue_that_is_stopped_outweighs_one_that_drains() -> None:
    fabric, stops, _, depths = two_flows()
    engine = engine_of(fabric, {}, Random(1))
    both = found(engine, stops, stops, [], depths, Random(1))[0]
    assert both == pytest.approx({("leaf0", "u0"): 0.5, ("leaf0", "u1"): 0.5})
    held = found(engine, stops, [Stop(("leaf0", "u0"), 510 * US, 590 * US)], [], depths, Random(1))[0]
    share = 200_000 / (engine.topology.port_speed_mbps[engine.topology.port("leaf0", "u1")] * WIDTH_NS / 8_000)
    assert 0 < share < 1
    assert held[("leaf0", "u0")] == pytest.approx(1 / (1 + share))


def test_devices_beyond_the_work_allowed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric, stops, sent, depths = two_flows()
    engine = engine_of(fabric, {}, Random(1))
    monkeypatch.setattr(port_edges, "MAX_STEPS", 10)
    windows = windows_of(engine, sent, depths, Random(1))
    parts = parts_by_ports(stops_of(engine, stops), np.zeros((0, 3), np.int64), windows, engine.topology)
    assert (len(parts.stop), parts.not_looked_at) == (0, 2)


def test_an_ingress_alone_holds_all_that_stands_at_its_device() -> None:
    fabric = leaf_spine(1, 1, 2)
    engine = engine_of(fabric, {}, Random(1))
    stops = [Stop(("h00", "eth0"), 150 * US, 250 * US)]
    delay = DEFAULT_DELAY_NS
    ways = (("h00", "eth0"), 300_000), (("leaf0", "d1"), 100_000)
    sent = [PortWindow(queue, 100 * US, 200 * US, amount) for queue, amount in ways]
    windows = windows_of(engine, sent, [], Random(1))
    came = int(300_000 * ((WIDTH_NS - delay) / WIDTH_NS))
    assert alone_bytes(stops_of(engine, stops), windows, engine.topology) == came - 100_000
    assert alone_bytes(stops_of(engine, stops), windows[:0], engine.topology) == 0.0
    assert alone_bytes(stops_of(engine, [stops[0]._replace(end_ns=160 * US)]), windows, engine.topology) == 0.0


def test_a_stop_whose_link_has_gone_is_left_to_depths() -> None:
    fabric, stops, sent, depths = two_flows()
    engine = engine_of(fabric, {}, Random(1))
    windows = windows_of(engine, sent, depths, Random(1))
    gone = stops_of(engine, stops)._replace(pauser=np.array([engine.topology.port("leaf0", "gone"), -1], np.int64))
    engine._grow()
    parts = parts_by_ports(gone, np.zeros((0, 3), np.int64), windows, engine.topology)
    assert (len(parts.stop), parts.not_looked_at) == (0, 0)
