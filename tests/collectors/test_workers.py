"""Worker processes: targets are shared out, and again when a worker dies; nobody is followed by two."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import pytest

from collectors.worker_link import Setup
from collectors.workers import Supervisor, with_source
from pausetrace.child import own_command, own_environment
from simulation.gnmi_targets.server import FakeTarget
from tests.collectors.lab_device import lab_leaves
from tests.collectors.running import target_at

pytestmark = pytest.mark.slow
TARGETS = 8
DEADLINE_S = 60.0


def make(workers: int) -> Supervisor:
    """A supervisor whose workers publish nothing."""
    setup = Setup("lab", "collector", "1", 16 << 20)
    command = own_command(["collect", "worker"])
    return Supervisor(command, own_environment(), lambda name, n: with_source(setup, name, n), workers, restart_s=3.0)


async def until(what: Callable[[], bool], supervisor: Supervisor) -> None:
    """Waits; fails at the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < end_s, supervisor.statuses()
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGSTOP])
def test_the_targets_of_a_worker_that_dies_or_hangs_go_to_the_others_and_come_back(
    monkeypatch: pytest.MonkeyPatch, ending: signal.Signals
) -> None:
    monkeypatch.setattr("collectors.workers.SILENCE_S", 8.0)

    async def run() -> None:
        async with FakeTarget(lab_leaves()) as fake:
            supervisor = make(2)
            stop = asyncio.Event()
            running = asyncio.create_task(supervisor.run(stop))
            targets = [target_at(fake.address, f"leaf{number}", interval_ms=300) for number in range(TARGETS)]
            await supervisor.assign(targets)
            # They exist from the first moment on.
            assert len(supervisor.statuses()) == TARGETS
            first, second = supervisor.workers
            await until(lambda: bool(first.targets and second.targets), supervisor)
            await until(lambda: all(status.up for status in supervisor.statuses()), supervisor)
            assert fake.open_streams == TARGETS
            shared = first.targets, second.targets
            assert not first.targets & second.targets

            assert first.process is not None
            os.kill(first.process.pid, ending)
            await until(lambda: len(second.targets) == TARGETS, supervisor)
            await until(lambda: all(status.up for status in supervisor.statuses()), supervisor)

            await until(lambda: first.alive and first.started == 2 and bool(first.targets), supervisor)
            assert (first.targets, second.targets) == shared
            await until(lambda: all(status.up for status in supervisor.statuses()), supervisor)
            assert fake.open_streams == TARGETS
            assert supervisor.counters()["workers_died"] == 1
            stop.set()
            await running
            assert first.process is not None
            assert second.process is not None
            assert first.process.returncode == second.process.returncode == 0

    asyncio.run(run())


def test_targets_come_and_go_while_it_runs() -> None:
    async def run() -> None:
        async with FakeTarget(lab_leaves()) as fake:
            supervisor = make(1)
            stop = asyncio.Event()
            running = asyncio.create_task(supervisor.run(stop))
            await supervisor.assign([target_at(fake.address, "a"), target_at(fake.address, "b")])
            await until(lambda: all(status.up for status in supervisor.statuses()), supervisor)
            await supervisor.assign([target_at(fake.address, "b"), target_at(fake.address, "c")])
            await until(lambda: [status.name for status in supervisor.statuses()] == ["b", "c"], supervisor)
            await until(lambda: all(status.up for status in supervisor.statuses()), supervisor)
            assert fake.open_streams == 2
            # The one that stayed was not disturbed.
            assert next(status.attempts for status in supervisor.statuses() if status.name == "b") == 1
            stop.set()
            await running

    asyncio.run(run())
