"""What a cascade says, from short stories whose numbers can be worked out by hand."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import msgspec
import pytest

from analytics import layout
from analytics.announced import Announced
from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.engine import Closed, Engine
from analytics.ledger import EdgeTally, Ledger, QueueTally
from analytics.verdict import MAX_LISTED, cascade
from stream import messages
from stream.cascade import FINAL, Cascade
from stream.facts import Hop
from stream.file_runner import run_steps
from stream.kinds import SIDE_TX, SOURCE_LOST, UNKNOWN
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import BEGIN_NS, Story
from tests.reference.topology import Fabric

US, MS = 1_000, 1_000_000

D0, D1 = ("leaf1", "d0", 3), ("leaf1", "d1", 3)
DOWN, UP, SENDER = ("spine0", "p1", 3), ("leaf0", "u0", 3), ("h00", "eth0", 3)


def stopped_host(depths: bool = True) -> Story:
    """h10 stops its leaf for 1 ms; leaf, spine and leaf pass it on until h00 stands still."""
    story = Story(leaf_spine(2, 1, 2))
    for place, queue in enumerate((D0, DOWN, UP, SENDER)):
        story.pause(queue, 100 * US + place * 50 * US, 1100 * US)
        if depths and queue != SENDER:
            story.depth(queue, 0, 1200 * US, 200_000)
    return story


def congested(**heights_bytes: int) -> Story:
    """leaf1 stops the spine for 1 ms; its ports to hosts hold queues of these heights."""
    story = Story(leaf_spine(2, 1, 3))
    story.pause(DOWN, 100 * US, 1100 * US)
    for port, peak_bytes in heights_bytes.items():
        story.depth(("leaf1", port, 3), 0, 1200 * US, peak_bytes)
    return story


def test_a_chain_of_stops_leads_to_the_host_that_began_it() -> None:
    told = stopped_host().only()
    (root,) = told.roots
    assert (root.device, root.port, root.kind, root.share_ppm) == ("h10", "", "host", 1_000_000)
    assert (told.start_ns, told.end_ns) == (BEGIN_NS + 100 * US, BEGIN_NS + 1100 * US)
    assert told.pauses == 4
    assert told.pause_ns == root.pause_ns == (1000 + 950 + 900 + 850) * US
    assert [(q.device, q.port, q.depth, q.paused_by_device, q.caused_by, q.pause_ns) for q in told.queues] == [
        ("leaf1", "d0", 1, "h10", (), 1000 * US),
        ("spine0", "p1", 2, "leaf1", ("leaf1:d0",), 950 * US),
        ("leaf0", "u0", 3, "spine0", ("spine0:p1",), 900 * US),
        ("h00", "eth0", 4, "leaf0", ("leaf0:u0",), 850 * US),
    ]
    assert {(e.device, e.ingress_port, e.egress_port) for e in told.edges} == {
        ("leaf1", "u0", "d0"), ("spine0", "p0", "p1"), ("leaf0", "d0", "u0"),
    }  # fmt: skip
    assert sum(edge.share_ppm for edge in told.edges) in (999_999, 1_000_000)


def test_blame_falls_as_the_square_of_the_queues() -> None:
    told = congested(d0=300_000, d1=100_000).only()
    assert [(root.port, root.share_ppm) for root in told.roots] == [("d0", 900_000), ("d1", 100_000)]


def test_roots_below_the_resolution_of_the_truth_are_left_out() -> None:
    told = congested(d0=1_000_000, d1=142_000).only()
    assert [root.port for root in told.roots] == ["d0"]
    told = congested(d0=1_000_000, d1=143_000).only()
    assert [(root.port, root.share_ppm) for root in told.roots] == [("d0", 979_961), ("d1", 20_039)]


# Confidence


def test_three_kinds_of_evidence_make_confidence_whole() -> None:
    story = stopped_host()
    assert story.only().confidence_ppm == 666_667
    story.sent(D0, 0, 1200 * US, 1000)
    assert story.only().confidence_ppm == 1_000_000
    story = stopped_host()
    story.marked(D0, 0, 1200 * US)
    assert story.only().confidence_ppm == 1_000_000
    story = stopped_host()
    story.pcie("h10", 16, 16)
    told = story.only()
    assert told.confidence_ppm == 1_000_000
    assert told.missing_evidence == ()


def test_a_pcie_link_that_is_read_only_later_is_no_evidence() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16, after_ns=30 * MS)
    told = story.only()
    assert told.confidence_ppm == 666_667
    assert told.missing_evidence == ("PCIe state of h10",)


def test_pauses_alone_name_no_root_with_confidence() -> None:
    told = stopped_host(depths=False).only()
    assert told.suspect_set
    assert told.confidence_ppm < 500_000


def test_a_pause_that_only_one_end_reports_costs_a_tenth() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16)
    story.silent.add(("pfc", "leaf1"))
    told = story.only()
    assert told.confidence_ppm == 900_000
    assert told.missing_evidence == ("pauses as seen by leaf1",)
    assert [queue.pause_ns for queue in told.queues] == [1000 * US, 950 * US, 900 * US, 850 * US]


def test_a_switch_that_reports_nothing_covers_nothing() -> None:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(UP, 100 * US, 1100 * US)
    story.pause(SENDER, 100 * US, 1100 * US)
    story.depth(UP, 0, 1200 * US, 1000)
    told = story.only()
    (root,) = told.roots
    assert (root.device, root.kind, root.root_class) == ("spine0", "unknown", "unclassified")
    # Half of the pause time has a pauser that reports, but all of the blame passes through it to the one that does not.
    assert told.confidence_ppm == 0
    assert told.suspect_set
    assert told.missing_evidence == ("queue depth, ECN marks or bytes of spine0",)


def test_the_margin_is_one_less_the_strongest_rejected_root_by_the_accepted() -> None:
    assert congested(d0=300_000, d1=100_000).only().confidence_ppm == 666_667
    rejected = 99_000**2 / (300_000**2 + 99_000**2)
    told = congested(d0=300_000, d1=99_000).only()
    assert told.confidence_ppm == pytest.approx(1e6 * 2 / 3 * (1 - rejected / (1 - rejected)), abs=2)


def test_a_doubt_about_the_weakest_of_several_roots_is_none_about_the_others() -> None:
    heights = {"d0": 300_000, "d1": 120_000, "d2": 99_000}
    weights = {port: height**2 for port, height in heights.items()}
    told = congested(**heights).only()
    assert [root.port for root in told.roots if root.share_ppm >= 100_000] == ["d0", "d1"]
    margin = 1 - weights["d2"] / (weights["d0"] + weights["d1"])
    assert told.confidence_ppm == pytest.approx(1e6 * 2 / 3 * margin, abs=2)


def test_roots_on_sibling_egresses_count_as_one_for_the_margin() -> None:
    story = Story(leaf_spine(2, 2, 2))
    story.pause(SENDER, 100 * US, 1100 * US)
    story.depth(("leaf0", "u0", 3), 0, 1200 * US, 300_000)
    story.depth(("leaf0", "u1", 3), 0, 1200 * US, 80_000)
    told = story.only()
    assert [root.port for root in told.roots] == ["u0", "u1"]
    assert told.confidence_ppm == 666_667


def test_rows_that_were_lost_lower_confidence_and_are_told() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16)
    story.row("queue", "leaf1", "d0", SOURCE_LOST, 500 * US, value=4, extra=3)
    told = story.only()
    assert told.losses == {"rows_lost": 4}
    assert told.confidence_ppm == 500_000
    assert told.missing_evidence == ("4 rows that were lost or ends that were guessed",)


def test_losses_long_before_or_after_touch_no_cascade() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16)
    story.row("queue", "leaf1", "d0", SOURCE_LOST, 12 * MS, value=4, extra=3)
    told = story.only()
    assert told.losses == {}
    assert told.confidence_ppm == 1_000_000


def test_a_loss_of_unknown_size_counts_as_a_stream_that_was_joined_late() -> None:
    story = stopped_host()
    story.row("queue", "leaf1", "d0", SOURCE_LOST, 500 * US, value=UNKNOWN, extra=3)
    assert story.only().losses == {"streams_joined_late": 1}


# Severity


def with_pauses(*lengths_ns: int) -> Cascade:
    """Hosts that one leaf stops, each for a time, because of one queue."""
    story = Story(leaf_spine(2, 1, 5))
    for host, length_ns in enumerate(lengths_ns):
        story.pause((f"h0{host}", "eth0", 3), 100 * US, 100 * US + length_ns)
    story.depth(UP, 0, 1200 * US, 1000)
    return story.only()


@pytest.mark.parametrize(
    ("lengths_ns", "severity"),
    [
        ((99_999,), "info"),
        ((100_000,), "warning"),
        ((49_999, 49_999, 49_999), "info"),
        ((50_000, 49_999, 49_999), "warning"),
        ((199_999,), "warning"),
        ((200_000,), "critical"),
        ((2_000_000, 5_000), "critical"),
    ],
)
def test_severity_is_the_share_of_its_life_that_a_queue_was_stopped(lengths_ns: tuple[int, ...], severity: str) -> None:
    told = with_pauses(*lengths_ns)
    assert told.severity == severity


def test_severity_says_why() -> None:
    assert with_pauses(99_999).severity_reason == "all stops together lasted 100.0 us"
    assert with_pauses(20_000, 250_000).severity_reason == "h01:eth0 was stopped for 25.0% of 1.00 ms"


# Flows


def test_contributors_are_the_flows_whose_bytes_passed_the_root_while_it_was_active() -> None:
    story = congested(d0=300_000)
    story.flow(7, "h00", "h10")
    story.flow(8, "h01", "h10")
    story.flow_sent(D0, 200 * US, 300 * US, 7, 3_000)
    story.flow_sent(D0, 400 * US, 500 * US, 7, 3_000)
    story.flow_sent(D0, 400 * US, 500 * US, 8, 2_000)
    story.flow_sent(D1, 400 * US, 500 * US, 8, 99_000)
    story.flow_sent(D0, 20 * MS, 20 * MS + 100 * US, 8, 5_000)
    (root,) = story.only().roots
    assert [(c.name, c.bytes, c.share_ppm, c.estimated) for c in root.contributors] == [
        ("h00 to h10", 6_000, 750_000, False), ("h01 to h10", 2_000, 250_000, False),
    ]  # fmt: skip


def test_a_flow_that_nobody_knows_is_named_by_its_number() -> None:
    story = congested(d0=300_000)
    story.flow_sent(D0, 200 * US, 300 * US, 7, 3_000)
    (root,) = story.only().roots
    assert [(c.flow, c.name, c.src_device) for c in root.contributors] == [(f"{7:016x}", "", "")]


@pytest.mark.parametrize(("after_ns", "name"), [(9 * MS, "h00 to h10"), (12 * MS, "")])
def test_a_flow_whose_sender_has_a_clock_ahead_is_known_all_the_same(after_ns: int, name: str) -> None:
    story = congested(d0=300_000)
    story.flow(7, "h00", "h10")
    story.flow_sent(D0, 200 * US, 300 * US, 7, 3_000)
    story.flows = [msgspec.structs.replace(flow, valid_from_ns=BEGIN_NS + after_ns) for flow in story.flows]
    (root,) = story.only().roots
    assert [(c.name, c.bytes) for c in root.contributors] == [(name, 3_000)]


def test_of_a_flow_to_a_stopped_host_the_bytes_at_its_source_count_where_they_are_more() -> None:
    story = stopped_host()
    story.flow(7, "h00", "h10")
    story.flow(8, "h01", "h11")
    story.flow_sent(SENDER, 200 * US, 300 * US, 7, 50_000)
    story.flow_sent(SENDER, 200 * US, 300 * US, 8, 50_000)
    story.flow_sent(D0, 200 * US, 300 * US, 7, 20_000)
    (root,) = story.only().roots
    assert [(c.name, c.bytes) for c in root.contributors] == [("h00 to h10", 50_000)]


def test_where_nobody_counts_bytes_contributors_are_estimated_by_path_and_size() -> None:
    path = (Hop("h00", "", "eth0"), Hop("leaf0", "d0", "u0"), Hop("spine0", "p0", "p1"), Hop("leaf1", "u0", "d0"))
    story = congested(d0=300_000)
    story.flow(7, "h00", "h10", 1_000, path)
    story.flow(8, "h00", "h11", 1_000, (*path[:3], Hop("leaf1", "u0", "d1")))
    (root,) = story.only().roots
    assert [(c.name, c.bytes, c.share_ppm, c.estimated) for c in root.contributors] == [
        ("h00 to h10", 1_000, 1_000_000, True)
    ]


# PCIe over time


def test_the_narrowest_state_of_the_pcie_link_in_the_time_of_the_cascade_counts() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16)
    story.pcie("h10", 4, 16, after_ns=500 * US)
    story.pcie("h10", 16, 16, after_ns=600 * US)
    (root,) = story.only().roots
    assert root.root_class == "slow_receiver_pcie"
    assert root.evidence == ("PCIe width of h10 is 4 of 16 lanes",)


@pytest.mark.parametrize("changes", [((0, 4), (90, 16)), ((0, 16), (1200, 4)), ((0, 4), (50, 8), (60, 16))])
def test_a_pcie_link_that_was_narrow_before_or_after_is_no_cause(changes: tuple[tuple[int, int], ...]) -> None:
    story = stopped_host()
    for after_us, lanes in changes:
        story.pcie("h10", lanes, 16, after_ns=after_us * US)
    (root,) = story.only().roots
    assert root.root_class != "slow_receiver_pcie"


def test_a_host_without_a_single_lane_is_slow() -> None:
    story = stopped_host()
    story.pcie("h10", 0, 16)
    (root,) = story.only().roots
    assert root.evidence == ("PCIe width of h10 is 0 of 16 lanes",)


# Hosts with several links


def test_a_storm_is_told_from_a_slow_host_by_the_link_that_it_stops() -> None:
    fabric = leaf_spine(2, 1, 2)
    fabric.link(("h10", "eth1"), ("leaf0", "d9"))
    second = ("leaf0", "d9", 3)
    for rate_mbps, expected in ((50_000, "unclassified"), (500, "nic_pfc_storm")):
        story = Story(fabric)
        story.pause(second, 100 * US, 2000 * US)
        story.sent(second, 0, 2100 * US, rate_mbps)
        story.sent(D0, 0, 2100 * US, 500)
        (root,) = story.only().roots
        assert (root.device, root.root_class) == ("h10", expected)


# Limits


def wide_engine(ports: int) -> Engine:
    """A switch of which many hosts' queues may be told."""
    engine = Engine("lab", Counter())
    for number in range(ports):
        engine.topology.port("sw", f"p{number}")
        engine.topology.port(f"h{number}", "eth0")
    engine.advance(0, layout.GAP_NS, lambda closed: None)
    return engine


