"""How long the stops of a switch lasted that tells nothing: by what it was stopped for, and by what it stopped."""

from __future__ import annotations

import numpy as np
import pytest

from analytics.pause_graph import Period
from analytics.topology import Topology
from analytics.transit import Transit
from analytics.untold_stops import paused_ns_of_untold
from stream.facts import Device, FactStream, Link

STREAM = FactStream("inventory", "e1", 0, 0)
SPEED_MBPS = 100_000
LENGTH_NS = 1_000_000.0
CHAIN = (("h0", "a", "s0"), ("s0", "b", "s1"), ("s1", "c", "s2"), ("s2", "d", "h1"))
"""Links by name: the device to the left is stopped at the port of the link's name."""


def chain() -> Topology:
    """h0 - s0 - s1 - s2 - h1, and a host at each switch that is never stopped."""
    topology = Topology()
    links = [*CHAIN, *((f"o{n}", f"x{n}", f"s{n}") for n in range(3))]
    for name in sorted({end for left, _, right in links for end in (left, right)}):
        topology.add(Device("lab", name, "host" if name[0] in "ho" else "switch", 0, STREAM))
    for left, port, right in links:
        topology.add(Link("lab", left, port, right, port, SPEED_MBPS, 0, STREAM))
    topology.rebuild()
    return topology


def period(
    topology: Topology, stops: dict[tuple[str, str], tuple[float, float]], sent: dict[tuple[str, str], float],
    silent: str = "s1", counted: bool = True,
) -> Period:  # fmt: skip
    """Stops and paused ns by port, and bytes sent; every switch but one tells depths."""
    count, devices = len(topology.ports), len(topology.devices)
    columns = {name: np.zeros(count) for name in ("paused", "stops", "sent", "peak")}
    for name, (number, paused_ns) in stops.items():
        at = topology.port(*name)
        columns["stops"][at], columns["paused"][at], columns["peak"][at] = number, paused_ns, 300_000.0
    for name, bytes_sent in sent.items():
        columns["sent"][topology.port(*name)] = bytes_sent
    depths = np.array([name != silent for name in topology.devices])
    return Period(
        LENGTH_NS, columns["paused"], columns["stops"], columns["sent"], np.zeros(count), columns["peak"],
        np.zeros(count), depths, np.zeros(devices, np.bool_), np.full(devices, counted), columns["paused"].copy(),
    )  # fmt: skip


def lasted(topology: Topology, of: Period) -> float:
    at = topology.port("s1", "c")
    (found,) = paused_ns_of_untold(of, np.array([at]), topology, Transit())
    return float(found)


def test_a_stop_lasts_as_long_as_what_it_was_sent_for() -> None:
    topology = chain()
    # Three stops of s2 by its host of 200 us each, for which s2 stopped s1 twice.
    told = period(topology, {("s2", "d"): (3, 600_000.0), ("s1", "c"): (2, 8_000.0)}, {})
    assert lasted(topology, told) == pytest.approx(400_000.0)


def test_what_a_silent_switch_stops_others_for_it_sends_or_is_stopped_for() -> None:
    topology = chain()
    # s1 stops s0 for 700 us; what it sent by c takes 100 us, what it sent to its other host 50 us.
    sent = {("s1", "c"): 1_250_000.0, ("s1", "x1"): 625_000.0}
    told = period(topology, {("s0", "b"): (2, 700_000.0), ("s1", "c"): (2, 8_000.0)}, sent)
    assert lasted(topology, told) == pytest.approx(550_000.0)


def test_where_nobody_counts_its_bytes_the_guess_stays() -> None:
    topology = chain()
    told = period(topology, {("s0", "b"): (2, 700_000.0), ("s1", "c"): (2, 8_000.0)}, {}, counted=False)
    assert lasted(topology, told) == pytest.approx(8_000.0)


def test_no_stop_lasts_for_longer_than_its_period() -> None:
    topology = chain()
    told = period(topology, {("s2", "d"): (1, LENGTH_NS), ("s1", "c"): (4, 8_000.0), ("s0", "b"): (1, LENGTH_NS)}, {})
    assert lasted(topology, told) <= LENGTH_NS
