"""Each way out delivers what it takes, and says where to begin after a restart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import pytest

from stream.batch import StreamKey
from stream.by_stream import ByStream
from stream.cascade import FINAL, Cascade
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, PausetraceError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, encode
from stream.offset_gaps import PartitionId
from stream.outbox import Outbox
from stream.outlets import AtLeastOnce, Outlet
from stream.published import read_cascades
from stream.publisher import Publisher
from stream.roster import StreamUp
from stream.state_topic import CHUNK_BYTES, encode_snapshot, read_snapshots
from stream.subscriber import Subscriber
from stream.topics import FACTS
from stream.transactions import FencedError
from stream.whole_state import KEY, WholeState
from stream.worker import Worker
from tests.stream.reading import items_on, messages_on
from tests.stream.sample_items import CASCADE
from tests.stream.source_rows import xoff_rows
from tests.stream.sums_step import Sums
from tests.stream.test_worker import publish_sources, results

DEADLINE_S = 60.0


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def run_to_the_end(settings: KafkaSettings, step: Sums, outlet: Outlet, group: str | None = "detect") -> dict[str, int]:
    worker = Worker(settings, step, name="detect", topics=["pfc"], group=group, outlet=outlet, say=lambda _: None)
    try:
        worker.run(until_caught_up=True, deadline_s=DEADLINE_S)
        return worker.counters
    finally:
        worker.close()


def by_stream(settings: KafkaSettings) -> dict[str, int]:
    step = Sums()
    return run_to_the_end(settings, step, ByStream(settings, step, "one", 10))


def revision(number: int | str, cascade_id: str = CASCADE.id) -> Cascade:
    return msgspec.structs.replace(CASCADE, id=cascade_id, revision=number)


def test_at_least_once_says_so_begins_at_the_earliest_and_delivers(embedded_broker: EmbeddedBroker) -> None:
    outlet = AtLeastOnce(embedded_broker.settings, 10)
    assert "at least once" in outlet.notice
    assert outlet.starts([PartitionId("pfc", 0)]) == {}
    assert outlet.take_restored() == {}
    outlet.publish(CASCADE, encode(CASCADE))
    outlet.send(Encoded("deadletter", b"k", b"v"))
    outlet.finish()
    outlet.close()
    assert items_on(embedded_broker.settings, "cascade") == [CASCADE]
    assert outlet.counters["delivered"] == 2


def test_at_least_once_says_at_the_end_of_a_turn_what_could_not_be_delivered(embedded_broker: EmbeddedBroker) -> None:
    nowhere = KafkaSettings(embedded_broker.bootstrap_servers, "x", {"topic.metadata.propagation.max.ms": "200"})
    outlet = AtLeastOnce(nowhere, 10)
    outlet.send(Encoded("deadletter", b"k", b"v"))
    with pytest.raises(BrokerError, match="pausetrace topics create"):
        outlet.finish()
    outlet.close()


@pytest.mark.kafka
def test_a_restarted_step_goes_on_where_it_stood_and_nothing_comes_twice(real_settings: KafkaSettings) -> None:
    publish_sources(real_settings, ["a", "b"], values=2)
    first = by_stream(real_settings)
    publish_sources(real_settings, ["c"], values=2)
    second = by_stream(real_settings)
    third = by_stream(real_settings)
    assert [counters.get("step_batches", 0) for counters in (first, second, third)] == [12, 6, 0]
    assert set(map(tuple, results(real_settings).values())) == {((1, 2), (22, 4))}
    assert len(results(real_settings)) == 9
    assert third["outbox_commits"] == 0


@pytest.mark.kafka
def test_the_state_of_a_stream_is_carried_over_restarts(real_settings: KafkaSettings) -> None:
    with Publisher(real_settings, "lab", "a", "boot-1", live=False) as publisher:
        publisher.up([StreamUp("pfc", f"leaf{number}") for number in range(5)], from_ns=0)
        for turn in range(1, 4):
            for number in range(5):
                publisher.append("pfc", f"leaf{number}", xoff_rows([10 * turn]), ("eth0",))
                publisher.mark("pfc", f"leaf{number}", 10 * turn)
            publisher.flush()
            by_stream(real_settings)
    assert list(results(real_settings).values()) == [[(10, 1), (30, 2), (60, 3)]] * 5


@pytest.mark.kafka
def test_a_state_stands_on_the_partition_that_belongs_to_its_streams(real_settings: KafkaSettings) -> None:
    publish_sources(real_settings, ["a", "b", "c"])
    by_stream(real_settings)
    places = {message.key: message.partition for message in messages_on(real_settings, ["state"])}
    assert len(places) == 9
    for key, partition in places.items():
        assert key is not None
        assert key.split(b"/")[:2] == [b"detect", b"pfc"]
        assert int(key.split(b"/")[2]) == partition


@pytest.mark.kafka
def test_a_state_that_no_version_of_detect_wrote_says_how_to_start_over(real_settings: KafkaSettings) -> None:
    publish_sources(real_settings, ["a"])
    by_stream(real_settings)
    with Outbox(real_settings) as outbox:
        for number in range(40):
            outbox.send_or_wait(encode_snapshot(f"detect/{number}", 1, b"")[0])
        outbox.flush()
    with pytest.raises(PausetraceError, match="which no version of detect writes"):
        by_stream(real_settings)


@pytest.fixture
def whole(real_settings: KafkaSettings) -> Iterator[tuple[Sums, WholeState, Clock, Subscriber]]:
    """An outlet of a step that is one piece, its clock, and a reader of the topics of correlate."""
    step, clock = Sums(), Clock()
    outlet = WholeState(real_settings, step, 10, clock)
    with Subscriber(real_settings, ["episode", *FACTS, "control"]) as reader:
        while len(reader.positions()) < len(reader.assigned):
            reader.consume()
        yield step, outlet, clock, reader
    outlet.close()


Whole = tuple[Sums, WholeState, Clock, Subscriber]


@pytest.mark.kafka
def test_a_final_cascade_is_committed_with_the_state_and_a_provisional_one_goes_out_at_once(
    whole: Whole, real_settings: KafkaSettings
) -> None:
    _, outlet, _, reader = whole
    outlet.publish(revision(1), encode(revision(1)))
    outlet.publish(revision(FINAL), encode(revision(FINAL)))
    while not (seen := items_on(real_settings, "cascade")):
        pass
    assert seen == [revision(1)]
    assert read_snapshots(real_settings, KEY) == {}
    outlet.end_turn([reader], {})
    assert items_on(real_settings, "cascade") == [revision(1), revision(FINAL)]
    assert KEY in read_snapshots(real_settings, KEY)
    assert outlet.counters["commits"] == 1


@pytest.mark.kafka
def test_without_a_final_cascade_a_snapshot_is_made_every_second_if_anything_came(
    whole: Whole, real_settings: KafkaSettings
) -> None:
    _, outlet, clock, reader = whole
    outlet.end_turn([reader], {})
    for comes, advance_s, commits in ((False, 5.0, 1), (True, 0.0, 2), (True, 0.5, 2), (False, 0.6, 3), (True, 0.9, 3)):
        clock.now_s += advance_s
        if comes:
            publish_sources(real_settings, ["a"], values=1)
            reader.read_up_to_now()
        outlet.end_turn([reader], {})
        assert outlet.counters["commits"] == commits
    outlet.send(Encoded("deadletter", b"k", b"v"))
    outlet.end_turn([reader], {})
    assert outlet.counters["commits"] == 4


@pytest.mark.kafka
def test_a_successor_begins_with_the_state_and_the_offsets_and_fences_the_first(
    whole: Whole, real_settings: KafkaSettings
) -> None:
    step, outlet, _, reader = whole
    publish_sources(real_settings, ["a"])
    reader.read_up_to_now()
    step.rows.clear()
    outlet.publish(revision(FINAL), encode(revision(FINAL)))
    outlet.end_turn([reader], {})
    successor = WholeState(real_settings, Sums(), 10)
    starts = successor.starts(sorted(reader.assigned))
    assert starts == reader.positions()
    assert starts[PartitionId("control", 0)] == 2
    outlet.publish(revision(FINAL, "a"), encode(revision(FINAL, "a")))
    with pytest.raises(FencedError):
        outlet.finish()
    assert items_on(real_settings, "cascade") == [revision(FINAL)]
    successor.close()


@pytest.mark.kafka
def test_a_successor_is_told_what_was_published_after_the_snapshot_and_no_more(
    whole: Whole, real_settings: KafkaSettings
) -> None:
    _, outlet, _, reader = whole
    for number in (1, 2):
        outlet.publish(revision(number), encode(revision(number)))
        publish_sources(real_settings, ["a"], values=1)
        reader.read_up_to_now()
        outlet.end_turn([reader], {})
    outlet.finish()
    outlet.publish(revision(1, "0123456789abcdef"), encode(revision(1, "0123456789abcdef")))
    while len(read_cascades(real_settings)) < 2:
        pass
    successor = WholeState(real_settings, Sums(), 10)
    assert read_cascades(real_settings, successor.published_up_to) == [revision(1, "0123456789abcdef")]
    successor.close()


@pytest.mark.kafka
def test_a_state_of_several_megabytes_is_restored(whole: Whole, real_settings: KafkaSettings) -> None:
    step, outlet, _, reader = whole
    streams = [StreamKey("lab", f"source-{number:05}" * 4, "boot", "pfc", f"leaf{number}") for number in range(20_000)]
    step.sums = dict.fromkeys(streams, 7)
    step.rows = dict.fromkeys(streams, 7)
    outlet.end_turn([reader], {})
    assert len(step.snapshot()) > 4 * CHUNK_BYTES
    successor = Sums()
    WholeState(real_settings, successor, 10).close()
    assert successor.rows == step.rows


@pytest.mark.kafka
def test_turns_of_a_worker_that_is_behind_are_committed_together(real_settings: KafkaSettings) -> None:
    publish_sources(real_settings, ["a"])
    ticks = itertools.count()
    # A commit takes one tick, so that eight must pass before the next one.
    outlet = ByStream(real_settings, Sums(), "one", 10, lambda: next(ticks) / 100)
    commits = []
    with Subscriber(real_settings, ["pfc"], group="detect", starts=outlet.starts) as reader:
        outlet.serves(reader)
        while not reader.consume():
            pass
        for turn in range(10):
            outlet.send(Encoded("deadletter", b"k", b"%d" % turn))
            outlet.end_turn([reader], {}, more=turn < 9)
            commits.append(outlet.counters["commits"])
    outlet.close()
    assert commits == [1] * 8 + [2, 3]
    values = [message.value for message in messages_on(real_settings, ["deadletter"])]
    assert values == [b"%d" % turn for turn in range(10)]


def test_exactly_once_is_refused_on_the_embedded_broker(embedded_broker: EmbeddedBroker) -> None:
    for make in (
        lambda: ByStream(embedded_broker.settings, Sums(), "one", 10),
        lambda: WholeState(embedded_broker.settings, Sums(), 10),
    ):
        with pytest.raises(BrokerError, match="exactly once needs a real Kafka"):
            make()