def test_a_cascade_lists_only_its_largest_parts_and_fits_into_a_message() -> None:
    engine = wide_engine(2_000)
    port = engine.topology.port
    ledger = Ledger()
    root = port("sw", "p0") * 8 + 3
    for number in range(1, 2_000):
        told, peer = port(f"h{number}", "eth0") * 8 + 3, port("sw", f"p{number}")
        ledger.queues[told] = QueueTally(1, number, 10, 10 + number, 0, peer)
        ledger.edges[told, root] = EdgeTally(1_000_000, 0, peer)
        for other in range(10):
            ledger.flow_bytes[(root + 8 * other) * 4, number, 0] = number
    for other in range(10):
        ledger.blamed_ns[root, (root + 8 * other) * 4 + layout.ROOT_EGRESS] = 1_000
    told_cascade = cascade(engine, Closed(0, "id", 10, 3_000, ledger, False), Announced(), FINAL)
    assert len(told_cascade.roots) == 10
    assert sum(len(found.contributors) for found in told_cascade.roots) == MAX_LISTED
    assert len(told_cascade.queues) == len(told_cascade.edges) == MAX_LISTED
    assert told_cascade.queues[0].device == "h1999"
    assert told_cascade.roots[0].contributors[0].bytes == 1_999
    assert told_cascade.pauses == 1_999
    assert len(messages.encode(told_cascade).value) < 1_000_000


