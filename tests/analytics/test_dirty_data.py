"""Dirty data, one kind a test: what it does to a cascade that is known without it (docs/dirty-data.md)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.counters import Counters
from stream.file_runner import run_steps
from stream.messages import Item
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from tests.analytics.random_runs import leaf_spine
from tests.analytics.restarting import Restarting
from tests.analytics.story import BEGIN_NS, SPEED_MBPS, Story, finals
from tests.analytics.test_verdict import D0, DOWN, MS, SENDER, US, congested, stopped_host
from tests.reference.pauses import Queue

WATCHDOG = kinds.BY_NAME["PFC_WATCHDOG"].code
YEAR_NS = 365 * 86_400 * 1_000_000_000
OLD_FRAMES = 100_000_000


def counted(story: Story, queue: Queue, first: int, bits: int = 64, begins_anew_at: int | None = None) -> Story:
    """Adds bytes of a port as a cumulative counter of so many bits tells them; the port sends .5 % of line rate."""
    counters = Counters()
    counters.add(1, bits=bits, most_per_s=SPEED_MBPS * 125_000, stamp_error_ns=0, period_ns=story.period_ns)
    each = SPEED_MBPS * story.period_ns // 8_000 // 200
    counts = [first + each * number for number in range(13)]
    if begins_anew_at is not None:
        counts[begins_anew_at:] = [each * number for number in range(13 - begins_anew_at)]
    times = np.arange(13) * story.period_ns
    deltas = counters.take(np.zeros(13, np.int64), times, np.array([c % 2**bits for c in counts], np.uint64))
    device, port, priority = queue
    for row, span_ns, value, quality in zip(*(column.tolist() for column in deltas), strict=True):
        story.row("queue", device, port, kinds.PORT_BYTES, int(times[row]), span_ns=span_ns, value=value,
                  side=kinds.SIDE_TX, priority=priority, quality=quality)  # fmt: skip
    return story


def what_was_counted(items: Sequence[Item]) -> tuple[list[Cascade], Detect, Correlate]:
    """The final cascades, and the steps with what they counted."""
    detect, correlate = Detect(), Correlate()
    made = run_steps(items, [detect], correlate)
    return [item for item in made if isinstance(item, Cascade)], detect, correlate


# Counters


def test_what_a_port_sent_is_known_from_a_cumulative_counter() -> None:
    (root,) = counted(stopped_host(), D0, 10**15).only().roots
    assert root.root_class == "nic_pfc_storm"
    assert "the port could send 0.5% of its line rate in that time" in root.evidence


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_wraps_changes_nothing(bits: int) -> None:
    clean = counted(stopped_host(), D0, 0).only()
    assert counted(stopped_host(), D0, 2**bits - 20_000, bits).only() == clean


def test_a_counter_that_begins_anew_lowers_the_confidence_and_is_told() -> None:
    clean = counted(stopped_host(), D0, 10**15).only()
    told = counted(stopped_host(), D0, 10**15, begins_anew_at=6).only()
    assert [(root.device, root.root_class) for root in told.roots] == [("h10", "nic_pfc_storm")]
    assert told.confidence_ppm == round(0.9 * clean.confidence_ppm)
    why = "what was counted while counters began anew or were not read of leaf1"
    assert set(told.missing_evidence) - set(clean.missing_evidence) == {why}


def test_a_counter_that_begins_anew_elsewhere_or_at_another_time_is_of_no_matter() -> None:
    clean = counted(stopped_host(), D0, 0).only()
    story = counted(stopped_host(), D0, 0)
    for device, after_ns in (("leaf1", 30 * MS), ("far", 500 * US)):
        story.row("queue", device, "d0", kinds.PORT_BYTES, after_ns, span_ns=100 * US, value=kinds.UNKNOWN,
                  side=kinds.SIDE_TX, quality=kinds.RESET | kinds.GAP)  # fmt: skip
    assert story.only() == clean


def test_frames_of_all_kinds_counted_as_xoff_change_nothing() -> None:
    """Several devices count XON and refreshes as well: twice as many frames, and no more time."""
    stories = [stopped_host(), stopped_host()]
    for times, story in enumerate(stories, 1):
        story.row("pfc", "leaf1", "d0", kinds.PFC_PAUSED, 1100 * US, span_ns=1100 * US, value=1000 * US,
                  extra=3 * times, side=kinds.SIDE_RX)  # fmt: skip
        story.row("pfc", "h10", "eth0", kinds.PFC_FRAMES, 1100 * US, span_ns=1100 * US, value=3 * times,
                  side=kinds.SIDE_TX)  # fmt: skip
    once, twice = (story.only() for story in stories)
    assert once == twice


def test_what_idle_ports_counted_in_all_their_life_is_no_pause_of_today() -> None:
    clean, story = stopped_host().only(), stopped_host()
    for device, port in (("leaf1", "d1"), ("leaf0", "d1"), ("spine0", "p0")):
        story.row("pfc", device, port, kinds.PFC_PAUSED, 100 * US, span_ns=100 * US, value=YEAR_NS, extra=OLD_FRAMES,
                  side=kinds.SIDE_RX)  # fmt: skip
        story.row("pfc", device, port, kinds.PFC_FRAMES, 100 * US, span_ns=100 * US, value=OLD_FRAMES,
                  side=kinds.SIDE_TX)  # fmt: skip
    (told,), _, correlate = what_was_counted(story.items())
    assert told == clean
    assert correlate.counters["paused_beyond_the_window"] == 3


def test_frames_without_duration_on_empty_queues_stop_nothing() -> None:
    story = Story(leaf_spine(2, 1, 2))
    for number in range(20):
        story.row("pfc", "leaf1", "d0", kinds.PFC_FRAMES, (number + 1) * 100 * US, span_ns=100 * US, value=50,
                  side=kinds.SIDE_RX)  # fmt: skip
        story.row("pfc", "h10", "eth0", kinds.PFC_FRAMES, (number + 1) * 100 * US, span_ns=100 * US, value=50,
                  side=kinds.SIDE_TX)  # fmt: skip
    story.sent(D0, 0, 2 * MS, 1_000)
    assert story.finals() == []


# Watchdogs


@pytest.mark.parametrize("until_ns", [None, 50 * MS])
def test_a_queue_that_its_watchdog_masks_is_blind_and_not_recovered(until_ns: int | None) -> None:
    clean = stopped_host().only()
    story = stopped_host()
    story.row("pfc", "leaf1", "d0", WATCHDOG, 1_050 * US, value=1)
    if until_ns is not None:
        story.row("pfc", "leaf1", "d0", WATCHDOG, until_ns, value=0)
    told = story.only()
    assert told.confidence_ppm == round(0.9 * clean.confidence_ppm)
    assert "pauses that a PFC watchdog ignored at leaf1:d0" in told.missing_evidence
    assert [root.device for root in told.roots] == ["h10"]


def test_a_root_whose_own_stops_a_watchdog_may_hide_is_a_suspect() -> None:
    assert not congested(d0=300_000).only().suspect_set
    story = congested(d0=300_000)
    story.row("pfc", "leaf1", "d0", WATCHDOG, 50 * US, value=1, priority=kinds.NO_PRIORITY)
    told = story.only()
    assert told.suspect_set
    assert "pauses that a PFC watchdog ignored at leaf1:d0" in told.missing_evidence


@pytest.mark.parametrize(
    ("port", "priority", "from_ns", "to_ns"),
    [
        ("d0", 4, 50 * US, 50 * MS),
        ("d1", 3, 50 * US, 50 * MS),
        ("d0", 3, 10 * US, 90 * US),
        ("d0", 3, 15 * MS, 50 * MS),
    ],
)
def test_a_watchdog_of_another_queue_or_time_is_of_no_matter(
    port: str, priority: int, from_ns: int, to_ns: int
) -> None:
    story = congested(d0=300_000)
    story.row("pfc", "leaf1", port, WATCHDOG, from_ns, value=1, priority=priority)
    story.row("pfc", "leaf1", port, WATCHDOG, to_ns, value=0, priority=priority)
    assert story.only() == congested(d0=300_000).only()


# Rows that are missing, late or there twice


def without(story: Story, device: str, kind: int, side: int) -> Story:
    """The story less the rows of pause of one sort at a device."""
    story.rows["pfc", device] = [
        row for row in story.rows["pfc", device] if (int(row[1]["kind"][0]), int(row[1]["side"][0])) != (kind, side)
    ]
    return story


def several_stops() -> Story:
    """h10 stops its leaf six times, once a ms, for 100 us; the leaf passes it on to the spine."""
    story = Story(leaf_spine(2, 1, 2))
    for number in range(6):
        story.pause(D0, number * MS + 100 * US, number * MS + 200 * US)
        story.pause(DOWN, number * MS + 120 * US, number * MS + 200 * US)
        story.depth(D0, number * MS, number * MS + 300 * US, 1_000)
    story.pcie("h10", 16, 16)
    return story


@pytest.mark.parametrize("kind", [kinds.PFC_XOFF, kinds.PFC_XON])
@pytest.mark.parametrize("device", ["leaf1", "h10", "spine0"])
def test_a_frame_that_one_end_missed_leaves_the_root_where_it_was(kind: int, device: str) -> None:
    story = several_stops()
    rows = story.rows["pfc", device]
    missed = next(place for place, row in enumerate(rows) if int(row[1]["kind"][0]) == kind)
    del rows[missed]
    told = max(story.finals(), key=lambda cascade: cascade.pause_ns)
    assert [root.device for root in told.roots] == ["h10"]
    assert not told.suspect_set


def test_an_end_of_a_pause_that_never_began_is_counted_and_stops_nothing() -> None:
    story = without(without(stopped_host(), "h00", kinds.PFC_XOFF, kinds.SIDE_RX), "leaf0", kinds.PFC_XOFF,
                    kinds.SIDE_TX)  # fmt: skip
    (told,), detect, _ = what_was_counted(story.items())
    assert [queue.device for queue in told.queues] == ["leaf1", "spine0", "leaf0"]
    assert detect.counters["unmatched_xons"] == 2


def test_rows_that_a_source_tells_twice_count_once() -> None:
    clean, story = stopped_host().only(), stopped_host()
    for stream in story.rows.values():
        stream[:] = [row for row in stream for _ in range(2)]
    assert story.only() == clean


def test_values_that_are_read_twice_count_once() -> None:
    story = stopped_host()
    items = [item for item in story.items() for _ in range(2)]
    (told,), detect, _ = what_was_counted(items)
    assert told == story.only()
    assert detect.counters["duplicate_rows"] == sum(len(item.events) for item in story.values())


def test_rows_older_than_what_their_stream_promised_are_counted_and_change_nothing() -> None:
    story = stopped_host()
    items: list[Item] = []
    for item in story.items():
        if isinstance(item, Batch) and item.stream.topic == "pfc" and item.stream.device == "leaf1":
            item = replace_mark(item, BEGIN_NS + 2 * MS)
            late = item.events[:2].copy()
            late["time_ns"], late["kind"] = [BEGIN_NS + 300 * US, BEGIN_NS + 400 * US], [kinds.PFC_XON, kinds.PFC_XOFF]
            items += [item, Batch(item.stream, len(item.events), item.mark_ns, item.ports, late)]
        elif isinstance(item, SourceDown) and item.source == "probe":
            downs = tuple(
                replace(down, last_seq=down.last_seq + 2) if (down.topic, down.device) == ("pfc", "leaf1") else down
                for down in item.streams
            )
            items.append(replace(item, streams=downs))
        else:
            items.append(item)
    (told,), detect, _ = what_was_counted(items)
    assert told == story.only()
    assert detect.counters["late_rows"] == 2


def replace_mark(batch: Batch, mark_ns: int) -> Batch:
    """The same rows with a later promise."""
    return Batch(batch.stream, batch.seq, mark_ns, batch.ports, batch.events)


def test_the_stops_of_a_switch_that_tells_nothing_are_known_from_what_its_neighbours_sent() -> None:
    whole, story = stopped_host().only(), stopped_host()
    story.silent |= {("pfc", "leaf1"), ("queue", "leaf1")}
    told = max(story.finals(), key=lambda cascade: cascade.pause_ns)
    stops = {(queue.device, queue.port): queue.pause_ns for cascade in story.finals() for queue in cascade.queues}
    assert stops == {(queue.device, queue.port): queue.pause_ns for queue in whole.queues}
    assert any("leaf1" in what for what in told.missing_evidence)
    assert told.confidence_ppm < whole.confidence_ppm


# Two sources of one device


def tapped(story: Story, device: str, after_ns: int, name: str, lost: int = 0, quality: int = 0) -> list[Item]:
    """The story's items, and the pauses of one device once more by another source: later, and less the last ends."""
    batch = story.value("pfc", device)
    events = batch.events.copy()
    events["time_ns"] += after_ns
    events["quality"] = quality
    ends = np.flatnonzero((events["kind"] == kinds.PFC_XON) & (events["side"] == kinds.SIDE_RX))
    events = np.delete(events, ends[: min(lost, len(ends))])
    key = StreamKey("lab", name, "e1", "pfc", device)
    value = Batch(key, 0, int(events["time_ns"][-1]), batch.ports, events)
    up = SourceUp("lab", name, "e1", BEGIN_NS, (StreamUp("pfc", device),))
    down = SourceDown("lab", name, "e1", story.end_ns, (StreamDown("pfc", device, len(events) - 1),))
    return [up, value, *story.items(), down]


