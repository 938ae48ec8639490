"""The kernel against its slow twin: blame, membership and sums of random runs are the same."""

from __future__ import annotations

import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analytics.engine_by_names import KEEP_NS, Outcome, run_engine
from tests.analytics.random_runs import Run, runs
from tests.reference.attribution import Attribution
from tests.reference.cascades import Cascade, Cascades
from tests.reference.pauses import match


def cascade_id(cascade: Cascade) -> str:
    """The id as the documents give it: a hash of the fabric and of the first pause's queue and start."""
    start_ns, (device, port, priority) = cascade.first()
    text = "\0".join(("lab", device, port, str(priority), str(start_ns)))
    return f"{xxhash.xxh3_64_intdigest(text.encode()):016x}"


def assert_same(told: Outcome, cascade: Cascade, twin: Cascades, now_ns: int) -> None:
    pauses = len(cascade.members)
    assert told.start_ns == cascade.first()[0]
    assert told.queues == twin.queues(cascade, now_ns)
    root_ns = twin.root_ns(cascade, now_ns)
    assert told.root_ns.keys() == root_ns.keys()
    pause_ns = sum(tally.pause_ns for tally in told.queues.values())
    for root, ns in root_ns.items():
        assert abs(told.root_ns[root] - ns) <= pauses + pause_ns // 1_000_000
    edges = twin.edges(cascade)
    assert told.edges.keys() == edges.keys()
    for pair, (ppm, passed_ppm) in edges.items():
        assert abs(told.edges[pair][0] - ppm) <= pauses
        assert abs(told.edges[pair][1] - passed_ppm) <= pauses


@settings(derandomize=True, deadline=None, max_examples=400)
@given(run=runs(), seed=st.integers(0, 1000), steps=st.integers(1, 6))
def test_the_kernel_tells_what_its_twin_tells(run: Run, seed: int, steps: int) -> None:
    outcomes = run_engine(run, seed, steps)
    matched = match(run.rows)
    twin = Cascades(Attribution(run.fabric, matched.intervals, run.windows))
    told = {outcome.id: outcome for outcome in [*outcomes.closed, *outcomes.still_open]}
    assert len(told) == len(outcomes.closed) + len(outcomes.still_open)
    expected = {cascade_id(cascade): cascade for cascade in twin.all()}
    assert told.keys() == expected.keys()
    assert {outcome.id for outcome in outcomes.still_open} == {
        name for name, cascade in expected.items() if cascade.open_pauses
    }
    for name, cascade in expected.items():
        assert_same(told[name], cascade, twin, run.end_ns)
    flows = twin.flow_bytes(run.flows, run.destinations, KEEP_NS)
    assert {name: told[name].flow_bytes for name in expected} == {
        cascade_id(cascade): amounts for cascade, amounts in flows
    }
    counters = outcomes.engine.counters
    assert counters["pauses_without_open"] == matched.unmatched
    assert counters["pauses_without_close"] == matched.reopened
