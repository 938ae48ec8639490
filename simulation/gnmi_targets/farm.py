"""Many fake targets on one port, each a connection of its own, that send prepared messages at a steady rate.

In: how many messages a second of how many updates. Out: load; at the end, on stdout as JSON, what was offered. Run it
as a process of its own: python -m simulation.gnmi_targets.farm. It ends when its stdin does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time

from simulation.gnmi_targets.http2 import Stream
from simulation.gnmi_targets.messages import capabilities, notification, sync
from simulation.gnmi_targets.raw_target import RawTarget

INTERFACES = 16
PHASES = 8
"""Not all targets send at once: there are so many groups of them."""
MAX_BACKLOG = 64
"""Frames that wait for a client that does not read; what comes then is left out and counted."""
LEAVES = (
    "in-octets", "out-octets", "in-pkts", "out-pkts", "in-unicast-pkts", "out-unicast-pkts", "in-broadcast-pkts",
    "out-broadcast-pkts", "in-multicast-pkts", "out-multicast-pkts", "in-errors", "out-errors", "in-discards",
    "out-discards", "in-fcs-errors", "in-unknown-protos", "carrier-transitions", "resets", "in-fragments", "in-jabbers",
)  # fmt: skip
QUEUE_LEAVES = ("transmit-pkts", "transmit-octets", "dropped-pkts", "ecn-marked-pkts", "max-queue-len")


def message(updates: int, number: int, time_ns: int, encoding: str = "PROTO") -> bytes:
    """The number-th message: a counter (1), the counters of an interface (up to 20), or queues of several (more)."""
    port = f"Ethernet{number % INTERFACES + 1}/1"
    count = number // INTERFACES
    if updates == 1:
        path = f"/interfaces/interface[name={port}]/state/counters/{LEAVES[0]}"
        return notification(time_ns, [(path, 100_000 * count)], encoding=encoding, target="leaf")
    if updates <= len(LEAVES):
        made = [(leaf, (7 + at) * 10_000 * count) for at, leaf in enumerate(LEAVES[:updates])]
        base = f"/interfaces/interface[name={port}]/state/counters"
        return notification(time_ns, made, prefix=base, encoding=encoding, target="leaf")
    made = []
    for at in range(updates):
        interface, rest = divmod(at, 8 * len(QUEUE_LEAVES))
        queue, leaf = divmod(rest, len(QUEUE_LEAVES))
        name = f"Ethernet{(number + interface) % INTERFACES + 1}/1"
        path = f"/qos/interfaces/interface[interface-id={name}]/output/queues/queue[name={queue}]/state/"
        made.append((path + QUEUE_LEAVES[leaf], 1000 * (count + at)))
    return notification(time_ns, made, encoding=encoding, target="leaf")


def restamped(prepared: bytearray, time_ns: int) -> bytes:
    """The message with another time: of this century, a varint of nine bytes, the first field of the Notification."""
    at = 2
    while prepared[at - 1] & 0x80:
        at += 1
    for byte in range(at + 1, at + 9):
        prepared[byte] = time_ns & 0x7F | 0x80
        time_ns >>= 7
    prepared[at + 9] = time_ns
    return bytes(prepared)


class Farm:
    """All its targets send the same messages; what differs is when."""

    def __init__(self, rate_per_s: float, updates: int, encoding: str = "PROTO") -> None:
        self.offered = 0
        self.left_out = 0
        self._rate_per_s = rate_per_s
        self._updates = updates
        self._encoding = encoding
        self._streams: list[list[Stream]] = [[] for _ in range(PHASES)]
        self._came = 0
        self._prepared: list[bytearray] = []
        if not rate_per_s:
            count = INTERFACES * max(1024 // INTERFACES // max(updates // 20, 1), 4)
            self._prepared = [bytearray(message(updates, n, time.time_ns(), encoding)) for n in range(count)]
        self.target = RawTarget(self._subscribed, capabilities())

    async def _subscribed(self, stream: Stream, _request: bytes) -> None:
        stream.send(sync())
        self._streams[self._came % PHASES].append(stream)
        self._came += 1

    def tell(self) -> dict[str, float]:
        """What has been offered so far."""
        streams = [stream for group in self._streams for stream in group]
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "offered": self.offered,
            "left_out": self.left_out,
            "streams": len(streams),
            "open": sum(stream.open for stream in streams),
            "stalls": sum(stream.stalls for stream in streams),
            "cpu_s": used.ru_utime + used.ru_stime,
        }

    async def run(self) -> None:
        """Sends for ever; a rate of 0 as fast as the clients read."""
        number = 0
        if not self._rate_per_s:
            await self._flood()
        start_s = time.monotonic()
        while True:
            for phase, group in enumerate(self._streams):
                due_s = start_s + (number + phase / PHASES) / self._rate_per_s
                await asyncio.sleep(max(due_s - time.monotonic(), 0))
                made = message(self._updates, number, time.time_ns(), self._encoding)
                for stream in group:
                    if not stream.open:
                        continue
                    self.offered += 1
                    if len(stream.backlog) >= MAX_BACKLOG:
                        self.left_out += 1
                        continue
                    stream.send(made)
            number += 1

    async def _flood(self) -> None:
        prepared, number = self._prepared, 0
        while True:
            sent = False
            for group in self._streams:
                for stream in group:
                    for _ in range(32):
                        if not stream.open or stream.backlog:
                            break
                        stream.send(restamped(prepared[number % len(prepared)], time.time_ns()))
                        number += 1
                        self.offered += 1
                        sent = True
            await asyncio.sleep(0 if sent else 0.0005)


async def _main(rate_per_s: float, updates: int, encoding: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))
    farm = Farm(rate_per_s, updates, encoding)
    async with farm.target as target:
        print(json.dumps({"port": target.port}), flush=True)
        running = asyncio.create_task(farm.run())
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "tell":
                print(json.dumps(farm.tell()), flush=True)
        running.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=16.0, help="messages a second of each target; 0: flood")
    parser.add_argument("--updates", type=int, default=20, help="updates in each message")
    parser.add_argument("--encoding", default="PROTO")
    given = parser.parse_args()
    asyncio.run(_main(given.rate, given.updates, given.encoding))
