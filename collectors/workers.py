"""The supervisor of several worker processes: shares the targets out, and again whenever a worker dies or comes back.

In: targets, and the command line that starts a worker. Out: statuses and counters of all. A target is first given up
by the worker that has it, and only then given to another one: no device is ever told of by two sources at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from collectors.assignment import shared_out
from collectors.target import Target
from collectors.target_status import TargetStatus
from collectors.worker_link import LIMIT_BYTES, Assign, Assigned, FromWorker, Setup, Standing, line, read_from_worker

_log = logging.getLogger(__name__)

ACK_DEADLINE_S = 10.0
SILENCE_S = 20.0
"""A worker that says nothing for so long hangs, and is ended."""
STOP_DEADLINE_S = 60.0
RESTART_S = 1.0
MAX_RESTART_S = 60.0
HELD_S = 60.0

WORKERS_ALIVE = "workers_alive"
"""Among the counters of a collector with workers, the one that goes down too."""


class Worker:
    """One slot: a process, and the next one in its place after its death."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: asyncio.subprocess.Process | None = None
        self.targets: frozenset[str] = frozenset()
        """What it was told to follow."""
        self.standing: Standing | None = None
        self.started = 0
        self.heard_s = 0.0
        self.acks: dict[int, asyncio.Event] = {}

    @property
    def alive(self) -> bool:
        """Whether it takes assignments."""
        return self.process is not None and self.process.returncode is None and self.standing is not None


class Supervisor:
    """`setup` makes what a worker is told first, from its name and how often it was started."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        setup: Callable[[str, int], Setup],
        workers: int,
        restart_s: float = RESTART_S,
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._setup = setup
        self._restart_s = restart_s
        self.workers = [Worker(str(number)) for number in range(workers)]
        self._targets: dict[str, Target] = {}
        self._sharing = asyncio.Lock()
        self._shared = asyncio.Event()
        self._number = 0
        self._counted: Counter[str] = Counter()
        self._gone: Counter[str] = Counter()
        """What workers had counted that are dead."""

    async def assign(self, targets: Iterable[Target]) -> None:
        """These targets are to be followed, and no others."""
        self._targets = {target.name: target for target in targets}
        await self._share()

    def statuses(self) -> list[TargetStatus]:
        """Where each target stands; one that no worker has yet waits."""
        known: dict[str, TargetStatus] = {}
        for worker in self.workers:
            if worker.alive and worker.standing is not None:
                known |= {status.name: status for status in worker.standing.statuses if status.name in worker.targets}
        return [
            known.get(name) or TargetStatus(name, target.device, target.endpoint.address)
            for name, target in self._targets.items()
        ]

    def counters(self) -> Counter[str]:
        """The sums of all workers, also of those that are dead."""
        counted = Counter(self._gone) + self._counted
        for worker in self.workers:
            if worker.standing is not None:
                counted.update(worker.standing.counters)
        counted[WORKERS_ALIVE] = sum(worker.alive for worker in self.workers)
        return counted

    @property
    def held_bytes(self) -> int:
        """Undecoded bytes that all workers hold."""
        return sum(worker.standing.held_bytes for worker in self.workers if worker.standing is not None)

    async def run(self, stop: asyncio.Event) -> None:
        """Keeps the workers at work until `stop`; then ends them in order."""
        keeping = [asyncio.create_task(self._keep(worker)) for worker in self.workers]
        watching = asyncio.create_task(self._watch())
        try:
            await stop.wait()
        finally:
            watching.cancel()
            for task in keeping:
                task.cancel()
            await asyncio.gather(watching, *keeping, return_exceptions=True)
            await asyncio.gather(*(self._end(worker) for worker in self.workers))

    async def _keep(self, worker: Worker) -> None:
        """Starts the worker, and again after its death; the wait between grows while it dies soon."""
        delay_s = self._restart_s
        while True:
            began_s = asyncio.get_running_loop().time()
            try:
                await self._live(worker)
            except OSError as err:
                _log.warning("worker %s cannot be started: %s", worker.name, err)
            status = worker.process.returncode if worker.process is not None else None
            _log.warning("worker %s ended with exit status %s; its targets go to the others", worker.name, status)
            self._counted["workers_died"] += 1
            self._bury(worker)
            await self._share()
            if asyncio.get_running_loop().time() - began_s >= HELD_S:
                delay_s = self._restart_s
            await asyncio.sleep(random.uniform(0, delay_s))
            delay_s = min(delay_s * 2, MAX_RESTART_S)

    async def _live(self, worker: Worker) -> None:
        process = worker.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=LIMIT_BYTES,
            # Ctrl-C is for the supervisor, which then ends its workers.
            start_new_session=True,
        )
        worker.heard_s = asyncio.get_running_loop().time()
        worker.started += 1
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line(self._setup(worker.name, worker.started)))
        sharing: asyncio.Task[None] | None = None
        while text := await process.stdout.readline():
            worker.heard_s = asyncio.get_running_loop().time()
            came = worker.standing is None
            self._heard(worker, read_from_worker(text))
            if came and worker.alive:
                sharing = asyncio.create_task(self._share())
        await process.wait()
        if sharing is not None:
            await asyncio.gather(sharing, return_exceptions=True)

    def _heard(self, worker: Worker, said: FromWorker) -> None:
        if isinstance(said, Standing):
            worker.standing = said
        elif isinstance(said, Assigned) and (ack := worker.acks.pop(said.number, None)) is not None:
            ack.set()

    def _bury(self, worker: Worker) -> None:
        if worker.standing is not None:
            self._gone.update(worker.standing.counters)
        worker.standing = None
        worker.targets = frozenset()
        for ack in worker.acks.values():
            ack.set()
        worker.acks.clear()

    async def _share(self) -> None:
        """Shares the targets out among the living: first everybody gives up, then everybody takes."""
        async with self._sharing:
            alive = {worker.name: worker for worker in self.workers if worker.alive}
            if not alive:
                return
            shares = shared_out(self._targets, list(alive))
            await asyncio.gather(*(
                self._tell(alive[name], [target for target in share if target in alive[name].targets])
                for name, share in shares.items()
                if not alive[name].targets <= set(share)
            ))  # fmt: skip
            await asyncio.gather(*(self._tell(alive[name], share) for name, share in shares.items()))

    async def _tell(self, worker: Worker, names: Sequence[str]) -> None:
        if not worker.alive or worker.process is None or worker.process.stdin is None:
            return
        self._number += 1
        ack = worker.acks[self._number] = asyncio.Event()
        worker.targets = frozenset(names)
        targets = tuple(self._targets[name] for name in names if name in self._targets)
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(ACK_DEADLINE_S):
                worker.process.stdin.write(line(Assign(self._number, targets)))
                await worker.process.stdin.drain()
                await ack.wait()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now_s = asyncio.get_running_loop().time()
            for worker in self.workers:
                process = worker.process
                if process is not None and process.returncode is None and now_s - worker.heard_s > SILENCE_S:
                    if worker.standing is None and now_s - worker.heard_s < STOP_DEADLINE_S:
                        continue  # it starts: kernels are compiled once
                    _log.warning("worker %s says nothing for %d s and is ended", worker.name, SILENCE_S)
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()

    async def _end(self, worker: Worker) -> None:
        process = worker.process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                if process.stdout is not None:
                    while await process.stdout.read(1 << 16):
                        pass
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def with_source(setup: Setup, worker: str, started: int) -> Setup:
    """A worker's own source and epoch: a worker that is started again is another epoch of the same source."""
    return msgspec.structs.replace(setup, source=f"{setup.source}-{worker}", epoch=f"{setup.epoch}-{started}")
