"""A source that falls silent holds up nobody for longer than the deadline, and counts again when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import cast

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream.batch import StreamKey
from stream.deadlines import Standing
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.exactly_once import Runner
from stream.facts import Device
from stream.kafka_settings import KafkaSettings
from stream.offset_gaps import PartitionId
from stream.progress import Status
from stream.publisher import UNSENT, Publisher
from stream.roster import RosterChange, SourceResumed, SourceSuspended, StreamName, StreamUp
from stream.roster_keeper import RosterKeeper
from stream.subscriber import Subscriber
from stream.topics import FACTS, RAW
from stream.worker import Worker
from tests.stream.reading import items_on

DEADLINE_S = 60.0
SOURCE_DEADLINE_S = 1.5
"""Above a second, which lies between two idle values."""


class LiveSource:
    """A source that says every 50 ms that nothing happens, until it is made silent."""

    def __init__(self, settings: KafkaSettings, name: str, *, facts: bool = False) -> None:
        self.silent = threading.Event()
        self._over = threading.Event()
        self._publisher = Publisher(settings, "lab", name, "boot-1")
        self._publisher.up([StreamUp("pfc", name), *([StreamUp("device")] if facts else [])], time.time_ns())
        if facts:
            self._publisher.fact(Device("", name, "leaf", time.time_ns(), UNSENT))
        self._name = name
        self._thread = threading.Thread(target=self._speak)
        self._thread.start()

    def _speak(self) -> None:
        while not self._over.wait(0.05):
            if not self.silent.is_set():
                self._publisher.mark("pfc", self._name, time.time_ns())
                self._publisher.poll()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._publisher.close()


class Pipeline:
    """detect and correlate in threads; what correlate last said of itself."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.status: Status | None = None
        self._stack = ExitStack()

    def settled_ns(self) -> int:
        fabric = None if self.status is None else self.status.fabrics.get("lab")
        return 0 if fabric is None else fabric.settled_ns

    def suspended(self) -> int:
        fabric = None if self.status is None else self.status.fabrics.get("lab")
        return 0 if fabric is None else fabric.streams_suspended

    def take(self, status: Status | None) -> None:
        self.status = status

    def start_detect(self) -> Callable[[], None]:
        return self._start(lambda runner: runner.detect(Detect), None)

    def start_correlate(self) -> Callable[[], None]:
        return self._start(lambda runner: runner.correlate(Correlate), self.take)

    def _start(
        self, work: Callable[[Runner], None], on_status: Callable[[Status | None], None] | None
    ) -> Callable[[], None]:
        runner = Runner(
            self._settings, say=lambda _: None, on_status=on_status, source_deadline_s=SOURCE_DEADLINE_S
        )  # fmt: skip
        thread = threading.Thread(target=work, args=(runner,))
        thread.start()

        def stop() -> None:
            runner.stop.set()
            thread.join(DEADLINE_S)
            assert not thread.is_alive()

        self._stack.callback(stop)
        return stop

    def close(self) -> None:
        self._stack.close()


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def changes(settings: KafkaSettings) -> list[RosterChange]:
    return [item for item in items_on(settings, "control") if isinstance(item, SourceSuspended | SourceResumed)]


@pytest.fixture
def pipeline(real_settings: KafkaSettings) -> Iterator[Pipeline]:
    pipeline = Pipeline(real_settings)
    yield pipeline
    pipeline.close()


@contextmanager
def sources(settings: KafkaSettings, *names: str) -> Iterator[list[LiveSource]]:
    with ExitStack() as stack:
        made = []
        for name in names:
            made.append(LiveSource(settings, name, facts=name == names[0]))
            stack.callback(made[-1].close)
        yield made


