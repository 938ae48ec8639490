"""Streams that hold up the others are suspended and resumed: what counts depends on times alone, and nobody waits."""

from __future__ import annotations

import json
from collections import Counter, deque
from random import Random

import msgspec
import numpy as np
import pytest

from analytics.correlate import TICK_NS, Correlate
from analytics.detect import Detect
from analytics.streams import Stream
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.deadlines import Standing
from stream.facts import TOPIC_OF_FACT, FactStream, FactTopic, Flow, Idle
from stream.file_runner import run_steps
from stream.messages import Item
from stream.roster import (
    RosterChange,
    SourceDown,
    SourceResumed,
    SourceSuspended,
    SourceUp,
    StreamDown,
    StreamName,
    StreamUp,
    change_ns,
)
from tests.analytics.many_sources import arrivals, life
from tests.analytics.story import BEGIN_NS, event
from tests.analytics.test_correlate import episodes, later_story
from tests.analytics.test_determinism import finals
from tests.analytics.test_many_sources import in_any_order
from tests.analytics.test_verdict import stopped_host

MS = 1_000_000
Streams = dict[StreamKey, deque[Item]]


def silent_for_a_time(seed: int) -> tuple[StreamKey, int, int, list[RosterChange], Streams]:
    """A stream of rows of a busy fabric, a time within its life, and when it is behind that time again."""
    random = Random(seed)
    changes, streams = life(seed, "e1", 1_000_000_000)
    of_rows = [key for key, items in streams.items() if key.device and len(items) > 3]
    pausing = [key for key in of_rows if key.topic == "pfc"]
    stream = random.choice(pausing if pausing and seed % 3 else of_rows)
    marks = [item.mark_ns for item in streams[stream] if isinstance(item, Batch)]
    at_ns = random.choice(marks[:-1]) + random.choice((0, 0, 700_000))
    return stream, at_ns, at_ns + random.choice((1, 3_000_000, 40_000_000)), changes, streams


def suspended(stream: StreamKey, at_ns: int, from_ns: int, changes: list[RosterChange]) -> list[RosterChange]:
    named = names(stream)
    gap: list[RosterChange] = [
        SourceSuspended(stream.fabric, stream.source, stream.epoch, at_ns, named),
        SourceResumed(stream.fabric, stream.source, stream.epoch, from_ns, named),
    ]
    return sorted([*changes, *gap], key=change_ns)


def names(stream: StreamKey) -> tuple[StreamName, ...]:
    return (StreamName(stream.topic, stream.device),)


def as_two_sources(
    stream: StreamKey, at_ns: int, from_ns: int, changes: list[RosterChange], streams: Streams
) -> tuple[list[RosterChange], Streams]:
    """The same with a source that ends at at_ns, and another one that begins at from_ns."""
    up = next(c for c in changes if isinstance(c, SourceUp) and stream in c.stream_keys())
    down = next(c for c in changes if isinstance(c, SourceDown) and stream in c.stream_keys())
    told_up = up.streams[up.stream_keys().index(stream)]
    second = stream._replace(source=f"{stream.source} again")
    parts: dict[StreamKey, list[Item]] = {stream: [], second: []}
    seqs = {stream: 0, second: 0}
    for item in streams[stream]:
        assert isinstance(item, Batch)
        begun_ns = item.events["time_ns"] - item.events["span_ns"]
        for key, wanted in ((stream, item.events["time_ns"] <= at_ns), (second, begun_ns >= from_ns)):
            if key == stream or item.mark_ns > from_ns:
                events = item.events[wanted]
                parts[key].append(msgspec.structs.replace(item, stream=key, seq=seqs[key], events=events))
                seqs[key] += len(events)

    def without(change: SourceUp | SourceDown) -> SourceUp | SourceDown:
        left = tuple(s for key, s in zip(change.stream_keys(), change.streams, strict=True) if key != stream)
        return msgspec.structs.replace(change, streams=left)

    def ended(key: StreamKey, time_ns: int) -> SourceDown:
        downs = (StreamDown(key.topic, key.device, seqs[key] - 1),)
        return SourceDown(key.fabric, key.source, key.epoch, time_ns, downs)

    told: list[RosterChange] = [c for c in changes if c not in (up, down)]
    told += [c for c in (without(up), without(down)) if c.streams]
    told.append(SourceUp(stream.fabric, stream.source, stream.epoch, up.from_ns, (told_up,)))
    told.append(ended(stream, at_ns))
    if down.at_ns > from_ns:
        told.append(SourceUp(second.fabric, second.source, second.epoch, from_ns, (told_up,)))
        told.append(ended(second, down.at_ns))
    told.sort(key=lambda change: (change_ns(change), isinstance(change, SourceDown), change.source))
    kept = {key: deque(items) for key, items in parts.items() if key == stream or down.at_ns > from_ns}
    return told, streams | kept


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 16))])
def test_a_gap_leaves_what_two_sources_would_have_told(seed: int) -> None:
    stream, at_ns, from_ns, changes, streams = silent_for_a_time(seed)
    told = in_any_order(suspended(stream, at_ns, from_ns, changes), streams)
    twice = in_any_order(*as_two_sources(stream, at_ns, from_ns, changes, streams))
    assert without_confidence(told) == without_confidence(twice)