@pytest.mark.parametrize("name", ["aa-tap", "zz-tap"])
@pytest.mark.parametrize("after_ns", [0, 300, -300])
@pytest.mark.parametrize("device", ["leaf1", "h10"])
def test_pauses_that_two_sources_tell_count_once(name: str, after_ns: int, device: str) -> None:
    story = several_stops()
    clean = story.only()
    (told,), _, correlate = what_was_counted(tapped(story, device, after_ns, name))
    assert [(q.device, q.pauses, q.pause_ns) for q in told.queues] == [
        (q.device, q.pauses, q.pause_ns) for q in clean.queues
    ]
    assert told.losses == clean.losses
    assert told.roots == clean.roots
    assert correlate.counters["pauses_told_by_others"] > 0


@pytest.mark.parametrize("seed", range(4))
def test_restarts_change_nothing_of_what_dirty_data_becomes(seed: int) -> None:
    story = counted(several_stops(), D0, 10**15, begins_anew_at=6)
    story.row("pfc", "leaf1", "d0", WATCHDOG, 2 * MS, value=1)
    story.row("pfc", "leaf1", "d0", WATCHDOG, 3 * MS, value=0)
    items = tapped(story, "leaf1", 300, "tap")
    expected, _, _ = what_was_counted(items)
    assert len(expected[0].missing_evidence) > len(several_stops().only().missing_evidence) + 1
    correlate = Restarting(Correlate, Random(seed), chance=0.5)
    made = run_steps(items, [Detect()], correlate, batch_size=3)
    assert [item for item in made if isinstance(item, Cascade)] == expected
    assert correlate.restarts > 2


