"""correlate: what it waits for, takes once, leaves out, and how it ends what it said too early."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from analytics import correlate
from analytics.correlate import MAX_UNANNOUNCED, Correlate
from analytics.detect import Detect
from stream import kinds
from stream.batch import MARK_END, Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.cost_limit import CostLimit
from stream.errors import PausetraceError
from stream.facts import Device, FactStream, Flow, Link
from stream.file_runner import run_steps
from stream.messages import Item, encode
from stream.record import empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.analytics.random_runs import leaf_spine
from tests.analytics.story import BEGIN_NS, DELAY_NS, Story, finals
from tests.analytics.test_verdict import D0, DOWN, MS, SENDER, UP, US, stopped_host


def episodes(items: Sequence[Item]) -> list[Item]:
    """What correlate reads of items, in their order: facts, roster changes and detect's batches."""
    detect = Detect()
    out: list[Item] = []
    for item in items:
        if not isinstance(item, Batch):
            out.append(item)
        out += detect.process([item])
    return out


def encoded(items: Sequence[Item]) -> list[bytes]:
    return sorted(encode(item).value for item in items)


def later_story() -> Story:
    """The stopped host again, and after it a mark of every stream that lies some ticks later."""
    story = stopped_host()
    for device in {device for device, _ in story.fabric.links}:
        story.row("pfc", device, "none", kinds.PFC_FRAMES, 85 * MS, value=1)
        if ("queue", device) in story.rows:
            story.row("queue", device, "none", kinds.PORT_BYTES, 85 * MS, value=1)
    return story


# Waiting


def test_nothing_is_final_before_every_stream_of_the_roster_has_passed() -> None:
    story = later_story()
    steps = Detect(), Correlate()
    values = story.values()
    assert run_steps([*story.ups(), *story.facts(), *story.downs()[:1], *values[:-1]], [steps[0]], steps[1]) == []
    (final,) = run_steps([values[-1]], [steps[0]], steps[1])
    assert isinstance(final, Cascade)
    assert final.revision == FINAL
    assert final.roots[0].device == "h10"


def test_facts_are_waited_for_like_rows() -> None:
    story = later_story()
    correlate = Correlate()
    items = episodes([*story.ups(), *story.values(), *story.facts()])
    assert correlate.process(items) == []
    assert len(correlate.process(story.downs()[:1])) == 1


def test_items_of_streams_that_the_roster_does_not_name_yet_are_held() -> None:
    story = stopped_host()
    rest = episodes([*story.ups(), *story.facts(), *story.values(), *story.downs()])
    ups = [item for item in rest if isinstance(item, SourceUp)]
    others = [item for item in rest if not isinstance(item, SourceUp)]
    held = [item for item in others if not isinstance(item, SourceDown)]
    downs = [item for item in others if isinstance(item, SourceDown)]
    correlate = Correlate()
    assert correlate.process(held) == []
    assert encoded(correlate.process([*ups, *downs])) == encoded(story.finals())


def test_what_is_held_of_a_stream_that_nobody_announces_is_bounded() -> None:
    correlate = Correlate()
    key = StreamKey("lab", "ghost|pfc", "e1", "episode", "leaf0")
    for seq in range(MAX_UNANNOUNCED + 5):
        correlate.process([Batch(key, seq, seq, (), empty_events(0))])
    assert correlate.counters["items_of_unannounced_streams_dropped"] == 5


def test_two_fabrics_do_not_wait_for_each_other_and_share_nothing() -> None:
    story = stopped_host()
    elsewhere = [_moved(item, "other") for item in later_story().items()]
    never_ends: list[Item] = [SourceUp("third", "x", "e1", 0, (StreamUp("pfc", "leaf0"),))]
    mixed = [item for pair in zip(story.items(), elsewhere, strict=True) for item in pair]
    made = finals([*never_ends, *mixed])
    assert sorted(cascade.fabric for cascade in made) == ["lab", "other"]
    assert encoded([cascade for cascade in made if cascade.fabric == "lab"]) == encoded(story.finals())
    assert len({cascade.id for cascade in made}) == 2


