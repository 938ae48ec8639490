"""What correlate holds of one fabric: its streams, what waits to be settled and what was said; and a snapshot of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from analytics.announced import Announced
from analytics.asked_names import AskedNames
from analytics.detect import episode_stream
from analytics.engine import Engine
from analytics.not_the_fabric import NotTheFabric
from analytics.streams import Stream
from analytics.waiting import Named, Waiting
from stream import messages
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.facts import Device, Fact, Idle, Link
from stream.record import EVENT
from stream.roster import RosterChange, SourceUp
from stream.topics import FACTS, RAW


@dataclass(slots=True)
class Provisional:
    """A cascade as last published before it was final, and the told queue with which it began (-1 = not known here)."""

    said: Cascade
    first_queue: int


def input_stream(key: StreamKey) -> StreamKey | None:
    """The stream that correlate reads because of a stream of the roster, None if it reads none."""
    if key.topic in RAW:
        return episode_stream(key)
    return key if key.topic in FACTS else None


@dataclass(slots=True)
class Fabric:
    """One fabric in one life: from the first stream's SOURCE_UP until the roster has none left."""

    engine: Engine
    announced: Announced = field(default_factory=Announced)
    up: set[StreamKey] = field(default_factory=set)
    """Streams that the roster has up and not suspended at its latest change read, whatever of their rows has been."""
    over: bool = False
    """Whether the roster has had no stream left: this life ends when all its rows have been read."""
    later: list[RosterChange] = field(default_factory=list)
    """Changes of the lives after this one, in order."""
    later_streams: set[StreamKey] = field(default_factory=set)
    streams: dict[StreamKey, Stream] = field(default_factory=dict)
    """Episode and fact streams that the roster names and that are not complete."""
    ended: dict[StreamKey, int] = field(default_factory=dict)
    """Next sequence number of streams that are complete, so that rows read again are known as duplicates."""
    unannounced: dict[StreamKey, list[Batch | Fact | Idle]] = field(default_factory=dict)
    """Items of streams that the roster does not name yet."""
    settled_ns: int = 0
    newest_ns: int = 0
    asked: AskedNames = field(default_factory=AskedNames)
    waiting: Waiting = field(default_factory=Waiting)
    slow_ranks: NotTheFabric = field(default_factory=NotTheFabric)
    facts: list[tuple[int, Device | Link]] = field(default_factory=list)
    """Facts by the time from which they hold."""
    provisional: dict[str, Provisional] = field(default_factory=dict)
    finals: set[str] = field(default_factory=set)
    """Ids that were final before this process began: no revision may follow them."""
    said: dict[str, int] = field(default_factory=dict)
    """Ids made final from this state's rows, in whichever life, and when their cascades begin: none is final twice."""
    changed: bool = False

    def __post_init__(self) -> None:
        self.slow_ranks.stragglers.counters = self.asked.counters = self.engine.counters

    def waited_ns(self) -> int | None:
        """What every stream that counts has promised; None where there is no such stream."""
        return min((s.promised_ns() for s in self.streams.values() if not s.suspended), default=None)

    def counts(self) -> tuple[int, int]:
        """Streams that have not ended: those that it waits for, and those suspended."""
        suspended = sum(stream.suspended for stream in self.streams.values())
        return len(self.streams) - suspended, suspended

    def postpone(self, change: RosterChange) -> None:
        """Keeps a change for the lives after this one."""
        self.later.append(change)
        if isinstance(change, SourceUp):
            self.later_streams |= {stream for key in change.stream_keys() if (stream := input_stream(key))}

    def state(self) -> dict[str, Any]:
        """Plain structures and arrays for a snapshot."""
        events, numbers = Named.of(self.waiting.rows())
        return {
            "fabric": self.engine.fabric,
            "engine": self.engine.state(),
            "announced": self.announced.state(),
            "up": [list(key) for key in sorted(self.up)],
            "over": self.over,
            "later": [list(messages.encode(change)) for change in self.later],
            "streams": [[list(key), stream.state()] for key, stream in self.streams.items()],
            "ended": [[list(key), next_seq] for key, next_seq in self.ended.items()],
            "unannounced": [[list(key), [list(messages.encode(item)) for item in items]]
                            for key, items in self.unannounced.items()],
            "times": [self.settled_ns, self.newest_ns],
            "asked": self.asked.state(),
            "slow_ranks": self.slow_ranks.state(),
            "waiting": [events.view(np.uint8), numbers],
            "facts": [[from_ns, *messages.encode(fact)] for from_ns, fact in self.facts],
            "provisional": [[list(messages.encode(p.said)), p.first_queue] for p in self.provisional.values()],
            # By their beginnings: in which order ticks made them final may differ from run to run.
            "said": sorted([start_ns, name] for name, start_ns in self.said.items()),
            "changed": self.changed,
        }  # fmt: skip

    @classmethod
    def of_state(cls, state: dict[str, Any], counters: Counter[str]) -> Fabric:
        """Continues from `state()`."""
        fabric = cls(Engine(state["fabric"], counters), Announced.of_state(state["announced"]))
        fabric.engine.load(state["engine"])
        fabric.up = {StreamKey(*key) for key in state["up"]}
        fabric.over = state["over"]
        for message in state["later"]:
            fabric.postpone(cast("RosterChange", messages.decode(*message)))
        fabric.streams = {StreamKey(*key): Stream.of_state(stream) for key, stream in state["streams"]}
        fabric.ended = {StreamKey(*key): next_seq for key, next_seq in state["ended"]}
        fabric.unannounced = {
            StreamKey(*key): [cast("Batch | Fact | Idle", messages.decode(*message)) for message in items]
            for key, items in state["unannounced"]
        }
        fabric.settled_ns, fabric.newest_ns = state["times"]
        names, parts = state["asked"]
        for name in names:
            fabric.asked.number(*name)
        for part in parts:
            fabric.asked.part(part)
        fabric.slow_ranks.load(state["slow_ranks"])
        events, numbers = state["waiting"]
        fabric.waiting.add(Named(events.view(EVENT), numbers))
        fabric.facts = [
            (from_ns, cast("Device | Link", messages.decode(*message))) for from_ns, *message in state["facts"]
        ]
        for message, first_queue in state["provisional"]:
            said = cast(Cascade, messages.decode(*message))
            fabric.provisional[said.id] = Provisional(said, first_queue)
        fabric.said = {name: start_ns for start_ns, name in state["said"]}
        fabric.changed = state["changed"]
        return fabric
