"""Whatever is a valid value, fact or roster change: correlate takes it, says only what can be sent, and can be kept."""

from __future__ import annotations

import random

import pytest

from analytics.correlate import Correlate
from stream.batch import MARK_END, Batch, StreamKey
from stream.cascade import Cascade
from stream.facts import Device, FactStream, Flow, Hop, Link, Port
from stream.kinds import INT64_MAX, KINDS, PAUSE_INTERVAL, PAUSE_OPEN, QUEUE_DEPTH, UNKNOWN
from stream.messages import Item, decode, encode
from stream.record import MAX_TIME_NS, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

DEVICES = ("a", "b", "c", "d", "e")
PORTS = ("p0", "p1", "p2", "-")
EDGES_NS = (0, 1, MAX_TIME_NS - 1, MAX_TIME_NS)
LIKELY = (PAUSE_OPEN, PAUSE_OPEN, PAUSE_INTERVAL, PAUSE_INTERVAL, QUEUE_DEPTH)


class Source:
    """One source of everything: its streams' numbers and marks, and moments that lie close together now and then."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.seqs: dict[StreamKey, int] = {}
        self.begin_ns = rng.choice((0, 10**18, MAX_TIME_NS - 10**8))

    def time_ns(self) -> int:
        near = self.begin_ns + self.rng.choice((0, 1, 20_000, 10**6, 10**7, 10**7 + 1, 9 * 10**7))
        return min(self.rng.choice((near, near, near, near, self.rng.choice(EDGES_NS))), MAX_TIME_NS)

    def item(self) -> Item:
        roll = self.rng.random()
        if roll < 0.55:
            return self.value()
        if roll < 0.8:
            return self.fact()
        return self.change()

    def value(self) -> Batch:
        rng, device = self.rng, self.rng.choice(DEVICES)
        key = StreamKey("f", rng.choice(("s|pfc", "s|queue", "t|pfc")), rng.choice("12"), "episode", device)
        events = empty_events(rng.choice((0, 1, 2, 9)))
        for row in range(len(events)):
            kind = rng.choice(KINDS)
            code = rng.choice(LIKELY) if rng.random() < 0.8 else kind.code
            kind = next(kind for kind in KINDS if kind.code == code)
            time_ns = self.time_ns()
            events[row] = (
                time_ns, 0, rng.choice((0, min(time_ns, rng.choice((1, 10**5, 10**7))), time_ns)),
                rng.choice((kind.value.low, kind.value.high, UNKNOWN, min(kind.value.high, 5))),
                rng.choice((kind.extra.low, kind.extra.high, UNKNOWN, *[min(kind.extra.high, 1)] * 5)),
                rng.choice((0, 1, 2**64 - 1)), 0, rng.randrange(len(PORTS)), code, rng.choice((0, 3, 3, 255)),
                rng.randint(0, 2), 0,
            )  # fmt: skip
        seq = self.seqs.get(key, 0) + rng.choice((0, 0, 0, 0, -1, 3, 1 << 61))
        batch = Batch(
            key, min(max(seq, 0), INT64_MAX - 2048), self.mark_ns(), PORTS, events, rng.choice((0, INT64_MAX))
        )
        self.seqs[key] = batch.next_seq
        return batch

    def mark_ns(self) -> int:
        return self.rng.choice((self.time_ns(), self.time_ns(), self.time_ns(), MARK_END))

    def fact(self) -> Item:
        rng = self.rng
        topic = rng.choice(("device", "link", "flow"))
        key = StreamKey("f", rng.choice("st"), rng.choice("12"), topic, "")
        seq = self.seqs.get(key, 0)
        self.seqs[key] = seq + 1
        stream = FactStream(key.source, key.epoch, seq, self.mark_ns())
        if topic == "device":
            ports = tuple(Port(port, rng.choice((0, 1, (1 << 40) - 1))) for port in PORTS[: rng.randint(0, 4)])
            return Device("f", rng.choice((*DEVICES, "lonely")), rng.choice(("host", "switch", "")), self.time_ns(),
                          stream, ports)  # fmt: skip
        if topic == "link":
            one, other = rng.sample([(device, port) for device in DEVICES for port in PORTS], 2)
            return Link("f", *one, *other, rng.choice((0, 1, (1 << 40) - 1)), self.time_ns(), stream,
                        rng.choice((0, 1_000, (1 << 40) - 1)))  # fmt: skip
        path = tuple(Hop(rng.choice(DEVICES), "p0", rng.choice(PORTS)) for _ in range(rng.randint(0, 3)))
        number, size_bytes = rng.choice(("0" * 15 + "1", "f" * 16)), rng.choice((-1, 0, INT64_MAX))
        return Flow("f", number, rng.choice(DEVICES), rng.choice((*DEVICES, "x")), "", "", 17, 1, 2, self.time_ns(),
                    stream, size_bytes=size_bytes, path=path)  # fmt: skip

    def change(self) -> Item:
        rng = self.rng
        source, epoch = rng.choice("st"), rng.choice("12")
        streams = [("pfc", device) for device in DEVICES] + [("queue", device) for device in DEVICES]
        streams += [("device", ""), ("link", ""), ("flow", "")]
        some = rng.sample(streams, rng.randint(0, len(streams)))
        if rng.random() < 0.6:
            ups = tuple(StreamUp(*stream, rng.choice((0, 10**5, (1 << 40) - 1))) for stream in some)
            return SourceUp("f", source, epoch, self.time_ns(), ups)
        downs = tuple(StreamDown(*stream, rng.choice((-1, 0, 3, 1 << 40))) for stream in some)
        return SourceDown("f", source, epoch, self.time_ns(), downs)


def everything_ends(source: Source) -> list[Item]:
    """The end of all that may be up."""
    topics = [(topic, device) for topic in ("pfc", "queue") for device in DEVICES]
    topics += [("device", ""), ("link", ""), ("flow", "")]
    out: list[Item] = []
    for name in "st":
        for epoch in "12":
            downs = tuple(StreamDown(topic, device, -1) for topic, device in topics)
            out.append(SourceDown("f", name, epoch, source.time_ns(), downs))
    return out


@pytest.mark.parametrize("seed", [*range(25), *(pytest.param(n, marks=pytest.mark.slow) for n in range(25, 150))])
def test_no_valid_item_stops_correlate(seed: int) -> None:
    rng = random.Random(seed)
    source = Source(rng)
    provisional = seed % 2 == 0
    correlate = Correlate(provisional)
    up = SourceUp("f", "s", "1", source.begin_ns, tuple(StreamUp("pfc", device, 10**5) for device in DEVICES))
    items = [up, *(source.fact() for _ in range(15)), *(source.item() for _ in range(120)), *everything_ends(source)]
    place = 0
    while place < len(items):
        batch = items[place : place + rng.choice((1, 1, 5, 30))]
        for item in batch:
            decode(*encode(item))
        place += len(batch)
        for said in correlate.process(batch):
            assert isinstance(said, Cascade)
            decode(*encode(said))
        if rng.random() < 0.1:
            state = correlate.snapshot()
            correlate = Correlate(provisional)
            correlate.restore(state)
            assert correlate.snapshot() == state


def test_pauses_without_an_order_or_a_duration_are_taken_as_they_can_be() -> None:
    correlate = Correlate()
    key = StreamKey("f", "s|pfc", "1", "episode", "a")
    events = empty_events(4)
    events["kind"] = PAUSE_OPEN, PAUSE_OPEN, PAUSE_INTERVAL, PAUSE_INTERVAL
    events["time_ns"], events["span_ns"], events["extra"] = (10, 20, 30, 40), (0, 0, 10, 20), (0, 1, 1, UNKNOWN)
    events["value"], events["priority"], events["side"] = (0, 0, UNKNOWN, 5), 3, 1
    made = correlate.process(
        [SourceUp("f", "s", "1", 0, (StreamUp("pfc", "a"),)), Batch(key, 0, MARK_END, ("p0",), events),
         SourceDown("f", "s", "1", 50, (StreamDown("pfc", "a", 3),))]
    )  # fmt: skip
    (said,) = made
    assert isinstance(said, Cascade)
    # Two stops within the tolerance of clocks are one; an end of what has ended already is none.
    assert (said.pauses, said.pause_ns, said.start_ns, said.end_ns) == (1, 10, 10, 30)