def _moved(item: Item, fabric: str) -> Item:
    if isinstance(item, Batch):
        return replace(item, stream=item.stream._replace(fabric=fabric))
    return msgspec.structs.replace(item, fabric=fabric)


# Rows that come twice, late or never


def test_everything_that_is_read_twice_counts_once() -> None:
    story = stopped_host()
    expected = encoded(story.finals())
    once = episodes(story.items())
    twice = [item for item in once for _ in range(2)]
    correlate = Correlate()
    assert encoded(correlate.process(twice)) == expected
    correlate = Correlate()
    assert encoded(correlate.process([*once[:20], *once])) == expected
    assert correlate.counters["repeated_source_ups"] > 0
    assert correlate.counters["duplicate_rows"] > 0
    assert correlate.process([item for item in once if not isinstance(item, SourceUp | SourceDown)]) == []


def test_values_that_overlap_are_taken_row_by_row() -> None:
    story = stopped_host()
    items = []
    for item in episodes(story.items()):
        items.append(item)
        if isinstance(item, Batch) and len(item.events) > 1:
            items[-1] = replace(item, events=item.events[:-1], mark_ns=BEGIN_NS)
            items.append(item)
    assert encoded(Correlate().process(items)) == encoded(story.finals())


def test_rows_older_than_what_is_settled_are_late_and_change_nothing() -> None:
    story = later_story()
    expected = encoded(story.finals())
    items = episodes(story.items())
    late = SourceUp("lab", "late", "e1", BEGIN_NS, (StreamUp("pfc", "leaf0"),))
    key = StreamKey("lab", "late|pfc", "e1", "episode", "leaf0")
    row = empty_events(1)
    row["kind"], row["time_ns"], row["extra"], row["side"] = kinds.PAUSE_OPEN, BEGIN_NS + 500 * US, 9, kinds.SIDE_RX
    correlate = Correlate()
    ends = [place for place, item in enumerate(items) if isinstance(item, SourceDown)]
    made = correlate.process(items[: ends[-1]])
    made += correlate.process([late, Batch(key, 0, MARK_END, ("d0",), row), *items[ends[-1] :]])
    made += correlate.process([SourceDown("lab", "late", "e1", BEGIN_NS + 50 * MS, (StreamDown("pfc", "leaf0", 0),))])
    assert correlate.counters["late_rows"] == 1
    assert encoded(made) == expected


def test_a_hole_in_an_episode_stream_is_told_as_a_loss_where_it_was() -> None:
    story = stopped_host()
    story.pcie("h10", 16, 16)
    items = episodes(story.items())
    place = next(i for i, item in enumerate(items) if isinstance(item, Batch) and item.stream.source == "probe|queue")
    batch = items[place]
    assert isinstance(batch, Batch)
    items[place] = replace(batch, seq=3)
    correlate = Correlate()
    (final,) = correlate.process(items)
    assert isinstance(final, Cascade)
    assert final.losses == {"rows_lost": 3}
    assert final.confidence_ppm == round(1e6 * 4 / 7)
    assert correlate.counters["lost_rows"] == 3


def test_a_pause_whose_end_was_lost_ends_with_the_last_row_of_all() -> None:
    story = stopped_host()
    items = episodes(story.items())
    for place, item in enumerate(items):
        for device, side in (("leaf1", kinds.SIDE_RX), ("h10", kinds.SIDE_TX)):
            if isinstance(item, Batch) and item.stream == StreamKey("lab", "probe|pfc", "e1", "episode", device):
                ends = (item.events["kind"] == kinds.PAUSE_INTERVAL) & (item.events["side"] == side)
                items[place] = replace(item, events=item.events[~ends])
    made = Correlate().process(items)
    (final,) = [item for item in made if isinstance(item, Cascade)]
    assert final.revision == FINAL
    assert final.losses == {"rows_lost": 2, "ends_guessed": 1}
    assert final.pauses == 4


