"""How long the stops of a switch lasted that tells nothing, by what its neighbours tell of theirs.

In: a `Period` in which its stops are known by number, from the frames that its neighbours sent, and guessed by time.
Out: their times. Who stopped it did so as long as what it was stopped for lasted; and what it stopped others for, it
either sent at line rate or was stopped for itself.
"""

from __future__ import annotations

import numpy as np

from analytics.layout import Bools, Floats, Ints
from analytics.pause_graph import MAIN, Graph, Period, pause_graph
from analytics.topology import Topology
from analytics.transit import Transit


def paused_ns_of_untold(period: Period, ports: Ints, topology: Topology, transit: Transit) -> Floats:
    """Paused ns, float64 (n,), of stopped ports of devices that tell no pauses.

    `period.paused_ns` has a guess for each of them, as long as its neighbour's other stops are: what is not known
    better stays.
    """
    graph = pause_graph(period, topology, transit)
    lasted_ns = period.paused_ns.copy()
    lasted_ns[ports] = _by_causes(period, ports, graph, topology)
    untold = np.zeros(len(lasted_ns), np.bool_)
    untold[ports] = True
    caused = _by_caused(period, untold, lasted_ns, graph, topology)
    result: Floats = np.minimum(np.maximum(lasted_ns, caused), period.length_ns)[ports]
    return result


def _by_causes(period: Period, ports: Ints, graph: Graph, topology: Topology) -> Floats:
    """As many stops as were counted, each as long as the stops of the queues that the neighbour sent it for.

    Where these were not stopped themselves, they drained: no longer than it takes to send what they held.
    """
    fan, weight = graph.fan, graph.weight[MAIN]
    at = np.full(len(topology.port_peer), -1, np.int64)
    at[graph.ports] = np.arange(len(graph.ports))
    told = (period.depths | period.marks)[topology.port_device[fan.port]]
    drain_ns = np.where(told & (graph.speed[fan.port] > 0), fan.height / graph.speed[fan.port], np.inf)
    each_ns = period.paused_ns[fan.port] / graph.stops[fan.port]
    lasted_ns = period.paused_ns[ports].copy()
    for number, (port, place) in enumerate(zip(ports.tolist(), at[ports].tolist(), strict=True)):
        edges = slice(int(fan.start[place]), int(fan.start[place + 1]))
        if edges.start == edges.stop:
            continue  # a host, or a neighbour of which nothing is known
        stops = period.stops[port]
        passed = np.where(fan.target[edges] >= 0, np.minimum(stops, graph.stops[fan.port[edges]]), 0.0)
        own_ns = np.minimum(lasted_ns[number] / stops, drain_ns[edges])
        lasted_ns[number] = (weight[edges] * (passed * each_ns[edges] + (stops - passed) * own_ns)).sum()
    return lasted_ns


def _by_caused(period: Period, untold: Bools, lasted_ns: Floats, graph: Graph, topology: Topology) -> Floats:
    """The least that the untold stops lasted, by port of the topology, so that they explain what these ports caused.

    A queue for which another is stopped sends at line rate or is stopped: a stop that lasted for longer than all that
    may have caused it could send tells how long these were stopped, each longer by the same factor.
    """
    fan = graph.fan
    least_ns = np.zeros(len(lasted_ns))
    if not len(fan.port):
        return least_ns
    counted = period.counted[topology.port_device[fan.port]]
    stopped = untold[fan.port]
    of = np.repeat(np.arange(len(graph.ports)), np.diff(fan.start))
    # Stops that are told, of pausers that have untold ones and whose bytes somebody counts.
    asked = np.bincount(of, stopped & counted, minlength=len(graph.ports)) > 0
    asked &= ~untold[graph.ports]
    sent_ns = np.bincount(of, graph.busy_ns[fan.port], minlength=len(graph.ports))
    known_ns = np.bincount(of, np.where(stopped, lasted_ns[fan.port], 0.0), minlength=len(graph.ports))
    asked &= known_ns > 0
    factor = np.where(asked, (period.paused_ns[graph.ports] - sent_ns) / np.where(asked, known_ns, 1.0), 0.0)
    np.maximum.at(least_ns, fan.port[stopped], (factor[of] * lasted_ns[fan.port])[stopped])
    return least_ns
