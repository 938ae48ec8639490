"""What decoding costs: raw SubscribeResponses to columns, against the protobuf library's bare parse of the same bytes.

The bare parse makes its objects and looks at no field; the columns have path, value and time of each update. Both take
the same messages turn by turn, and the least CPU time of each counts; the median of the turns' ratios stands beside it.
The decoder takes them in batches as a worker of 500 targets does, which is what the bar is for, and one by one. JSON
objects as SONiC sends them are compared with json.loads and a walk over what it made.

The last line is JSON: {"claim", "ratio", "bar", "holds", ...}. `--quick` takes fewer turns.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from collectors.messages import gnmi_pb2
from collectors.paths import PathTable
from collectors.wire import Decoder
from simulation.gnmi_targets.farm import LEAVES, QUEUE_LEAVES

BAR = 3.0
BATCH = 500
PORTS = 64
START_NS = 1_796_000_000_000_000_000
Elements = tuple[tuple[str, dict[str, str]], ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    turns = 7 if parser.parse_args().quick else 31
    chance = random.Random(5)
    sets = {
        "1 update": [one_update(i, chance) for i in range(4 * BATCH)],
        "20 updates": [counters(i, chance, "uint_val") for i in range(2 * BATCH)],
        "20 updates, JSON_IETF": [counters(i, chance, "json_ietf_val") for i in range(2 * BATCH)],
        "200 updates": [queues(i, chance) for i in range(BATCH // 4)],
    }
    ratios: dict[str, float] = {}
    print(f"{'':31}{'ns an update':>25}")
    print(f"{'message':24}{'batch':>7}{'columns':>12}{'library':>13}{'ratio':>8}{'median':>8}")
    for name, messages in sets.items():
        for batch in (BATCH, 1):
            decoder = Decoder(PathTable())
            updates = rows_of(decoder, messages)
            took = compared(partial(decode, decoder, messages, batch), partial(parse, messages), turns)
            show(name, batch, updates, took)
            if batch == BATCH:
                ratios[name] = took.ratio
    blobs = [sonic_port(i, chance) for i in range(BATCH // 2)]
    decoder = Decoder(PathTable())
    fields = rows_of(decoder, blobs)
    took = compared(partial(decode, decoder, blobs, BATCH), partial(walk, blobs), turns)
    show("SONiC port, json.loads", BATCH, fields, took)
    least = min(ratios.values())
    print(
        json.dumps(
            {
                "claim": "decoding SubscribeResponses into columns is faster than the protobuf library's bare parse",
                "ratio": round(least, 2),
                "bar": BAR,
                "holds": least >= BAR,
                "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
                "sonic_json_ratio": round(took.ratio, 2),
                "batch": BATCH,
                "cpus": len(os.sched_getaffinity(0)),
                "load": round(os.getloadavg()[0], 1),
                "machine": platform.machine(),
                "python": platform.python_version(),
                **{name: version(name) for name in ("numba", "numpy", "protobuf")},
            }
        )
    )
    sys.exit(least < BAR)


class Took(NamedTuple):
    """Least seconds of each, and the median of the ratios of neighbouring turns."""

    ours: float
    theirs: float
    median: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def compared(ours: Callable[[], None], theirs: Callable[[], None], turns: int) -> Took:
    """Both by turns; who goes first changes, so that neither has the warmer memory each time."""
    taken = []
    for turn in range(turns):
        pair = [(0, ours), (1, theirs)] if turn % 2 else [(1, theirs), (0, ours)]
        seconds = [0.0, 0.0]
        for which, call in pair:
            begin = time.process_time()
            call()
            seconds[which] = time.process_time() - begin
        taken.append(seconds)
    median = statistics.median(parsed / decoded for decoded, parsed in taken)
    return Took(min(decoded for decoded, _ in taken), min(parsed for _, parsed in taken), median)


def show(name: str, batch: int, updates: int, took: Took) -> None:
    ours, theirs = took.ours / updates * 1e9, took.theirs / updates * 1e9
    print(f"{name:24}{batch:7}{ours:12.1f}{theirs:13.1f}{took.ratio:8.2f}{took.median:8.2f}")


def decode(decoder: Decoder, messages: list[bytes], batch: int) -> None:
    targets = np.zeros(batch, np.int32)
    for at in range(0, len(messages), batch):
        part = messages[at : at + batch]
        decoder.decode(part, targets[: len(part)])


def parse(messages: list[bytes]) -> None:
    read = gnmi_pb2.SubscribeResponse.FromString
    for message in messages:
        read(message)


def walk(messages: list[bytes]) -> None:
    """The least that Python can do for the fields of an object: parse both layers, and make integers."""
    for message in messages:
        notification = gnmi_pb2.SubscribeResponse.FromString(message).update
        for update in notification.update:
            for name, value in json.loads(update.val.json_ietf_val).items():
                (name, int(value))


def rows_of(decoder: Decoder, messages: list[bytes]) -> int:
    """How many rows they make, which is seen to be one for each update; the decoder has met all paths then."""
    columns = decoder.decode(messages, np.zeros(len(messages), np.int32))
    assert decoder.counters["fallback_messages"] == 0
    return len(columns.rows)


def put(path: gnmi_pb2.Path, elements: Elements) -> None:
    for name, keys in elements:
        element = path.elem.add(name=name)
        for key, value in keys.items():
            element.key[key] = value


def one_update(i: int, chance: random.Random) -> bytes:
    """One leaf of Arista's PFC model, with its whole path."""
    message = gnmi_pb2.SubscribeResponse()
    message.update.timestamp = START_NS + i
    update = message.update.update.add()
    port, priority = {"name": f"Ethernet{i % PORTS}/1"}, {"index": str(i // PORTS % 8)}
    put(
        update.path,
        (("interfaces", {}), ("interface", port), ("ethernet", {}), ("pfc", {}), ("priorities", {}),
         ("priority", priority), ("state", {}), ("in-frames", {})),
    )  # fmt: skip
    update.val.uint_val = chance.getrandbits(40)
    return bytes(message.SerializeToString())


def counters(i: int, chance: random.Random, form: str) -> bytes:
    """The counters of a port, with what their paths share in the prefix."""
    message = gnmi_pb2.SubscribeResponse()
    message.update.timestamp = START_NS + i
    message.update.prefix.target = "leaf1"
    port = {"name": f"Ethernet{i % PORTS}/1"}
    put(message.update.prefix, (("interfaces", {}), ("interface", port), ("state", {}), ("counters", {})))
    for name in LEAVES:
        update = message.update.update.add()
        put(update.path, ((name, {}),))
        value = chance.getrandbits(40)
        if form == "uint_val":
            update.val.uint_val = value
        else:
            update.val.json_ietf_val = b'"%d"' % value
    return bytes(message.SerializeToString())


def queues(i: int, chance: random.Random) -> bytes:
    """The queues of five ports, each counter with its whole path."""
    message = gnmi_pb2.SubscribeResponse()
    message.update.timestamp = START_NS + i
    for port in range(5 * i, 5 * i + 5):
        for queue in range(8):
            for name in QUEUE_LEAVES:
                update = message.update.update.add()
                keys = {"interface-id": f"Ethernet{port % PORTS}/1"}
                put(
                    update.path,
                    (("qos", {}), ("interfaces", {}), ("interface", keys), ("output", {}), ("queues", {}),
                     ("queue", {"name": f"UC{queue}"}), ("state", {}), (name, {})),
                )  # fmt: skip
                update.val.uint_val = chance.getrandbits(40)
    return bytes(message.SerializeToString())


def sonic_port(i: int, chance: random.Random) -> bytes:
    """A port of COUNTERS_DB: one object of 150 quoted counters."""
    message = gnmi_pb2.SubscribeResponse()
    message.update.timestamp = START_NS + i
    message.update.prefix.target = "COUNTERS_DB"
    update = message.update.update.add()
    put(update.path, (("COUNTERS", {}), (f"Ethernet{i % PORTS * 4}", {})))
    names = [f"SAI_PORT_STAT_PFC_{p}_{way}_{what}" for p in range(8) for way in ("RX", "TX") for what in ("PKTS", "US")]
    names += [f"SAI_PORT_STAT_IF_COUNTER_NUMBER_{number}" for number in range(150 - len(names))]
    update.val.json_ietf_val = json.dumps({name: str(chance.getrandbits(40)) for name in names}).encode()
    return bytes(message.SerializeToString())


if __name__ == "__main__":
    main()