def test_values_of_raw_topics_and_cascades_are_counted_and_left_alone() -> None:
    correlate = Correlate()
    story = stopped_host()
    cascade = story.only()
    assert correlate.process([cascade, *story.values()]) == []
    assert correlate.counters["items_of_other_topics"] == 1 + len(story.values())


# Both ends of a link


def test_of_a_device_that_reports_nothing_the_pauses_are_known_from_its_neighbours() -> None:
    story = stopped_host()
    whole = story.only()
    story.silent |= {("pfc", "leaf0"), ("pfc", "h00")}
    told = story.only()
    assert [(q.device, q.pause_ns) for q in told.queues] == [(q.device, q.pause_ns) for q in whole.queues[:3]]
    assert told.id == whole.id
    story.silent.add(("pfc", "spine0"))
    assert [q.device for q in story.only().queues] == ["leaf1", "spine0"]


def test_a_pause_is_never_told_twice_where_both_ends_report() -> None:
    told = stopped_host().only()
    assert [queue.pauses for queue in told.queues] == [1, 1, 1, 1]


def told_by_halves(from_ns: int, to_ns: int) -> Story:
    """leaf1 reports its pauses only between two times; h10 stops it six times, once a ms, for 100 us."""
    story = Story(leaf_spine(2, 1, 2))
    for number in range(6):
        story.pause(D0, number * MS + 100 * US, number * MS + 200 * US)
        story.depth(D0, number * MS, number * MS + 300 * US, 1_000)
    told = story.rows["pfc", "leaf1"]
    story.rows["pfc", "leaf1"] = [
        row for row in told if BEGIN_NS + from_ns <= int(row[1]["time_ns"][0]) <= BEGIN_NS + to_ns
    ]
    return story


@pytest.mark.parametrize(("from_ns", "to_ns"), [(0, 20 * MS), (2 * MS, 20 * MS), (0, 3 * MS), (2 * MS, 4 * MS)])
@pytest.mark.parametrize("read_late", [False, True])
def test_a_source_that_comes_and_goes_leaves_the_rest_to_the_neighbours(
    from_ns: int, to_ns: int, read_late: bool
) -> None:
    story = told_by_halves(from_ns, to_ns)
    story.silent.add(("pfc", "leaf1"))
    stream = story.rows["pfc", "leaf1"]
    up = SourceUp("lab", "tap", "e1", BEGIN_NS + from_ns, (StreamUp("pfc", "leaf1"),))
    down = SourceDown("lab", "tap", "e1", BEGIN_NS + to_ns, (StreamDown("pfc", "leaf1", len(stream) - 1),))
    value = replace(story.value("pfc", "leaf1"), stream=StreamKey("lab", "tap", "e1", "pfc", "leaf1"))
    begin, end = story.ups(), story.downs()
    middle = [*story.facts(), *story.values()]
    (told,) = finals(
        [*begin, *middle, up, value, down, *end] if read_late else [*begin, up, value, *middle, down, *end]
    )
    assert [(queue.pauses, queue.pause_ns) for queue in told.queues] == [(6, 600 * US)]
    assert told.losses == {}


# Facts


def test_a_link_that_is_replaced_changes_what_comes_after_it_only() -> None:
    story = Story(leaf_spine(2, 1, 2))
    for number in range(2):
        story.pause(D0, number * 20 * MS + 100 * US, number * 20 * MS + 300 * US)
    facts = story.facts()
    links = sum(isinstance(fact, Link) for fact in facts)
    devices = sum(isinstance(fact, Device) for fact in facts)
    moved_ns = BEGIN_NS + 10 * MS
    host = Device("lab", "h77", "host", moved_ns, FactStream("inventory", "e1", devices, BEGIN_NS))
    link = Link("lab", "leaf1", "d0", "h77", "eth0", 1, moved_ns, FactStream("inventory", "e1", links, BEGIN_NS))
    ends = story.downs()
    downs = tuple(
        msgspec.structs.replace(down, last_seq=down.last_seq + (down.topic in ("device", "link")))
        for down in ends[0].streams
    )
    items: list[Item] = [*story.ups(), *facts, host, link, *story.values(), ends[1],
                         msgspec.structs.replace(ends[0], streams=downs)]  # fmt: skip
    early, late = finals(items)
    assert (early.roots[0].device, early.queues[0].paused_by_device) == ("h10", "h10")
    assert (late.roots[0].device, late.queues[0].paused_by_device) == ("h77", "h77")


