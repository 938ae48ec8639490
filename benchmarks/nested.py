"""Whether correlate's cost an interval stays the same: nested cascades of 10^7 intervals against 10^5 of them.

Each cascade is a host that stops its leaf's port again and again; the leaf stops spines, these stop other leaves, and
those their hosts: told queues of depth 1 to 4. The last line is JSON: {"claim", "ratio", "bar", "holds", ...}. Without
`--full` 10^6 intervals are held against 10^5, with a bar in proportion.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from analytics.correlate import Correlate
from stream import kinds
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.facts import Device, FactStream, Link
from stream.messages import Item
from stream.record import Events, empty_events, picked
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp

BAR = 1.85
"""Times the ratio of the numbers of intervals: 185 for 10^7 against 10^5."""
BEGIN_NS = 1_000_000_000
WINDOW_NS = 100_000
LEAVES, SPINES, HOSTS = 8, 8, 8
CASCADE_NS = 25_000_000
"""Between the beginnings of a priority's cascades: more than 10 ms of it nothing is stopped."""
ROUND_NS = 500_000
ROUNDS = 20
PRIORITIES = 8
DEPTH = 4

# Of each round, what is stopped from when to when: more senders the further away from the root, and all of them start
# to wait within a few microseconds and end in the order in which they began.
_OFFSETS_NS = np.array([0, 20_000, 40_000, 60_000])
_LENGTHS_NS = np.array([400_000, 340_000, 280_000, 220_000])


