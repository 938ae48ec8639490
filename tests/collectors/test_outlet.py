"""What the roster is told of targets that are lost and come back: nobody waits for one that is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from collectors.collector import Collector
from collectors.outlet import Announced, KafkaOutlet
from collectors.rows import Made, Part
from simulation.gnmi_targets.server import FakeTarget
from stream.batch import StreamKey
from stream.embedded import EmbeddedBroker
from stream.publisher import Publisher
from stream.record import Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamUp
from tests.collectors.lab_device import lab_leaves
from tests.collectors.running import SCALE, target_at
from tests.stream.reading import batches_on, items_on

DEADLINE_S = 30.0


@asynccontextmanager
async def publishing(broker: EmbeddedBroker, *targets: Any) -> Any:
    """A collector that publishes to this broker."""

    def publisher(idle_mark_ns: Callable[[StreamKey], int]) -> Publisher:
        return Publisher(broker.settings, "lab", "collector-0", "boot-1", idle_mark_ns=idle_mark_ns)

    outlet = await asyncio.to_thread(KafkaOutlet, publisher, ("device", "link"))
    collector = Collector("lab", outlet, time_scale=SCALE, down_after_s=0.5)
    collector.assign(targets)
    stop = asyncio.Event()
    running = asyncio.create_task(collector.run(stop))
    try:
        yield collector
    finally:
        stop.set()
        await running


async def until(what: Callable[[], bool]) -> None:
    """Waits; fails at the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.1)


def test_a_target_that_is_lost_goes_down_alone_and_comes_back_as_new_streams(embedded_broker: EmbeddedBroker) -> None:
    async def run() -> None:
        async with FakeTarget(lab_leaves()) as first, FakeTarget(lab_leaves()) as second:
            targets = [
                target_at(first.address, "leaf1", interval_ms=200),
                target_at(second.address, "leaf2", interval_ms=200),
            ]
            async with publishing(embedded_broker, *targets) as collector:
                await until(lambda: all(status.updates > 20 for status in collector.statuses()))
                await first.stop()
                await until(lambda: not collector.session("leaf1").status.up)
                await asyncio.sleep(1.5)
                assert collector.session("leaf2").status.up
                await first.start()
                await until(lambda: collector.session("leaf1").status.up)
                before = collector.session("leaf1").status.updates
                await until(lambda: collector.session("leaf1").status.updates > before + 20)
                assert collector.counters()["turns_failed"] == 0

    asyncio.run(run())
    ups: dict[str, list[str]] = {"leaf1": [], "leaf2": []}
    downs: dict[str, list[str]] = {"leaf1": [], "leaf2": []}
    for change in items_on(embedded_broker.settings, "control"):
        assert isinstance(change, SourceUp | SourceDown)
        for stream in change.streams:
            if stream.device:
                (ups if isinstance(change, SourceUp) else downs)[stream.device].append(change.epoch)
    assert ups == downs == {"leaf1": ["boot-1", "boot-1.2"], "leaf2": ["boot-1"]}
    batches = batches_on(embedded_broker.settings, "queue")
    assert {(batch.stream.device, batch.stream.epoch) for batch in batches} == {
        ("leaf1", "boot-1"), ("leaf1", "boot-1.2"), ("leaf2", "boot-1"),
    }  # fmt: skip
    # No row is older than what its stream had promised.
    promised: dict[StreamKey, int] = {}
    for batch in sorted(batches, key=lambda batch: (batch.stream, batch.seq, len(batch.events) == 0)):
        if len(batch.events):
            assert int(batch.events["time_ns"].min()) >= promised.get(batch.stream, 0)
        promised[batch.stream] = max(batch.mark_ns, promised.get(batch.stream, 0))


class Kept:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.from_ns: dict[str, int] = {}
        self.times: dict[str, list[int]] = {}

    def up(self, streams: Sequence[StreamUp], from_ns: int, deadline_s: float) -> None:
        """Keeps since when."""
        self.from_ns |= {stream.device: from_ns for stream in streams}

    def append(self, topic: str, device: str, events: Events, ports: Sequence[str], mark_ns: int) -> None:
        """Keeps the rows' times."""
        self.times.setdefault(device, []).extend(events["time_ns"].tolist())


def test_rows_from_before_a_target_was_up_are_left_out() -> None:
    """Those who read the others may have settled that time: a stream has nothing older than where it began."""
    kept = Kept()
    outlet = KafkaOutlet(lambda _mark: cast(Publisher, kept), ("device", "link"))
    for target, device in enumerate(("early", "late")):
        outlet.up(target, Announced(device, ("queue",), (0,)))
        outlet.put(Made(empty_events(0), [], []), lambda _target: 0)
        time.sleep(0.002)
    before_ns, after_ns = kept.from_ns["early"] + 1, kept.from_ns["late"] + 1
    assert before_ns < after_ns
    events = empty_events(6)
    events["time_ns"] = [before_ns - 2, before_ns, after_ns] * 2
    parts = [Part(target, "queue", 3 * target, 3 * target + 3, ("p",), after_ns) for target in range(2)]
    outlet.put(Made(events, parts, []), lambda _target: after_ns)
    assert kept.times == {"early": [before_ns, after_ns], "late": [after_ns]}
    assert outlet.counters["rows_before_up"] == 3
