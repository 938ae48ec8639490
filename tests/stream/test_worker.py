"""A worker hands items over in order, publishes what comes out, and survives what it cannot take."""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from stream.batch import Batch, StreamKey
from stream.dead_letters import DeadLetter, decode_dead_letter
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings, producer_config
from stream.messages import Encoded, Item
from stream.outbox import Outbox
from stream.publisher import Publisher
from stream.roster import SourceUp, StreamUp
from stream.worker import Worker, stop_on_signals
from tests.stream.reading import batches_on, messages_on
from tests.stream.source_rows import xoff_rows
from tests.stream.sums_step import POISON_NS, Sums

PORTS = ("eth0",)
DEADLINE_S = 60.0


def publish_sources(settings: KafkaSettings, sources: Sequence[str], values: int = 5) -> None:
    """Each source sends `values` values of 2 rows for each of 3 devices, from SOURCE_UP to SOURCE_DOWN."""
    for source in sources:
        with Publisher(settings, "lab", source, "boot-1", live=False) as publisher:
            devices = [f"{source}-leaf{number}" for number in range(3)]
            publisher.up([StreamUp("pfc", device) for device in devices], from_ns=0)
            for turn in range(values):
                for device in devices:
                    publisher.append("pfc", device, xoff_rows([10 * turn, 10 * turn + 1]), PORTS)
                    publisher.mark("pfc", device, 10 * turn + 1)
            publisher.down(10 * values)


def run_to_the_end(settings: KafkaSettings, step: Sums, group: str | None = None) -> dict[str, int]:
    worker = Worker(settings, step, name="detect", topics=["pfc", "queue"], group=group, say=lambda _: None)
    try:
        worker.run(until_caught_up=True, deadline_s=DEADLINE_S)
        return worker.counters
    finally:
        worker.close()


def results(settings: KafkaSettings) -> dict[StreamKey, list[tuple[int, int]]]:
    made: dict[StreamKey, list[tuple[int, int]]] = {}
    for batch in batches_on(settings, "episode"):
        rows = made.setdefault(batch.stream, [])
        rows += [(int(row["time_ns"]), int(row["value"])) for row in batch.events]
    return made


def letters(settings: KafkaSettings) -> list[DeadLetter]:
    return [decode_dead_letter(message.value or b"") for message in messages_on(settings, ["deadletter"])]


@pytest.mark.parametrize("group", [None, "detect"])
def test_every_value_is_processed_and_its_result_published(any_kafka: KafkaSettings, group: str | None) -> None:
    publish_sources(any_kafka, ["a", "b"])
    counters = run_to_the_end(any_kafka, Sums(), group)
    made = results(any_kafka)
    assert len(made) == 6
    assert set(map(tuple, made.values())) == {((1, 2), (22, 4), (63, 6), (124, 8), (205, 10))}
    assert counters["outputs"] == counters["step_batches"] == 30
    assert counters["step_unannounced"] == counters["dead_letters"] == counters["gaps"] == 0