def test_a_link_that_is_replaced_in_the_middle_of_a_cascade_leaves_its_edges_their_names() -> None:
    story = stopped_host()
    whole = story.only()
    links = sum(isinstance(fact, Link) for fact in story.facts())
    moved = [
        Link("lab", "leaf1", "u0", "nowhere", "p0", 1, BEGIN_NS + 1050 * US,
             FactStream("inventory", "e1", links, BEGIN_NS)),
    ]  # fmt: skip
    ends = story.downs()
    downs = tuple(
        msgspec.structs.replace(down, last_seq=down.last_seq + (down.topic == "link")) for down in ends[0].streams
    )
    (told,) = finals([*story.ups(), *story.facts(), *moved, *story.values(), ends[1],
                      msgspec.structs.replace(ends[0], streams=downs)])  # fmt: skip
    assert told.edges == whole.edges
    assert told.queues == whole.queues


def test_a_fact_that_holds_since_before_its_source_came_up_holds_from_then_on() -> None:
    story = stopped_host()
    expected = encoded(story.finals())
    early = [msgspec.structs.replace(fact, valid_from_ns=5) for fact in story.facts()]
    assert encoded(finals([*story.ups(), *early, *story.values(), *story.downs()])) == expected


def test_a_flow_has_the_name_that_it_had_in_the_time_of_the_cascade() -> None:
    story = stopped_host()
    story.flow(7, "h00", "h10")
    story.flow_sent(D0, 200 * US, 300 * US, 7, 3_000)
    (known,) = story.flows
    for valid_from_ns, name in ((BEGIN_NS + 500 * US, "renamed"), (BEGIN_NS + 30 * MS, "far too late")):
        stream = FactStream("inventory", "e1", len(story.flows), BEGIN_NS)
        story.flows.append(msgspec.structs.replace(known, name=name, valid_from_ns=valid_from_ns, stream=stream))
    (root,) = story.only().roots
    assert [flow.name for flow in root.contributors] == ["renamed"]


# Lives of the roster


def test_a_roster_that_empties_ends_a_life_and_the_next_may_be_at_any_time() -> None:
    first, second = stopped_host(), congested_leaf()
    again = [_in_epoch(item, "e2") for item in second.items() if not isinstance(item, Device | Link | Flow)]
    facts = [_in_epoch(item, "e2") for item in second.facts()]
    one_after_the_other = [*first.items(), *again[:2], *facts, *again[2:]]
    expected = encoded([*first.finals(), *second.finals()])
    for batch_size in (1, 3, 1000):
        assert encoded(run_steps(one_after_the_other, [Detect()], Correlate(), batch_size)) == expected
    # The second life's roster may be read before the first one's rows.
    changes = [item for item in one_after_the_other if isinstance(item, SourceUp | SourceDown)]
    rest = [item for item in one_after_the_other if not isinstance(item, SourceUp | SourceDown)]
    assert encoded(run_steps([*changes, *rest], [Detect()], Correlate(), 1)) == expected


def congested_leaf() -> Story:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(DOWN, 150 * US, 900 * US)
    story.depth(D0, 0, 1000 * US, 5_000)
    return story


def _in_epoch(item: Item, epoch: str) -> Item:
    if isinstance(item, Batch):
        return replace(item, stream=item.stream._replace(epoch=epoch))
    if isinstance(item, Device | Link | Flow):
        return msgspec.structs.replace(item, stream=msgspec.structs.replace(item.stream, epoch=epoch))
    assert isinstance(item, SourceUp | SourceDown)
    return msgspec.structs.replace(item, epoch=epoch)


