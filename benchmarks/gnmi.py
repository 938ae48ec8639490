"""What a gNMI update costs: the collector against pygnmi's subscribe2 and gRPC's own floor, and many targets at a time.

A fake target in a process of its own sends as fast as it is read: 1, 20 and 200 updates a message. In interleaved
rounds a fresh process each reads it by pygnmi (parsed dicts), by gRPC alone (raw bytes, nothing decoded), by gRPC and
the decoder (columns of paths and values: what pygnmi's dicts hold, and what the bars are for) and by the whole
collector (deltas, as rows of the openconfig profile, from a second thread). The measure is updates in a second of CPU
of the client's process. Then 500 and 1,000 (or --targets) fake targets send 16 messages a second of 20 updates each, to
one process or, where there are more than 500, to a worker for each 500 of them under a supervisor; CPU and memory are
those of all processes.

The last line is JSON: {"claim", "ratios", "bars", "holds", ...}. `--quick` measures little, to show that it all works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import queue
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

BARS = {1: 2.0, 20: 3.0, 200: 15.0}
SHARE_BAR, CPU_US_BAR = 0.99, 100.0
TARGETS_A_WORKER = 500
CLIENTS = ("pygnmi", "grpc", "decoder", "collector")
TURN_S = 0.05
DEADLINE_S = 120.0
UP_DEADLINE_S = 300.0


class Farm:
    """The fake targets: `with Farm(rate, updates) as farm:` listens on `farm.port`."""

    def __init__(self, rate_per_s: float, updates: int) -> None:
        command = [sys.executable, "-m", "simulation.gnmi_targets.farm", "--rate", str(rate_per_s)]
        self._process = subprocess.Popen(
            [*command, "--updates", str(updates)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.port = int(self._read()["port"])

    def tell(self) -> dict[str, float]:
        """What it has offered so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("tell\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        told: dict[str, float] = json.loads(self._process.stdout.readline())
        return told

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def cpu_s() -> float:
    """CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Used(NamedTuple):
    """Of several processes: `waited_s` is how long threads could have run and got no core, since others took it."""

    cpu_s: float
    rss_bytes: int
    waited_s: float


def used_by(processes: Sequence[int]) -> Used:
    """What these processes have used so far."""
    total_s, pages, waited_ns = 0.0, 0, 0
    for process in processes:
        folder = Path("/proc") / str(process)
        stat = (folder / "stat").read_text().rpartition(")")[2].split()
        total_s += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        pages += int((folder / "statm").read_text().split()[1])
        for schedstat in folder.glob("task/*/schedstat"):
            with contextlib.suppress(OSError):
                waited_ns += int(schedstat.read_text().split()[1])
    return Used(total_s, pages * os.sysconf("SC_PAGE_SIZE"), waited_ns * 1e-9)


# The clients: each reads for so many seconds, and returns messages and CPU seconds from the first message on.


def by_pygnmi(port: int, seconds: float) -> tuple[int, float]:
    """subscribe2: parsed to dicts in the caller's thread. What was read is parsed to its end, and counts."""
    from pygnmi.client import gNMIclient

    os.environ["NO_PROXY"] = "127.0.0.1"
    asked = {
        "subscription": [{"path": "/interfaces", "mode": "sample", "sample_interval": 1_000_000_000}],
        "encoding": "proto",
        "mode": "stream",
    }
    client = gNMIclient(("127.0.0.1", str(port)), insecure=True)
    client.connect()
    stream = client.subscribe2(asked)
    next(stream)
    begin_s, end_s, messages = cpu_s(), time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        next(stream)
        messages += 1
    client.close()
    # A thread of its own has read ahead; the queue has no bound.
    with contextlib.suppress(queue.Empty, TimeoutError, Exception):
        while True:
            stream.get_update(timeout=1)
            messages += 1
    return messages, cpu_s() - begin_s


def by_grpc(port: int, seconds: float) -> tuple[int, float]:
    """The collector's transport, and nothing behind it."""
    from collectors.grpc_transport import GrpcTransport
    from collectors.one_core import OneCore
    from collectors.transport import Endpoint

    async def read() -> tuple[int, float]:
        transport = GrpcTransport(Endpoint(f"127.0.0.1:{port}"))
        await transport.open()
        stream = await transport.subscribe(b"\x0a\x00")
        await stream.read()
        begin_s, end_s, messages = cpu_s(), time.monotonic() + seconds, 0
        while time.monotonic() < end_s:
            messages += len(await stream.read())
        spent_s = cpu_s() - begin_s
        await transport.close()
        return messages, spent_s

    with OneCore():
        return asyncio.run(read())


def by_decoder(port: int, seconds: float) -> tuple[int, float]:
    """The transport and the decoder, in turns as the collector has them, in one thread."""
    import numpy as np

    from collectors.grpc_transport import GrpcTransport
    from collectors.one_core import OneCore
    from collectors.paths import PathTable
    from collectors.profile_choice import choice_of
    from collectors.transport import Endpoint
    from collectors.warm_up import warm_up
    from collectors.wire import Decoder

    warm_up()

    async def read() -> tuple[int, float]:
        transport = GrpcTransport(Endpoint(f"127.0.0.1:{port}"))
        decoder = Decoder(PathTable(list_keys=choice_of().list_keys))
        await transport.open()
        stream = await transport.subscribe(b"\x0a\x00")
        await stream.read()
        begin_s, end_s, messages, updates = cpu_s(), time.monotonic() + seconds, 0, 0
        waiting: list[bytes] = []
        turn_s = time.monotonic() + TURN_S
        while (now_s := time.monotonic()) < end_s:
            waiting += await stream.read()
            if now_s >= turn_s:
                updates += len(decoder.decode(waiting, np.zeros(len(waiting), np.int32)).path_id)
                messages += len(waiting)
                waiting, turn_s = [], time.monotonic() + TURN_S
        spent_s = cpu_s() - begin_s
        assert updates >= messages
        await transport.close()
        return messages, spent_s

    with OneCore():
        return asyncio.run(read())


def by_collector(port: int, seconds: float) -> tuple[int, float]:
    """Everything up to rows."""

    async def read() -> tuple[int, float]:
        async with collecting(port, 1) as (collector, _processes):
            (status,) = collector.statuses()
            while not status.updates:
                await asyncio.sleep(0.01)
            begin_s, before = cpu_s(), status.messages
            await asyncio.sleep(seconds)
            return status.messages - before, cpu_s() - begin_s

    return asyncio.run(read())


def targets_at(port: int, count: int) -> list[Any]:
    """So many targets, which are all the same farm."""
    from collectors.target import Target
    from collectors.transport import Endpoint

    endpoint = Endpoint(f"127.0.0.1:{port}")
    return [Target(f"t{number}", f"t{number}", endpoint, profile="openconfig") for number in range(count)]


@contextlib.asynccontextmanager
async def collecting(port: int, targets: int) -> Any:
    """A collector with so many targets, whose rows go nowhere, and how to tell its processes."""
    from collectors.collector import Collector
    from collectors.outlet import NoOutlet

    collector = Collector("bench", NoOutlet())
    collector.assign(targets_at(port, targets))
    async with running(collector):
        yield collector, lambda: [os.getpid()]


@contextlib.asynccontextmanager
async def supervising(port: int, targets: int) -> Any:
    """The same with workers, as `pausetrace collect --dry-run --workers` has them."""
    from collectors.collector import BUDGET_BYTES
    from collectors.worker_link import Setup
    from collectors.workers import Supervisor, with_source
    from pausetrace.child import own_command, own_environment

    setup = Setup("bench", "collector@bench", "1", BUDGET_BYTES)
    supervisor = Supervisor(
        own_command(["collect", "worker"]), own_environment(),
        lambda name, started: with_source(setup, name, started), -(-targets // TARGETS_A_WORKER),
    )  # fmt: skip
    await supervisor.assign(targets_at(port, targets))
    async with running(supervisor):
        yield (
            supervisor,
            lambda: [os.getpid(), *(worker.process.pid for worker in supervisor.workers if worker.process)],
        )


@contextlib.asynccontextmanager
async def running(group: Any) -> Any:
    """It runs for as long as the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(group.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


READ: dict[str, Callable[[int, float], tuple[int, float]]] = {
    "pygnmi": by_pygnmi,
    "grpc": by_grpc,
    "decoder": by_decoder,
    "collector": by_collector,
}


def compare(seconds: float, rounds: int) -> dict[int, dict[str, float]]:
    """Updates in a second of CPU by messages' size and client, the median of interleaved rounds."""
    found: dict[int, dict[str, list[float]]] = {size: {client: [] for client in CLIENTS} for size in BARS}
    for round_ in range(rounds):
        for size in BARS:
            for client in CLIENTS:
                with Farm(0, size) as farm:
                    messages, spent_s = in_a_process("--client", client, farm.port, seconds)
                per_s = messages * size / spent_s if spent_s else 0.0
                found[size][client].append(per_s)
                cost = f"{per_s:>12,.0f} updates a CPU s, {1e6 * spent_s / max(messages, 1):,.1f} us a message"
                print(f"round {round_}: {size:>3} a message, {client:<9} {cost}", file=sys.stderr, flush=True)
    return {size: {c: statistics.median(each) for c, each in by.items()} for size, by in found.items()}


def in_a_process(what: str, name: str, port: int, seconds: float) -> tuple[int, float]:
    """Messages and CPU seconds of a client in a fresh process."""
    command = [sys.executable, __file__, what, name, "--port", str(port), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=True, cwd=ROOT)
    messages, spent_s = json.loads(done.stdout.splitlines()[-1])
    return int(messages), float(spent_s)


async def many(targets: int, seconds: float) -> dict[str, float]:
    """So many targets at 16 messages a second of 20 updates each."""
    alone = targets <= TARGETS_A_WORKER
    with Farm(16, 20) as farm:
        async with (collecting if alone else supervising)(farm.port, targets) as (group, processes):
            begin_s = time.monotonic()
            while sum(status.up for status in group.statuses()) < targets:
                if time.monotonic() - begin_s > UP_DEADLINE_S:
                    raise SystemExit(f"not all of {targets} targets are up after {UP_DEADLINE_S:g} s")
                await asyncio.sleep(0.2)
            up_s = time.monotonic() - begin_s
            await asyncio.sleep(5)
            before, at_s = used_by(processes()), time.monotonic()
            first = await tally(group, farm)
            await asyncio.sleep(seconds)
            last = await tally(group, farm)
            after, passed_s = used_by(processes()), time.monotonic() - at_s
            count = len(processes())
            rows = group.counters()["outlet_rows"]
    spent_s = after.cpu_s - before.cpu_s
    offered, messages, told_s = (end - begin for end, begin in zip(last, first, strict=True))
    spent_s *= told_s / passed_s
    return {
        "targets": targets,
        "processes": count,
        "up_s": round(up_s, 1),
        "offered_messages": round(offered),
        "share": messages / max(offered, 1),
        "offered_share": offered / (16 * targets * told_s),
        "updates_per_s": messages * 20 / told_s,
        "cpu_us_a_message": 1e6 * spent_s / max(messages, 1),
        "cores": spent_s / told_s,
        "waited_for_cores": (after.waited_s - before.waited_s) / passed_s,
        "rss_mb": after.rss_bytes / 1e6,
        "rows": rows,
    }


async def tally(group: Any, farm: Farm) -> tuple[float, float, float]:
    """What was offered to all targets' readers, what they have read, and when. All targets are offered the same.

    Workers tell once a second: each one's part is looked at right when it has told.
    """
    if not hasattr(group, "workers"):
        return farm.tell()["offered"], sum(status.messages for status in group.statuses()), time.monotonic()
    offered, messages, at_s, targets = 0.0, 0.0, 0.0, len(group.statuses())
    for worker in group.workers:
        before = worker.standing
        while worker.standing is before:
            await asyncio.sleep(0.002)
        share = len(worker.standing.statuses) / targets
        offered += farm.tell()["offered"] * share
        messages += sum(status.messages for status in worker.standing.statuses)
        at_s += time.monotonic() * share
    return offered, messages, at_s


def lines(compared: dict[int, dict[str, float]], scaled: list[dict[str, float]]) -> Iterator[str]:
    """The result for people."""
    for size, by in compared.items():
        ratio = by["decoder"] / by["pygnmi"]
        each = ", ".join(f"{client} {by[client]:>12,.0f}" for client in CLIENTS)
        yield f"{size:>3} updates a message: {each} updates a CPU s: {ratio:.1f} times pygnmi (bar {BARS[size]:g})"
    for told in scaled:
        yield (
            f"{told['targets']} targets, {told['processes']} processes: "
            f"{told['share']:.2%} of {told['offered_messages']:,.0f} messages, "
            f"{told['cpu_us_a_message']:.0f} us of CPU a message, {told['cores']:.2f} cores, "
            f"{told['rss_mb']:.0f} MB, all up after {told['up_s']} s, {told['waited_for_cores']:.2f} cores lacked, "
            f"{told['offered_share']:.0%} of the wanted rate offered"
        )


def main() -> int:
    """Measures and states the claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--targets", type=int, nargs="*", default=[500, 1000])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--scale", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        print(json.dumps(READ[args.client](args.port, args.seconds)))
        return 0
    if args.scale:
        print(json.dumps(asyncio.run(many(int(args.scale), args.seconds))))
        return 0
    seconds, rounds, targets = (1.0, 1, [20]) if args.quick else (args.seconds, args.rounds, args.targets)
    compared = compare(seconds, rounds)
    scaled = []
    for count in targets:
        command = [sys.executable, __file__, "--scale", str(count), "--seconds", str(max(seconds * 4, 3))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True, cwd=ROOT)
        scaled.append(json.loads(done.stdout.splitlines()[-1]))
    for line in lines(compared, scaled):
        print(line)
    ratios = {size: by["decoder"] / by["pygnmi"] for size, by in compared.items()}
    holds = all(ratios[size] >= bar for size, bar in BARS.items()) and all(
        told["share"] >= SHARE_BAR and told["cpu_us_a_message"] <= CPU_US_BAR
        for told in scaled
        if told["targets"] <= 500
    )
    print(json.dumps({
        "claim": "the collector decodes more updates in a second of CPU than pygnmi, and 500 targets in one process",
        "ratios": {str(size): round(ratio, 2) for size, ratio in ratios.items()},
        "whole_collector": {str(s): round(by["collector"] / by["pygnmi"], 2) for s, by in compared.items()},
        "grpc_alone": {str(size): round(by["grpc"] / by["pygnmi"], 2) for size, by in compared.items()},
        "bars": {str(size): bar for size, bar in BARS.items()},
        "targets": scaled,
        "holds": holds,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }))  # fmt: skip
    return 0 if holds or args.quick else 1


if __name__ == "__main__":
    sys.exit(main())