@pytest.mark.kafka
@pytest.mark.slow
def test_a_silent_source_is_not_waited_for_until_it_is_back(real_settings: KafkaSettings, pipeline: Pipeline) -> None:
    pipeline.start_detect()
    pipeline.start_correlate()
    with sources(real_settings, "leaf1", "leaf2", "leaf3") as (_, _, dying):
        until(lambda: pipeline.settled_ns() > 0)
        dying.silent.set()
        silent_ns = time.time_ns()
        until(lambda: pipeline.settled_ns() > silent_ns + 2_000_000_000)
        (suspended,) = changes(real_settings)
        assert isinstance(suspended, SourceSuspended)
        assert (suspended.source, suspended.streams) == ("leaf3", (StreamName("pfc", "leaf3"),))
        assert suspended.at_ns < silent_ns + 1_000_000_000
        assert pipeline.suspended() == 1
        dying.silent.clear()
        until(lambda: pipeline.suspended() == 0)
        _, resumed = changes(real_settings)
        assert isinstance(resumed, SourceResumed)
        assert resumed.from_ns > silent_ns
        again_ns = pipeline.settled_ns()
        until(lambda: pipeline.settled_ns() > again_ns + 1_000_000_000)


@pytest.mark.kafka
@pytest.mark.slow
def test_no_source_is_late_because_detect_is_away(real_settings: KafkaSettings, pipeline: Pipeline) -> None:
    stop_detect = pipeline.start_detect()
    pipeline.start_correlate()
    # leaf1 tells facts as well, which correlate reads itself: somebody speaks while detect is away.
    with sources(real_settings, "leaf1", "leaf2"):
        until(lambda: pipeline.settled_ns() > 0)
        stop_detect()
        time.sleep(3 * SOURCE_DEADLINE_S)
        assert changes(real_settings) == []
        pipeline.start_detect()
        away_ns = time.time_ns()
        until(lambda: pipeline.settled_ns() > away_ns)
        assert changes(real_settings) == []


@pytest.mark.slow
def test_the_embedded_broker_waits_for_no_silent_source_either(embedded_broker: EmbeddedBroker) -> None:
    stop = threading.Event()
    step = Correlate()
    detect = Worker(embedded_broker.settings, Detect(), name="detect", topics=RAW, group="detect", stop=stop)
    keeper = RosterKeeper(embedded_broker.settings, step, SOURCE_DEADLINE_S, detect_commits=False)
    correlate = Worker(
        embedded_broker.settings, step, name="correlate", topics=("episode", *FACTS), keeper=keeper, stop=stop
    )  # fmt: skip
    threads = [threading.Thread(target=worker.run) for worker in (detect, correlate)]
    for thread in threads:
        thread.start()
    with sources(embedded_broker.settings, "leaf1", "leaf2", "leaf3") as (_, _, dying):
        until(lambda: bool(step.settled()))
        dying.silent.set()
        silent_ns = time.time_ns()
        until(lambda: step.settled()["lab"].settled_ns > silent_ns + 2_000_000_000)
        stop.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    for worker in (detect, correlate):
        worker.close()
    assert keeper.counters["suspended_streams"] == 1
    assert step.standing()["lab"][StreamKey("lab", "leaf3", "boot-1", "pfc", "leaf3")].suspended


def test_a_right_that_is_missing_stops_nothing_and_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    class Late:
        """A step of which one stream is dead."""

        now_s = 0.0

        def standing(self) -> dict[str, dict[StreamKey, Standing]]:
            moving = Standing(int(self.now_s * 1e9), suspended=False)
            names = dict.fromkeys(("a", "b"), moving) | {"dead": Standing(0, suspended=False)}
            return {"lab": {StreamKey("lab", name, "e", "pfc", name): at for name, at in names.items()}}

        def resumable_from_ns(self, fabric: str) -> int:
            return 0

    class Refused(RosterKeeper):
        """Kafka does not let it ask."""

        def _published(self, late: Mapping[StreamKey, int]) -> dict[PartitionId, int]:
            raise BrokerError("User:correlate has no right to Describe on group fabric.detect")

    step = Late()
    keeper = Refused(KafkaSettings("localhost:1"), step, 2.0, monotonic_s=lambda: step.now_s)
    reader = cast("Subscriber", None)  # it does not come to that
    for _ in range(20):
        step.now_s += 0.5
        assert keeper.take_changes(reader) == []
    assert keeper.counters["late_checks_failed"] > 1
    assert "no right to Describe on group fabric.detect" in caplog.text