@pytest.mark.parametrize("others_are_down", [False, True])
def test_a_stream_may_go_down_once_more_where_its_last_rows_will_never_come(others_are_down: bool) -> None:
    story = stopped_host()
    ups, facts, values, (facts_down, rows_down) = story.ups(), story.facts(), story.values(), story.downs()
    expecting = tuple(msgspec.structs.replace(down, last_seq=99) for down in facts_down.streams)
    too_many = msgspec.structs.replace(facts_down, streams=expecting)
    items: list[Item] = [*ups, *facts, *values, too_many]
    correlate, detect = Correlate(), Detect()
    assert run_steps([*items, rows_down] if others_are_down else items, [detect], correlate) == []
    made = run_steps([facts_down] if others_are_down else [facts_down, rows_down], [detect], correlate)
    assert encoded(made) == encoded(story.finals())


def test_the_fabric_is_still_known_in_the_next_life() -> None:
    story = stopped_host()
    again = [_in_epoch(item, "e2") for item in story.items() if not isinstance(item, Device | Link | Flow)]
    probe_only = [
        msgspec.structs.replace(item, streams=tuple(stream for stream in item.streams if stream.device))
        if isinstance(item, SourceUp | SourceDown) else item
        for item in again
        if not (isinstance(item, SourceUp | SourceDown) and item.source == "inventory")
    ]  # fmt: skip
    first, second = finals([*story.items(), *[_later(item, 50 * MS) for item in probe_only]])
    assert second.start_ns == first.start_ns + 50 * MS
    assert second.roots == first.roots


def _later(item: Item, by_ns: int) -> Item:
    if isinstance(item, SourceUp):
        return msgspec.structs.replace(item, from_ns=item.from_ns + by_ns)
    if isinstance(item, SourceDown):
        return msgspec.structs.replace(item, at_ns=item.at_ns + by_ns)
    assert isinstance(item, Batch)
    events = item.events.copy()
    events["time_ns"] += by_ns
    return replace(item, events=events, mark_ns=min(item.mark_ns, MARK_END - by_ns) + by_ns)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cascade_of_an_ended_life_is_not_final_again_when_its_rows_come_once_more_beside_others(
    restarts: bool,
) -> None:
    story = stopped_host()
    items = story.items()
    some = [_of_switch_alone(item) for item in items]
    first, correlate = Correlate(), Correlate(provisional=True)
    said = run_steps([item for item in some if item is not None], [Detect()], first)
    (final,) = said
    assert isinstance(final, Cascade)
    correlate.restore(first.snapshot())
    for step in [correlate] if restarts else [first]:
        assert run_steps(items, [Detect()], step) == []
        assert step.counters["cascades_final_before"] == 1
        assert step.counters["repeated_source_ups"] > 0


def _of_switch_alone(item: Item) -> Item | None:
    """What is left of an item where the rows of one switch alone are published."""
    if isinstance(item, SourceUp):
        streams = tuple(stream for stream in item.streams if stream.device in ("", "leaf1"))
        return msgspec.structs.replace(item, streams=streams)
    if isinstance(item, SourceDown):
        ends = tuple(stream for stream in item.streams if stream.device in ("", "leaf1"))
        return msgspec.structs.replace(item, streams=ends)
    return item if not isinstance(item, Batch) or item.stream.device == "leaf1" else None


# Provisional revisions


def live(items: Sequence[Item], correlate: Correlate) -> list[Cascade]:
    """Everything that correlate says when it is given items one by one."""
    made = [out for item in episodes(items) for out in correlate.process([item])]
    return [item for item in made if isinstance(item, Cascade)]