def test_rows_without_a_link_make_a_root_that_nobody_knows() -> None:
    story = stopped_host()
    story.row("pfc", "leaf1", "elsewhere", 1, 0, side=1)
    story.row("pfc", "leaf1", "elsewhere", 2, 500 * US, side=1)
    story.row("pfc", "leaf1", "elsewhere", 1, 10 * US, side=SIDE_TX)
    told = story.finals()
    assert [root.kind for cascade in told for root in cascade.roots] == ["unknown", "host"]
    assert told[0].queues[0].paused_by_device == ""


def test_blame_that_no_queue_of_a_switch_explains_is_not_covered() -> None:
    # Bytes and marks of the switch are known and its queues are not.
    story = congested()
    story.sent(("leaf1", "d0", 3), 0, 1200 * US, 90_000)
    story.marked(("leaf1", "d0", 3), 0, 1200 * US)
    told = story.only()
    assert [root.kind for root in told.roots] == ["unknown"]
    assert told.confidence_ppm == 0
    assert told.suspect_set


# Rings


def ring_of_switches(stops: list[tuple[int, int]], *, count: int = 4) -> Story:
    """Switches in a ring, each with a host; each queue to the next one is stopped from one time to another."""
    links: dict[tuple[str, str], tuple[str, str]] = {}
    for here in range(count):
        there = (here + 1) % count
        for one, other in (((f"s{here}", "next"), (f"s{there}", "last")), ((f"s{here}", "host"), (f"h{here}", "eth0"))):
            links[one], links[other] = other, one
    story = Story(Fabric({f"h{here}" for here in range(count)}, links))
    for here, (from_ns, to_ns) in enumerate(stops):
        queue = (f"s{here}", "next", 3)
        story.depth(queue, 0, 5 * MS, 200_000)
        story.pause(queue, from_ns, to_ns)
    return story


