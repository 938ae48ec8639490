"""What the state of a fabric takes: so much for each queue, whether or not it was ever stopped, and for an open one."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter

import numpy as np

from analytics.announced import Announced
from analytics.engine import Engine
from analytics.layout import GAP_NS, Q_ORDER
from analytics.reconcile import M_COLUMNS
from stream import kinds
from stream.batch import StreamKey
from stream.record import empty_events
from tests.analytics.engine_by_names import facts
from tests.analytics.random_runs import leaf_spine

QUEUE_BYTES = 320
"""State (128), last blame (128), what counters miss (32) and a part of its port and device: docs/benchmarks.md."""
OPEN_QUEUE_BYTES = M_COLUMNS * 8 + 120
"""On top of that, where nobody knows why: what is followed of its logs, what names a cascade, and room that waits."""
EDGE_BYTES = 160
"""And for each egress queue that holds something: 72 of key, measures and chains, at most half of them in use."""
WINDOW_NS = 100_000


def engine_of(leaves: int) -> Engine:
    """An engine that knows a leaf-spine fabric."""
    engine = Engine("lab", Counter())
    for fact in facts(leaf_spine(leaves, 4, 12)):
        engine.add_fact(fact)
    engine.advance(0, GAP_NS, lambda _: None)
    return engine


def open_queues(engine: Engine, ports: list[int], full: bool) -> None:
    """Stops all priorities of some ports; the pausers' queues all hold something, or nothing is known of them."""
    announced = Announced()
    for device in engine.topology.devices:
        announced.up(StreamKey("lab", "tap", "e1", "pfc", device), 0, 0)
    all_ports = np.repeat(np.arange(len(engine.topology.ports)), 8)
    depths, opens = empty_events(len(all_ports)), empty_events(8 * len(ports))
    depths["kind"], depths["side"], depths["span_ns"] = kinds.QUEUE_DEPTH, kinds.SIDE_TX, WINDOW_NS
    depths["time_ns"], depths["value"] = 10 * WINDOW_NS, 100_000
    depths["priority"] = np.tile(np.arange(8), len(all_ports) // 8)
    opens["kind"], opens["side"], opens["extra"] = kinds.PAUSE_OPEN, kinds.SIDE_RX, 1
    opens["priority"], opens["time_ns"] = np.tile(np.arange(8), len(ports)), 10 * WINDOW_NS - 1
    if full:
        engine.add_rows(depths, all_ports, announced, WINDOW_NS)
    engine.add_rows(opens, np.repeat(ports, 8), announced, WINDOW_NS)
    engine.advance(11 * WINDOW_NS, GAP_NS, lambda _: None)


def bytes_of_an_open_queue(full: bool) -> float:
    """What the state grows by for each queue that is open, room to work in left out."""
    engine = engine_of(40)
    hosts = [port for port, (device, _) in enumerate(engine.topology.ports) if engine.topology.is_host[device]]
    open_queues(engine, hosts, full)
    fresh = engine_of(40)
    fresh._room = engine._room
    assert not len(engine._rows)
    fresh._rows = engine._rows
    gc.collect()
    tracemalloc.start()
    open_queues(fresh, hosts, full)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    opened = int((fresh.queues[:, Q_ORDER] != 0).sum())
    assert opened == 8 * len(hosts)
    return taken / opened


def test_a_known_queue_takes_a_bounded_part_of_the_state() -> None:
    def taken(engine: Engine) -> int:
        parts = engine.queues, engine.roots, engine.shares, engine.missed, engine.ports, engine.devices
        return sum(part.nbytes for part in parts)

    small, large = engine_of(4), engine_of(40)
    grown = (taken(large) - taken(small)) / (len(large.queues) - len(small.queues))
    assert 128 + 128 + 32 < grown < QUEUE_BYTES


def test_an_open_queue_takes_a_bounded_part_more() -> None:
    alone, egresses = bytes_of_an_open_queue(full=False), 4 + 11
    assert 0 < alone < OPEN_QUEUE_BYTES
    assert egresses * 72 < bytes_of_an_open_queue(full=True) - alone < egresses * EDGE_BYTES