class Nested:
    """The fabric, and rounds of stops in it: intervals a cascade are ROUNDS * len(chain)."""

    def __init__(self) -> None:
        self.ports: list[tuple[str, str]] = []
        self._number: dict[tuple[str, str], int] = {}
        self.chains = [self._chain(priority) for priority in range(PRIORITIES)]
        self.per_cascade = ROUNDS * len(self.chains[0])

    def _port(self, device: str, port: str) -> int:
        number = self._number.setdefault((device, port), len(self.ports))
        if number == len(self.ports):
            self.ports.append((device, port))
        return number

    def _chain(self, priority: int) -> list[tuple[int, int]]:
        """(told port, depth) of what one round stops: the root is host `priority` of leaf 0."""
        leaf, spines, others = priority % LEAVES, range(2), range(1, 3)
        told = [(self._port(f"leaf{leaf}", "d0"), 1)]
        told += [(self._port(f"spine{spine}", f"p{leaf}"), 2) for spine in spines]
        for other in ((leaf + step) % LEAVES for step in others):
            told += [(self._port(f"leaf{other}", f"u{spine}"), 3) for spine in spines]
            told += [(self._port(f"h{other}-{host}", "eth0"), 4) for host in (1, 2)]
        return told

    def facts(self) -> list[Device | Link]:
        """Devices and links."""
        names = {f"leaf{n}": "switch" for n in range(LEAVES)} | {f"spine{n}": "switch" for n in range(SPINES)}
        names |= {f"h{leaf}-{host}": "host" for leaf in range(LEAVES) for host in range(HOSTS)}
        devices = [
            Device("lab", name, role, 0, FactStream("inventory", "e1", seq, BEGIN_NS))
            for seq, (name, role) in enumerate(sorted(names.items()))
        ]
        pairs = [
            (f"h{leaf}-{host}", "eth0", f"leaf{leaf}", f"d{host}") for leaf in range(LEAVES) for host in range(HOSTS)
        ]
        pairs += [
            (f"leaf{leaf}", f"u{spine}", f"spine{spine}", f"p{leaf}")
            for leaf in range(LEAVES)
            for spine in range(SPINES)
        ]
        links = [
            Link("lab", *pair, 100_000, 0, FactStream("inventory", "e1", seq, BEGIN_NS))
            for seq, pair in enumerate(pairs)
        ]
        return [*devices, *links]

    def rows(self, cascades: range) -> tuple[Events, np.ndarray, int]:
        """Rows of some cascades in order of time, the port of each, and until when nothing else follows."""
        parts, ports = [], []
        depth = np.array([depth for _, depth in self.chains[0]]) - 1
        for number in cascades:
            turn, priority = divmod(number, PRIORITIES)
            told = np.array([port for port, _ in self.chains[priority]])
            # Priorities begin one after another, so that cascades overlap.
            first_ns = BEGIN_NS + turn * CASCADE_NS + priority * (CASCADE_NS // PRIORITIES // 4)
            begin_ns = first_ns + np.arange(ROUNDS)[:, None] * ROUND_NS + _OFFSETS_NS[depth] + np.arange(len(told)) * 7
            end_ns = begin_ns + _LENGTHS_NS[depth]
            order = turn * ROUNDS + np.arange(ROUNDS)[:, None] + 1 + 0 * depth
            # A queue is full from before its first stop until its last one ends; of the root's host nobody knows.
            full = depth < DEPTH - 1
            places = np.arange(first_ns // WINDOW_NS, (first_ns + ROUNDS * ROUND_NS) // WINDOW_NS + 1)
            opens, closes = empty_events(begin_ns.size), empty_events(begin_ns.size)
            depths = empty_events(len(places) * int(full.sum()))
            opens["kind"], opens["time_ns"], opens["extra"] = kinds.PAUSE_OPEN, begin_ns.ravel(), order.ravel()
            closes["kind"], closes["time_ns"], closes["extra"] = kinds.PAUSE_INTERVAL, end_ns.ravel(), order.ravel()
            closes["span_ns"] = closes["value"] = (end_ns - begin_ns).ravel()
            depths["kind"], depths["span_ns"], depths["value"] = kinds.QUEUE_DEPTH, WINDOW_NS, 200_000
            depths["time_ns"] = np.repeat((places + 1) * WINDOW_NS, full.sum())
            opens["side"] = closes["side"] = kinds.SIDE_RX
            depths["side"] = kinds.SIDE_TX
            for part, of in ((opens, np.tile(told, ROUNDS)), (closes, np.tile(told, ROUNDS)),
                             (depths, np.tile(told[full], len(places)))):  # fmt: skip
                part["priority"] = priority
                parts.append(part)
                ports.append(of)
        events, of = np.concatenate(parts), np.concatenate(ports)
        order = np.argsort(events["time_ns"], kind="stable")
        until_ns = BEGIN_NS + (cascades.stop // PRIORITIES) * CASCADE_NS
        return picked(events, order), of[order], until_ns


def items(load: Nested, intervals: int) -> Iterator[list[Item]]:
    """What correlate reads, piece by piece; the first is the roster and the facts."""
    device_names = sorted({device for device, _ in load.ports})
    device_of = np.array([device_names.index(device) for device, _ in load.ports])
    port_names = {name: tuple(sorted({p for d, p in load.ports if d == name})) for name in device_names}
    within = np.array([port_names[device].index(port) for device, port in load.ports])
    ups = tuple(StreamUp("pfc", device, WINDOW_NS) for device in device_names)
    facts = load.facts()
    counted = sum(isinstance(fact, Device) for fact in facts)
    ends = (StreamDown("device", "", counted - 1), StreamDown("link", "", len(facts) - counted - 1))
    yield [
        SourceUp("lab", "inventory", "e1", BEGIN_NS, (StreamUp("device"), StreamUp("link"))),
        SourceUp("lab", "tap", "e1", BEGIN_NS, ups), *facts, SourceDown("lab", "inventory", "e1", BEGIN_NS, ends),
    ]  # fmt: skip
    seqs = dict.fromkeys(device_names, 0)
    total = intervals // load.per_cascade // PRIORITIES * PRIORITIES
    keys = {name: StreamKey("lab", "tap|pfc", "e1", "episode", name) for name in device_names}
    for first in range(0, total, 64):
        events, ports, until_ns = load.rows(range(first, min(first + 64, total)))
        events["port"] = within[ports]
        # In pieces of 10 ms, as live sources would send them.
        piece = (events["time_ns"] - BEGIN_NS) // 10_000_000
        for number in range(int(piece[0]), int(piece[-1]) + 1):
            here = slice(*np.searchsorted(piece, [number, number + 1]))
            mark_ns = min(BEGIN_NS + (number + 1) * 10_000_000, until_ns)
            values: list[Item] = []
            for index, name in enumerate(device_names):
                mine = picked(events[here], device_of[ports[here]] == index)
                for begin in range(0, max(len(mine), 1), MAX_EVENTS):
                    part = mine[begin : begin + MAX_EVENTS]
                    told_ns = mark_ns if begin + MAX_EVENTS >= len(mine) else int(part["time_ns"][-1])
                    values.append(Batch(keys[name], seqs[name], told_ns, port_names[name], part))
                    seqs[name] += len(part)
            yield values
    yield [Batch(keys[name], seqs[name], MARK_END, (), empty_events(0)) for name in device_names]
    yield [
        SourceDown("lab", "tap", "e1", MARK_END >> 2, tuple(StreamDown("pfc", name, 0) for name in device_names)),
    ]


def step_s(load: Nested, intervals: int) -> tuple[float, int, int]:
    """CPU time of correlate alone over so many intervals, how many it told of, and the greatest depth."""
    correlate, taken, told, depth = Correlate(), 0.0, 0, 0
    for values in items(load, intervals):
        begin = time.process_time()
        made = correlate.process(values)
        taken += time.process_time() - begin
        for cascade in made:
            assert isinstance(cascade, Cascade)
            assert cascade.revision == FINAL
            told += cascade.pauses
            depth = max(depth, *(queue.depth for queue in cascade.queues))
    return taken, told, depth


def main() -> int:
    """Measures and prints; exit status 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10^5 intervals against 10^4")
    parser.add_argument("--full", action="store_true", help="10^7 intervals against 10^5")
    options = parser.parse_args()
    few, many = (10**4, 10**5) if options.quick else (10**5, 10**7 if options.full else 10**6)
    load = Nested()
    step_s(load, load.per_cascade * PRIORITIES)  # the first run compiles
    runs = 1 if options.full else 3
    small = min(step_s(load, few) for _ in range(3))
    large = min(step_s(load, many) for _ in range(runs))
    ratio = large[0] / small[0]
    bar = BAR * many / few
    result = {
        "claim": f"correlate takes at most {bar:.0f} times as long for {many:.0e} nested intervals as for {few:.0e}",
        "ratio": round(ratio, 1),
        "bar": bar,
        "holds": ratio <= bar,
        "intervals": [small[1], large[1]],
        "depth": large[2],
        "ns_per_interval": [round(taken * 1e9 / told) for taken, told, _ in (small, large)],
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))
    return 0 if ratio <= bar else 1


if __name__ == "__main__":
    sys.exit(main())