def test_a_pause_of_the_instant_at_which_a_gap_begins_ends_there_however_late_it_is_read() -> None:
    stream = Stream(mark_ns=BEGIN_NS)
    stream.suspend(BEGIN_NS)
    early, late = event(kinds.PAUSE_OPEN, BEGIN_NS, side=2, extra=4), event(kinds.PAUSE_OPEN, BEGIN_NS, side=2, extra=9)
    assert stream.follow(early, np.array([1]), True) == []
    cuts = [*stream.cut(BEGIN_NS), *stream.follow(late, np.array([2]), True)]
    ends = [(int(cut.events["extra"][0]), int(cut.events["time_ns"][0])) for cut in cuts]
    assert ends == [(4, BEGIN_NS), (9, BEGIN_NS)]
    assert stream.opens == {}


def test_rows_that_are_no_pauses_open_none_behind_a_gap() -> None:
    stream = Stream(mark_ns=BEGIN_NS)
    stream.suspend(BEGIN_NS)
    assert stream.follow(event(kinds.QUEUE_DEPTH, BEGIN_NS, value=1), np.array([1]), False) == []
    assert stream.cut(BEGIN_NS) == []


def without_confidence(values: list[bytes]) -> dict[str, object]:
    """Cascades by id, but for what they say of themselves: that a stream was suspended costs confidence."""
    cascades = {cascade["id"]: cascade for cascade in map(json.loads, values)}
    for cascade in cascades.values():
        for name in ("confidence_ppm", "confidence_parts", "suspect_set", "missing_evidence"):
            del cascade[name]
    return cascades


def test_a_cascade_says_that_nobody_waited_for_one_of_its_devices() -> None:
    story = stopped_host()
    items = [*story.ups(), *story.facts(), *story.values()]
    gap = SourceSuspended(
        "lab", "probe", "e1", BEGIN_NS + MS // 2, names(StreamKey("lab", "probe", "e1", "pfc", "leaf1"))
    )
    (plain,), (late,) = (
        [
            item
            for item in run_steps([*items, *more, *story.downs()], [Detect()], Correlate())
            if isinstance(item, Cascade)
        ]
        for more in ((), (gap,))
    )
    assert plain.missing_evidence == ("PCIe state of h10",)
    assert late.missing_evidence == ("what nobody waited for of leaf1", "PCIe state of h10")
    assert late.confidence_ppm == plain.confidence_ppm * 9 // 10


def test_gaps_matter_in_these_stories() -> None:
    differ = 0
    for seed in range(12):
        stream, at_ns, from_ns, changes, streams = silent_for_a_time(seed)
        plain = finals(arrivals(changes, streams, Random(0)), 1000)
        differ += plain != finals(arrivals(suspended(stream, at_ns, from_ns, changes), streams, Random(0)), 1000)
    assert differ >= 3


