"""correlate: episodes, facts and the roster become cascades.

It acts when the least mark over the roster passes a tick, on rows in event time; a final cascade is a pure function of
the input. A provisional revision is the same computation run ahead over what has arrived, on a copy of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import numpy as np

from analytics import layout
from analytics.detect import episode_stream
from analytics.engine import Closed, Engine
from analytics.topology import Ints
from analytics.verdict import cascade
from stream import messages, snapshot
from stream.batch import MARK_END, Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.facts import Device, Fact, Flow, Link, fact_stream
from stream.messages import Item
from stream.record import EVENT, Events
from stream.roster import SourceDown, SourceUp
from stream.topics import FACTS, RAW

VERSION = 1
TICK_NS = 10_000_000
MAX_UNANNOUNCED = 4_096
"""Items held of one stream that the roster does not name yet."""
MAX_ENDED = 100_000
"""Streams remembered after their end, so that rows read again are known as duplicates; the oldest are forgotten."""


@dataclass(slots=True)
class _Stream:
    """A stream of the roster: where it stands and, after SOURCE_DOWN, the sequence number of its last row."""

    mark_ns: int = -1
    next_seq: int = 0
    last_seq: int | None = None

    def complete(self) -> bool:
        """Whether nothing is to be waited for any more."""
        return self.mark_ns == MARK_END or (self.last_seq is not None and self.next_seq > self.last_seq)


@dataclass(slots=True)
class _Provisional:
    """A cascade as last published before it was final, and the told queue with which it began."""

    said: Cascade
    first_queue: int


@dataclass(slots=True)
class _Fabric:
    engine: Engine
    streams: dict[StreamKey, _Stream] = field(default_factory=dict)
    """Episode and fact streams that the roster names and that are not complete."""
    ended: dict[StreamKey, int] = field(default_factory=dict)
    """Next sequence number of streams that are complete, so that rows read again are known as duplicates."""
    unannounced: dict[StreamKey, list[Batch | Fact]] = field(default_factory=dict)
    """Items of streams that the roster does not name yet."""
    reporting: set[str] = field(default_factory=set)
    horizon_ns: int = 0
    """Longest window that a stream has announced: how long evidence of an instant may take to arrive."""
    settled_ns: int = 0
    newest_ns: int = 0
    waiting: list[tuple[Events, Ints]] = field(default_factory=list)
    facts: list[Device | Link] = field(default_factory=list)
    provisional: dict[str, _Provisional] = field(default_factory=dict)
    changed: bool = False


class Correlate:
    """The step. With `provisional`, it also gives numbered revisions of cascades as soon as rows arrive."""

    def __init__(self, provisional: bool = False) -> None:
        self.counters: Counter[str] = Counter()
        self._provisional = provisional
        self._fabrics: dict[str, _Fabric] = {}

    def process(self, batch: Sequence[Item]) -> list[Item]:
        """Takes episode batches, facts and roster changes in; returns cascades."""
        touched: dict[str, _Fabric] = {}
        for item in batch:
            if isinstance(item, Cascade):
                self.counters["items_of_other_topics"] += 1
                continue
            name = item.stream.fabric if isinstance(item, Batch) else item.fabric
            fabric = self._fabrics.get(name)
            if fabric is None:
                fabric = self._fabrics[name] = _Fabric(Engine(name))
            touched[name] = fabric
            if isinstance(item, SourceUp):
                self._source_up(fabric, item)
            elif isinstance(item, SourceDown):
                self._source_down(fabric, item)
            else:
                self._take(fabric, item)
        out: list[Item] = []
        for _, fabric in sorted(touched.items()):
            out += self._settle(fabric)
            if self._provisional and fabric.changed:
                out += self._provisional_revisions(fabric)
        return out

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return snapshot.pack("correlate", VERSION, [_fabric_state(fabric) for fabric in self._fabrics.values()])

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot."""
        fabrics = [_fabric_of_state(each) for each in snapshot.unpack("correlate", VERSION, state)]
        self._fabrics = {fabric.engine.fabric: fabric for fabric in fabrics}

    def _source_up(self, fabric: _Fabric, change: SourceUp) -> None:
        for key, told in zip(change.stream_keys(), change.streams, strict=True):
            stream = _input_stream(key)
            if stream is None:
                continue
            if told.topic == "pfc":
                fabric.reporting.add(told.device)
            fabric.horizon_ns = max(fabric.horizon_ns, told.period_ns)
            if stream in fabric.streams or stream in fabric.ended:
                self.counters["repeated_source_ups"] += 1
                continue
            fabric.streams[stream] = _Stream(mark_ns=change.from_ns)
            for item in fabric.unannounced.pop(stream, []):
                self._take(fabric, item)

    def _source_down(self, fabric: _Fabric, change: SourceDown) -> None:
        for key, told in zip(change.stream_keys(), change.streams, strict=True):
            stream = _input_stream(key)
            state = fabric.streams.get(stream) if stream is not None else None
            if stream is None or state is None:
                continue
            # detect numbers its own rows, so of an episode stream only "no row at all" can be known from here; its end
            # is told by detect's last mark.
            if stream.topic != "episode" or told.last_seq < 0:
                state.last_seq = told.last_seq
            self._end_if_complete(fabric, stream, state)

    def _take(self, fabric: _Fabric, item: Batch | Fact) -> None:
        key = item.stream if isinstance(item, Batch) else fact_stream(item)
        if key.topic != "episode" and key.topic not in FACTS:
            self.counters["items_of_other_topics"] += 1
            return
        if key in fabric.ended:
            self.counters["duplicate_rows" if _next_seq(item) <= fabric.ended[key] else "rows_after_the_end"] += 1
            return
        state = fabric.streams.get(key)
        if state is None:
            held = fabric.unannounced.setdefault(key, [])
            if len(held) < MAX_UNANNOUNCED:
                held.append(item)
            else:
                self.counters["items_of_unannounced_streams_dropped"] += 1
            return
        if isinstance(item, Batch):
            self._take_rows(fabric, state, item)
        else:
            self._take_fact(fabric, state, item)
        state.next_seq = max(state.next_seq, _next_seq(item))
        state.mark_ns = max(state.mark_ns, item.mark_ns if isinstance(item, Batch) else item.stream.mark_ns)
        self._end_if_complete(fabric, key, state)

    def _end_if_complete(self, fabric: _Fabric, key: StreamKey, state: _Stream) -> None:
        if state.complete():
            fabric.ended[key] = state.next_seq
            del fabric.streams[key]
            if len(fabric.ended) > MAX_ENDED:
                del fabric.ended[next(iter(fabric.ended))]

    def _take_rows(self, fabric: _Fabric, state: _Stream, batch: Batch) -> None:
        self.counters["unknown_kinds"] += batch.skipped
        events, row_seq = batch.events, batch.row_seqs()
        if batch.seq < state.next_seq:
            fresh = row_seq >= state.next_seq
            self.counters["duplicate_rows"] += int(len(fresh) - fresh.sum())
            events = events[fresh]
        elif batch.seq > state.next_seq:
            self.counters["lost_rows"] += batch.seq - state.next_seq
            time_ns = int(events["time_ns"][0]) if len(events) else max(state.mark_ns, 0)
            device = fabric.engine.topology.device(batch.stream.device)
            fabric.engine.losses.append((time_ns, device, batch.seq - state.next_seq))
        late = events["time_ns"] < max(state.mark_ns, fabric.settled_ns)
        if late.any():
            self.counters["late_rows"] += int(late.sum())
            events = events[~late]
        if not len(events):
            return
        topology = fabric.engine.topology
        known = np.array([topology.port(batch.stream.device, port) for port in batch.ports], np.int64)
        fabric.waiting.append((events, known[events["port"]]))
        fabric.newest_ns = max(fabric.newest_ns, int(events["time_ns"].max()))
        fabric.changed = True

    def _take_fact(self, fabric: _Fabric, state: _Stream, fact: Fact) -> None:
        if fact.stream.seq < state.next_seq:
            self.counters["duplicate_rows"] += 1
        elif isinstance(fact, Flow):
            fabric.engine.flows[int(fact.flow, 16)] = fact
        else:
            fabric.facts.append(fact)

    def _settle(self, fabric: _Fabric) -> list[Item]:
        """Acts on all rows up to the last tick that every stream of the roster has passed."""
        least = min((stream.mark_ns for stream in fabric.streams.values()), default=MARK_END)
        tick_ns = least if least == MARK_END else least // TICK_NS * TICK_NS
        if tick_ns <= fabric.settled_ns or (least == MARK_END and not fabric.ended):
            return []
        events, ports = _joined(fabric.waiting)
        due = events["time_ns"] < tick_ns
        fabric.waiting = [(events[~due], ports[~due])] if not due.all() else []
        finals: list[Item] = []

        def publish(closed: Closed) -> None:
            final = cascade(fabric.engine, closed, fabric.reporting, FINAL)
            finals.append(final)
            finals.extend(_ended_by(fabric, closed, final))

        self._advance(fabric, fabric.engine, events[due], ports[due], tick_ns, publish)
        fabric.facts = [fact for fact in fabric.facts if fact.valid_from_ns >= tick_ns]
        # All streams are complete: what comes next begins a new life and may be at any time after the last row.
        fabric.settled_ns = tick_ns if least != MARK_END else fabric.newest_ns + 1
        return finals

    def _advance(
        self,
        fabric: _Fabric,
        engine: Engine,
        events: Events,
        ports: Ints,
        until_ns: int,
        publish: Callable[[Closed], None],
    ) -> None:
        """Feeds rows before until_ns to an engine, with the facts that become valid between them."""
        facts = sorted(
            (fact for fact in fabric.facts if fact.valid_from_ns < until_ns),
            key=lambda fact: (fact.valid_from_ns, isinstance(fact, Link), msgspec.json.encode(fact)),
        )
        keep_ns = layout.GAP_NS + fabric.horizon_ns
        changes = sorted({fact.valid_from_ns for fact in facts if fact.valid_from_ns > engine.cursor_ns})
        for stop_ns in [*changes, until_ns]:
            for fact in facts:
                if fact.valid_from_ns <= engine.cursor_ns or fact.valid_from_ns < stop_ns:
                    engine.add_fact(fact)
            facts = [fact for fact in facts if fact.valid_from_ns >= stop_ns]
            due = events["time_ns"] < stop_ns
            engine.add_rows(events[due], ports[due], fabric.reporting, fabric.horizon_ns)
            events, ports = events[~due], ports[~due]
            settled_ns = stop_ns if stop_ns == MARK_END else stop_ns - fabric.horizon_ns
            engine.advance(settled_ns, keep_ns, publish)

    def _provisional_revisions(self, fabric: _Fabric) -> list[Item]:
        """Numbered revisions of every cascade that is not final and has changed since its last revision."""
        fabric.changed = False
        ahead = fabric.engine.copy()
        out: list[Item] = []

        def publish(closed: Closed) -> None:
            before = fabric.provisional.get(closed.id)
            revision = before.said.revision if before is not None else 0
            now = cascade(ahead, closed, fabric.reporting, revision)
            if before is not None and now == before.said:
                return
            now = msgspec.structs.replace(now, revision=int(revision) + 1)
            fabric.provisional[closed.id] = _Provisional(now, int(ahead.slots[closed.slot, layout.S_FIRST_QUEUE]))
            out.append(now)

        events, ports = _joined(fabric.waiting)
        self._advance(fabric, ahead, events, ports, MARK_END, publish)
        for still_open in ahead.still_open(fabric.newest_ns):
            publish(still_open)
        return out


