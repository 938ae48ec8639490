"""One worker process: a collector that a supervisor tells what to follow, over stdin and stdout.

In: a `Setup` and `Assign`s. Out: `Assigned`, and a `Standing` a second. It ends when its stdin does, in whatever way
the supervisor died.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from collectors.collector import Collector
from collectors.outlet import KafkaOutlet, NoOutlet, Outlet
from collectors.profile_choice import choice_of
from collectors.worker_link import LIMIT_BYTES, Assign, Assigned, Setup, Standing, line, read_from_supervisor
from stream.batch import StreamKey
from stream.errors import PausetraceError
from stream.publisher import Publisher

STANDING_S = 1.0


def kafka_outlet(setup: Setup) -> Outlet:
    """An outlet that publishes as the setup says; raises BrokerError if no broker answers."""
    kafka = setup.kafka
    if kafka is None:
        return NoOutlet()

    def publisher(idle_mark_ns: Callable[[StreamKey], int]) -> Publisher:
        return Publisher(kafka, setup.fabric, setup.source, setup.epoch, idle_mark_ns=idle_mark_ns)

    return KafkaOutlet(publisher, ("device", "link"))


def make_collector(setup: Setup, outlet: Outlet) -> Collector:
    """The collector that a setup asks for."""
    folder = Path(setup.profiles) if setup.profiles else None
    return Collector(setup.fabric, outlet, budget_bytes=setup.budget_bytes, choice=choice_of(folder))


async def work(stop: asyncio.Event) -> None:
    """Works until the supervisor's pipe or `stop` ends it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    setup = read_from_supervisor(await reader.readline())
    if not isinstance(setup, Setup):
        raise PausetraceError("a worker is started by `pausetrace collect` alone", "run that")
    outlet = await asyncio.to_thread(kafka_outlet, setup)
    collector = make_collector(setup, outlet)
    obeying = asyncio.create_task(_obey(reader, collector, stop))
    telling = asyncio.create_task(_tell(collector))
    try:
        await collector.run(stop)
    finally:
        for task in (obeying, telling):
            task.cancel()
        await asyncio.gather(obeying, telling, return_exceptions=True)


async def _obey(reader: asyncio.StreamReader, collector: Collector, stop: asyncio.Event) -> None:
    try:
        while text := await reader.readline():
            said = read_from_supervisor(text)
            if isinstance(said, Assign):
                collector.assign(said.targets)
                await collector.settled()
                _say(line(Assigned(said.number)))
    finally:
        stop.set()


async def _tell(collector: Collector) -> None:
    while True:
        await asyncio.sleep(STANDING_S)
        standing = Standing(tuple(collector.statuses()), dict(collector.counters()), collector.budget.held_bytes)
        await asyncio.to_thread(_say, line(standing))


def _say(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
