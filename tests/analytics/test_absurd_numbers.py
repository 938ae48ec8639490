"""Numbers that are possible one by one and absurd together stop neither step: what they make can be sent and kept."""

from __future__ import annotations

import random
from typing import TypeVar

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.sampled import Sampled
from stream import messages
from stream.batch import MARK_END, Batch, StreamKey
from stream.cascade import Cascade
from stream.errors import WireError
from stream.facts import Device, FactStream, Link, Port
from stream.kinds import BY_CODE, INT64_MAX, KINDS, PFC_PAUSED, PFC_XOFF, PFC_XON, SIDE_RX, UNKNOWN
from stream.messages import Item
from stream.record import MAX_TIME_NS, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.topics import FACTS

TIMES_NS = (0, 1, 2, 10**9, 1_790_000_000_000_000_000, MAX_TIME_NS // 2, MAX_TIME_NS - 1, MAX_TIME_NS)
DEVICES = ("a", "b", "c", "d")
PORTS = ("p0", "p1", "p2")
StepT = TypeVar("StepT", Detect, Correlate)
TOPICS = ("pfc", "pfc", "queue", "pcie", "flowbytes")


def facts(rng: random.Random) -> list[Item]:
    """A fabric of links drawn at random, with speeds and delays from one end of their range to the other."""
    out: list[Item] = [SourceUp("f", "inventory", "e", 0, tuple(map(StreamUp, FACTS)))]
    for number, name in enumerate(DEVICES):
        ports = tuple(Port(port, rng.choice((0, 100_000, (1 << 40) - 1))) for port in PORTS)
        role = rng.choice(("host", "switch"))
        out.append(Device("f", name, role, rng.choice(TIMES_NS), FactStream("inventory", "e", number, 0), ports))
    ends = [(name, port) for name in DEVICES for port in PORTS]
    rng.shuffle(ends)
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    for number, (one, other) in enumerate(pairs):
        speed, delay = rng.choice((0, 1, (1 << 40) - 1)), rng.choice((0, 1000, (1 << 40) - 1))
        out.append(Link("f", *one, *other, speed, 0, FactStream("inventory", "e", number, 0), delay))
    last = {"device": len(DEVICES) - 1, "link": len(pairs) - 1, "flow": -1}
    downs = tuple(StreamDown(topic, "", last[topic]) for topic in FACTS)
    return [*out, SourceDown("f", "inventory", "e", MAX_TIME_NS, downs)]


def value(rng: random.Random, key: StreamKey, seq: int) -> Batch:
    """A value whose every number is at an edge of what is possible."""
    kinds = [kind for kind in KINDS if kind.topic in ("", key.topic)]
    times_ns = sorted(rng.choice(TIMES_NS) for _ in range(rng.randint(0, 6)))
    events = empty_events(len(times_ns))
    for row, time_ns in enumerate(times_ns):
        kind = rng.choice(kinds)
        if key.topic == "pfc" and rng.random() < 0.8:
            kind = BY_CODE[rng.choice((PFC_XOFF, PFC_XON))]
        events[row] = (
            time_ns, rng.choice(TIMES_NS), rng.choice((0, min(time_ns, 10**7), time_ns)),
            rng.choice((kind.value.low, kind.value.high, UNKNOWN)),
            rng.choice((kind.extra.low, kind.extra.high, UNKNOWN)),
            rng.choice((0, 1, 2**64 - 1)), 0, rng.randrange(3), kind.code, rng.choice((3, 255)), rng.randint(0, 2), 0,
        )  # fmt: skip
    mark_ns = rng.choice((*TIMES_NS, MARK_END))
    return Batch(key, seq, mark_ns, PORTS, events, rng.choice((0, 0, INT64_MAX)))


def sources(rng: random.Random) -> list[Item]:
    """Every device's streams from SOURCE_UP to SOURCE_DOWN, with rows lost between."""
    out: list[Item] = []
    downs: list[Item] = []
    for number, (name, topic) in enumerate((name, topic) for name in DEVICES for topic in TOPICS):
        key = StreamKey("f", f"source {number}", "e", topic, name)
        period_ns = rng.choice((0, 1, 10**7, (1 << 40) - 1))
        out.append(SourceUp("f", key.source, "e", rng.choice(TIMES_NS), (StreamUp(topic, name, period_ns),)))
        seq, last_seq = 0, -1
        for _ in range(rng.randint(0, 5)):
            batch = value(rng, key, seq)
            out.append(batch)
            last_seq = batch.next_seq - 1
            seq = batch.next_seq + rng.choice((0, 0, 0, 1 << 40))
        down = StreamDown(topic, name, last_seq)
        downs.append(SourceDown("f", key.source, "e", rng.choice(TIMES_NS), (down,)))
    return out + downs


@pytest.mark.slow
@pytest.mark.parametrize("provisional", [False, True])
def test_absurd_numbers_stop_no_step(provisional: bool) -> None:
    cascades = 0
    for seed in range(40):
        rng = random.Random(seed)
        detect, correlate = Detect(), Correlate(provisional)
        for item in facts(rng) + sources(rng):
            messages.encode(item)
            episodes = detect.process([item])
            outputs = correlate.process([item, *episodes] if not isinstance(item, Batch) else episodes)
            for output in [*episodes, *outputs]:
                messages.encode(output)
                cascades += isinstance(output, Cascade)
            if rng.random() < 0.2:
                detect = again(detect, Detect())
                correlate = again(correlate, Correlate(provisional))
    assert cascades > 3


def again(step: StepT, fresh: StepT) -> StepT:
    """The step as it goes on after a restart."""
    state = step.snapshot()
    fresh.restore(state)
    assert fresh.snapshot() == state
    return fresh


def test_names_of_thousands_of_ports_take_no_state_until_rows_use_them() -> None:
    detect = Detect()
    key = StreamKey("f", "s", "e", "pfc", "a")
    for number in range(20):
        ports = tuple(f"port {number} {index}" for index in range(4096))
        detect.process([Batch(key, 0, number, ports, empty_events(0))])
    assert len(detect.snapshot()) < 1000


def test_a_stream_of_more_ports_than_a_row_can_number_is_refused_and_what_came_before_is_kept() -> None:
    detect = Detect()
    key = StreamKey("f", "s", "e", "pfc", "a")
    for number in range(64):
        ports = tuple(f"port {number} {index}" for index in range(1024))
        events = empty_events(1024)
        events["kind"], events["time_ns"], events["port"] = PFC_XOFF, number, range(1024)
        batch = Batch(key, number * 1024, number, ports, events)
        if number < 63:
            episodes = detect.process([batch])
            assert sum(len(episode.events) for episode in episodes if isinstance(episode, Batch)) == 1024
        else:
            with pytest.raises(WireError, match="more than 65535 ports"):
                detect.process([batch])


def test_polls_of_a_nanosecond_over_all_of_time_are_walked_by_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[None] = []
    step = Sampled.step
    monkeypatch.setattr(Sampled, "step", lambda *arguments: steps.append(step(*arguments)))
    detect, correlate = Detect(), Correlate()
    key = StreamKey("f", "s", "e", "pfc", "a")
    found: list[Item] = []
    events = empty_events(3)
    events["kind"], events["priority"], events["side"] = PFC_PAUSED, 3, SIDE_RX
    events["time_ns"] = events["span_ns"] = (10**9, 10**18, MAX_TIME_NS // 2)
    events["value"] = 10**6
    down = SourceDown("f", "s", "e", MAX_TIME_NS, (StreamDown("pfc", "a", 2),))
    up = SourceUp("f", "s", "e", 0, (StreamUp("pfc", "a", 1),))
    for item in (*facts(random.Random(0)), up, Batch(key, 0, MAX_TIME_NS, PORTS, events), down):
        found += correlate.process([*([] if isinstance(item, Batch) else [item]), *detect.process([item])])
    assert sum(isinstance(cascade, Cascade) for cascade in found) == 3
    # A window tells of few periods; then come 10 ms, in periods of 20 us, until nothing more belongs to its cascade.
    assert len(steps) < 3 * 600
