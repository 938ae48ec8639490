"""The page about exactly once: its way to start over is the one that works, and its numbers are those of the code."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from stream import exactly_once, outbox, transactions
from stream.errors import PausetraceError
from stream.exactly_once import Runner
from stream.kafka_settings import KafkaSettings
from stream.outbox import Outbox
from stream.state_topic import CHUNK_BYTES, encode_snapshot
from stream.topic_admin import create_topics
from stream.whole_state import KEY
from tests.chaos.repeated_trace import RepeatedTrace
from tests.chaos.run import publish
from tests.chaos.scenarios import TRACE
from tests.chaos.undisturbed import outcome_on, undisturbed
from tests.kafka_brokers import RealKafka

PAGE = (Path(__file__).parents[2] / "docs" / "exactly-once.md").read_text()


def commands() -> list[str]:
    block = PAGE.split("## Starting over")[1].split("```sh\n")[1].split("```")[0]
    return block.strip().splitlines()


def run_both(settings: KafkaSettings) -> None:
    Runner(settings, say=lambda _: None).detect(Detect, until_caught_up=True)
    Runner(settings, say=lambda _: None).correlate(Correlate, until_caught_up=True)


@pytest.mark.kafka
@pytest.mark.slow
def test_starting_over_as_the_page_says_gives_the_same_from_a_broken_state(
    real_settings: KafkaSettings, kafka_container: RealKafka
) -> None:
    items = list(RepeatedTrace(TRACE, 2).items())
    expected = undisturbed(items)
    publish(real_settings, items)
    run_both(real_settings)
    assert outcome_on(real_settings).differences(expected) == []
    with Outbox(real_settings) as out:
        out.send_or_wait(encode_snapshot(KEY, 1, bytes(3 * CHUNK_BYTES))[0])
        out.flush()
    with pytest.raises(PausetraceError, match="start the step over"):
        run_both(real_settings)
    *of_kafka, last = commands()
    for command in of_kafka:
        here = command.replace("HOST:9092", "localhost:29092").replace("fabric.", f"{real_settings.prefix}.")
        status, said = kafka_container.container.exec_run(shlex.split(f"/opt/kafka/bin/{here}"))
        assert status == 0, said
    assert last == "pausetrace topics create"
    create_topics(real_settings)
    run_both(real_settings)
    again = outcome_on(real_settings)
    assert again.finals == sorted(expected.finals * 2)
    assert again._replace(finals=expected.finals).differences(expected) == []


def test_the_page_says_what_the_code_does() -> None:
    for said in (
        f"parts of {CHUNK_BYTES >> 10} KiB",
        f"after {exactly_once.FIRST_PAUSE_S:g} s at first and {exactly_once.LONGEST_PAUSE_S:g} s at most",
        f"does not get through within {transactions.COMMIT_DEADLINE_S:g} s",
        f"{transactions.TRANSACTION_TIMEOUT_MS // 1000} s after it began",
        f"sources hold {outbox.HOLD_S:g} s of rows and {(outbox.QUEUE_BYTES + outbox.HELD_BYTES) >> 20} MB",
    ):
        assert said in PAGE
