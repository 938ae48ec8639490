"""The way of a training hook's rows to Kafka: a thread beside the training, for which that never waits.

In: times of steps, stamped as they are taken. Out: one stream of the rank on the host topic, and the fact that says by
which NIC it sends. What cannot be sent is held, bounded; what goes over is counted, and told as SOURCE_LOST.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from probes.schedule import Retry
from stream import kinds
from stream.facts import Device, Port
from stream.flow_id import job_id
from stream.kafka_settings import KafkaSettings
from stream.outbox import QUEUE_FULL
from stream.outgoing import Loss
from stream.publisher import UNSENT, Publisher
from stream.record import empty_events
from stream.roster import StreamUp
from stream.sampled_log import SampledLog

_log = logging.getLogger(__name__)

MOST_WAITING = 8_192
"""Rows held while no broker answers: over an hour of steps of a second."""
TURN_S = 0.05
UP_DEADLINE_S = 5.0
END_DEADLINE_S = 2.0
"""So long the end of a training run may wait for what is still on its way."""
CLOSING_S = 1.5
"""So long a client needs at most to let go of what it could not deliver."""
CLOCK_BACK_NS = 1_000_000_000
"""A clock that is set back further makes all that follows older than what was promised: the stream begins anew."""


class Who(NamedTuple):
    """Whose rows they are: the port `rank17` of a host, which sends by the port `nic` of it ("" = not known)."""

    fabric: str
    host: str
    rank: int
    job: str
    nic: str

    @property
    def port(self) -> str:
        """The rank as a port of its host."""
        return f"rank{self.rank}"


class _Row(NamedTuple):
    time_ns: int
    kind: int
    step: int
    value_ns: int


class StepSender:
    """Rows of one rank; `stamp` may be called by the training's thread, and never waits for Kafka."""

    def __init__(
        self,
        settings: KafkaSettings,
        who: Who,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._settings = settings
        self._who = who
        self._clock_ns = clock_ns
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._rows: deque[_Row] = deque()
        self._dropped: Loss | None = None
        """Rows dropped here that no reader has been told of."""
        self._own: Counter[str] = Counter(stamped_rows=0, dropped_rows=0, failures=0)
        self._before: Counter[str] = Counter()
        """What earlier publishers counted."""
        self._now: Mapping[str, int] = {}
        self._stop = threading.Event()
        self._end_s = math.inf
        self._warnings = SampledLog(_log)
        self._thread = threading.Thread(target=self._run, name="pausetrace steps", daemon=True)

    def start(self) -> None:
        """Begins to publish; what was stamped before waits for that."""
        self._thread.start()

    @property
    def counters(self) -> Mapping[str, int]:
        """Rows stamped and published; `lost_rows` are all that Kafka will never get."""
        with self._lock:
            published = {name: self._before[name] + self._now.get(name, 0) for name in {**self._before, **self._now}}
            # What a publisher was told of counts among its own.
            lost = published.get("lost_rows", 0) + (self._dropped.rows if self._dropped else 0)
            return {**published, **self._own, "waiting_rows": len(self._rows), "lost_rows": lost}

    def stamp(self, kind: int, step: int, value_ns: int) -> None:
        """Takes a row of now in; of too many that wait, the oldest goes."""
        with self._lock:
            # Stamped under the lock, so that no idle value promises its time away before it is sent.
            row = _Row(self._clock_ns(), kind, step, value_ns)
            self._own["stamped_rows"] += 1
            if len(self._rows) >= self._most_waiting:
                self._drop([self._rows.popleft()])
            self._rows.append(row)

    def close(self, deadline_s: float = END_DEADLINE_S) -> None:
        """Sends what waits, and tells the roster that the rank has ended; gives up what does not get out in time."""
        if self._stop.is_set():
            return
        self._end_s = time.monotonic() + deadline_s
        self._stop.set()
        self._thread.join(deadline_s + CLOSING_S)
        with self._lock:
            self._drop(self._rows)
            self._rows = deque()
        if lost := self.counters["lost_rows"]:
            _log.warning("%d rows of steps of %s were lost", lost, self._who.port)

    def _drop(self, rows: Iterable[_Row]) -> None:
        """Counts rows that nobody will get; the lock is held."""
        for row in rows:
            self._own["dropped_rows"] += 1
            loss = Loss(1, row.time_ns, row.time_ns)
            self._dropped = loss if self._dropped is None else self._dropped.plus(loss)

    def _run(self) -> None:
        retry = Retry()
        while True:
            try:
                self._session(retry)
            except Exception as err:  # noqa: BLE001 - whatever it is, the training goes on
                with self._lock:
                    self._own["failures"] += 1
                self._warnings.warning("steps of %s cannot be published: %s", self._who.port, err)
                self._stop.wait(retry.pause_s())
            if self._stop.is_set():
                return

    def _session(self, retry: Retry) -> None:
        """One publisher, until the end, an error, or a clock that was set back."""
        who = self._who
        publisher = Publisher(
            self._settings, who.fabric, f"training@{who.host}/{who.port}", f"{self._clock_ns():x}-{os.getpid():x}",
            clock_ns=self._clock_ns, idle_mark_ns=lambda _stream: self._mark_ns(), deadline_s=UP_DEADLINE_S,
        )  # fmt: skip
        try:
            from_ns = self._mark_ns()
            publisher.up([StreamUp("device"), StreamUp("host", who.host)], from_ns, UP_DEADLINE_S)
            port = Port(port=who.port, nic=who.nic, job=who.job)
            publisher.fact(Device(who.fabric, who.host, "host", from_ns, UNSENT, ports=(port,)))
            retry.succeeded()
            newest_ns = from_ns
            while not self._stop.is_set() and self._clock_ns() >= newest_ns - CLOCK_BACK_NS:
                newest_ns = max(newest_ns, self._clock_ns())
                self._turn(publisher)
                self._stop.wait(TURN_S)
            self._turn(publisher)
            publisher.down(self._clock_ns(), deadline_s=min(max(self._end_s - time.monotonic(), 0.1), END_DEADLINE_S))
        finally:
            publisher.close()
            with self._lock:
                self._before.update(publisher.counters)
                self._now = {}

    def _turn(self, publisher: Publisher) -> None:
        """Hands everything that waits to the publisher, which sends what is due and counts what gets lost."""
        who = self._who
        with self._lock:
            rows, self._rows = list(self._rows), deque()
            dropped, self._dropped = self._dropped, None
        if dropped is not None:
            publisher.report_lost("host", who.host, dropped.rows, QUEUE_FULL, dropped.first_ns, dropped.last_ns)
        if rows:
            events = empty_events(len(rows))
            events["time_ns"], events["kind"], events["extra"], events["value"] = zip(*rows, strict=True)
            events["span_ns"] = events["value"]
            events["flow"], events["priority"] = job_id(who.job), kinds.NO_PRIORITY
            try:
                publisher.append("host", who.host, events, (who.port,))
            except Exception:
                with self._lock:
                    self._drop(rows)
                raise
        failure = publisher.poll()
        with self._lock:
            self._now = publisher.counters
        if failure is not None:
            self._warnings.warning("steps of %s: %s", who.port, failure)

    def _mark_ns(self) -> int:
        """Nothing older follows: the oldest row that waits, else now."""
        with self._lock:
            return self._rows[0].time_ns if self._rows else self._clock_ns()