def test_provisional_revisions_are_numbered_and_end_with_the_final_one() -> None:
    story = stopped_host()
    said = live(story.items(), Correlate(provisional=True))
    by_id: dict[str, list[int | str]] = {}
    for cascade in said:
        by_id.setdefault(cascade.id, []).append(cascade.revision)
    (final,) = [cascade for cascade in said if cascade.revision == FINAL]
    *numbers, last = by_id[final.id]
    assert last == FINAL
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1
    assert [final] == story.finals()
    for cascade in said:
        if cascade.id != final.id:
            assert by_id[cascade.id] == list(range(1, len(by_id[cascade.id]) + 1))


def test_pauses_that_nothing_has_ended_so_far_are_told_of() -> None:
    story = stopped_host()
    begun = [replace(value, events=value.events[value.events["kind"] != kinds.PFC_XON]) for value in story.values()]
    (said,) = live([*story.ups(), *story.facts(), *begun], Correlate(provisional=True))[-1:]
    assert said.revision != FINAL
    assert said.roots[0].device == "h10"


class NotNow(CostLimit):
    """A limit that has been reached."""

    def allows(self) -> bool:
        return False


def test_without_time_for_provisional_revisions_the_final_ones_come_alone() -> None:
    story = stopped_host()
    assert live(story.items(), Correlate(provisional=True, limit=NotNow())) == story.finals()


def test_of_many_cascades_each_is_revised_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlate, "MAX_REVISED", 1)
    story = Story(leaf_spine(5, 1, 2))
    for leaf in range(5):
        story.pause((f"leaf{leaf}", "d0", 3), 100 * US, 300 * US)
        story.pause((f"leaf{leaf}", "d0", 3), 400 * US, 600 * US)
    step = Correlate(provisional=True)
    told: list[set[str]] = []
    values = episodes(story.values())
    step.process(episodes([*story.ups(), *story.facts()]))
    for turn in range(len(values) + 10):
        said = step.process(values[turn : turn + 1] or values[-1:])
        assert len(said) <= 2
        told.append({cascade.id for cascade in said if isinstance(cascade, Cascade)})
    ids = {final.id for final in story.finals()}
    assert len(ids) == 5
    assert set().union(*told) == ids


def test_a_provisional_cascade_that_turns_out_to_be_part_of_another_ends_with_its_id() -> None:
    story = stopped_host()
    ups, values, downs = story.ups(), story.values(), story.downs()
    order = {"h00": 0, "leaf0": 1, "spine0": 2, "leaf1": 3}
    values.sort(key=lambda value: (value.stream.topic != "queue", order.get(value.stream.device, 4)))
    said = live([*ups, *story.facts(), *values, *downs], Correlate(provisional=True))
    final = said[-1] if said[-1].revision == FINAL else next(c for c in said if c.revision == FINAL)
    others = {cascade.id for cascade in said} - {final.id}
    assert others
    for name in others:
        *_, last = [cascade for cascade in said if cascade.id == name]
        assert last.merged_into == final.id


def test_a_provisional_cascade_that_came_to_nothing_is_withdrawn() -> None:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(D0, 100 * US, 300 * US)
    story.silent.add(("pfc", "leaf1"))
    ups, facts, values, downs = story.ups(), story.facts(), story.values(), story.downs()
    links = sum(isinstance(fact, Link) for fact in facts)
    # By the time that h10 sent its pauses its cable led elsewhere, which is read after them.
    moved = Link("lab", "h10", "eth0", "leaf9", "p0", 1, BEGIN_NS + 50 * US,
                 FactStream("inventory", "e1", links, BEGIN_NS), DELAY_NS)  # fmt: skip
    ends = tuple(
        msgspec.structs.replace(down, last_seq=down.last_seq + (down.topic == "link")) for down in downs[0].streams
    )
    inventory_down = msgspec.structs.replace(downs[0], streams=ends)
    said = live([*ups, *facts, *values, moved, inventory_down, downs[1]], Correlate(provisional=True))
    withdrawn = [cascade for cascade in said if cascade.severity_reason.startswith("withdrawn")]
    finals_said = [cascade for cascade in said if cascade.revision == FINAL]
    assert [cascade.queues[0].device for cascade in finals_said] == ["leaf9"]
    assert [(cascade.pauses, cascade.severity) for cascade in withdrawn] == [(0, "info")]
    assert withdrawn[0].id != finals_said[0].id


