"""Advice that ECN should act before PFC: given where no packet was marked though the device would have said so."""

from __future__ import annotations

import pytest

from analytics.announced import Announced
from pausetrace.analysis import analyze_trace
from simulation.trace import read_trace
from stream.batch import StreamKey
from stream.identity import Resolver
from tests.analytics.long_runs import NS3, TRACES
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import Story

US, MS = 1_000, 1_000_000
FROM_NS, TO_NS = 50 * MS, 51 * MS
UPLINK = ("leaf0", "u0", 3)


def congested(ecn_of: str = "leaf0") -> Story:
    """The leaf stops h00 because of its uplink's queue; a device tells of marks at some other queue of its own."""
    story = Story(leaf_spine(2, 1, 2))
    story.pause(("h00", "eth0", 3), FROM_NS, TO_NS)
    story.depth(UPLINK, FROM_NS, TO_NS, 200_000)
    story.sent(UPLINK, FROM_NS, TO_NS, 99_000)
    if ecn_of:
        story.marked((ecn_of, "d1", 3), FROM_NS, TO_NS)
    story.row("queue", "leaf0", "u0", 0, 100 * MS)
    return story


def test_a_queue_that_stopped_its_neighbours_without_a_mark_gives_advice() -> None:
    (sentence,) = congested().only().advice
    assert sentence == (
        "ecn_after_pfc: ECN should act before PFC: no packet was CE-marked at leaf0:u0 while leaf0"
        " stopped its neighbours because of it: lower the marking threshold (Kmin) of that queue, or raise the XOFF"
        " thresholds"
    )


@pytest.mark.parametrize("priority", [3, 4, 255])
def test_one_mark_at_the_queue_takes_the_advice_away(priority: int) -> None:
    story = congested()
    story.marked(("leaf0", "u0", priority), FROM_NS + 300 * US, FROM_NS + 400 * US)
    assert story.only().advice == ()


@pytest.mark.parametrize("queue", [("leaf0", "d0", 3), ("spine0", "p1", 3), ("spine0", "p0", 3)])
def test_a_mark_at_another_queue_does_not(queue: tuple[str, str, int]) -> None:
    story = congested()
    story.marked(queue, FROM_NS, TO_NS)
    assert story.only().advice


@pytest.mark.parametrize("from_ns", [FROM_NS - 2 * MS, FROM_NS - 100 * US - 1, TO_NS + 11 * MS])
def test_a_mark_at_another_time_does_not(from_ns: int) -> None:
    story = congested()
    story.marked(UPLINK, from_ns, from_ns + 100 * US)
    assert story.only().advice


@pytest.mark.parametrize("reporter", ["", "spine0"])
def test_a_device_that_does_not_report_ecn_gets_no_advice(reporter: str) -> None:
    assert congested(reporter).only().advice == ()


@pytest.mark.parametrize(
    ("first_ns", "last_ns", "covered"),
    [(10, 20, True), (9, 20, False), (10, 21, False), (21, 22, False), (12, 15, True)],
)
def test_a_stream_covers_a_time_if_it_was_there_from_its_beginning_to_its_end(
    first_ns: int, last_ns: int, covered: bool
) -> None:
    announced, names = Announced(), Resolver()
    stream = StreamKey("lab", "probe", "e1", "ecn", "leaf0")
    announced.up(stream, 10, 0)
    announced.down(stream, 20)
    assert announced.covers("leaf0", first_ns, last_ns, names, "ecn") is covered
    assert not announced.covers("leaf0", 12, 15, names, "pfc")
    assert not announced.covers("leaf1", 12, 15, names, "ecn")


def test_a_host_gets_no_advice() -> None:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(("leaf0", "d0", 3), FROM_NS, TO_NS)
    story.marked(("leaf0", "d1", 3), FROM_NS, TO_NS)
    story.sent(("leaf0", "d0", 3), FROM_NS, TO_NS, 50_000)
    story.depth(("leaf0", "d0", 3), FROM_NS, TO_NS, 200_000)
    told = story.only()
    assert [root.kind for root in told.roots] == ["host"]
    assert told.advice == ()


# Recorded cases, whose marks the test counts in their files


@pytest.mark.parametrize("trace", TRACES)
def test_advice_is_given_for_the_recorded_roots_that_marked_nothing(trace: str) -> None:
    trace_read = read_trace(NS3 / trace)
    counters, ports = trace_read.counters, trace_read.ports
    assert counters is not None
    assert counters.tx_ce_packets is not None
    for told in analyze_trace(NS3 / trace, frozenset()).cascades:
        advised = {sentence.split(" CE-marked at ")[1].split()[0] for sentence in told.advice}
        roots = [root for root in told.roots if root.kind == "egress" and root.share_ppm >= 100_000]
        assert advised <= {f"{root.device}:{root.port}" for root in roots}
        for root in roots if not told.suspect_set else ():
            marked = (counters.port == ports.index[root.device, root.port]) & (counters.tx_ce_packets > 0)
            begin_ns, end_ns = counters.end_ns[marked] - counters.span_ns[marked], counters.end_ns[marked]
            near = bool((end_ns >= told.start_ns).any())
            inside = bool(((begin_ns <= told.end_ns) & (end_ns >= told.start_ns)).any())
            given = f"{root.device}:{root.port}" in advised
            assert not (given and inside), (root.device, root.port)
            assert given or near, (root.device, root.port)


def test_recorded_cases_hold_roots_of_both_sorts() -> None:
    cascades = [told for trace in TRACES for told in analyze_trace(NS3 / trace, frozenset()).cascades]
    egress = [told for told in cascades if not told.suspect_set and any(root.kind == "egress" for root in told.roots)]
    assert any(told.advice for told in egress)
    assert any(not told.advice for told in egress)
