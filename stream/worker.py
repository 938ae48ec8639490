"""Runs a step over Kafka: reads its topics and the roster, hands items over in order, publishes what comes out.

How often a result counts is the outlet's matter: at least once, or exactly once. What cannot be read or processed
becomes a dead letter, and the stream goes on.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, runtime_checkable

from stream.batch import Batch, StreamKey
from stream.dead_letters import DeadLetters
from stream.errors import BrokerError, UnreachableError, WireError
from stream.facts import Device, Flow, Idle, Link, fact_stream
from stream.health_teller import HealthTeller
from stream.intake import Intake
from stream.isolation import CountingStep, IsolatedStep
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings
from stream.messages import Item, encode
from stream.offset_gaps import PartitionId
from stream.outlets import AtLeastOnce, Outlet
from stream.progress import Progress, Status
from stream.roster import SourceDown, SourceUp, announced_as
from stream.roster_keeper import RosterKeeper, told
from stream.sampled_log import SampledLog
from stream.subscriber import WAIT_S, Received, Subscriber

_log = logging.getLogger(__name__)

MAX_MESSAGES = 500
ROSTER_DEADLINE_S = 60.0
_QUERY_S = 2.0
SILENCE_S = 5.0
STATUS_INTERVAL_S = 1.0
"""Between two reports of the status: less than any scraper's interval."""


@runtime_checkable
class Forgetful(Protocol):
    """A step whose streams may go to another instance."""

    def forget(self, gone: Callable[[StreamKey], bool]) -> None:
        """Drops the state of these streams."""
        ...


class _StoppedAmidTurn(Exception):  # noqa: N818 - no error
    """The worker was told to stop while it waited for the roster: what it has read was not processed."""


def to_stderr(sentence: str) -> None:
    """What a worker says to people."""
    print(sentence, file=sys.stderr, flush=True)