def test_a_restarted_worker_publishes_the_same_again_and_says_so_at_its_start(
    embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = embedded_broker.settings
    publish_sources(settings, ["a"])
    for _ in range(2):
        worker = Worker(settings, Sums(), name="detect", topics=["pfc"], group="detect")
        worker.run(until_caught_up=True, deadline_s=DEADLINE_S)
        worker.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert "at least once: after a restart it reads everything again" in said.err
    for rows in results(settings).values():
        assert rows[:5] == rows[5:]


class Order:
    """Notes what arrives in which order."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.seen: list[str] = []

    def process(self, batch: Sequence[Item]) -> list[Item]:
        self.seen += [f"up {item.source}" for item in batch if isinstance(item, SourceUp)]
        self.seen += [f"row {item.stream.source}" for item in batch if isinstance(item, Batch)]
        return []

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass


def test_a_source_is_announced_before_its_first_row_however_late_it_comes(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    step, stop = Order(), threading.Event()
    worker = Worker(settings, step, name="detect", topics=["pfc"], stop=stop, say=lambda _: None)
    running = threading.Thread(target=worker.run, kwargs={"deadline_s": DEADLINE_S})
    running.start()
    sources = [f"source{number}" for number in range(5)]
    for source in sources:
        publish_sources(settings, [source], values=1)
    while len([line for line in step.seen if line.startswith("row")]) < 15 and running.is_alive():
        stop.wait(0.01)
    stop.set()
    running.join(DEADLINE_S)
    worker.close()
    for source in sources:
        assert step.seen.index(f"up {source}") < step.seen.index(f"row {source}")


def test_a_value_that_does_not_decode_is_a_dead_letter_with_its_place_and_harms_no_neighbour(
    embedded_broker: EmbeddedBroker,
) -> None:
    settings = embedded_broker.settings
    with Outbox(settings) as outbox:
        outbox.send_or_wait(Encoded("pfc", b"lab/a-leaf0", b"PTB1 but no more"))
        outbox.send_or_wait(Encoded("control", b"lab/a", b"{"))
        outbox.flush()
    publish_sources(settings, ["a"])
    counters = run_to_the_end(settings, Sums())
    assert counters["dead_letters"] == counters["unreadable"] == 2
    by_topic = {letter.topic: letter for letter in letters(settings)}
    hostile = next(m for m in messages_on(settings, ["pfc"]) if m.value == b"PTB1 but no more")
    assert by_topic["pfc"].place == hostile.place
    assert (by_topic["pfc"].key, by_topic["pfc"].value) == (b"lab/a-leaf0", b"PTB1 but no more")
    assert by_topic["pfc"].step == "detect"
    assert by_topic["control"].place == "control[0]@0"
    assert sum(map(len, results(settings).values())) == 15


def test_a_value_that_the_step_cannot_take_is_a_dead_letter_and_the_step_goes_on(
    embedded_broker: EmbeddedBroker,
) -> None:
    settings = embedded_broker.settings
    with Publisher(settings, "lab", "a", "boot-1", live=False) as publisher:
        publisher.up([StreamUp("pfc", "leaf1")], from_ns=0)
        for time_ns in (600, POISON_NS, 700):
            publisher.append("pfc", "leaf1", xoff_rows([time_ns]), PORTS)
            publisher.mark("pfc", "leaf1", time_ns)
    counters = run_to_the_end(settings, Sums())
    assert counters["poisoned"] == 1
    (letter,) = letters(settings)
    assert letter.error == "ZeroDivisionError: poison"
    assert letter.place.startswith("pfc[")
    assert list(results(settings).values()) == [[(600, 1), (1300, 2)]]


def test_truncation_is_a_dead_letter_too(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    with Outbox(settings) as outbox:
        for _ in range(8):
            # Noise does not compress; 5 MB is all that a partition holds.
            outbox.send_or_wait(Encoded("pfc", b"lab/leaf1", random_bytes(900_000)))
        outbox.flush()
    counters = run_to_the_end(settings, Sums())
    assert counters["missing_offsets"] + counters["unreadable"] == 8
    assert counters["missing_offsets"] > 0
    gap = min(letters(settings), key=lambda letter: letter.offset)
    assert gap.offset == 0
    assert gap.error.startswith(f"{counters['missing_offsets']} messages truncated by the embedded broker")


def random_bytes(count: int) -> bytes:
    return random.Random(7).randbytes(count)


def test_tombstones_of_compacted_topics_are_no_dead_letters(embedded_broker: EmbeddedBroker) -> None:
    settings = embedded_broker.settings
    producer = Producer(producer_config(settings, queue_bytes=1 << 20, message_timeout_ms=10_000))
    producer.produce("fabric.link", None, b"lab/link@0")
    assert producer.flush(10) == 0
    worker = Worker(settings, Sums(), name="correlate", topics=["link"], say=lambda _: None)
    worker.run(until_caught_up=True, deadline_s=DEADLINE_S)
    worker.close()
    assert (worker.counters["tombstones"], worker.counters["dead_letters"]) == (1, 0)


def test_two_workers_of_a_group_share_the_streams_and_lose_none(any_kafka: KafkaSettings) -> None:
    publish_sources(any_kafka, ["a", "b", "c", "d"])
    stop = threading.Event()
    steps = [Sums(), Sums()]
    workers = [
        Worker(any_kafka, step, name="detect", topics=["pfc"], group="detect", stop=stop, say=lambda _: None)
        for step in steps
    ]
    threads = [threading.Thread(target=worker.run, kwargs={"deadline_s": DEADLINE_S}) for worker in workers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not (
        all(step.rows for step in steps) and sum(map(len, (step.rows for step in steps))) == 12
        and all(rows == 10 for step in steps for rows in list(step.rows.values()))
    ):  # fmt: skip
        stop.wait(0.02)
    stop.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not steps[0].rows.keys() & steps[1].rows.keys()
    assert [*steps[0].sums.values(), *steps[1].sums.values()] == [205] * 12
    for worker in workers:
        worker.close()


def test_a_worker_that_cannot_catch_up_says_so_at_its_deadline(embedded_broker: EmbeddedBroker) -> None:
    publish_sources(embedded_broker.settings, ["a"])
    worker = Worker(embedded_broker.settings, Sums(), name="detect", topics=["pfc"], say=lambda _: None)
    with pytest.raises(BrokerError, match="detect did not catch up within 0 s"):
        worker.run(until_caught_up=True, deadline_s=0)
    worker.close()


def test_missing_topics_and_an_unreachable_broker_stop_a_worker_at_its_start(embedded_broker: EmbeddedBroker) -> None:
    other = KafkaSettings(embedded_broker.bootstrap_servers, "other")
    with pytest.raises(BrokerError, match="pausetrace topics create"):
        Worker(other, Sums(), name="detect", topics=["pfc"])
    with pytest.raises(BrokerError, match="no Kafka broker answers"):
        Worker(KafkaSettings("127.0.0.1:1"), Sums(), name="detect", topics=["pfc"], deadline_s=0.3)


def test_a_signal_stops_a_worker_and_leaves_the_process_alive() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_worker_says_when_kafka_is_silent(embedded_broker: EmbeddedBroker) -> None:
    said: list[str] = []
    worker = Worker(embedded_broker.settings, Sums(), name="detect", topics=["pfc"], say=said.append, silence_s=0.2)
    embedded_broker.stop()
    running = threading.Thread(target=worker.run, kwargs={"deadline_s": DEADLINE_S})
    running.start()
    while len(said) < 2 and running.is_alive():
        worker.stop.wait(0.01)
    worker.stop.set()
    running.join(DEADLINE_S)
    worker.close()
    assert said[1].startswith("detect: waits for Kafka: ")
    assert "refused" in said[1]