@pytest.mark.parametrize("seed", range(4))
def test_provisional_runs_say_the_same_finals(seed: int) -> None:
    story = stopped_host()
    story.pcie("h10", 8, 16)
    values = story.values()
    random.Random(seed).shuffle(values)
    items = [*story.ups(), *story.facts(), *values, *story.downs()]
    finals_said = [cascade for cascade in live(items, Correlate(provisional=True)) if cascade.revision == FINAL]
    assert finals_said == story.finals()


# Snapshots


def test_a_snapshot_at_any_point_goes_on_with_the_same_words() -> None:
    story = later_story()
    story.pcie("h10", 8, 16)
    story.flow(7, "h00", "h10")
    story.flow_sent(D0, 200 * US, 300 * US, 7, 3_000)
    second = [_in_epoch(item, "e2") for item in congested_leaf().items()]
    items = episodes([*story.items(), *second])
    for provisional in (False, True):
        whole = Correlate(provisional)
        expected = [encoded(whole.process([item])) for item in items]
        for cut in range(len(items) + 1):
            before, after = Correlate(provisional), Correlate(provisional)
            for item in items[:cut]:
                before.process([item])
            state = before.snapshot()
            after.restore(state)
            assert after.snapshot() == state
            assert [encoded(after.process([item])) for item in items[cut:]] == expected[cut:], cut
            assert after.snapshot() == whole.snapshot()


def test_a_snapshot_holds_items_of_streams_that_nobody_has_announced() -> None:
    story = stopped_host()
    rest = episodes([*story.ups(), *story.facts(), *story.values(), *story.downs()])
    held = [item for item in rest if not isinstance(item, SourceUp | SourceDown)]
    held = [
        replace(item, skipped=1, positions=np.arange(len(item.events))) if isinstance(item, Batch) else item
        for item in held
    ]
    before, after = Correlate(), Correlate()
    before.process(held)
    after.restore(before.snapshot())
    roster = [item for item in rest if isinstance(item, SourceUp | SourceDown)]
    assert encoded(after.process(roster)) == encoded(before.process(roster))


def test_what_is_no_snapshot_of_correlate_is_refused() -> None:
    good = Correlate().snapshot()
    for wrong in (b"", b"nonsense", good[:-1], Detect().snapshot()):
        with pytest.raises(PausetraceError):
            Correlate().restore(wrong)


# Time


def test_a_cascade_is_over_after_ten_ms_without_a_stopped_queue() -> None:
    for gap_ns, cascades in ((10 * MS, 1), (10 * MS + 1, 2)):
        story = Story(leaf_spine(2, 1, 2))
        story.pause(D0, 100 * US, 200 * US)
        story.pause(D0, 200 * US + gap_ns, 300 * US + gap_ns)
        assert len(story.finals()) == cascades


def test_one_cascade_leads_from_the_first_sender_to_the_last_as_long_as_causes_touch() -> None:
    story = Story(leaf_spine(2, 1, 2))
    story.pause(D0, 100 * US, 200 * US)
    story.pause(DOWN, 219 * US, 300 * US)
    story.pause(UP, 319 * US, 400 * US)
    story.pause(SENDER, 419 * US, 500 * US)
    for queue in (D0, DOWN, UP):
        story.depth(queue, 0, 500 * US, 1_000)
    (told,) = story.finals()
    assert [root.device for root in told.roots] == ["h10"]
    story = Story(leaf_spine(2, 1, 2))
    story.pause(D0, 100 * US, 200 * US)
    story.pause(DOWN, 220 * US + 1, 300 * US)
    story.depth(D0, 0, 500 * US, 1_000)
    assert [cascade.roots[0].kind for cascade in story.finals()] == ["host", "egress"]
