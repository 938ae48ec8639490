"""Publishes one source's streams: rows in batches by size and age, facts, marks, idle values, the roster and losses.

In: rows of a probe, collector or trace. Out: Kafka messages that keep every promise of a stream (seq, mark, roster).
Call `poll` at least every 50 ms: it sends batches by age, sends idle values and hears of deliveries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, cast

import msgspec

from stream import topics
from stream.batch import StreamKey
from stream.errors import BrokerError, PausetraceError
from stream.facts import TOPIC_OF_FACT, Fact, FactStream, FactTopic, Idle
from stream.kafka_settings import CONNECT_DEADLINE_S, BrokerInfo, KafkaSettings, require_topics
from stream.messages import Encoded, Item, encode
from stream.outbox import FLUSH_DEADLINE_S, HELD_BYTES, HOLD_S, QUEUE_BYTES, Outbox
from stream.outgoing import Loss, OutgoingStream, Sealed, allowed_mark
from stream.ranges import MAX_STREAMS
from stream.record import Events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.topics import full_name

BATCH_AGE_S = 0.05
IDLE_S = 1.0
_SENT_AHEAD_S = 0.15
"""An idle value leaves so much earlier: when the idle interval is over, all are to have read it, and correlate to have
waited for what comes after."""
_REST_S = IDLE_S - _SENT_AHEAD_S
_REPORTS = 3
"""Times that the end of a source tries to get its report of losses through, each of which may get lost itself."""

UNSENT = FactStream("-", "-", 0, 0)
"""The stream of a fact until `Publisher.fact` fills it in."""


class Publisher:
    """One source of one epoch. A `live` source reads devices now: a time ahead of our clock is then a wrong clock, and
    idle streams promise the present. Traces are not live: their marks are their own.

    Streams may end while others go on (`end`); one that is up again later is a new stream, of an epoch `EPOCH.2`.

    `idle_mark_ns` gives the mark of a stream that has nothing to say; a live source that stamps rows before it appends
    them stays behind the oldest row on its way. Without it a live stream promises the clock's time, and a stream that
    is not live sends no idle values. Not safe for several threads.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        fabric: str,
        source: str,
        epoch: str,
        *,
        live: bool = True,
        idle_mark_ns: Callable[[StreamKey], int] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
        queue_bytes: int = QUEUE_BYTES,
        held_bytes: int = HELD_BYTES,
        hold_s: float = HOLD_S,
        deadline_s: float = CONNECT_DEADLINE_S,
        batch_age_s: float = BATCH_AGE_S,
    ) -> None:
        self.fabric = fabric
        self.source = source
        self.epoch = epoch
        self._settings = settings
        self._live = live
        self._idle_mark_ns = idle_mark_ns or ((lambda _stream: clock_ns()) if live else None)
        self._clock_ns = clock_ns
        self._monotonic_s = monotonic_s
        self._batch_age_s = batch_age_s
        self._streams: dict[tuple[str, str], OutgoingStream] = {}
        self._lives: dict[tuple[str, str], int] = {}
        """Times that a stream has ended."""
        self._facts: dict[str, FactStream] = {}
        self._told_facts_s: dict[str, float] = {}
        """When each stream of facts last said something."""
        self._lost_fact_seqs: set[tuple[str, int]] = set()
        self._counters = {"rows": 0, "values": 0, "idle_values": 0, "facts": 0, "late_facts": 0, "lost_facts": 0}
        self._gone = {"late_rows": 0, "suspect_rows": 0, "lost_rows": 0}
        self._outbox = Outbox(
            settings,
            queue_bytes=queue_bytes,
            held_bytes=held_bytes,
            hold_s=hold_s,
            deadline_s=deadline_s,
            monotonic_s=monotonic_s,
        )

    @property
    def broker(self) -> BrokerInfo:
        """What answered."""
        return self._outbox.view.broker

    @property
    def counters(self) -> dict[str, int]:
        """Everything counted so far."""
        streams = self._streams.values()
        return self._counters | self._outbox.counters | {
            "late_rows": self._gone["late_rows"] + sum(stream.late_rows for stream in streams),
            "suspect_rows": self._gone["suspect_rows"] + sum(stream.suspect_rows for stream in streams),
            "lost_rows": self._gone["lost_rows"] + sum(stream.lost for stream in streams),
        }  # fmt: skip

    def up(self, streams: Iterable[StreamUp], from_ns: int, deadline_s: float = FLUSH_DEADLINE_S) -> None:
        """Tells the roster of these streams, and waits until Kafka has it: their first rows come after it.

        Raises BrokerError for a topic that does not exist, or if the roster cannot be delivered by the deadline.
        """
        told = tuple(streams)
        for stream in told:
            if stream.topic not in topics.PACKED + topics.FACTS:
                raise PausetraceError(f"no stream goes on topic {stream.topic!r}")
            if (stream.topic in topics.PACKED) != bool(stream.device):
                raise PausetraceError(f"a stream of {stream.topic} and device {stream.device!r}")
            if (stream.topic, stream.device) in self._streams or stream.topic in self._facts:
                raise PausetraceError(f"stream {stream.topic} of {stream.device!r} is up already")
        require_topics(self._settings, self._outbox.view, ["control", *sorted({stream.topic for stream in told})])
        by_epoch: dict[str, list[StreamUp]] = {}
        for stream in told:
            by_epoch.setdefault(self._epoch_of(stream.topic, stream.device), []).append(stream)
        for epoch, of_epoch in by_epoch.items():
            for first in range(0, len(of_epoch), MAX_STREAMS):
                part = tuple(of_epoch[first : first + MAX_STREAMS])
                self._send(SourceUp(self.fabric, self.source, epoch, from_ns, part))
        self._deliver(deadline_s)
        for stream in told:
            if stream.topic in topics.FACTS:
                self._facts[stream.topic] = FactStream(self.source, self.epoch, 0, from_ns)
                self._told_facts_s[stream.topic] = self._monotonic_s()
            else:
                epoch = self._epoch_of(stream.topic, stream.device)
                key = StreamKey(self.fabric, self.source, epoch, stream.topic, stream.device)
                outgoing = OutgoingStream(key, from_ns, live=self._live)
                outgoing.sealed_at_s, outgoing.rest_s = self._monotonic_s(), _REST_S
                self._streams[stream.topic, stream.device] = outgoing

    def append(
        self,
        topic: str,
        device: str,
        events: Events,
        ports: Sequence[str],
        mark_ns: int | None = None,
        texts: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Rows of one stream whose port is an index into `ports`; never waits for Kafka.

        `mark_ns` promises that nothing older follows; without it the rows' greatest time is promised. Raises WireError
        for rows that no reader would take.
        """
        stream = self._stream(topic, device)
        now_ns, now_s = self._clock_ns(), self._monotonic_s()
        sealed = stream.add(events, ports, mark_ns=mark_ns, texts=texts, now_ns=now_ns, now_s=now_s)
        self._counters["rows"] += len(events)
        for full in sealed:
            self._send_sealed(stream, full)

    def mark(self, topic: str, device: str, mark_ns: int) -> None:
        """Sends what the stream has gathered, or an idle value, with this promise: nothing older follows."""
        stream = self._stream(topic, device)
        stream.promise(mark_ns, self._clock_ns())
        self._send_sealed(stream, stream.seal(self._monotonic_s()))

    def report_lost(self, topic: str, device: str, rows: int, reason: int, first_ns: int, last_ns: int) -> None:
        """The source itself lost rows between these times (a code of LOSS_REASONS): the stream's next batch says so."""
        self._stream(topic, device).lose(reason, Loss(rows, first_ns, last_ns))

    def fact(self, fact: Fact, mark_ns: int | None = None) -> None:
        """A device, link or flow (with stream UNSENT); nothing valid from before its time, or mark_ns, follows."""
        topic = TOPIC_OF_FACT[type(fact)]
        state = self._facts.get(topic)
        if state is None:
            raise _not_up(topic, "")
        self._counters["late_facts"] += fact.valid_from_ns < state.mark_ns
        promised_ns = max(state.mark_ns, fact.valid_from_ns if mark_ns is None else mark_ns)
        own = msgspec.structs.replace(state, mark_ns=promised_ns)
        sent = msgspec.structs.replace(fact, fabric=self.fabric, stream=own)
        self._outbox.send(encode(sent), partial(self._lost_fact, topic, own.seq))
        self._counters["facts"] += 1
        self._facts[topic] = msgspec.structs.replace(own, seq=own.seq + 1)
        self._told_facts_s[topic] = self._monotonic_s()

    def health(self, value: bytes) -> None:
        """How this source does, as JSON for people on the health topic; nothing where there is no such topic."""
        if full_name(self._settings.prefix, "health") in self._outbox.view.partitions:
            self._outbox.send(Encoded("health", f"{self.fabric}/{self.source}".encode(), value))

    def poll(self, wait_s: float = 0.0) -> BrokerError | None:
        """Sends what is old enough, and idle values; returns what was lost since the last call, if anything was.

        The rows lost are counted, and their stream's next batch carries a SOURCE_LOST row: a live source goes on.
        """
        self._outbox.poll(wait_s)
        now_s = self._monotonic_s()
        for stream in self._streams.values():
            if stream.waiting_since_s is not None:
                if now_s - stream.waiting_since_s >= self._batch_age_s:
                    self._send_sealed(stream, stream.seal(now_s))
            elif now_s - stream.sealed_at_s >= stream.rest_s and (self._idle_mark_ns is not None or stream.has_losses):
                if self._idle_mark_ns is not None:
                    stream.promise(self._idle_mark_ns(stream.key), self._clock_ns())
                self._send_sealed(stream, stream.seal(now_s))
        if self._idle_mark_ns is not None:
            for topic, state in self._facts.items():
                if now_s - self._told_facts_s[topic] >= _REST_S:
                    self._send_idle_facts(topic, state, self._idle_mark_ns)
        return self._outbox.take_failure()

    def flush(self, deadline_s: float = FLUSH_DEADLINE_S) -> None:
        """Sends everything and waits until Kafka has it; raises BrokerError for what is lost or still waits then."""
        now_s = self._monotonic_s()
        for stream in self._streams.values():
            if stream.waiting_since_s is not None or stream.has_losses:
                self._send_sealed(stream, stream.seal(now_s))
        self._deliver(deadline_s)

    def down(self, at_ns: int, reason: str = "graceful", deadline_s: float = FLUSH_DEADLINE_S) -> None:
        """Sends everything, then tells the roster that all streams have ended, with each one's last seq.

        Raises BrokerError if something could not be delivered. Rows that were lost do not keep the roster from being
        told, once the report of them has arrived: a reader then waits for no row that never comes.
        """
        failure = self._settle(deadline_s)
        self._send_downs(self._streams.values(), at_ns, reason, self._facts)
        self._deliver(deadline_s)
        self._gone = {name: self.counters[name] for name in self._gone}
        self._streams.clear()
        self._facts.clear()
        self._lost_fact_seqs.clear()
        if failure is not None:
            raise failure

    def end(
        self,
        streams: Iterable[tuple[str, str]],
        at_ns: int,
        reason: str = "graceful",
        deadline_s: float = FLUSH_DEADLINE_S,
    ) -> None:
        """Tells the roster that these streams, each a topic and a device, have ended; the others go on.

        Raises BrokerError if what they said could not be delivered: then nothing has ended, and it can be tried again.
        """
        named = list(streams)
        ended = [self._stream(topic, device) for topic, device in named]
        failure = self._settle(deadline_s)
        self._send_downs(ended, at_ns, reason)
        self._deliver(deadline_s)
        for key, stream in zip(named, ended, strict=True):
            for name in self._gone:
                self._gone[name] += getattr(stream, "lost" if name == "lost_rows" else name)
            self._lives[key] = self._lives.get(key, 0) + 1
            del self._streams[key]
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Ends the connection; what `flush` or `down` did not get through is given up."""
        self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    def _stream(self, topic: str, device: str) -> OutgoingStream:
        stream = self._streams.get((topic, device))
        if stream is None:
            raise _not_up(topic, device)
        return stream

    def _epoch_of(self, topic: str, device: str) -> str:
        lives = self._lives.get((topic, device), 0)
        return f"{self.epoch}.{lives + 1}" if lives else self.epoch

    def _send_downs(
        self, streams: Iterable[OutgoingStream], at_ns: int, reason: str, facts: Iterable[str] = ()
    ) -> None:
        by_epoch: dict[str, list[StreamDown]] = {}
        for stream in streams:
            down = StreamDown(stream.key.topic, stream.key.device, stream.next_seq - 1)
            by_epoch.setdefault(stream.key.epoch, []).append(down)
        for topic in facts:
            by_epoch.setdefault(self.epoch, []).append(StreamDown(topic, "", self._last_fact_seq(topic)))
        for epoch, of_epoch in (by_epoch or {self.epoch: []}).items():
            for first in range(0, max(len(of_epoch), 1), MAX_STREAMS):
                part = tuple(of_epoch[first : first + MAX_STREAMS])
                self._send(SourceDown(self.fabric, self.source, epoch, at_ns, part, reason))

    def _send(self, item: Item) -> None:
        self._outbox.send(encode(item))

    def _send_sealed(self, stream: OutgoingStream, sealed: Sealed) -> None:
        self._counters["values"] += 1
        self._counters["idle_values"] += not len(sealed.batch.events)
        # A promise that reaches its newest row is waited for: it leaves as soon as it may.
        owed_s = stream.owed_ns * 1e-9
        stream.rest_s = min(max(owed_s, self._batch_age_s), _REST_S) if owed_s else _REST_S
        self._outbox.send(encode(sealed.batch, checked=True), partial(stream.lose_sealed, sealed))

    def _send_idle_facts(self, topic: str, state: FactStream, idle_mark_ns: Callable[[StreamKey], int]) -> None:
        mark_ns = idle_mark_ns(StreamKey(self.fabric, self.source, self.epoch, topic, ""))
        promised_ns = max(state.mark_ns, allowed_mark(mark_ns, self._clock_ns(), live=self._live))
        self._facts[topic] = own = msgspec.structs.replace(state, mark_ns=promised_ns)
        self._told_facts_s[topic] = self._monotonic_s()
        self._counters["idle_values"] += 1
        self._outbox.send(encode(Idle(self.fabric, cast(FactTopic, topic), own), checked=True))

    def _lost_fact(self, topic: str, seq: int, _reason: int) -> None:
        self._counters["lost_facts"] += 1
        self._lost_fact_seqs.add((topic, seq))

    def _last_fact_seq(self, topic: str) -> int:
        """Seq of the last fact that Kafka has: a reader waits for it."""
        seq = self._facts[topic].seq - 1
        while (topic, seq) in self._lost_fact_seqs:
            seq -= 1
        return seq

    def _deliver(self, deadline_s: float) -> None:
        self._outbox.flush(deadline_s)
        if failure := self._outbox.take_failure():
            raise failure

    def _settle(self, deadline_s: float) -> BrokerError | None:
        """Gets everything out, reports of losses too; returns what was lost, raises what keeps getting lost."""
        end_s = time.monotonic() + deadline_s
        first: BrokerError | None = None
        for _ in range(_REPORTS):
            try:
                self.flush(max(end_s - time.monotonic(), 0.1))
            except BrokerError as err:
                first = first or err
            if not any(stream.has_losses for stream in self._streams.values()) and not self._outbox.waiting:
                return first
        raise first or BrokerError(f"the end of source {self.source} could not be delivered within {deadline_s:g} s")


def _not_up(topic: str, device: str) -> PausetraceError:
    return PausetraceError(f"stream {topic} of {device!r} is not up", "announce it first: Publisher.up")
