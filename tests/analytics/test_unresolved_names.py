"""Names in short stories: what aliases mean, and what a cascade says of names that nobody can explain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from analytics import layout
from analytics.announced import Announced
from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.engine import Engine
from stream import kinds
from stream.cascade import Cascade
from stream.facts import Device, FactStream, Flow, Link, Peer, Port
from stream.file_runner import run_steps
from stream.messages import Item
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import BEGIN_NS, Story, event

US = 1_000
D0 = ("leaf1", "d0", 3)
MAC = "98:03:9b:00:00:01"


def stopped_host(from_ns: int = 0) -> Story:
    """Host h10 stops its leaf for two milliseconds, and its PCIe link is narrow."""
    story = Story(leaf_spine(2, 1, 1))
    story.pause(D0, from_ns + 100 * US, from_ns + 2100 * US)
    story.sent(D0, from_ns, from_ns + 2200 * US, 40_000)
    story.depth(D0, from_ns, from_ns + 2200 * US, 900_000)
    story.pcie("h10", 4, 16)
    return story


def known(story: Story, tell: Callable[[Device], Device]) -> list[Item]:
    """All items of a story whose device facts are others."""
    return [tell(item) if isinstance(item, Device) else item for item in story.items()]


def told(items: list[Item]) -> tuple[list[Cascade], Counter[str]]:
    """The final cascades by their beginning, and what correlate counted."""
    correlate = Correlate()
    made = run_steps(items, [Detect()], correlate, 7)
    return sorted((item for item in made if isinstance(item, Cascade)), key=lambda c: c.start_ns), correlate.counters


def of(name: str, *ports: Port, aliases: tuple[str, ...] = ()) -> Callable[[Device], Device]:
    """Tells ports and aliases of one device."""

    def tell(fact: Device) -> Device:
        return msgspec.structs.replace(fact, ports=ports, aliases=aliases) if fact.device == name else fact

    return tell


def test_a_narrow_link_read_under_a_pci_address_explains_the_host() -> None:
    (plain,), _ = told(stopped_host().items())
    (cascade,), counted = told(known(stopped_host(), of("h10", Port("eth0", aliases=("0000:01:00.0",)))))
    assert cascade == plain
    assert cascade.roots[0].root_class == "slow_receiver_pcie"
    assert "names_unknown" not in counted


def test_rows_of_a_switch_under_unknown_names_lower_the_coverage_and_are_named() -> None:
    (plain,), _ = told(stopped_host().items())
    story = stopped_host()
    story.depth(("leaf1", "Eth1/7", 3), 0, 2200 * US, 500_000)
    (cascade,), counted = told(story.items())
    assert "which ports these names mean: leaf1:Eth1/7" in cascade.missing_evidence
    assert counted["names_unknown"] == 1
    # The leaf is told, and its pauser is a host: nothing rests on the leaf's own queues.
    assert cascade.confidence_ppm == plain.confidence_ppm
    (cascade,), counted = told(known(story, of("leaf1", Port("d0"), Port("d1", aliases=("Eth1/7",)))))
    assert cascade.missing_evidence == plain.missing_evidence
    assert "names_unknown" not in counted


def spreading(from_ns: int = 0) -> Story:
    """The leaf, filled by the stop, stops its spine in turn."""
    story = stopped_host(from_ns)
    story.pause(("spine0", "p1", 3), from_ns + 300 * US, from_ns + 2000 * US)
    story.depth(("spine0", "p1", 3), from_ns, from_ns + 2000 * US, 100_000)
    return story


def test_a_pauser_whose_rows_have_unknown_names_is_not_covered() -> None:
    (plain,), _ = told(spreading().items())
    story = spreading()
    story.depth(("leaf1", "Eth1/7", 3), 0, 2200 * US, 500_000)
    (cascade,), _ = told(story.items())
    assert cascade.confidence_ppm < plain.confidence_ppm * 2 // 3
    story = spreading(50_000 * US)
    story.depth(("leaf1", "Eth1/7", 3), 0, 2200 * US, 500_000)
    (cascade,), _ = told(story.items())
    assert cascade.confidence_ppm == plain.confidence_ppm, "long before"


def test_a_port_without_congestion_under_an_unknown_name_costs_nothing() -> None:
    (plain,), _ = told(stopped_host().items())
    story = stopped_host()
    story.sent(("leaf1", "Management1", 3), 0, 2200 * US, 10)
    (cascade,), counted = told(story.items())
    assert cascade == plain
    assert counted["names_unknown"] == 1


def test_a_link_to_a_name_in_conflict_joins_nothing_and_says_whose_end_is_missing() -> None:
    def tell(fact: Device) -> Device:
        return of("h10", Port("eth0", aliases=("p0",)), Port("eth1", aliases=("p0",)))(fact)

    items = [
        msgspec.structs.replace(item, a_port="p0") if isinstance(item, Link) and item.a_device == "h10" else item
        for item in known(stopped_host(), tell)
    ]
    (cascade,), counted = told(items)
    assert [(root.device, root.kind) for root in cascade.roots] == [("leaf1", "unknown")]
    assert cascade.queues[0].paused_by_device == ""
    assert "what is at the other end of leaf1:d0" in cascade.missing_evidence
    assert cascade.suspect_set
    assert counted["names_conflicting"] == 1


def test_a_peer_that_a_port_tells_joins_what_no_link_does() -> None:
    (plain,), _ = told(stopped_host().items())

    def tell(fact: Device) -> Device:
        leaf = of("leaf1", Port("d0", 100_000, peer=Peer("H10.example.net", MAC)))
        return leaf(of("h10", Port("eth0", aliases=(MAC.upper(),)))(fact))

    # In the place of the link stands one of no importance, so that the stream stays whole.
    items = [
        msgspec.structs.replace(item, a_device="x", b_device="y")
        if isinstance(item, Link) and item.a_device == "h10" else item
        for item in known(stopped_host(), tell)
    ]  # fmt: skip
    (cascade,), _ = told(items)
    assert cascade == plain


@pytest.mark.parametrize("source_reports", [True, False])
def test_a_name_that_is_explained_in_the_middle_of_a_pause_ends_that_pause(source_reports: bool) -> None:
    story = Story(leaf_spine(2, 1, 1))
    story.pause(("leaf1", "d0", 3), 100 * US, 300 * US)
    for after_ns, kind in ((500 * US, kinds.PFC_XOFF), (900 * US, kinds.PFC_XON)):
        story.row("pfc", "leaf1", "Eth1/1", kind, after_ns, side=kinds.SIDE_RX)
    if source_reports:
        # Open under both names when they turn out to be one.
        story.row("pfc", "leaf1", "d0", kinds.PFC_XOFF, 501 * US, side=kinds.SIDE_RX)
        story.row("pfc", "leaf1", "d0", kinds.PFC_XON, 901 * US, side=kinds.SIDE_RX)
    at_ns = BEGIN_NS + 700 * US
    fact = Device(
        "lab", "leaf1", "", at_ns, FactStream("gnmi", "e1", 0, BEGIN_NS), (Port("d0", aliases=("Eth1/1",)),)
    )  # fmt: skip
    # A pause after all others, so that time passes: the story must not end while anything is open.
    story.pause(("leaf0", "d0", 3), 100_000 * US, 100_100 * US)
    down = SourceDown("lab", "gnmi", "e1", at_ns, (StreamDown("device", "", 0),))
    items = [SourceUp("lab", "gnmi", "e1", BEGIN_NS, (StreamUp("device"),)), *story.items()]
    items[-2:-2] = [fact, down]
    cascades, counted = told(items)
    before_the_end = [cascade for cascade in cascades if cascade.end_ns < BEGIN_NS + 2_000 * US]
    assert len(cascades) == len(before_the_end) + 1
    queues = {(queue.port, queue.pause_ns) for cascade in before_the_end for queue in cascade.queues}
    if source_reports:
        assert queues == {("Eth1/1", 200 * US), ("d0", 600 * US)}
    else:
        assert queues == {("d0", 200 * US), ("d0", 400 * US)}
    assert counted["names_unknown"] == 1


def test_a_run_ahead_over_a_new_name_leaves_the_rows_that_wait() -> None:
    engine = Engine("lab", Counter())
    for fact in stopped_host().facts():
        if not isinstance(fact, Flow):
            engine.add_fact(fact)
    depth = event(kinds.QUEUE_DEPTH, BEGIN_NS, side=kinds.SIDE_TX, value=1, span_ns=1)
    port = engine.topology.port("leaf1", "Eth1/7")
    engine.add_rows(depth, np.array([port]), Announced(), 1)
    before = engine.state()["_rows"].copy()
    ahead = engine.copy()
    stream = FactStream("gnmi", "e1", 0, BEGIN_NS)
    ahead.add_fact(Device("lab", "leaf1", "", BEGIN_NS, stream, (Port("new name", aliases=("Eth1/7",)),)))
    ahead.advance(BEGIN_NS, layout.GAP_NS, lambda _: None)
    assert ahead.topology.moved_ports
    assert (engine.state()["_rows"] == before).all()
    engine.advance(BEGIN_NS + 1_000 * US, layout.GAP_NS, lambda _: None)