def ring_classes(story: Story) -> list[str]:
    return [root.root_class for cascade in story.finals() for root in cascade.roots]


def test_a_ring_that_nobody_can_leave_is_a_deadlock() -> None:
    # Against the traffic: each stop comes from the switch ahead, 10 us after the one that caused it.
    story = ring_of_switches([(100 * US - 10 * US * here, 4 * MS) for here in range(4)])
    assert "pfc_deadlock" in ring_classes(story)
    (evidence, quiet) = next(
        root.evidence for cascade in story.finals() for root in cascade.roots if root.root_class == "pfc_deadlock"
    )
    assert evidence == "4 queues stop each other in a ring: s0:next, s1:next, s2:next, s3:next"
    assert quiet == "all of them were stopped at once for 3.90 ms, and sent nothing"


@pytest.mark.parametrize("gap_ns", [2 * US, 30 * US])
@pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
def test_a_ring_is_one_deadlock_whichever_of_its_stops_come_before_their_causes(
    order: tuple[int, ...], gap_ns: int
) -> None:
    """Where two stops begin a ring at once, on two of its sides, each half has a root in the other."""
    story = ring_of_switches([(100 * US + gap_ns * place, 4 * MS) for place in order])
    (cascade,) = story.finals()
    assert len(cascade.queues) == 4
    assert {root.root_class for root in cascade.roots} == {"pfc_deadlock"}