def _ended_by(fabric: _Fabric, closed: Closed, final: Cascade) -> list[Cascade]:
    """The last revisions of provisional cascades that are part of a final one of another id."""
    fabric.provisional.pop(final.id, None)
    ended = []
    for name, provisional in list(fabric.provisional.items()):
        tally = closed.ledger.queues.get(provisional.first_queue)
        inside = tally is not None and tally.first_ns <= provisional.said.start_ns <= tally.last_ns
        if name in closed.ledger.former_ids or inside:
            del fabric.provisional[name]
            revision = int(provisional.said.revision) + 1
            ended.append(msgspec.structs.replace(provisional.said, revision=revision, merged_into=final.id))
    return ended


def _input_stream(key: StreamKey) -> StreamKey | None:
    """The stream that correlate reads because of a stream of the roster, None if it reads none."""
    if key.topic in RAW:
        return episode_stream(key)
    return key if key.topic in FACTS else None


def _next_seq(item: Batch | Fact) -> int:
    return item.next_seq if isinstance(item, Batch) else item.stream.seq + 1


def _joined(waiting: list[tuple[Events, Ints]]) -> tuple[Events, Ints]:
    if not waiting:
        return np.zeros(0, EVENT), np.zeros(0, np.int64)
    return np.concatenate([events for events, _ in waiting]), np.concatenate([ports for _, ports in waiting])


