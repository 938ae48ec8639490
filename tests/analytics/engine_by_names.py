"""Runs the engine over rows given by names and tells what came out by names, so that a twin can be held against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from analytics import layout
from analytics.announced import Announced
from analytics.engine import Closed, Engine
from analytics.layout import Ints
from analytics.topology import PRIORITIES, Topology
from stream import kinds
from stream.batch import MARK_END
from stream.facts import Device, FactStream, Flow, Link
from stream.record import Events, empty_events
from tests.analytics.random_runs import Run
from tests.reference.attribution import CYCLE, OTHER, Root, Window
from tests.reference.cascades import FlowWindow, Tally
from tests.reference.pauses import Queue, Told
from tests.reference.topology import Fabric

HORIZON_NS = 100_000
KEEP_NS = layout.GAP_NS + HORIZON_NS
STREAM = FactStream("inventory", "e1", 0, 0)


@dataclass
class Outcome:
    """A cascade as the engine tells it."""

    id: str
    start_ns: int
    end_ns: int
    root_ns: dict[Root, int]
    queues: dict[Queue, Tally]
    edges: dict[tuple[Queue, Queue], tuple[int, int]]
    flow_bytes: dict[tuple[Root, int, bool], int]


@dataclass
class Outcomes:
    """All cascades that closed, those still open at the end, and the engine."""

    engine: Engine
    closed: list[Outcome] = field(default_factory=list)
    still_open: list[Outcome] = field(default_factory=list)


def facts(fabric: Fabric) -> list[Device | Link]:
    """Devices and links, each link once."""
    devices = sorted({port[0] for port in fabric.links} | fabric.hosts)
    made: list[Device | Link] = [
        Device("lab", device, "host" if device in fabric.hosts else "switch", 0, STREAM) for device in devices
    ]
    made += [
        Link("lab", *one, *other, 100_000, 0, STREAM) for one, other in sorted(fabric.links.items()) if one < other
    ]
    return made


def topology_of(fabric: Fabric) -> Topology:
    """The fabric as correlate holds it."""
    made = Topology()
    for fact in facts(fabric):
        made.add(fact)
    made.rebuild()
    return made


def kernel_rows(engine: Engine, told: Sequence[Told]) -> Ints:
    """Pauses as the kernel takes them."""
    rows = np.zeros((len(told), layout.ROW_COLUMNS), np.int64)
    for row, pause in zip(rows, told, strict=True):
        device, port, priority = pause.queue
        row[layout.ROW_TIME] = row[layout.ROW_END] = pause.time_ns
        row[layout.ROW_START] = pause.time_ns - pause.paused_ns
        row[layout.ROW_TYPE] = layout.CLOSE if pause.ends else layout.OPEN
        row[layout.ROW_QUEUE] = engine.topology.port(device, port) * PRIORITIES + priority
        row[layout.ROW_AMOUNT], row[layout.ROW_ORDER] = pause.paused_ns, pause.order
    return rows


def window_events(engine: Engine, run: Run) -> tuple[Events, np.ndarray]:
    """The run's windows as the engine takes them, in no order of note, and the port of each."""
    events = empty_events(len(run.windows) + len(run.flows))
    ports = np.zeros(len(events), np.int64)
    everything: list[Window | FlowWindow] = [*run.windows, *run.flows]
    for event, thing in zip(range(len(events)), everything, strict=True):
        device, port, priority = thing.queue
        ports[event] = engine.topology.port(device, port)
        row = events[event : event + 1]
        row["priority"] = priority
        row["side"], row["time_ns"] = kinds.SIDE_TX, thing.end_ns
        row["span_ns"] = thing.end_ns - thing.start_ns
        if isinstance(thing, Window):
            row["kind"], row["value"] = kinds.QUEUE_DEPTH, thing.peak_bytes
        else:
            row["kind"], row["value"], row["flow"] = kinds.FLOW_BYTES, thing.sent_bytes, thing.flow
    return events, ports


def run_engine(run: Run, seed: int, steps: int) -> Outcomes:
    """What the engine makes of a run when it is given in some steps of time; `seed` shuffles what has no order."""
    random = Random(seed)
    engine = Engine("lab", Counter())
    known = facts(run.fabric)
    random.shuffle(known)
    known.sort(key=lambda fact: isinstance(fact, Link))
    for fact in known:
        engine.add_fact(fact)
    for flow, device in run.destinations.items():
        engine.add_flow(Flow("lab", f"{flow:016x}", "somewhere", device, "", "", 17, 0, 0, 0, STREAM), 0)
    events, ports = window_events(engine, run)
    pauses = kernel_rows(engine, random.sample(run.rows, len(run.rows)))
    order = np.array(random.sample(range(len(events)), len(events)), np.int64)
    events, ports = events[order], ports[order]
    outcomes = Outcomes(engine)

    def tell(closed: Closed) -> None:
        outcomes.closed.append(outcome(engine, closed))

    announced = Announced()
    times = [*events["time_ns"].tolist(), *pauses[:, layout.ROW_TIME].tolist()]
    cuts = sorted(random.choices(times, k=steps - 1)) if times else []
    for cut_ns in [*cuts, MARK_END]:
        due = events["time_ns"] < cut_ns
        engine.add_rows(events[due], ports[due], announced, HORIZON_NS)
        events, ports = events[~due], ports[~due]
        due = pauses[:, layout.ROW_TIME] < cut_ns
        engine.add_pauses(pauses[due])
        pauses = pauses[~due]
        engine.advance(cut_ns if cut_ns == MARK_END else cut_ns - HORIZON_NS, KEEP_NS, tell)
    ahead = engine.copy()
    outcomes.still_open = [outcome(ahead, cascade) for cascade in ahead.still_open(run.end_ns)]
    return outcomes


def outcome(engine: Engine, closed: Closed) -> Outcome:
    """A closed cascade by names."""
    ledger, name = closed.ledger, engine.topology.queue_name
    return Outcome(
        id=closed.id,
        start_ns=closed.start_ns,
        end_ns=closed.end_ns,
        root_ns={root_name(engine, root): ns for root, ns in ledger.root_ns().items()},
        queues={
            name(queue): Tally(tally.pauses, tally.pause_ns, tally.first_ns, tally.last_ns, tally.guessed)
            for queue, tally in ledger.queues.items()
        },
        edges={
            (name(told), name(egress)): (edge.weight, edge.passed_weight)
            for (told, egress), edge in ledger.edges.items()
        },
        flow_bytes={
            (root_name(engine, root), flow, bool(at_source)): amount
            for (root, flow, at_source), amount in ledger.flow_bytes.items()
        },
    )


def root_name(engine: Engine, root: int) -> Root:
    """A root by names."""
    if root & 3 == layout.ROOT_SPECIAL:
        return {layout.ROOT_OTHER: OTHER, layout.ROOT_CYCLE: CYCLE}[root]
    if root & 3 == layout.ROOT_EGRESS:
        return ("egress", *engine.topology.queue_name(root >> 2))
    return ("host" if root & 3 == layout.ROOT_HOST else "unknown", engine.topology.devices[root >> 2])
