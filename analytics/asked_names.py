"""The names that rows come under: numbered while rows wait, since a name is resolved when its rows are taken.

In: batches of rows and the names of their ports. Out: the number of each row's pair (device, port) as it was sent.
Rows from inside a host (of CPUs, GPUs, a resource) all come under one port of it, so that the fabric does not grow by a
port for each CPU; which part of the host it was, they say in `flow`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analytics.detect import NO_PORT
from stream import kinds
from stream.record import Events, picked

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
_INSIDE = np.zeros(256, bool)
"""Kinds of rows whose port is a part of its host."""
for _name in (
    "RUNQUEUE_OUTLIER", "SOFTIRQ_OUTLIER", "HARDIRQ_OUTLIER", "NAPI_OUTLIER", "BLOCK_OUTLIER", "MEMORY_ERRORS",
    "CPU_THROTTLE", "PRESSURE", "GPU_ERRORS", "GPU_THROTTLE",
):  # fmt: skip
    _INSIDE[kinds.BY_NAME[_name].code] = True


def names_a_port(events: Events) -> Bools:
    """Which rows name a port of the network."""
    return _NAMES_A_PORT[events["kind"]]


def is_inside(events: Events) -> Bools:
    """Which rows speak of a part of a host."""
    return _INSIDE[events["kind"]]


def congestion(events: Events) -> Bools:
    """Which rows say that something stood still or queued."""
    kind = events["kind"]
    pause = (kind == kinds.PAUSE_OPEN) | (kind == kinds.PAUSE_INTERVAL)
    return _CONGESTION[kind] & (pause | (events["value"] > 0))


class AskedNames:
    """Pairs (device, port) as sources send them, numbered as they come up."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self.parts: list[str] = []
        """Names of parts of hosts: row.flow is the place of its own, counted from 1."""
        self._numbers: dict[tuple[str, str], int] = {}
        self._part_numbers: dict[str, int] = {}
        self._of_batches: dict[tuple[str, tuple[str, ...]], Ints] = {}
        """Most sources name the same ports in every batch."""

    def number(self, device: str, port: str) -> int:
        """The number of a pair, a new one if it is new."""
        number = self._numbers.setdefault((device, port), len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append((device, port))
        return number

    def numbers(self, device: str, ports: tuple[str, ...]) -> Ints:
        """The numbers of the pairs of a device with each of these ports."""
        known = self._of_batches.get((device, ports))
        if known is None:
            if len(self._of_batches) >= MAX_REMEMBERED:
                self._of_batches.clear()
            known = np.array([self.number(device, port) for port in ports], np.int64)
            self._of_batches[device, ports] = known
        return known

    def named(self, device: str, ports: tuple[str, ...], events: Events) -> tuple[Events, Ints]:
        """The rows of a batch, and the number of each one's pair of names."""
        inside = is_inside(events)
        if not inside.any():
            return events, self.numbers(device, ports)[events["port"]]
        events = picked(events, np.arange(len(events)))
        numbers = np.full(len(events), self.number(device, NO_PORT), np.int64)
        for port in np.unique(events["port"]).tolist():
            here = events["port"] == port
            events["flow"][here & inside] = self.part(ports[port])
            if (here & ~inside).any():
                numbers[here & ~inside] = self.number(device, ports[port])
        return events, numbers

    def part(self, name: str) -> int:
        """The number of a part's name, a new one if it is new; 0 for the whole host, and if there are too many."""
        if name == NO_PORT:
            return 0
        if name not in self._part_numbers and len(self.parts) < MAX_PARTS:
            self.parts.append(name)
            self._part_numbers[name] = len(self.parts)
        return self._part_numbers.get(name, 0)
