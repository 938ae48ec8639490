"""Steps on a real Kafka that are moved, fenced, stopped, killed and woken up leave the results of a quiet run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import kinds
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, UnreachableError
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, Item
from stream.outbox import Outbox
from stream.publisher import Publisher
from stream.roster import StreamUp
from stream.subscriber import Subscriber
from stream.transactions import Transactions
from tests.chaos.repeated_trace import RepeatedTrace
from tests.chaos.run import publish
from tests.chaos.supervised import Supervised
from tests.chaos.undisturbed import outcome_on, undisturbed
from tests.stream.source_rows import xoff_rows
from tests.stream.sums_step import POISON_NS, Sums
from tests.stream.test_worker import letters, publish_sources, results

DEADLINE_S = 60.0
TRACE = Path(__file__).parents[1] / "data" / "ns3" / "two_roots-ls-s1"
SESSION_S = 6.0


@contextmanager
def working(
    settings: KafkaSettings, instance: str = "", steps: list[Sums] | None = None, step_of: Callable[[], Sums] = Sums
) -> Iterator[Runner]:
    """A runner of detect with a small step, in a thread; `steps` keeps the steps that it makes."""
    runner = Runner(settings, instance=instance, say=lambda _: None)

    def make() -> Sums:
        step = step_of()
        if steps is not None:
            steps.append(step)
        return step

    thread = threading.Thread(target=runner.detect, args=(make,))
    thread.start()
    try:
        yield runner
    finally:
        runner.stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


class SlowSums(Sums):
    """Takes so long that its worker is behind for some seconds."""

    def process(self, batch: Sequence[Item]) -> list[Item]:
        time.sleep(0.1)
        return super().process(batch)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


# On so many partitions that of any half some are among them: a group shares all partitions, used or not.
STREAMS = [
    (topic, kind, f"leaf{number}")
    for topic, kind in (
        ("pfc", "PFC_XOFF"), ("ecn", "CNP"), ("queue", "QUEUE_DEPTH"), ("pcie", "PCIE_ERRORS"), ("host", "CPU_THROTTLE")
    )
    for number in range(8)
]  # fmt: skip


class Source:
    """A source of some streams, each of whose rows tells which it is."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._publisher = Publisher(settings, "lab", "a", "boot-1", live=False)
        self._publisher.up([StreamUp(topic, device) for topic, _, device in STREAMS], from_ns=0)
        self._turn = 0

    def publish(self, turns: int) -> None:
        for _ in range(turns):
            self._turn += 1
            for topic, kind, device in STREAMS:
                rows = xoff_rows([self._turn])
                rows["kind"] = kinds.BY_NAME[kind].code
                self._publisher.append(topic, device, rows, ("eth0",))
                self._publisher.mark(topic, device, self._turn)
        self._publisher.flush()

    @property
    def turns(self) -> int:
        """How many have been published."""
        return self._turn

    def keep_ahead_of(self, reader: Runner, turns: int) -> None:
        """Publishes so many more turns where a reader has fewer than these before it."""
        if reader.counters.get("step_batches", 0) > (self._turn - turns) * len(STREAMS):
            self.publish(turns)

    def await_results(self) -> None:
        """Waits until the results of all turns are committed; no turn may be missing or be there twice."""
        expected = [(sum(range(turn + 1)), turn) for turn in range(1, self._turn + 1)]
        until(lambda: sum(map(len, results(self._settings).values())) >= len(expected) * len(STREAMS))
        assert results(self._settings) == dict.fromkeys(results(self._settings), expected)
        assert len(results(self._settings)) == len(STREAMS)

    def close(self) -> None:
        self._publisher.close()


@pytest.fixture
def source(real_settings: KafkaSettings) -> Iterator[Source]:
    source = Source(real_settings)
    yield source
    source.close()


@pytest.mark.kafka
def test_a_lost_transaction_makes_a_step_go_back_and_gives_the_same(
    real_settings: KafkaSettings, source: Source
) -> None:
    with working(real_settings, "one") as runner:
        source.publish(3)
        source.await_results()
        # Whoever begins under its name takes its transactions from it.
        Transactions(real_settings, "detect.one").close()
        source.publish(3)
        source.await_results()
        assert runner.restarts == 1


@pytest.mark.kafka
def test_partitions_move_between_two_processes_and_back_with_the_state_of_their_streams(
    real_settings: KafkaSettings, source: Source
) -> None:
    firsts: list[Sums] = []
    seconds: list[Sums] = []
    with working(real_settings, steps=firsts):
        source.publish(5)
        source.await_results()
        assert len(firsts[-1].rows) == len(STREAMS)
        with working(real_settings, steps=seconds):
            until(lambda: bool(seconds) and bool(seconds[-1].rows) and len(firsts[-1].rows) < len(STREAMS))
            source.publish(5)
            source.await_results()
            assert not firsts[-1].rows.keys() & seconds[-1].rows.keys()
            assert len(firsts[-1].rows) + len(seconds[-1].rows) == len(STREAMS)
        source.publish(5)
        source.await_results()
        assert len(firsts[-1].rows) == len(STREAMS)


@pytest.mark.kafka
def test_partitions_move_while_their_reader_is_behind_and_has_not_committed_all(
    real_settings: KafkaSettings, source: Source
) -> None:
    source.publish(100)
    firsts: list[Sums] = []
    with working(real_settings, steps=firsts, step_of=SlowSums) as first:
        until(lambda: first.counters.get("items", 0) > 300)
        with working(real_settings) as second:

            def joined() -> bool:
                # However long the other takes, there is more than the first has done.
                source.keep_ahead_of(first, 50)
                return first.counters.get("rebalances", 0) > 0

            until(joined)
            assert first.counters.get("step_batches", 0) < source.turns * len(STREAMS)
            source.publish(5)
            source.await_results()
            assert second.counters.get("step_batches", 0) > 0
    assert len(firsts) == 1


