"""The names that rows come under: numbered while rows wait, and those of them that no fact explains.

A name is resolved when its rows are taken in event time, so rows wait under the number of the pair as it was sent.
Rows from inside a host (of CPUs, GPUs, a resource) all come under one port of it, so that the fabric does not grow by a
port for each CPU; which part of the host it was, they say in `flow`.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.compiled import kernel
from analytics.detect import NO_PORT
from stream import kinds
from stream.record import PORT_BIT, SMALL, Events, Words, picked, words

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BUCKET_NS = 10_000_000
"""Times of rows are kept so coarsely: what is asked is whether a name came up around a cascade."""

MAX_REMEMBERED = 4096
"""Lists of ports whose numbers are remembered."""
MAX_PARTS = 65_536
"""Names of parts of hosts (`cpu3`), which all hosts share; what has a further name has none."""

_NAMES_A_PORT = np.zeros(256, bool)
"""Kinds of rows whose port is one of the network: of others it may be a CPU or a rank."""
_CONGESTION = np.zeros(256, bool)
"""Kinds of rows that say that something stood still or queued."""
for _name in ("PAUSE_OPEN", "PAUSE_INTERVAL", "PFC_PAUSED", "PFC_FRAMES", "QUEUE_DEPTH", "ECN_MARKED"):
    _CONGESTION[kinds.BY_NAME[_name].code] = _NAMES_A_PORT[kinds.BY_NAME[_name].code] = True
for _name in ("PORT_BYTES", "FLOW_BYTES", "QUEUE_DROPS", "HEADROOM", "LINK_ERRORS", "PFC_WATCHDOG"):
    _NAMES_A_PORT[kinds.BY_NAME[_name].code] = True
INSIDE = np.zeros(256, bool)
"""Kinds of rows whose port is a part of its host."""
for _name in (
    "RUNQUEUE_OUTLIER", "SOFTIRQ_OUTLIER", "SOFTIRQ_RUN_OUTLIER", "HARDIRQ_OUTLIER", "NAPI_OUTLIER", "BLOCK_OUTLIER",
    "MEMORY_ERRORS", "CPU_THROTTLE", "PRESSURE", "GPU_ERRORS", "GPU_THROTTLE",
):  # fmt: skip
    INSIDE[kinds.BY_NAME[_name].code] = True


def names_a_port(events: Events) -> Bools:
    """Which rows name a port of the network."""
    return _NAMES_A_PORT[events["kind"]]


def is_inside(events: Events) -> Bools:
    """Which rows speak of a part of a host."""
    return INSIDE[events["kind"]]


def congestion(events: Events) -> Bools:
    """Which rows say that something stood still or queued."""
    kind = events["kind"]
    pause = (kind == kinds.PAUSE_OPEN) | (kind == kinds.PAUSE_INTERVAL)
    return _CONGESTION[kind] & (pause | (events["value"] > 0))


class AskedNames:
    """Pairs (device, port) as sources send them, each source's numbered as they come up."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self.sources: list[str] = []
        """The sources by number."""
        self.parts: list[str] = []
        """Names of parts of hosts: row.flow is the place of its own, counted from 1."""
        self.counters: Counter[str] = Counter()
        self._source_number: dict[str, int] = {}
        self._source_of: list[int] = []
        self._source_numbers: Ints = np.zeros(0, np.int64)
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._of_devices: dict[tuple[str, str], dict[str, int]] = {}
        """By source and device, the numbers of ports that batches named."""
        self._part_numbers: dict[str, int] = {}
        self._of_batches: dict[tuple[str, str, tuple[str, ...]], Ints] = {}
        """Most sources name the same ports in every batch."""

    def number(self, source: str, device: str, port: str) -> int:
        """The number of a source's pair, a new one if it is new."""
        number = self._numbers.setdefault((source, device, port), len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append((device, port))
            if source not in self._source_number:
                self._source_number[source] = len(self.sources)
                self.sources.append(source)
            self._source_of.append(self._source_number[source])
        return number

    def numbers(self, source: str, device: str, ports: tuple[str, ...]) -> Ints:
        """The numbers of the source's pairs of a device with each of these ports."""
        known = self._of_batches.get((source, device, ports))
        if known is None:
            if len(self._of_batches) >= MAX_REMEMBERED:
                self._of_batches.clear()
            of_device = self._of_devices.setdefault((source, device), {})
            known = np.fromiter(map(of_device.get, ports, repeat(-1)), np.int64, len(ports))
            for place in np.flatnonzero(known < 0).tolist():
                known[place] = of_device[ports[place]] = self.number(source, device, ports[place])
            self._of_batches[source, device, ports] = known
        return known

    def source_of(self, numbers: Ints) -> Ints:
        """The number of the source of each of these pairs."""
        if len(self._source_numbers) < len(self._source_of):
            self._source_numbers = np.array(self._source_of, np.int64)
        return self._source_numbers[numbers]

    def named(
        self, source: str, device: str, ports: tuple[str, ...], events: Events, any_inside: bool
    ) -> tuple[Events, Ints]:
        """The rows of a batch, and the number of each one's pair of names; whether any speaks of a part of a host."""
        if not any_inside:
            numbers = np.empty(len(events), np.int64)
            _number(words(events), self.numbers(source, device, ports), numbers)
            return events, numbers
        inside = is_inside(events)
        events = picked(events, np.arange(len(events)))
        numbers = np.full(len(events), self.number(source, device, NO_PORT), np.int64)
        for port in np.unique(events["port"]).tolist():
            here = events["port"] == port
            events["flow"][here & inside] = self.part(ports[port])
            if (here & ~inside).any():
                numbers[here & ~inside] = self.number(source, device, ports[port])
        return events, numbers

    def part(self, name: str) -> int:
        """The number of a part's name, a new one if it is new; 0 for the whole host, and if there are too many.

        Those that come first are kept, so that of more than MAX_PARTS which ones have names depends on how rows came.
        """
        if name == NO_PORT:
            return 0
        if name not in self._part_numbers:
            if len(self.parts) >= MAX_PARTS:
                self.counters["host_parts_not_named"] += 1
                return 0
            self.parts.append(name)
            self._part_numbers[name] = len(self.parts)
        return self._part_numbers[name]

    def state(self) -> list[list[Any]]:
        """Plain lists for a snapshot: source, device and port by number, and the parts."""
        return [[list(key) for key in self._numbers], self.parts]


@kernel
def _number(events: Words, of_ports: Ints, numbers: Ints) -> None:
    """Writes the number of each row's port."""
    for row in range(len(events)):
        numbers[row] = of_ports[events[row, SMALL] >> PORT_BIT & 0xFFFF]


class Unexplained:
    """When rows of congestion came under names that do not resolve: by port, spans of time buckets."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def add(self, ports: Ints, times_ns: Ints) -> None:
        """Takes rows in, each with its port's index."""
        found = np.unique(np.stack((ports, times_ns // BUCKET_NS)), axis=1)
        for port, buckets in groupby(found.T.tolist(), key=itemgetter(0)):
            self._spans[port] = merged([*self._spans.get(port, ()), *((bucket, bucket) for _, bucket in buckets)])

    def between(self, from_ns: int, to_ns: int) -> list[int]:
        """The ports that had rows around these times, in order of index."""
        first, last = from_ns // BUCKET_NS, to_ns // BUCKET_NS
        return sorted(
            port for port, spans in self._spans.items() if any(begin <= last and first <= end for begin, end in spans)
        )

    def forget(self, before_ns: int) -> None:
        """Drops what no cascade can ask for any more."""
        bucket = before_ns // BUCKET_NS
        kept = {port: [span for span in spans if span[1] >= bucket] for port, spans in self._spans.items()}
        self._spans = {port: spans for port, spans in kept.items() if spans}

    def copy(self) -> Unexplained:
        """A copy that further rows change alone."""
        twin = Unexplained()
        twin._spans = dict(self._spans)
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [[port, [list(span) for span in spans]] for port, spans in self._spans.items()]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        self._spans = {port: [(begin, end) for begin, end in spans] for port, spans in state}


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those joined that touch: the same whatever the parts they came in."""
    whole: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if whole and begin <= whole[-1][1] + 1:
            whole[-1] = whole[-1][0], max(whole[-1][1], end)
        else:
            whole.append((begin, end))
    return whole