def test_what_a_second_source_lost_costs_nothing() -> None:
    story = several_stops()
    clean = story.only()
    (told,), _, _ = what_was_counted(tapped(story, "leaf1", 300, "tap", lost=3))
    assert told == clean


def test_exact_pauses_count_where_another_source_only_estimates() -> None:
    story = several_stops()
    for _, row in story.rows["pfc", "leaf1"]:
        row["quality"] = kinds.EXACT
    clean = story.only()
    (told,), _, _ = what_was_counted(tapped(story, "leaf1", -300, "tap", quality=kinds.ESTIMATED))
    (first, *_) = told.queues
    # The estimate was first, by 300 ns; the exact source takes over at its first row and is followed from then on.
    assert 0 <= first.pauses - clean.queues[0].pauses <= 1
    assert 0 <= first.pause_ns - clean.queues[0].pause_ns <= 300


def test_a_second_source_takes_over_when_the_first_tells_nothing_any_more() -> None:
    story = Story(leaf_spine(2, 1, 2))
    for number in range(6):
        story.pause(D0, number * 8 * MS + 100 * US, number * 8 * MS + 300 * US)
        story.depth(D0, number * 8 * MS, number * 8 * MS + 400 * US, 1_000)
    story.silent.add(("pfc", "h10"))
    clean = story.only()
    items = tapped(story, "leaf1", 300, "tap")
    for place, item in enumerate(items):
        if isinstance(item, Batch) and item.stream.source == "probe" and item.stream.device == "leaf1":
            if item.stream.topic == "pfc":
                events = item.events[item.events["time_ns"] < BEGIN_NS + 15 * MS]
                items[place] = Batch(item.stream, 0, item.mark_ns, item.ports, events)
                kept = len(events)
        elif isinstance(item, SourceDown) and item.source == "probe":
            downs = tuple(
                replace(down, last_seq=kept - 1) if (down.topic, down.device) == ("pfc", "leaf1") else down
                for down in item.streams
            )
            items[place] = replace(item, streams=downs)
    told = finals(items)
    pauses = sum(queue.pauses for cascade in told for queue in cascade.queues)
    # The one in the 10 ms in which the first source may only have been quiet is not told.
    assert pauses == clean.queues[0].pauses - 1
    assert SENDER not in [(queue.device, queue.port, 3) for cascade in told for queue in cascade.queues]