@pytest.mark.parametrize("seed", range(8))
def test_a_ring_that_still_moves_is_no_deadlock(seed: int) -> None:
    """Stops run round the ring again and again, as long as a live cycle makes them, and all end."""
    rng = random.Random(seed)
    count = rng.randint(3, 6)
    story = ring_of_switches([], count=count)
    for here in range(count):
        queue = (f"s{here}", "next", 3)
        story.depth(queue, 0, 5 * MS, 200_000)
        at_ns = rng.randrange(50 * US)
        while at_ns < 4 * MS:
            length_ns = rng.randrange(5 * US, 90 * US)
            story.pause(queue, at_ns, at_ns + length_ns)
            at_ns += length_ns + rng.randrange(US, 40 * US)
    found = ring_classes(story)
    assert found
    assert "pfc_deadlock" not in found


def test_a_pauser_is_called_empty_only_when_the_depths_of_its_time_have_come() -> None:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(DOWN, 100 * US, 1100 * US)
    # leaf1 reports depths, but held nothing while it paused.
    story.depth(D0, 5 * MS, 6 * MS, 200_000)
    assert [root.root_class for root in story.only().roots] == ["misconfiguration"]
    step = Correlate(provisional=True)
    items = [item for batch in (story.ups(), story.facts(), story.values()) for item in batch]
    said = [item for item in run_steps(items, [Detect()], step) if isinstance(item, Cascade)]
    assert said
    assert {root.root_class for cascade in said for root in cascade.roots} == {"unclassified"}