def dead_sender() -> tuple[list[Item], StreamKey]:
    """The stopped host's story without its end, of which one device tells the first half alone; the stream's name."""
    story = later_story()
    items = episodes([*story.ups(), *story.facts(), *story.values()])
    streams = {item.stream for item in items if isinstance(item, Batch)}
    dead = min(stream for stream in streams if stream.source.endswith("|pfc"))
    half_ns = BEGIN_NS + 20 * MS
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Batch) and item.stream == dead:
            early = item.events[item.events["time_ns"] <= half_ns]
            item = msgspec.structs.replace(item, events=early, mark_ns=half_ns)
        kept.append(item)
    seqs = Counter(TOPIC_OF_FACT[type(fact)] for fact in story.facts())
    topics: tuple[FactTopic, ...] = ("device", "link", "flow")
    marks = [Idle("lab", topic, FactStream("inventory", "e1", seqs[topic], BEGIN_NS + 60 * MS)) for topic in topics]
    return [*kept, *marks], StreamKey("lab", dead.source.removesuffix("|pfc"), dead.epoch, "pfc", dead.device)


def test_a_suspended_stream_is_not_waited_for() -> None:
    items, dead = dead_sender()
    step = Correlate()
    step.process(items)
    before = step.standing()["lab"]
    assert before[dead] == Standing(BEGIN_NS + 20 * MS, False)
    assert step.settled()["lab"].settled_ns == BEGIN_NS + 20 * MS
    step.process([SourceSuspended("lab", dead.source, dead.epoch, before[dead].mark_ns, names(dead))])
    assert step.standing()["lab"][dead] == Standing(BEGIN_NS + 20 * MS, True)
    after = step.settled()["lab"]
    assert after.settled_ns == BEGIN_NS + 60 * MS
    assert (after.streams_up, after.streams_suspended) == (len(before) - 1, 1)


def test_a_change_of_the_roster_that_is_read_again_changes_nothing() -> None:
    items, dead = dead_sender()
    gap: list[Item] = [
        SourceSuspended("lab", dead.source, dead.epoch, BEGIN_NS + 10 * MS, names(dead)),
        SourceResumed("lab", dead.source, dead.epoch, BEGIN_NS + 50 * MS, names(dead)),
    ]
    once, twice = Correlate(), Correlate()
    assert once.process([*items, *gap]) == twice.process([*items, *gap, *gap, *gap])
    assert once.snapshot() == twice.snapshot()
    assert twice.counters["changes_of_no_use"] == 4


def test_facts_told_in_a_gap_hold_from_its_end_on() -> None:
    def told(seq: int, from_ns: int) -> Flow:
        return Flow("lab", "00000000000000aa", "h1", "h2", "", "", 17, 1, 2, from_ns, FactStream("inv", "e", seq, 0))

    step = Correlate()
    named = (StreamName("flow"),)
    step.process([SourceUp("lab", "inv", "e", 0, (StreamUp("flow"), StreamUp("device"))), told(0, 5)])
    step.process([SourceSuspended("lab", "inv", "e", 10, named), Idle("lab", "flow", FactStream("inv", "e", 1, 20))])
    step.process([msgspec.structs.replace(told(1, 30), name="new")])
    engine = step._fabrics["lab"].engine
    assert [entry[0] for entry in engine.flows.versions(0xAA)] == [5]
    again = Correlate()
    again.restore(step.snapshot())
    again.process([SourceResumed("lab", "inv", "e", 100, named)])
    known = again._fabrics["lab"].engine.flows.versions(0xAA)
    assert [(from_ns, flow.name) for from_ns, flow in known] == [(5, ""), (100, "new")]


def test_an_idle_value_of_facts_moves_their_mark() -> None:
    step = Correlate()
    step.process([SourceUp("lab", "inv", "e", 0, (StreamUp("flow"),))])
    step.process([Idle("lab", "flow", FactStream("inv", "e", 0, 7 * TICK_NS))])
    assert step.settled()["lab"].settled_ns == 7 * TICK_NS
    assert step.standing()["lab"][StreamKey("lab", "inv", "e", "flow", "")].mark_ns == 7 * TICK_NS


def test_dead_streams_do_not_keep_a_fabric_from_ending() -> None:
    items, dead = dead_sender()
    step = Correlate()
    out = step.process(items)
    out += step.process([SourceSuspended("lab", dead.source, dead.epoch, BEGIN_NS + 20 * MS, names(dead))])
    for end in later_story().downs():
        left = tuple(s for key, s in zip(end.stream_keys(), end.streams, strict=True) if key != dead)
        out += step.process([msgspec.structs.replace(end, streams=left)])
    out += step.process([item for item in episodes(later_story().items()) if isinstance(item, Batch)])
    assert any(isinstance(item, Cascade) and item.revision == FINAL for item in out)
    assert set(step.standing()["lab"]) <= {dead}
