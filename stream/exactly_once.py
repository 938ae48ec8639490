"""Keeps a step running exactly once on a real Kafka: builds its worker, and builds it anew when a transaction is lost.

In: a way to make the step. Out: one worker at a time, restored from its last committed state.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from stream.by_stream import ByStream, StreamStep
from stream.deadlines import Waiting
from stream.election import Election
from stream.errors import UnreachableError
from stream.health_teller import HealthTeller
from stream.isolation import CountingStep
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings
from stream.messages import Item
from stream.offset_gaps import PartitionId
from stream.outlets import Outlet
from stream.progress import Status
from stream.roster_keeper import SOURCE_DEADLINE_S, RosterKeeper
from stream.topics import FACTS, RAW
from stream.transactions import FencedError, TransactionLostError
from stream.whole_state import WholeState
from stream.worker import Worker, to_stderr

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
STANDBY_LOOK_S = 0.2
VERDICT_S = 2.0
"""Some heartbeats, within which a group says that another process has this one's name."""
FIRST_LOOK_S = 5.0
"""A group's first assignment takes a moment; only after this is it fair to say that another candidate is active."""


class CorrelateStep(CountingStep, Waiting, Protocol):
    """What correlate must be able to do."""


StepT = TypeVar("StepT", bound=CorrelateStep)


class DetectStep(CountingStep, StreamStep, Protocol):
    """What detect must be able to do."""


class Runner:
    """Runs detect or correlate until `stop` is set; counters are of the worker at work, restarts of all time."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        instance: str = "",
        stop: threading.Event | None = None,
        say: Callable[[str], None] = to_stderr,
        on_outputs: Callable[[Sequence[Item]], None] | None = None,
        on_status: Callable[[Status | None], None] | None = None,
        deadline_s: float = CONNECT_DEADLINE_S,
        source_deadline_s: float | None = SOURCE_DEADLINE_S,
        tells_health: bool = False,
    ) -> None:
        self.stop = stop or threading.Event()
        self.restarts = 0
        self._settings = settings
        self._instance = instance
        self._say = say
        self._on_outputs = on_outputs
        self._on_status = on_status
        self._deadline_s = deadline_s
        self._source_deadline_s = source_deadline_s
        self._tells_health = tells_health
        self._name = instance or uuid.uuid4().hex[:8]
        self._worker: Worker | None = None
        self._worked = False
        self._told = Status(0.0, {}, {}, {})
        """The last status that a worker gave."""

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the worker at work, and how often one was built anew."""
        worker = self._worker
        return {"restarts": self.restarts, **(worker.counters if worker is not None else {})}

    def detect(self, make_step: Callable[[], DetectStep], *, until_caught_up: bool = False) -> None:
        """Runs detect: several share the partitions of the raw topics."""
        name = self._instance or uuid.uuid4().hex

        def build() -> Worker:
            step = make_step()
            outlet = ByStream(self._settings, step, name, self._deadline_s)
            return self._make(step, outlet, "detect", RAW, group="detect")

        self._run("detect", build, until_caught_up, lambda: True)

    def correlate(
        self,
        make_step: Callable[[], StepT],
        recall: Callable[[StepT, Mapping[PartitionId, int]], None] = lambda _step, _since: None,
        *,
        until_caught_up: bool = False,
    ) -> None:
        """Runs correlate: one is active, others in the group stand by until it is gone.

        `recall` tells a step that has been restored what was published since these offsets of the cascade topic.
        """

        def build() -> Worker:
            step = make_step()
            outlet = WholeState(self._settings, step, self._deadline_s)
            try:
                recall(step, outlet.published_up_to)
            except BaseException:
                outlet.close()
                raise
            keeper = None
            if self._source_deadline_s is not None:
                keeper = RosterKeeper(self._settings, step, self._source_deadline_s)
            return self._make(step, outlet, "correlate", ("episode", *FACTS), keeper=keeper)

        while not self.stop.is_set():
            try:
                with Election(
                    self._settings, "correlate", instance=self._instance, deadline_s=self._deadline_s
                ) as election:
                    self._worked = True
                    self._stand(election, build, until_caught_up)
                    return
            except UnreachableError as err:
                if not self._worked or until_caught_up:
                    raise
                self._say(f"correlate: {err.message}: tries again")
            self.stop.wait(random.uniform(0, LONGEST_PAUSE_S))

    def _stand(self, election: Election, build: Callable[[], Worker], until_caught_up: bool) -> None:
        """Works whenever this candidate is the active one."""
        told = False
        while not self.stop.is_set():
            if not election.wait(STANDBY_LOOK_S if told else FIRST_LOOK_S, self.stop):
                if not told and not self.stop.is_set():
                    self._say("correlate: stands by; another one is active")
                    told = True
                continue
            self._run("correlate", build, until_caught_up, election.active)
            told = False
            if until_caught_up:
                return

    def _make(
        self,
        step: CountingStep,
        outlet: Outlet,
        name: str,
        topics: Sequence[str],
        group: str | None = None,
        keeper: RosterKeeper | None = None,
    ) -> Worker:
        health = HealthTeller(self._settings, f"{name} {self._name}") if self._tells_health else None
        try:
            return Worker(
                self._settings, step, name=name, topics=topics, group=group,
                instance=self._instance if group else "", outlet=outlet, keeper=keeper, health=health,
                stop=self.stop, say=self._say,
                on_outputs=self._on_outputs, on_status=self._tell, deadline_s=self._deadline_s,
            )  # fmt: skip
        except BaseException:
            outlet.close()
            raise

    def _run(self, name: str, build: Callable[[], Worker], until_caught_up: bool, go_on: Callable[[], bool]) -> None:
        """Builds workers until one ends as it should; the pause between two grows, with full jitter.

        A broker that does not answer is an error at the first start, and waited for ever after.
        """
        longest_s = FIRST_PAUSE_S
        while not self.stop.is_set() and go_on():
            begun_s = time.monotonic()
            try:
                with self._at_work(build()) as worker:
                    self._worked = True
                    try:
                        worker.run(until_caught_up=until_caught_up, go_on=go_on)
                    except FencedError:
                        self._end_if_replaced(worker, go_on)
                        raise
                    return
            except TransactionLostError as err:
                self._restarts(f"{name}: {err.message}: goes back to the last committed state")
            except UnreachableError as err:
                if not self._worked or until_caught_up:
                    raise
                self._restarts(f"{name}: {err.message}: tries again")
            if time.monotonic() - begun_s > LONGEST_PAUSE_S:
                longest_s = FIRST_PAUSE_S
            self.stop.wait(random.uniform(0, longest_s))
            longest_s = min(longest_s * 2, LONGEST_PAUSE_S)

    def _restarts(self, why: str) -> None:
        self.restarts += 1
        self._say(why)
        self._tell(self._told)  # no worker may get as far as to tell of it

    def _end_if_replaced(self, worker: Worker, go_on: Callable[[], bool]) -> None:
        """Raises BrokerError if another process has this one's name: the older must not take it back from the newer."""
        end_s = time.monotonic() + VERDICT_S * bool(self._instance)
        while time.monotonic() < end_s and not self.stop.is_set():
            worker.ask_membership()
            go_on()

    @contextmanager
    def _at_work(self, worker: Worker) -> Iterator[Worker]:
        self._worker = worker
        try:
            yield worker
        finally:
            worker.close()
            if self._on_status is not None:
                self._on_status(None)

    def _tell(self, status: Status) -> None:
        self._told = status
        if self._on_status is not None:
            self._on_status(replace(status, counters={**status.counters, "restarts": self.restarts}))
