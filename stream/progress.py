"""Where a worker stands: in event time fabric by fabric, in offsets partition by partition, and all that it counted.

In: what the worker read and the clock. Out: `Status`, which never changes and so may be read by any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from stream.batch import MARK_END, Batch, StreamKey
from stream.facts import Device, Flow, Idle, Link
from stream.messages import Item
from stream.offset_gaps import PartitionId
from stream.roster import SourceDown, SourceUp

MAX_FABRICS = 100
"""Told apart; whoever may write to the topics can invent more, and their names must not fill our memory."""
OTHER_FABRICS = "(other)"


class Settled(NamedTuple):
    """What is final of a fabric: everything up to this event time; and how many streams it still waits for."""

    settled_ns: int
    streams_up: int
    streams_suspended: int = 0


@runtime_checkable
class Settling(Protocol):
    """A step that waits for all streams of a fabric."""

    def settled(self) -> Mapping[str, Settled]:
        """How far it is, fabric by fabric."""
        ...


@dataclass(frozen=True, slots=True)
class FabricProgress:
    """One fabric in event time; 0 = nothing known yet."""

    newest_mark_ns: int = 0
    settled_ns: int = 0
    streams_up: int = 0
    streams_suspended: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """A worker at one moment."""

    time_s: float
    counters: Mapping[str, int]
    lag_messages: Mapping[PartitionId, int]
    fabrics: Mapping[str, FabricProgress]


class Progress:
    """Follows the marks and the roster in what a worker reads."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._newest_mark_ns: dict[str, int] = {}
        self._up: set[StreamKey] = set()

    def took(self, items: Iterable[Item]) -> None:
        """These were read."""
        for item in items:
            if isinstance(item, Batch):
                self._saw_mark(item.stream.fabric, item.mark_ns)
            elif isinstance(item, Device | Link | Flow | Idle):
                self._saw_mark(item.fabric, item.stream.mark_ns)
            elif isinstance(item, SourceUp):
                self._up.update(item.stream_keys())
            elif isinstance(item, SourceDown):
                self._up.difference_update(item.stream_keys())

    def fabrics(self, step: object) -> dict[str, FabricProgress]:
        """Every fabric that was met, the first `MAX_FABRICS` by their names.

        A step that waits for streams knows them itself: after a restart it has them from its last state.
        """
        up = Counter(self._shown(stream.fabric) for stream in self._up)
        settled: dict[str, int] = {}
        suspended: Counter[str] = Counter()
        if isinstance(step, Settling):
            up.clear()
            for fabric, at in step.settled().items():
                name = self._shown(fabric)
                up[name] += at.streams_up
                suspended[name] += at.streams_suspended
                if at.settled_ns != MARK_END:  # nothing is left to wait for
                    settled[name] = min(at.settled_ns, settled.get(name, at.settled_ns))
        marks = self._newest_mark_ns
        return {
            name: FabricProgress(marks.get(name, 0), settled.get(name, 0), up[name], suspended[name])
            for name in {**marks, **up}
        }

    def _saw_mark(self, fabric: str, mark_ns: int) -> None:
        name = self._shown(fabric)
        if mark_ns != MARK_END and mark_ns > self._newest_mark_ns.get(name, -1):
            self._newest_mark_ns[name] = mark_ns

    def _shown(self, fabric: str) -> str:
        if fabric not in self._names and len(self._names) >= MAX_FABRICS:
            return OTHER_FABRICS
        self._names.add(fabric)
        return fabric