@pytest.mark.kafka
def test_poison_stops_nothing_and_is_one_dead_letter_whatever_is_restarted(real_settings: KafkaSettings) -> None:
    with Publisher(real_settings, "lab", "a", "boot-1", live=False) as publisher:
        publisher.up([StreamUp("pfc", "leaf1")], from_ns=0)
        for time_ns in (600, POISON_NS, 700):
            publisher.append("pfc", "leaf1", xoff_rows([time_ns]), ("eth0",))
            publisher.mark("pfc", "leaf1", time_ns)
    for _ in range(3):
        Runner(real_settings, say=lambda _: None).detect(Sums, until_caught_up=True)
    assert [letter.error for letter in letters(real_settings)] == ["ZeroDivisionError: poison"]
    assert list(results(real_settings).values()) == [[(600, 1), (1300, 2)]]


@pytest.mark.kafka
def test_a_standby_is_active_when_the_active_one_stops(real_settings: KafkaSettings) -> None:
    said: list[str] = []
    runners = [Runner(real_settings, say=said.append) for _ in range(2)]
    threads = [threading.Thread(target=runner.correlate, args=(Correlate,)) for runner in runners]
    threads[0].start()
    until(lambda: any(line.startswith("correlate: exactly once") for line in said))
    threads[1].start()
    until(lambda: "correlate: stands by; another one is active" in said)
    said.clear()
    runners[0].stop.set()
    until(lambda: any(line.startswith("correlate: exactly once") for line in said))
    runners[1].stop.set()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_killed_active_process_is_replaced_by_the_standby_of_another_host(
    real_settings: KafkaSettings, tmp_path: Path
) -> None:
    trace = RepeatedTrace(TRACE, 4)
    items = list(trace.items())
    publish(real_settings, items[: len(items) // 2])
    with (
        Supervised(real_settings, tmp_path, "detect", "detect"),
        Supervised(real_settings, tmp_path, "correlate", "active") as active,
    ):
        until(lambda: "exactly once" in active.said)
        with Supervised(real_settings, tmp_path, "correlate", "standby") as standby:
            until(lambda: "stands by" in standby.said)
            active.kill()
            until(lambda: "exactly once" in standby.said)
            publish(real_settings, items[len(items) // 2 :])
            expected = undisturbed(items)
            until(lambda: len(outcome_on(real_settings).finals) >= len(expected.finals))
    assert outcome_on(real_settings).finals == expected.finals


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("verb", ["detect", "correlate"])
def test_a_process_that_was_thought_dead_and_wakes_up_writes_nothing(
    real_settings: KafkaSettings, tmp_path: Path, verb: str
) -> None:
    items = list(RepeatedTrace(TRACE, 6).items())
    expected = undisturbed(items)
    third = len(items) // 3
    with (
        Supervised(real_settings, tmp_path, "detect", "detect") as detect,
        Supervised(real_settings, tmp_path, "correlate", "correlate") as correlate,
    ):
        sleeper = detect if verb == "detect" else correlate
        publish(real_settings, items[:third])
        until(lambda: "exactly once" in sleeper.said)
        with Supervised(real_settings, tmp_path, verb, "successor") as successor:
            until(lambda: "exactly once" in successor.said or "stands by" in successor.said)
            os.kill(sleeper.pid, signal.SIGSTOP)
            try:
                publish(real_settings, items[third : 2 * third])
                # Its session ends, and all that it had is another one's.
                time.sleep(SESSION_S + 3)
            finally:
                os.kill(sleeper.pid, signal.SIGCONT)
            publish(real_settings, items[2 * third :])
            # Provisional revisions that it had in hand are not held back by anything.
            until(lambda: not outcome_on(real_settings)._replace(revisions_after_the_final=0).differences(expected))
            assert sleeper.exit_status is None


def test_a_broker_that_does_not_answer_at_the_start_is_an_error() -> None:
    nowhere = KafkaSettings("127.0.0.1:1")
    with pytest.raises(UnreachableError, match="no Kafka broker answers"):
        Runner(nowhere, deadline_s=0.3).detect(Detect)
    with pytest.raises(UnreachableError, match="no Kafka broker answers"):
        Runner(nowhere, deadline_s=0.3).correlate(Correlate)


def test_exactly_once_is_refused_on_the_embedded_broker(embedded_broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerError, match="exactly once needs a real Kafka"):
        Runner(embedded_broker.settings).detect(Detect)
    with pytest.raises(BrokerError, match="exactly once needs a real Kafka"):
        Runner(embedded_broker.settings).correlate(Correlate)


@pytest.mark.kafka
def test_a_broken_value_of_the_roster_is_a_dead_letter_of_correlate_alone(real_settings: KafkaSettings) -> None:
    with Outbox(real_settings) as outbox:
        outbox.send_or_wait(Encoded("control", b"lab/a", b"{"))
        outbox.flush()
    publish_sources(real_settings, ["a"])
    for _ in range(2):
        Runner(real_settings, say=lambda _: None).detect(Detect, until_caught_up=True)
    assert letters(real_settings) == []
    for _ in range(2):
        Runner(real_settings, say=lambda _: None).correlate(Correlate, until_caught_up=True)
    assert [(letter.place, letter.step) for letter in letters(real_settings)] == [("control[0]@0", "correlate")]
    with Subscriber(real_settings, ["control"]) as reader:
        assert len(reader.read_up_to_now()) == 3
