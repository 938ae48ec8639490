"""A cascade that fake switches tell of goes by gNMI, collector, Kafka, detect and correlate to its root."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from collectors.collector import Collector
from collectors.outlet import KafkaOutlet
from collectors.target import Target
from collectors.transport import Endpoint
from simulation.gnmi_targets.fabric import FakeFabric, Transition
from simulation.trace import read_trace
from simulation.truth import read_truth
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.kafka_settings import KafkaSettings
from stream.publisher import Publisher
from stream.roster import SourceDown, SourceUp
from tests.pausetrace.live_steps import LiveSteps
from tests.stream.reading import batches_on, items_on

TRACE = Path(__file__).parents[1] / "data/ns3/incast-ls-s1"
PROFILE = str(Path(__file__).with_name("fabric.toml"))
SECOND_NS = 1_000_000_000
DEADLINE_S = 60.0


def rows_of(batches: list[Batch]) -> set[Transition]:
    """Stops and starts among the rows."""
    found = set()
    for batch in batches:
        for row in batch.events:
            if row["kind"] in (kinds.PFC_XOFF, kinds.PFC_XON):
                found.add(
                    Transition(
                        int(row["time_ns"]), batch.stream.device, batch.ports[row["port"]], int(row["priority"]),
                        kinds.SIDES[row["side"]], bool(row["kind"] == kinds.PFC_XOFF),
                    )
                )  # fmt: skip
    return found


async def play(settings: KafkaSettings) -> list[Transition]:
    """Collects from a fabric in which the trace happens, until all of it has been told and is past."""

    def publisher(idle_mark_ns: Callable[[StreamKey], int]) -> Publisher:
        return Publisher(settings, "dc-1", "collector-0", "boot-1", idle_mark_ns=idle_mark_ns)

    outlet = await asyncio.to_thread(KafkaOutlet, publisher, ("device", "link"))
    collector = Collector("dc-1", outlet)
    async with FakeFabric(read_trace(TRACE), time.time_ns() - SECOND_NS) as fabric:
        collector.assign(
            Target(name, name, Endpoint(fake.address), profile=PROFILE, interval_ms=500)
            for name, fake in fabric.targets.items()
        )
        stop = asyncio.Event()
        task = asyncio.create_task(collector.run(stop))
        end_s = time.monotonic() + DEADLINE_S
        while not all(status.synced for status in collector.statuses()):
            assert time.monotonic() < end_s, collector.statuses()
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        begin_ns = time.time_ns() + SECOND_NS // 2
        told = fabric.play(begin_ns)
        await asyncio.sleep(3)
        while len(rows_of(await asyncio.to_thread(batches_on, settings, "pfc"))) < len(told):
            assert time.monotonic() < end_s, "not all that was told has been published"
            await asyncio.sleep(0.5)
        stop.set()
        await task
    return told


def test_a_cascade_told_by_switches_has_its_root_and_every_transition(any_kafka: KafkaSettings) -> None:
    settings = any_kafka
    with LiveSteps(settings) as steps:
        told = asyncio.run(play(settings))
        finals = [msgspec.json.decode(final, type=Cascade) for final in steps.finals(1)]
        assert steps.late_rows == 0
    assert rows_of(batches_on(settings, "pfc")) == set(told)
    largest = max(finals, key=lambda cascade: cascade.pause_ns)
    (planted,) = read_truth(TRACE).planted
    root = largest.roots[0]
    assert (root.device, root.port) == (planted.device, planted.port)
    assert root.share_ppm > 950_000
    up, *_, down = [item for item in items_on(settings, "control") if isinstance(item, SourceUp | SourceDown)]
    assert isinstance(up, SourceUp)
    assert isinstance(down, SourceDown)
