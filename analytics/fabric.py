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
from analytics.finals_said import FinalsSaid
from analytics.heard import POLLED
from analytics.layout import FOREVER
from analytics.not_the_fabric import NotTheFabric
from analytics.streams import Stream
from analytics.waiting import Named, Waiting
from stream import messages
from stream.batch import Batch, StreamKey
from stream.cascade import Cascade
from stream.facts import Device, Fact, Idle, Link
from stream.record import EVENT, Events
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
    said: FinalsSaid = field(default_factory=FinalsSaid)
    """Ids made final from this state's rows, in whichever life."""
    changed: bool = False
    logs_pauses: bool = False
    """Whether any device has logged a pause."""
    looked_ns: int = 0
    next_look_ns: int = 0
    """Where the polled period begins and ends that provisional revisions come to next; FOREVER if nothing is paused.

    No part of a snapshot: after a restart the first look comes at once."""

    def __post_init__(self) -> None:
        self.slow_ranks.stragglers.counters = self.asked.counters = self.engine.counters

    def waited_ns(self) -> int | None:
        """What every stream that counts has promised; None where there is no such stream."""
        # Few streams ever have gaps, and all are looked at again and again.
        least_ns: int | None = None
        for stream in self.streams.values():
            if stream.gaps:
                if stream.suspended:
                    continue
                promised_ns = stream.promised_ns()
            else:
                promised_ns = stream.mark_ns
            if least_ns is None or promised_ns < least_ns:
                least_ns = promised_ns
        return least_ns

    def is_news(self, stream: StreamKey, events: Events) -> bool:
        """Whether polled rows tell of first pauses, or of a period that provisional revisions have told of already."""
        topic = stream.source.rpartition("|")[2]
        if self.next_look_ns == FOREVER:
            return topic == "pfc"
        return topic in POLLED and int((events["time_ns"] - events["span_ns"]).min()) < self.looked_ns

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
        windows, others = self.waiting.rows()
        events, numbers = Named.of([*(part.rows for part in windows), others])
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
            "said": self.said.state(),
            "changed": self.changed,
            "logs_pauses": self.logs_pauses,
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
        fabric.said = FinalsSaid([(start_ns, name) for start_ns, name in state["said"]])
        fabric.changed, fabric.logs_pauses = state["changed"], state["logs_pauses"]
        return fabric