class Worker:
    """Runs `step` on `topics` (the control topic is always read as well) until `stop` is set.

    With a group, the topics' partitions are shared with the group's other workers, and streams of partitions that go
    to another one are forgotten. Without, all partitions are read. `outlet` says where to begin and how outputs go out;
    `keeper`, of the one worker that waits for the whole roster, says whom not to wait for. `health`, which the worker
    closes, tells people how well the sources do.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        step: CountingStep,
        *,
        name: str,
        topics: Sequence[str],
        group: str | None = None,
        instance: str = "",
        outlet: Outlet | None = None,
        keeper: RosterKeeper | None = None,
        health: HealthTeller | None = None,
        stop: threading.Event | None = None,
        say: Callable[[str], None] = to_stderr,
        clock_ns: Callable[[], int] = time.time_ns,
        on_outputs: Callable[[Sequence[Item]], None] | None = None,
        on_status: Callable[[Status], None] | None = None,
        deadline_s: float = CONNECT_DEADLINE_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.stop = stop or threading.Event()
        self._name = name
        self._say = say
        self._on_outputs = on_outputs
        self._on_status = on_status
        self._status_told_s = -STATUS_INTERVAL_S
        self._progress = Progress()
        self._guard = IsolatedStep(step)
        self._keeper = keeper
        self._health = health
        self._announced: set[StreamKey] = set()
        self._shares = group is not None
        self._place_of: dict[StreamKey, PartitionId] = {}
        self._between_turns = False
        """All that has been read was processed; false when an error ends the worker amid a turn."""
        self._counters = {"items": 0, "outputs": 0, "unsendable": 0, "poisoned": 0, "rebalances": 0}
        self._unsendable_log = SampledLog(_log)
        self._trouble_since_s: float | None = None
        self._trouble_told = False
        self._silence_s = silence_s
        self._outlet = outlet or AtLeastOnce(settings, deadline_s)
        self._dead_letters = DeadLetters(name, self._outlet.send, clock_ns)
        self._intake = Intake(self._dead_letters)
        # A letter for every process that reads the roster again would be many letters; correlate writes one.
        self._control_intake = self._intake if self._outlet.keeps_control else Intake(None)
        self._intakes = {self._intake, self._control_intake}
        self._control = Subscriber(settings, ["control"], starts=self._outlet.starts, deadline_s=deadline_s)
        self._data = Subscriber(
            settings,
            [topic for topic in topics if topic != "control"],
            group=group,
            instance=instance,
            starts=self._starts,
            on_revoked=self._revoked,
            deadline_s=deadline_s,
        )
        self._outlet.serves(self._data)

    @property
    def counters(self) -> dict[str, int]:
        """Everything counted: by the worker, by its readers and its outbox, and by the step."""
        data, control = self._data.counters, self._control.counters
        return {
            **self._counters,
            **{name: sum(i.counters[name] for i in self._intakes) for name in self._intake.counters},
            "dead_letters": self._dead_letters.count,
            **{name: data[name] + control[name] for name in data},
            **{f"outbox_{name}": count for name, count in self._outlet.counters.items()},
            **(self._keeper.counters if self._keeper is not None else {}),
            **(self._health.counters if self._health is not None else {}),
            **{f"step_{name}": count for name, count in self._guard.step.counters.items()},
        }

    @property
    def status(self) -> Status:
        """Where the worker stands now; for the worker's own thread."""
        lag = {**self._data.lag(), **self._control.lag()}
        return Status(time.time(), self.counters, lag, self._progress.fabrics(self._guard.step))

    def run(
        self,
        *,
        until_caught_up: bool = False,
        deadline_s: float | None = None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """Works until `stop` is set, `go_on` says no or, if wanted, what is published by now has been processed.

        Raises BrokerError if outputs cannot be delivered, or if the worker has not caught up by the deadline; without
        `until_caught_up` the deadline just ends it.
        """
        self._say(f"{self._name}: {self._outlet.notice}")
        end_s = None if deadline_s is None else time.monotonic() + deadline_s
        while not self.stop.is_set() and go_on():
            try:
                busy = self._turn()
            except _StoppedAmidTurn:
                self._outlet.finish(amid_turn=True)
                return
            if until_caught_up and not busy and self._caught_up():
                break
            if end_s is not None and time.monotonic() >= end_s:
                if until_caught_up:
                    raise BrokerError(f"{self._name} did not catch up within {deadline_s:g} s")
                break
        self._end_turn()
        self._outlet.finish()

    def ask_membership(self) -> None:
        """Hears what the group says, and nothing else; raises BrokerError if another process is the member now."""
        self._data.consume(1)

    def close(self) -> None:
        """Leaves the group and closes the connections."""
        self._data.close()
        self._control.close()
        self._outlet.close()
        if self._health is not None:
            self._health.close()

    def _turn(self) -> bool:
        """Reads, processes and publishes once; whether there was anything."""
        self._between_turns = True
        try:
            received = self._data.consume(MAX_MESSAGES, WAIT_S)
        finally:
            self._between_turns = False
        self._mind_silence(bool(received))
        read = self._decode(received)
        told = self._control_intake.read(self._control.consume(MAX_MESSAGES, 0))
        self._learn(told)
        if not self._all_announced(read):
            told += self._roster_up_to_now()
        self._report_gaps()
        self._process(told + read)
        self._keep_roster()
        self._end_turn(more=len(received) > MAX_MESSAGES // 2)
        self._tell_status()
        if self._health is not None:
            self._health.poll(self._guard.step)
        return bool(received or told)

    def _end_turn(self, *, more: bool = False) -> None:
        self._outlet.end_turn((self._data, self._control), self._place_of, more=more)

    def _decode(self, received: Sequence[Received]) -> list[tuple[Received, Item]]:
        read = self._intake.read(received)
        if not self._shares:
            return read
        for message, item in read:
            stream = _stream_of(item)
            if stream is not None:
                self._place_of[stream] = PartitionId(message.topic, message.partition)
        return read

    def _learn(self, told: Sequence[tuple[Received, Item]]) -> None:
        for _, item in told:
            if isinstance(item, SourceUp):
                self._announced.update(item.stream_keys())
            elif isinstance(item, SourceDown):
                self._announced.difference_update(item.stream_keys())

    def _all_announced(self, read: Sequence[tuple[Received, Item]]) -> bool:
        streams = {stream for _, item in read if (stream := _stream_of(item)) is not None}
        return {announced_as(stream) for stream in streams} <= self._announced

    def _roster_up_to_now(self) -> list[tuple[Received, Item]]:
        """The roster as it stands: a source tells of a stream before its first row, so it is there."""
        end_s = time.monotonic() + ROSTER_DEADLINE_S
        marks = None
        told: list[tuple[Received, Item]] = []
        while marks is None or not self._control.has_read(marks):
            if self.stop.is_set():
                raise _StoppedAmidTurn
            try:
                marks = marks or self._control.watermarks(_QUERY_S)
                told += self._control_intake.read(self._control.consume(MAX_MESSAGES))
            except UnreachableError:
                if time.monotonic() >= end_s:
                    raise
                continue
            if time.monotonic() >= end_s and not self._control.has_read(marks):
                raise UnreachableError(f"{self._name} could not read the roster within {ROSTER_DEADLINE_S:g} s")
        self._learn(told)
        return told

    def _process(self, read: Sequence[tuple[Received, Item]]) -> None:
        if not read:
            return
        # A stream that was not announced by now never will be: the step counts it, and we do not ask again.
        self._announced.update(announced_as(s) for _, item in read if (s := _stream_of(item)) is not None)
        self._counters["items"] += len(read)
        self._progress.took(item for _, item in read)
        if self._health is not None:
            self._health.took(item for _, item in read)
        outputs, bad = self._guard.process([item for _, item in read])
        for position, error in bad:
            self._counters["poisoned"] += 1
            self._dead_letters.message(read[position][0], f"{type(error).__name__}: {error}")
        self._publish(outputs)

    def _keep_roster(self) -> None:
        changes = self._keeper.take_changes(self._data) if self._keeper is not None else []
        if not changes:
            return
        for change in changes:
            self._say(f"{self._name}: {told(change)}")
        outputs, _ = self._guard.process(changes)
        # They are counted from this moment on, and what they bring about is published together with them.
        self._publish([*changes, *outputs])

    def _publish(self, outputs: Sequence[Item]) -> None:
        for output in outputs:
            try:
                encoded = encode(output)
            except WireError as err:
                # Made of numbers that each were possible and whose sum is not; no reader would take it.
                self._counters["unsendable"] += 1
                self._unsendable_log.warning("%s made a value that cannot be sent: %s", self._name, err)
                continue
            self._outlet.publish(output, encoded)
            self._counters["outputs"] += 1
        if outputs and self._on_outputs is not None:
            self._on_outputs(outputs)

    def _tell_status(self) -> None:
        now_s = time.monotonic()
        if self._on_status is not None and now_s - self._status_told_s >= STATUS_INTERVAL_S:
            self._status_told_s = now_s
            self._on_status(self.status)

    def _starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        starts = self._outlet.starts(partitions)
        self._place_of.update(self._outlet.take_restored())
        self._guard.checkpoint()
        return starts

    def _report_gaps(self) -> None:
        for gap in self._data.take_gaps() + self._control.take_gaps():
            if gap.loss:
                self._dead_letters.gap(gap)

    def _revoked(self, partitions: list[PartitionId]) -> None:
        self._counters["rebalances"] += 1
        if self._between_turns:
            self._end_turn()  # what waits to be committed belongs to partitions that are still ours
        gone = {stream for stream, place in self._place_of.items() if place in set(partitions)}
        for stream in gone:
            del self._place_of[stream]
        if self._health is not None:
            self._health.forget(gone.__contains__)
        if isinstance(self._guard.step, Forgetful):
            self._guard.step.forget(gone.__contains__)
            self._guard.checkpoint()

    def _caught_up(self) -> bool:
        if not self._data.assigned:
            return False
        return all(reader.has_read(reader.watermarks()) for reader in (self._data, self._control))

    def _mind_silence(self, heard: bool) -> None:
        """Says once that Kafka does not answer, and once that it does again."""
        trouble = "" if heard else self._data.trouble
        now_s = time.monotonic()
        if not trouble:
            if self._trouble_told:
                self._say(f"{self._name}: Kafka answers again")
            self._trouble_since_s, self._trouble_told = None, False
        elif self._trouble_since_s is None:
            self._trouble_since_s = now_s
        elif not self._trouble_told and now_s - self._trouble_since_s >= self._silence_s:
            # A connection may have ended and come back while no message had to come.
            try:
                self._control.watermarks(_QUERY_S)
            except UnreachableError:
                self._say(f"{self._name}: waits for Kafka: {trouble}")
                self._trouble_told = True
            else:
                self._data.forget_trouble()


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event for `Worker(stop=...)` that SIGINT and SIGTERM set instead of ending the process at once."""
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stream_of(item: Item) -> StreamKey | None:
    if isinstance(item, Batch):
        return item.stream
    if isinstance(item, Device | Link | Flow | Idle):
        return fact_stream(item)
    return None
