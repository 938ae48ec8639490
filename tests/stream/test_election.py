"""Of several candidates one is active, and another one is as soon as it leaves."""

from __future__ import annotations

import threading
import time

from stream.election import Election
from stream.kafka_settings import KafkaSettings

NEVER = threading.Event()
DEADLINE_S = 30.0


def test_one_candidate_alone_is_active(any_kafka: KafkaSettings) -> None:
    with Election(any_kafka, "correlate") as election:
        assert election.wait(DEADLINE_S, NEVER)
        assert election.active()


def test_a_second_candidate_stands_by_until_the_first_leaves(any_kafka: KafkaSettings) -> None:
    first = Election(any_kafka, "correlate")
    assert first.wait(DEADLINE_S, NEVER)
    with Election(any_kafka, "correlate") as second:
        # Long enough for the second to be given its part, which is nothing.
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s:
            # On the embedded broker the group may even go to the second, but never to both.
            assert first.active() + second.active() <= 1
            second.wait(0.02, NEVER)
        first.close()
        assert second.wait(DEADLINE_S, NEVER)


def test_groups_elect_each_their_own(any_kafka: KafkaSettings) -> None:
    with Election(any_kafka, "correlate") as one, Election(any_kafka, "other") as other:
        assert one.wait(DEADLINE_S, NEVER)
        assert other.wait(DEADLINE_S, NEVER)


def test_a_wait_ends_when_it_is_told_to_stop(any_kafka: KafkaSettings) -> None:
    stop = threading.Event()
    stop.set()
    with Election(any_kafka, "correlate") as election:
        assert not election.wait(DEADLINE_S, stop)
