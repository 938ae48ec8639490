"""`pausetrace collect` at work: the inventory with its changes, one process or several, and the metrics over all.

In: an inventory file. Out: rows wherever they were wanted, for as long as nobody says stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from collectors.collect_metrics import CollectExporter
from collectors.collector import Collector
from collectors.inventory import Inventory, load
from collectors.inventory_file import Watched, included
from collectors.outlet import Outlet
from collectors.target import Target
from collectors.target_status import TargetStatus
from collectors.worker import kafka_outlet, make_collector
from collectors.worker_link import Setup
from collectors.workers import Supervisor, with_source
from pausetrace.child import own_command, own_environment
from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings, connect
from stream.ranges import MAX_SOURCE_CHARS

_log = logging.getLogger(__name__)

WATCH_S = 2.0
METRICS_S = 1.0
TARGETS_A_WORKER = 250
"""More than one process follows more targets than this, if there are cores for it."""

AT_START = {
    "fabric": "fabric", "source": "source", "budget_bytes": "budget_mb", "workers": "workers", "profiles": "profiles",
}  # fmt: skip
"""Fields of the inventory that a reload does not change, and their settings."""


class Group(Protocol):
    """One process or several."""

    async def assign(self, targets: tuple[Target, ...]) -> None: ...

    async def run(self, stop: asyncio.Event) -> None: ...

    def statuses(self) -> list[TargetStatus]: ...

    def counters(self) -> Counter[str]: ...

    @property
    def held_bytes(self) -> int: ...


class Alone:
    """A collector in this process."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def assign(self, targets: tuple[Target, ...]) -> None:
        """These targets are to be followed, and no others."""
        self._collector.assign(targets)

    async def run(self, stop: asyncio.Event) -> None:
        """Until stop."""
        await self._collector.run(stop)

    def statuses(self) -> list[TargetStatus]:
        """Where each target stands."""
        return self._collector.statuses()

    def counters(self) -> Counter[str]:
        """Everything counted so far."""
        return self._collector.counters()

    @property
    def held_bytes(self) -> int:
        """Bytes that are not decoded yet."""
        return self._collector.budget.held_bytes


def setup_of(inventory: Inventory, kafka: KafkaSettings | None) -> Setup:
    """What a process has to know besides its targets."""
    source = inventory.source or f"collector@{socket.gethostname()}"
    return Setup(
        inventory.fabric, source[: MAX_SOURCE_CHARS - 10], str(time.time_ns()), inventory.budget_bytes, kafka,
        str(inventory.profiles) if inventory.profiles else "",
    )  # fmt: skip


def workers_of(inventory: Inventory, asked: int | None, cores: int) -> int:
    """How many processes: as asked, as the inventory says, or as many as there are targets for."""
    wanted = asked if asked is not None else inventory.workers
    return wanted or max(1, min(cores, -(-len(inventory.targets) // TARGETS_A_WORKER)))


def collect(
    path: Path,
    inventory: Inventory,
    *,
    kafka: KafkaSettings | None,
    outlet: Outlet | None,
    workers: int,
    exporter: CollectExporter | None,
) -> Counter[str]:
    """Collects until a signal; returns what was counted. `outlet` None publishes to Kafka."""
    setup = setup_of(inventory, kafka)
    if kafka is not None:
        connect(kafka)
    group: Group
    if workers == 1 or outlet is not None:
        group = Alone(make_collector(setup, outlet or kafka_outlet(setup)))
    else:
        group = Supervisor(
            own_command(["collect", "worker"]), own_environment(),
            lambda name, started: with_source(setup, name, started), workers,
        )  # fmt: skip
    asyncio.run(_run(path, inventory, group, exporter))
    return group.counters()


async def _run(path: Path, inventory: Inventory, group: Group, exporter: CollectExporter | None) -> None:
    stop, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    await group.assign(inventory.targets)
    print(
        f"pausetrace: collect: {len(inventory.targets):,} targets of fabric {inventory.fabric}",
        file=sys.stderr,
        flush=True,
    )
    others: list[Coroutine[Any, Any, None]] = [_follow_file(path, inventory, group, reload, exporter)]
    if exporter is not None:
        others.append(_tell(group, exporter))
    tasks = [asyncio.create_task(other) for other in others]
    try:
        await group.run(stop)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tell(group: Group, exporter: CollectExporter) -> None:
    while True:
        exporter.take(group.statuses(), group.counters(), group.held_bytes)
        await asyncio.sleep(METRICS_S)


async def _follow_file(
    path: Path, inventory: Inventory, group: Group, reload: asyncio.Event, exporter: CollectExporter | None
) -> None:
    """Reads the inventory again when one of its files changes, or on SIGHUP. A wrong one changes nothing."""
    good = Watched([path, *inventory.files], list(inventory.includes))
    seen = _look(good)
    wrong = Watched()
    while True:
        asked = await _wait(reload)
        look = await asyncio.to_thread(_look, good, wrong)
        if look == seen and not asked:
            continue
        wrong = Watched()
        try:
            read = await asyncio.to_thread(load, path, watched=wrong)
        except Exception as err:  # noqa: BLE001 - whatever is wrong with a file must not end what reads it again
            # As it was read, and before anybody is told: what is mended then is another change.
            seen = _merged(look, await asyncio.to_thread(_look, good, wrong))
            told = err if isinstance(err, PausetraceError) else f"it cannot be read: {err!r}"
            _log.error("the inventory stays as it was: %s", told)
            if exporter is not None:
                exporter.inventory(good=False)
            continue
        if changed := [name for name in AT_START if getattr(read, name) != getattr(inventory, name)]:
            told = ", ".join(AT_START[name] for name in changed)
            _log.warning("%s: changed, which takes effect at the next start", told)
        inventory = read
        good, wrong = Watched([path, *inventory.files], list(inventory.includes)), Watched()
        seen = _merged(look, await asyncio.to_thread(_look, good))
        await group.assign(inventory.targets)
        if exporter is not None:
            exporter.inventory(good=True)
        print(
            f"pausetrace: collect: inventory read again: {len(inventory.targets):,} targets",
            file=sys.stderr,
            flush=True,
        )


def _say(text: str) -> None:
    print(f"pausetrace: collect: {text}", file=sys.stderr, flush=True)


async def _wait(reload: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(WATCH_S):
            await reload.wait()
    except TimeoutError:
        return False
    reload.clear()
    return True


def _look(*depends: Watched) -> dict[Path, tuple[int, int, int]]:
    """What tells that a file was changed, came or went: of all that were read, and that includes mean now."""
    files = {file for watched in depends for file in watched.files}
    for folder, pattern in (include for watched in depends for include in watched.includes):
        with contextlib.suppress(OSError, ValueError, IndexError, NotImplementedError):
            files.update(included(folder, pattern))
    found = {}
    for file in files:
        try:
            stat = file.stat()
        except (OSError, ValueError):
            found[file] = (0, 0, 0)
        else:
            found[file] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found


def _merged(
    before: dict[Path, tuple[int, int, int]], after: dict[Path, tuple[int, int, int]]
) -> dict[Path, tuple[int, int, int]]:
    """How the files of `after` looked before they were read, as far as that is known: a change meanwhile is one."""
    return {file: before.get(file, look) for file, look in after.items()}


def run_worker(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """A worker's process: signals end it in order."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        await main(stop)

    asyncio.run(run())
