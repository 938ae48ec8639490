"""A runner begins again when a transaction is lost, ends when another process has its name, and says why it does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from analytics.correlate import Correlate
from stream.errors import BrokerError, PausetraceError
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.outbox import Outbox
from stream.progress import Status
from stream.state_topic import CHUNK_BYTES, encode_snapshot
from stream.transactions import TransactionLostError
from stream.whole_state import KEY
from tests.stream.sums_step import Sums
from tests.stream.test_exactly_once import DEADLINE_S, Source, until

TAKEN_OVER = "another process has taken over the instance 'one'; give every process an --instance of its own"


class Running:
    """A runner of the instance `one` in a thread, what it says and the error that it ended with."""

    def __init__(self, settings: KafkaSettings, work: Callable[[Runner], None]) -> None:
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.runner = Runner(settings, instance="one", say=self.said.append)
        self._work = work
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._work(self.runner)
        except PausetraceError as err:
            self.error = err

    def stop(self) -> None:
        self.runner.stop.set()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


def test_every_lost_transaction_is_counted_and_told_and_tried_again_until_it_is_stopped() -> None:
    said: list[str] = []
    runner = Runner(KafkaSettings("127.0.0.1:1"), say=said.append)

    def make() -> Sums:
        if len(said) == 3:
            runner.stop.set()
        raise TransactionLostError("gone")

    runner.detect(make)
    assert runner.restarts == 4
    assert said == ["detect: gone: goes back to the last committed state"] * 4


def test_what_never_gets_as_far_as_to_work_tells_its_restarts() -> None:
    told: list[int | None] = []

    def tell(status: Status | None) -> None:
        told.append(status.counters["restarts"] if status else None)
        if len(told) == 3:
            runner.stop.set()

    runner = Runner(KafkaSettings("127.0.0.1:1"), say=lambda _: None, on_status=tell)

    def make() -> Sums:
        raise TransactionLostError("gone")

    runner.detect(make)
    assert told == [1, 2, 3]


def test_any_other_error_ends_it() -> None:
    def make() -> Sums:
        raise BrokerError("no right")

    with pytest.raises(BrokerError, match="no right"):
        Runner(KafkaSettings("127.0.0.1:1"), say=lambda _: None).detect(make)


@pytest.mark.kafka
@pytest.mark.slow
def test_of_two_detects_with_one_name_the_older_ends_and_the_newer_goes_on_where_it_stood(
    real_settings: KafkaSettings,
) -> None:
    source = Source(real_settings)
    older = Running(real_settings, lambda runner: runner.detect(Sums))
    source.publish(3)
    source.await_results()
    newer = Running(real_settings, lambda runner: runner.detect(Sums))
    until(lambda: older.error is not None)
    assert str(older.error).startswith(TAKEN_OVER)
    source.publish(3)
    source.await_results()
    assert newer.error is None
    newer.stop()
    source.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_of_two_correlates_with_one_name_the_older_ends_and_says_so(real_settings: KafkaSettings) -> None:
    older = Running(real_settings, lambda runner: runner.correlate(Correlate))
    until(lambda: any("exactly once" in line for line in older.said))
    newer = Running(real_settings, lambda runner: runner.correlate(Correlate))
    until(lambda: older.error is not None)
    assert str(older.error).startswith(TAKEN_OVER)
    assert newer.error is None
    newer.stop()


@pytest.mark.kafka
def test_a_state_that_is_not_whole_keeps_correlate_from_starting_and_says_how_to_start_over(
    real_settings: KafkaSettings,
) -> None:
    with Outbox(real_settings) as outbox:
        outbox.send_or_wait(encode_snapshot(KEY, 1, bytes(CHUNK_BYTES + 1))[1])
        outbox.flush()
    with pytest.raises(PausetraceError, match=r"is not whole; start the step over: docs/exactly-once\.md") as caught:
        Runner(real_settings, say=lambda _: None).correlate(Correlate)
    assert KEY in str(caught.value)
