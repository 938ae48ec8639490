"""Targets that move between workers: one gives them up before another takes them, without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from collectors.worker_link import Assign, Assigned, Setup, Standing, read_from_supervisor
from collectors.workers import Supervisor, Worker, with_source
from tests.collectors.running import target_at

TARGETS = 40


class Obeying:
    """The pipe to a worker that takes a moment for what it is told, as closing a session does."""

    def __init__(self, does: Callable[[Assign], None], moment_s: float) -> None:
        self._does = does
        self._moment_s = moment_s

    def write(self, text: bytes) -> None:
        """A line of the supervisor's."""
        said = read_from_supervisor(text)
        assert isinstance(said, Assign)
        asyncio.get_running_loop().call_later(self._moment_s, self._does, said)

    async def drain(self) -> None:
        """Nothing waits."""


def test_no_target_is_ever_followed_by_two_workers() -> None:
    async def run() -> None:
        setup = Setup("lab", "collector", "1", 1 << 20)
        supervisor = Supervisor([], {}, lambda name, started: with_source(setup, name, started), 3)
        followed: dict[str, set[str]] = {worker.name: set() for worker in supervisor.workers}

        def come(worker: Worker, moment_s: float) -> None:
            def obey(said: Assign) -> None:
                followed[worker.name] = {target.name for target in said.targets}
                everyone = [name for names in followed.values() for name in names]
                assert len(everyone) == len(set(everyone))
                supervisor._heard(worker, Assigned(said.number))

            process = SimpleNamespace(returncode=None, stdin=Obeying(obey, moment_s))
            worker.process = cast(asyncio.subprocess.Process, process)
            worker.standing = Standing((), {}, 0)

        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        faults: list[object] = []
        first, second, third = supervisor.workers
        # Who has to give up is the slowest.
        come(first, 0.2)
        await supervisor.assign([target_at("127.0.0.1:1", f"t{number}") for number in range(TARGETS)])
        assert len(followed[first.name]) == TARGETS
        come(second, 0.01)
        await supervisor._share()
        come(third, 0.01)
        await supervisor._share()
        assert not faults
        assert all(followed.values())
        assert sum(map(len, followed.values())) == TARGETS

    asyncio.run(run())
