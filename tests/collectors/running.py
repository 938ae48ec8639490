"""A collector at work for as long as a block of a test, and what came out of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from collectors.collector import Collector
from collectors.gate import Gate
from collectors.outlet import Announced, Mark
from collectors.rows import Made
from collectors.target import Target
from collectors.target_status import TargetStatus
from collectors.transport import Endpoint
from stream.facts import Fact
from stream.record import Events, joined

LAB = str(Path(__file__).with_name("lab.toml"))
DEADLINE_S = 30.0
SCALE = 0.002
"""Backoffs and breakers so much shorter than in the field: a minute takes 0.12 s."""


class Gathered:
    """An outlet that keeps what it is given."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, str, Events, tuple[str, ...], int]] = []
        self.facts: list[tuple[int, Fact]] = []
        self.told: list[tuple[str, int]] = []
        """Targets that came up and went down, in order."""
        self.losses: list[tuple[int, int, int]] = []
        """Target, messages and reason."""
        self.closed = False
        self._counters: Counter[str] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """Nothing is counted."""
        return self._counters

    def up(self, target: int, streams: Announced) -> None:
        """Keeps it."""
        self.told.append(("up", target))

    def down(self, target: int, reason: str) -> None:
        """Keeps it."""
        self.told.append(("down", target))

    def put(self, made: Made, mark: Mark) -> None:
        """Keeps rows with their ports' names and the target's mark, which must not go back."""
        for part in made.parts:
            events = made.events[part.first : part.end].copy()
            self.parts.append((part.target, part.topic, events, tuple(part.ports), mark(part.target)))
        self.facts += made.facts

    def lost(self, target: int, messages: int, reason: int, first_ns: int, last_ns: int) -> None:
        """Keeps it."""
        self.losses.append((target, messages, reason))

    def poll(self, mark: Mark) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Keeps it."""
        self.closed = True

    def events(self, topic: str = "queue") -> Events:
        """All rows of a topic in the order of arrival."""
        return joined([events for _, of, events, _, _ in self.parts if of == topic])


class Running:
    """A collector that runs."""

    def __init__(self, collector: Collector, out: Gathered) -> None:
        self.collector = collector
        self.out = out

    def status(self, name: str = "leaf1") -> TargetStatus:
        """Where a target stands."""
        return self.collector.session(name).status

    async def until(self, what: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Waits; fails at the deadline with where everything stands."""
        end_s = time.monotonic() + deadline_s
        while not what():
            assert time.monotonic() < end_s, f"not so by the deadline: {self.collector.statuses()}"
            await asyncio.sleep(0.02)

    async def until_failed(self, sort: str, name: str = "leaf1") -> TargetStatus:
        """Waits until a target's session has ended with this sort of failure."""
        await self.until(lambda: sort in self.status(name).failures_by_sort)
        return self.status(name)


@asynccontextmanager
async def collecting(
    *targets: Target, budget_bytes: int = 64 << 20, down_after_s: float = 0.5
) -> AsyncIterator[Running]:
    """`async with collecting(target) as running:`; everything is closed in order behind the block."""
    out = Gathered()
    collector = Collector(
        "lab", out, budget_bytes=budget_bytes, time_scale=SCALE, gate=Gate(per_s=1000), down_after_s=down_after_s
    )
    collector.assign(targets)
    stop = asyncio.Event()
    task = asyncio.create_task(collector.run(stop))
    try:
        yield Running(collector, out)
    finally:
        stop.set()
        await task
    assert out.closed


def target_at(address: str, name: str = "leaf1", **changes: object) -> Target:
    """A target in plain text with the tests' profile."""
    endpoint = changes.pop("endpoint", None) or Endpoint(address, connect_deadline_s=3.0)
    settings: dict[str, object] = {"profile": LAB} | changes
    return Target(name, name, endpoint, **settings)  # type: ignore[arg-type]  # each test says which
