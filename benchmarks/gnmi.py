"""What a gNMI update costs: the collector against pygnmi's subscribe2 and gRPC's own floor, and many targets at a time.

A fake target in a process of its own sends as fast as it is read: 1, 20 and 200 updates a message. In interleaved
rounds a fresh process each reads it by pygnmi (parsed dicts), by gRPC alone (raw bytes, nothing decoded), by gRPC and
the decoder (columns of paths and values: what pygnmi's dicts hold, and what the bars are for) and by the whole
collector (deltas, as rows of the openconfig profile, from a second thread). The measure is updates in a second of CPU
of the client's process. Then 500 (and with --targets others) fake targets send 16 messages a second of 20 updates each.

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

BARS = {1: 2.0, 20: 3.0, 200: 15.0}
SHARE_BAR, CPU_US_BAR = 0.99, 100.0
CLIENTS = ("pygnmi", "grpc", "decoder", "collector")
TURN_S = 0.05
DEADLINE_S = 120.0


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


def rss_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def waited_for_cpu_s() -> float:
    """Time that threads of this process could have run and did not get a core: what others took."""
    waited_ns = 0
    for stat in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            waited_ns += int(stat.read_text().split()[1])
    return waited_ns * 1e-9


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

    return asyncio.run(read())


def by_decoder(port: int, seconds: float) -> tuple[int, float]:
    """The transport and the decoder, in turns as the collector has them, in one thread."""
    import numpy as np

    from collectors.grpc_transport import GrpcTransport
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

    return asyncio.run(read())


def by_collector(port: int, seconds: float) -> tuple[int, float]:
    """Everything up to rows."""

    async def read() -> tuple[int, float]:
        async with collecting(port, 1) as (collector, _outlet):
            (status,) = collector.statuses()
            while not status.updates:
                await asyncio.sleep(0.01)
            begin_s, before = cpu_s(), status.messages
            await asyncio.sleep(seconds)
            return status.messages - before, cpu_s() - begin_s

    return asyncio.run(read())


@contextlib.asynccontextmanager
async def collecting(port: int, targets: int) -> Any:
    """A collector with so many targets, whose rows go nowhere."""
    from collectors.collector import Collector
    from collectors.outlet import NoOutlet
    from collectors.target import Target
    from collectors.transport import Endpoint

    outlet = NoOutlet()
    collector = Collector("bench", outlet)
    endpoint = Endpoint(f"127.0.0.1:{port}")
    collector.assign(Target(f"t{number}", f"t{number}", endpoint, profile="openconfig") for number in range(targets))
    stop = asyncio.Event()
    running = asyncio.create_task(collector.run(stop))
    try:
        yield collector, outlet
    finally:
        stop.set()
        await running


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
    """So many targets at 16 messages a second of 20 updates each, in this process."""
    with Farm(16, 20) as farm:
        before = rss_bytes()
        async with collecting(farm.port, targets) as (collector, outlet):
            end_s = time.monotonic() + DEADLINE_S
            while sum(status.up for status in collector.statuses()) < targets and time.monotonic() < end_s:
                await asyncio.sleep(0.2)
            up_s = time.monotonic() - end_s + DEADLINE_S
            await asyncio.sleep(5)
            offered, got, spent_s, at_s = farm.tell(), messages_of(collector), cpu_s(), time.monotonic()
            waited_s = waited_for_cpu_s()
            await asyncio.sleep(seconds)
            last, got_last, spent_last_s = farm.tell(), messages_of(collector), cpu_s()
            passed_s = time.monotonic() - at_s
            waited_s = waited_for_cpu_s() - waited_s
            rss = rss_bytes()
    return {
        "targets": targets,
        "up_s": round(up_s, 1),
        "offered_messages": last["offered"] - offered["offered"],
        "share": (got_last - got) / (last["offered"] - offered["offered"]),
        "updates_per_s": (got_last - got) * 20 / passed_s,
        "cpu_us_a_message": 1e6 * (spent_last_s - spent_s) / max(got_last - got, 1),
        "cores": (spent_last_s - spent_s) / passed_s,
        "waited_for_cores": waited_s / passed_s,
        "rss_mb": rss / 1e6,
        "rss_kb_a_target": (rss - before) / 1e3 / targets,
        "rows": outlet.counters["rows"],
    }


def messages_of(collector: Any) -> int:
    """Messages of all targets that were decoded or wait for it."""
    return sum(status.messages for status in collector.statuses())


def lines(compared: dict[int, dict[str, float]], scaled: list[dict[str, float]]) -> Iterator[str]:
    """The result for people."""
    for size, by in compared.items():
        ratio = by["decoder"] / by["pygnmi"]
        each = ", ".join(f"{client} {by[client]:>12,.0f}" for client in CLIENTS)
        yield f"{size:>3} updates a message: {each} updates a CPU s: {ratio:.1f} times pygnmi (bar {BARS[size]:g})"
    for told in scaled:
        yield (
            f"{told['targets']} targets: {told['share']:.2%} of {told['offered_messages']:,.0f} messages, "
            f"{told['cpu_us_a_message']:.0f} us of CPU a message, {told['cores']:.2f} cores, "
            f"{told['rss_mb']:.0f} MB, all up after {told['up_s']} s, {told['waited_for_cores']:.2f} cores lacked"
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