def _fabric_state(fabric: _Fabric) -> dict[str, Any]:
    events, ports = _joined(fabric.waiting)
    return {
        "fabric": fabric.engine.fabric,
        "engine": fabric.engine.state(),
        "streams": [[list(key), s.mark_ns, s.next_seq, s.last_seq] for key, s in fabric.streams.items()],
        "ended": [[list(key), next_seq] for key, next_seq in fabric.ended.items()],
        "unannounced": [[list(key), [list(messages.encode(item)) for item in items]]
                        for key, items in fabric.unannounced.items()],
        "reporting": sorted(fabric.reporting),
        "times": [fabric.horizon_ns, fabric.settled_ns, fabric.newest_ns],
        "waiting": [events.view(np.uint8), ports],
        "facts": [list(messages.encode(fact)) for fact in fabric.facts],
        "provisional": [[list(messages.encode(p.said)), p.first_queue] for p in fabric.provisional.values()],
        "changed": fabric.changed,
    }  # fmt: skip


def _fabric_of_state(state: dict[str, Any]) -> _Fabric:
    fabric = _Fabric(Engine(state["fabric"]))
    fabric.engine.load(state["engine"])
    fabric.streams = {StreamKey(*key): _Stream(*rest) for key, *rest in state["streams"]}
    fabric.ended = {StreamKey(*key): next_seq for key, next_seq in state["ended"]}
    fabric.unannounced = {
        StreamKey(*key): [cast("Batch | Fact", messages.decode(*message)) for message in items]
        for key, items in state["unannounced"]
    }
    fabric.reporting = set(state["reporting"])
    fabric.horizon_ns, fabric.settled_ns, fabric.newest_ns = state["times"]
    events, ports = state["waiting"]
    fabric.waiting = [(events.view(EVENT), ports)] if len(ports) else []
    fabric.facts = [cast("Device | Link", messages.decode(*message)) for message in state["facts"]]
    for message, first_queue in state["provisional"]:
        said = cast(Cascade, messages.decode(*message))
        fabric.provisional[said.id] = _Provisional(said, first_queue)
    fabric.changed = state["changed"]
    return fabric
