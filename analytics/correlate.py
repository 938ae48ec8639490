"""correlate: episodes, facts and the roster become cascades.

It acts when the least mark over the roster passes a tick, on rows in event time; a final cascade is a pure function of
the input. A provisional revision is the same computation run ahead over what has arrived, on a copy of the state.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

import msgspec

from analytics import layout
from analytics.coverage import coverage_of
from analytics.engine import Closed, Engine
from analytics.fabric import Fabric, Provisional, input_stream
from analytics.heard import heard_ns
from analytics.layout import FOREVER, NEVER
from analytics.pause_logs import LAG_NS
from analytics.revisions import ended_by, superseded, withdrawn
from analytics.rows import glance
from analytics.streams import Cut, Stream
from analytics.verdict import cascade
from analytics.waiting import Named, Part, split
from stream import snapshot
from stream.batch import MARK_END, Batch, StreamKey
from stream.cascade import FINAL, Cascade
from stream.cost_limit import CostLimit
from stream.deadlines import Standing
from stream.facts import Device, Fact, Flow, Idle, Link, fact_stream
from stream.messages import Item
from stream.progress import Settled
from stream.record import MAX_TIME_NS, picked, words
from stream.roster import RosterChange, SourceDown, SourceResumed, SourceSuspended, SourceUp, announced_as
from stream.source_health import Coverage
from stream.topics import FACTS

VERSION = 8
TICK_NS = 10_000_000
MAX_UNANNOUNCED = 4_096
"""Items held of one stream that the roster does not name yet."""
MAX_UNANNOUNCED_STREAMS = 65_536
MAX_ENDED = 100_000
"""Streams remembered after their end, so that rows read again are known as duplicates; the oldest are forgotten."""

MAX_REVISED = 50
"""Cascades told before, and new ones, of which a provisional revision is made at one time, those that have waited for
longest first: nobody reads more at once, and a thousand take long enough to hold up what is final."""


class Correlate:
    """The step. With `provisional`, it also gives numbered revisions of cascades as soon as rows arrive.

    What waits is computed anew for each revision: with a `limit`, that cannot keep a process from catching up.
    """

    def __init__(self, provisional: bool = False, limit: CostLimit | None = None) -> None:
        self.counters: Counter[str] = Counter()
        self._provisional = provisional
        self._limit = limit or CostLimit(cheap_s=float("inf"))
        self._fabrics: dict[str, Fabric] = {}

    def process(self, batch: Sequence[Item]) -> list[Item]:
        """Takes episode batches, facts and roster changes in; returns cascades."""
        touched: dict[str, Fabric] = {}
        for item in batch:
            if isinstance(item, Cascade):
                self.counters["items_of_other_topics"] += 1
                continue
            name = item.stream.fabric if isinstance(item, Batch) else item.fabric
            fabric = touched[name] = self._fabric(name)
            if isinstance(item, RosterChange):
                self._change_roster(fabric, item)
            else:
                self._take(fabric, item)
        out: list[Item] = []
        for _, fabric in sorted(touched.items()):
            out += self._not_said(fabric, self._settle(fabric))
            while fabric.over and fabric.waited_ns() is None:
                out += self._not_said(fabric, self._end_life(fabric))
                fabric = self._fabrics[fabric.engine.fabric]
                out += self._not_said(fabric, self._settle(fabric))
            if self._provisional:
                out += self._look_ahead(fabric)
        return out

    def standing(self) -> dict[str, dict[StreamKey, Standing]]:
        """By fabric, where the streams of the roster stand."""
        return {
            name: {announced_as(key): Standing(s.mark_ns, s.resumable) for key, s in fabric.streams.items()}
            for name, fabric in self._fabrics.items()
        }

    def resumable_from_ns(self, fabric: str) -> int:
        """The first tick that has not been acted on: a suspended stream can count again from there on."""
        return min(self._fabrics[fabric].settled_ns, MAX_TIME_NS) // TICK_NS * TICK_NS + TICK_NS

    def settled(self) -> dict[str, Settled]:
        """By fabric: how far its cascades are final, and how many streams that waits for."""
        return {name: Settled(fabric.settled_ns, *fabric.counts()) for name, fabric in self._fabrics.items()}

    def coverage(self) -> dict[str, Coverage]:
        """By fabric, what is seen of it now."""
        return {name: coverage_of(fabric) for name, fabric in self._fabrics.items()}

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return snapshot.pack("correlate", VERSION, [fabric.state() for fabric in self._fabrics.values()])

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot."""
        fabrics = [Fabric.of_state(each, self.counters) for each in snapshot.unpack("correlate", VERSION, state)]
        self._fabrics = {fabric.engine.fabric: fabric for fabric in fabrics}

    def recall(self, published: Iterable[Cascade]) -> None:
        """Takes in what earlier processes have published, in order, before anything else is processed.

        No revision will follow a cascade that is final, and a provisional one that does not come again is ended.
        """
        for said in published:
            fabric = self._fabric(said.fabric)
            before = fabric.provisional.pop(said.id, None)
            if said.revision == FINAL:
                fabric.finals.add(said.id)
            elif said.merged_into is None and said.pauses and said.id not in fabric.finals:
                fabric.provisional[said.id] = Provisional(said, before.first_queue if before is not None else -1)

    def _fabric(self, name: str) -> Fabric:
        fabric = self._fabrics.get(name)
        if fabric is None:
            fabric = self._fabrics[name] = Fabric(Engine(name, self.counters))
        return fabric

    def _change_roster(self, fabric: Fabric, change: RosterChange) -> None:
        """Applies a change, or keeps it for later: which life it belongs to depends on the roster alone."""
        if isinstance(change, SourceDown):
            self._source_down(fabric, change)
        elif isinstance(change, SourceSuspended):
            self._suspend(fabric, change)
        elif fabric.over:
            fabric.postpone(change)
        elif isinstance(change, SourceResumed):
            self._resume(fabric, change)
        else:
            self._source_up(fabric, change)

    def _source_up(self, fabric: Fabric, change: SourceUp) -> None:
        for key, told in zip(change.stream_keys(), change.streams, strict=True):
            stream = input_stream(key)
            if stream is None:
                continue
            if stream in fabric.streams or stream in fabric.ended:
                self.counters["repeated_source_ups"] += 1
                continue
            fabric.announced.up(key, change.from_ns, told.period_ns)
            fabric.up.add(stream)
            fabric.streams[stream] = Stream(mark_ns=change.from_ns, period_ns=told.period_ns)
            for item in fabric.unannounced.pop(stream, []):
                self._take(fabric, item)

    def _source_down(self, fabric: Fabric, change: SourceDown) -> None:
        others = []
        for key, told in zip(change.stream_keys(), change.streams, strict=True):
            stream = input_stream(key)
            state = fabric.streams.get(stream) if stream is not None else None
            if stream is None or (state is None and stream not in fabric.up):
                others.append(told)
                continue
            if stream in fabric.up:
                fabric.announced.down(key, change.at_ns)
                fabric.up.remove(stream)
                fabric.over = not fabric.up
            if state is not None:
                state.down = True
            # A stream may go down once more, where the rows up to the number first told will never come.
            # detect numbers its own rows, so of an episode stream only "no row at all" can be known from here; its end
            # is told by detect's last mark.
            if state is not None and (stream.topic != "episode" or told.last_seq < 0):
                state.last_seq = told.last_seq
                self._end_if_complete(fabric, stream, state)
        if others and fabric.over:
            fabric.postpone(msgspec.structs.replace(change, streams=tuple(others)))

    def _suspend(self, fabric: Fabric, change: SourceSuspended) -> None:
        others = []
        for key, told in zip(change.stream_keys(), change.streams, strict=True):
            stream = input_stream(key)
            state = fabric.streams.get(stream) if stream is not None else None
            if fabric.over and state is None:
                others.append(told)
                continue
            if stream is None or state is None or not state.can_suspend(change.at_ns):
                self.counters["changes_of_no_use"] += 1
                continue
            state.suspend(change.at_ns)
            if stream in fabric.up:
                fabric.announced.suspend(key, change.at_ns)
                fabric.up.remove(stream)
                fabric.over = not fabric.up
            self._end_pauses(fabric, state.cut(state.mark_ns))
        if others:
            fabric.postpone(msgspec.structs.replace(change, streams=tuple(others)))

    def _resume(self, fabric: Fabric, change: SourceResumed) -> None:
        for key in change.stream_keys():
            stream = input_stream(key)
            state = fabric.streams.get(stream) if stream is not None else None
            if stream is None or state is None or not state.can_resume(change.from_ns):
                self.counters["changes_of_no_use"] += 1
                continue
            fabric.up.add(stream)
            fabric.announced.resume(key, change.from_ns, state.period_ns)
            for fact in state.resume(change.from_ns):
                _add_fact(fabric, fact, max(fact.valid_from_ns, change.from_ns))

    def _end_pauses(self, fabric: Fabric, cuts: Sequence[Cut]) -> None:
        for cut in cuts:
            self.counters["pauses_ended_by_suspension"] += len(cut.events)
            fabric.waiting.add(Named(*cut))
            fabric.changed = True

    def _take(self, fabric: Fabric, item: Batch | Fact | Idle) -> None:
        key = item.stream if isinstance(item, Batch) else fact_stream(item)
        if key.topic != "episode" and key.topic not in FACTS:
            self.counters["items_of_other_topics"] += 1
            return
        if key in fabric.ended:
            self.counters["duplicate_rows" if _next_seq(item) <= fabric.ended[key] else "rows_after_the_end"] += 1
            return
        state = fabric.streams.get(key)
        if state is None:
            held = fabric.unannounced.get(key, [])
            if key in fabric.later_streams or (
                len(held) < MAX_UNANNOUNCED and len(fabric.unannounced) < MAX_UNANNOUNCED_STREAMS
            ):
                held.append(item)
                fabric.unannounced[key] = held
            else:
                self.counters["items_of_unannounced_streams_dropped"] += 1
            return
        if isinstance(item, Batch):
            self._take_rows(fabric, state, item)
        elif not isinstance(item, Idle):
            self._take_fact(fabric, state, item)
        state.next_seq = max(state.next_seq, _next_seq(item))
        state.mark_ns = max(state.mark_ns, item.mark_ns if isinstance(item, Batch) else item.stream.mark_ns)
        self._end_pauses(fabric, state.cut(state.mark_ns))
        self._end_if_complete(fabric, key, state)

    def _end_if_complete(self, fabric: Fabric, key: StreamKey, state: Stream) -> None:
        if state.complete():
            fabric.ended[key] = state.next_seq
            del fabric.streams[key]
            if len(fabric.ended) > MAX_ENDED:
                del fabric.ended[next(iter(fabric.ended))]

    def _take_rows(self, fabric: Fabric, state: Stream, batch: Batch) -> None:
        self.counters["unknown_kinds"] += batch.skipped
        events = batch.events
        if batch.seq < state.next_seq:
            fresh = batch.row_seqs() >= state.next_seq
            self.counters["duplicate_rows"] += int(len(fresh) - fresh.sum())
            events = picked(events, fresh)
        elif batch.seq > state.next_seq:
            self.counters["lost_rows"] += batch.seq - state.next_seq
            time_ns = int(events["time_ns"][0]) if len(events) else max(state.mark_ns, 0)
            device = fabric.engine.topology.place_device(batch.stream.device)
            fabric.engine.noted.losses.append((time_ns, device, batch.seq - state.next_seq))
        due_ns = max(state.mark_ns, fabric.settled_ns)
        late, oldest_ns, newest_ns, pauses, inside, windows = map(int, glance(words(events), due_ns))
        pauses_alone, windows_alone = pauses == len(events), windows == len(events)
        if late:
            self.counters["late_rows"] += late
            events = picked(events, events["time_ns"] >= due_ns)
        if state.gaps:
            counted = state.counted(events)
            self.counters["rows_while_suspended"] += int(len(counted) - counted.sum())
            events = picked(events, counted)
            newest_ns = int(events["time_ns"].max(initial=NEVER))
        if not len(events):
            return
        events, named = fabric.asked.named(batch.stream.source, batch.stream.device, batch.ports, events, inside > 0)
        if pauses:
            self._end_pauses(fabric, state.follow(events, named, pauses_alone))
        fabric.waiting.add(Named(events, named), windows_alone, oldest_ns, newest_ns)
        state.newest_ns = max(state.newest_ns, newest_ns)
        fabric.newest_ns = max(fabric.newest_ns, newest_ns)
        fabric.logs_pauses |= pauses > 0
        # Where polls alone tell of pauses, all that came is looked at when a period is over, or once it was looked at.
        fabric.changed |= fabric.logs_pauses or fabric.is_news(batch.stream, events)

    def _take_fact(self, fabric: Fabric, state: Stream, fact: Fact) -> None:
        # Valid from before its stream's mark is late: such a fact holds from the mark on, whenever it is read.
        from_ns = max(fact.valid_from_ns, state.mark_ns)
        if fact.stream.seq < state.next_seq:
            self.counters["duplicate_rows"] += 1
        elif (from_ns := state.out_of_gaps(from_ns)) < FOREVER:
            _add_fact(fabric, fact, from_ns)
        elif len(state.held) < MAX_UNANNOUNCED:
            state.held.append(fact)
        else:
            self.counters["facts_while_suspended_dropped"] += 1

    def _settle(self, fabric: Fabric) -> list[Item]:
        """Acts on all rows up to the last tick that every stream of the roster has passed."""
        least = fabric.waited_ns()
        if least is None:
            if not fabric.over:
                return []
            least = MARK_END
        tick_ns = least if least == MARK_END else least // TICK_NS * TICK_NS
        if tick_ns <= fabric.settled_ns:
            return []
        windows, others = fabric.waiting.take(tick_ns)
        finals: list[Item] = []

        def publish(closed: Closed) -> None:
            final = cascade(fabric.engine, closed, fabric.announced, FINAL)
            finals.append(final)
            fabric.slow_ranks.explain(final, fabric.engine.topology)
            finals.extend(ended_by(fabric, closed, final))

        finals += self._advance(fabric, fabric.engine, windows, others, tick_ns, publish)
        fabric.facts = [(from_ns, fact) for from_ns, fact in fabric.facts if from_ns >= tick_ns]
        fabric.settled_ns = tick_ns
        oldest_ns = fabric.engine.oldest_ns()
        horizon_ns = fabric.announced.horizon_ns(fabric.settled_ns)
        waited_ns = layout.GAP_NS + 2 * horizon_ns + LAG_NS + fabric.engine.sampled.keep_ns(horizon_ns)
        return finals + withdrawn(fabric, min(oldest_ns, fabric.settled_ns - waited_ns))

    def _not_said(self, fabric: Fabric, items: Sequence[Item]) -> list[Item]:
        """Without finals of ids that were final already: rows of an ended life come again, with others beside them."""
        fresh: list[Item] = []
        for item in items:
            if isinstance(item, Cascade) and item.revision == FINAL:
                if item.id in fabric.said:
                    self.counters["cascades_final_before"] += 1
                    continue
                fabric.said.add(item.id, item.start_ns)
            fresh.append(item)
        return fresh

    def _end_life(self, fabric: Fabric) -> list[Item]:
        """Closes what is still open when no stream is left, and begins the next life with what is known of it."""
        out: list[Item] = []
        for left in fabric.engine.still_open(fabric.newest_ns):
            closed = dataclasses.replace(left, still_open=False)
            final = cascade(fabric.engine, closed, fabric.announced, FINAL)
            fabric.slow_ranks.explain(final, fabric.engine.topology)
            out += [final, *ended_by(fabric, closed, final)]
        fabric.slow_ranks.finish(fabric.newest_ns, fabric.engine.topology, fabric.engine.noted)
        out += fabric.slow_ranks.due(
            fabric.engine.fabric, MARK_END, 0, FOREVER, fabric.engine.topology, fabric.engine.noted
        )
        out += withdrawn(fabric, MARK_END)
        fresh = Fabric(
            fabric.engine.next_life(),
            streams=fabric.streams,
            ended=fabric.ended,
            unannounced=fabric.unannounced,
            finals=fabric.finals,
            said=fabric.said,
        )
        self._fabrics[fabric.engine.fabric] = fresh
        for change in fabric.later:
            self._change_roster(fresh, change)
        return out

    def _advance(
        self,
        fabric: Fabric,
        engine: Engine,
        windows: list[Part],
        others: Named,
        until_ns: int,
        publish: Callable[[Closed], None],
        heard_ns: int = FOREVER,
    ) -> list[Cascade]:
        """Feeds rows, all from before until_ns, to an engine, with the facts and windows that come to hold meanwhile.

        Here names are resolved, by the facts that hold at the time of each row (docs/decisions/0005). Of the fabric's
        own engine, returns the verdicts on ranks that are slow without any cascade. Polled periods count that end up to
        `heard_ns`.
        """
        not_the_fabric: list[Cascade] = []
        facts = sorted((entry for entry in fabric.facts if entry[0] < until_ns), key=_fact_order)
        turns = {from_ns for from_ns, _ in facts if from_ns > fabric.settled_ns}
        stops = turns | set(fabric.announced.changes(fabric.settled_ns, until_ns))
        known_ns = engine.logs.newest_ns
        for stop_ns in [*sorted(stops), until_ns]:
            for from_ns, fact in facts:
                if from_ns < stop_ns:
                    engine.add_fact(fact, from_ns)
            facts = [(from_ns, fact) for from_ns, fact in facts if from_ns >= stop_ns]
            horizon_ns = fabric.announced.horizon_ns(stop_ns - 1)
            windows_now, windows = split(windows, stop_ns)
            others_now, others = others.split(stop_ns)
            now, places = engine.placed(*others_now, fabric.asked, fabric.announced)
            engine.add_windows([part.rows for part in windows_now], fabric.asked, fabric.announced, horizon_ns)
            engine.add_rows(now, places, fabric.announced, horizon_ns, fabric.asked.parts)
            if engine is fabric.engine:
                fabric.slow_ranks.take(now, places, engine.topology, engine.noted)
            # What was before a fact is told by the facts of its time, and so without what comes later.
            lag_ns = 0 if stop_ns in turns else LAG_NS
            engine.logs.newest_ns = min(known_ns, stop_ns) if stop_ns in turns else known_ns
            settled_ns = stop_ns if stop_ns == MARK_END else stop_ns - horizon_ns - lag_ns
            keep_ns = layout.GAP_NS + horizon_ns + engine.sampled.keep_ns(horizon_ns)
            on_closed = partial(_tell, engine, publish)
            for due_ns in engine.sampled.due(stop_ns, fabric.announced, heard_ns):
                # Period by period, so that what closes is told in the same order however far this goes.
                engine.advance(min(due_ns - horizon_ns - lag_ns, settled_ns), keep_ns, on_closed)
                engine.sampled.step(due_ns, engine.topology, fabric.announced, on_closed)
            engine.advance(settled_ns, keep_ns, on_closed)
            if engine is fabric.engine:
                # What is still open when all sources have gone ends with the newest row.
                until_now_ns = min(settled_ns, fabric.newest_ns)
                not_the_fabric += fabric.slow_ranks.due(
                    engine.fabric, until_now_ns, keep_ns, engine.oldest_ns(), engine.topology, engine.noted
                )
        return not_the_fabric

    def _look_ahead(self, fabric: Fabric) -> list[Item]:
        """Provisional revisions, where something is new: rows, or a polled period of which all devices have told."""
        if not fabric.changed and fabric.next_look_ns == FOREVER:
            return []
        heard = heard_ns(fabric.streams, fabric.announced, fabric.newest_ns)
        if not (fabric.changed or heard >= fabric.next_look_ns) or not self._limit.allows():
            return []
        with self._limit.spending():
            return self._provisional_revisions(fabric, heard)

    def _provisional_revisions(self, fabric: Fabric, heard: int) -> list[Item]:
        """Numbered revisions of cascades that are not final and have changed since their last revision."""
        fabric.changed = False
        ahead = fabric.engine.copy()
        out: list[Item] = []
        turn = dict.fromkeys(islice(fabric.provisional, MAX_REVISED))
        for name in turn:
            # To the end: the first are those that have not been looked at for longest.
            fabric.provisional[name] = fabric.provisional.pop(name)
        new = 0
        met: set[str] = set()
        polled: list[Closed] = []

        def wanted(name: str) -> bool:
            nonlocal new
            met.add(name)
            if name in fabric.finals or name in fabric.said:
                return False
            if name not in fabric.provisional:
                new += 1
            due = name in turn or (name not in fabric.provisional and new <= MAX_REVISED)
            fabric.changed |= not due
            return due

        def publish(closed: Closed) -> None:
            if closed.sampled is not None:
                polled.append(closed)
            before = fabric.provisional.get(closed.id)
            revision = before.said.revision if before is not None else 0
            now = cascade(ahead, closed, fabric.announced, revision)
            if before is not None and now == before.said:
                return
            now = msgspec.structs.replace(now, revision=int(revision) + 1)
            first_queue = (
                int(ahead.slots[closed.slot, layout.S_FIRST_QUEUE])
                if closed.sampled is None
                else closed.sampled.first_queue
            )
            fabric.provisional[closed.id] = Provisional(now, first_queue)
            out.append(now)

        windows, others = fabric.waiting.rows()
        ahead.wanted = wanted
        ahead.logs.newest_ns = fabric.newest_ns
        self._advance(fabric, ahead, windows, others, MARK_END, publish, heard)
        fabric.looked_ns, fabric.next_look_ns = ahead.sampled.next_period_ns()
        for still_open in ahead.still_open(fabric.newest_ns):
            publish(still_open)
        return out + superseded(fabric, polled, met)


def _tell(engine: Engine, publish: Callable[[Closed], None], closed: Closed) -> None:
    """Publishes a cascade, but for one of logged pauses that is part of one of polled devices."""
    if closed.sampled is None and engine.sampled.tells(closed):
        engine.counters["cascades_told_with_polled_devices"] += 1
    elif closed.sampled is None or engine.wanted is None or engine.wanted(closed.id):
        publish(closed)


def _add_fact(fabric: Fabric, fact: Fact, from_ns: int) -> None:
    if isinstance(fact, Flow):
        fabric.engine.add_flow(fact, from_ns)
    else:
        fabric.facts.append((from_ns, fact))


def _fact_order(entry: tuple[int, Device | Link]) -> tuple[int, bool, str, str, int]:
    """By the time from which a fact holds, devices first, then as their streams have them: never by arrival."""
    from_ns, fact = entry
    return from_ns, isinstance(fact, Link), fact.stream.source, fact.stream.epoch, fact.stream.seq


def _next_seq(item: Batch | Fact | Idle) -> int:
    if isinstance(item, Batch):
        return item.next_seq
    return item.stream.seq + (not isinstance(item, Idle))
