"""Replays to both brokers: the same bytes on the right partitions once, guards, going on, and proof at the end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from stream.capture import capture
from stream.capture_manifest import Range
from stream.capture_message import Captured
from stream.capture_select import RowFilter
from stream.capture_source import KafkaSource
from stream.embedded import EmbeddedBroker
from stream.errors import BrokerError, CaptureError, ConfigError
from stream.kafka_settings import KafkaSettings, look
from stream.partitioner import partition_of
from stream.replay import Done, dry_run, replay
from stream.replay_check import HEADER
from stream.replay_journal import locked
from stream.replay_plan import Options
from stream.topics import full_name
from tests.kafka_brokers import fresh_prefix
from tests.stream.capture_samples import HOUR_NS, START_NS, fabric_messages, message, rows
from tests.stream.listed_source import capture_listed
from tests.stream.replaying import MAX, as_sent, make_capture, on_kafka, without_origin
from tests.stream.sample_items import CASCADE

AT_ONCE = Options(speed=MAX)
DAY_NS = 24 * HOUR_NS


@pytest.fixture
def embedded_target() -> Iterator[KafkaSettings]:
    with EmbeddedBroker("replay.fabric") as broker:
        yield broker.settings


@pytest.fixture
def real_target(real_kafka: str) -> KafkaSettings:
    """A real Kafka without topics of this prefix."""
    return KafkaSettings(real_kafka, f"replay.{fresh_prefix()}")


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.kafka)])
def target(request: pytest.FixtureRequest) -> KafkaSettings:
    settings: KafkaSettings = request.getfixturevalue(f"{request.param}_target")
    return settings


def test_every_message_is_on_its_partition_in_its_order_byte_for_byte(target: KafkaSettings, tmp_path: Path) -> None:
    captured = make_capture(tmp_path / "c")
    done = replay(tmp_path / "c", target, AT_ONCE, tmp_path / "j")
    assert done.problems == ()
    assert as_sent(on_kafka(target)) == as_sent(captured)
    assert sum(done.messages.values()) == len(captured)
    assert done.bytes == sum(len(each.value or b"") for each in captured)


def test_by_key_every_message_is_where_its_key_belongs_and_each_key_keeps_its_order(
    target: KafkaSettings, tmp_path: Path
) -> None:
    captured = make_capture(tmp_path / "c")
    assert replay(tmp_path / "c", target, AT_ONCE._replace(by_key=True), tmp_path / "j").problems == ()
    found = on_kafka(target)
    counts = look(target).partitions
    assert {each.partition for each in found} != {each.partition for each in captured}
    for each in found:
        assert each.partition == partition_of(each.key or b"", counts[full_name(target.prefix, each.topic)])
    assert by_key(found) == by_key(captured)


def by_key(messages: list[Captured]) -> dict[tuple[str, bytes | None], list[Captured]]:
    keyed = defaultdict(list)
    for each in messages:
        keyed[each.topic, each.key].append(without_origin(each)._replace(partition=0))
    return dict(keyed)


def test_the_header_says_where_a_message_was_and_its_times_then(embedded_target: KafkaSettings, tmp_path: Path) -> None:
    make_capture(tmp_path / "c")
    assert replay(tmp_path / "c", embedded_target, AT_ONCE._replace(shift=DAY_NS), tmp_path / "j").shift_ns == DAY_NS
    second = [each for each in on_kafka(embedded_target) if (each.topic, each.partition) == ("queue", 1)][1]
    name, value = second.headers[-1]
    assert name == HEADER
    said = json.loads(value or b"")
    begin_ns = START_NS + 5 * 600 * 10**9
    assert said.pop("run")
    assert said == {
        "topic": "queue", "partition": 1, "offset": 1, "timestamp_ms": begin_ns // 10**6 + 3_000_000,
        "time_ns": begin_ns, "shift_ns": DAY_NS,
    }  # fmt: skip
    assert second.timestamp_ms == said["timestamp_ms"] + DAY_NS // 10**6


def test_shifted_to_now_the_first_event_is_now_and_a_replay_that_goes_on_keeps_the_shift(
    embedded_target: KafkaSettings, tmp_path: Path
) -> None:
    make_capture(tmp_path / "c")
    now_ns = START_NS + 1000 * DAY_NS + 5
    options = AT_ONCE._replace(shift="now")
    sent = 0

    def stop() -> bool:
        nonlocal sent
        sent += 1
        return sent > 10

    first = replay(tmp_path / "c", embedded_target, options, tmp_path / "j", stop=stop, clock_ns=lambda: now_ns)
    second = replay(tmp_path / "c", embedded_target, options, tmp_path / "j", clock_ns=lambda: now_ns + DAY_NS)
    assert first.problems == ("stopped: run the same replay again to go on",)
    assert first.shift_ns == second.shift_ns == 1000 * DAY_NS
    assert second.problems == ()


def test_only_the_topics_asked_for_come_along_with_roster_and_facts(
    embedded_target: KafkaSettings, tmp_path: Path
) -> None:
    captured = make_capture(tmp_path / "c")
    replay(tmp_path / "c", embedded_target, AT_ONCE._replace(topics=("pfc",)), tmp_path / "j")
    found = on_kafka(embedded_target)
    assert {each.topic for each in found} == {"pfc", "link", "control"}
    assert [each for each in as_sent(found) if each.topic == "pfc"] == as_sent(
        [each for each in captured if each.topic == "pfc"]
    )
    (up, _) = [each for each in found if each.topic == "control"]
    # Whoever follows the roster would wait for streams that never come.
    assert b'"pfc"' in (up.value or b"")
    assert b'"queue"' not in (up.value or b"")


def test_what_does_not_decode_goes_along_and_is_counted_where_times_are_shifted(
    embedded_target: KafkaSettings, tmp_path: Path
) -> None:
    poison = Captured("pfc", 0, 1, START_NS // 10**6, "create", b"dc-1/leaf-1", (), b"PTB1 no packed value")
    capture_listed([message(rows("pfc", "leaf-1", 2, START_NS), 0, 0, START_NS), poison], tmp_path / "c")
    done = replay(tmp_path / "c", embedded_target, AT_ONCE._replace(shift=DAY_NS), tmp_path / "j")
    assert (done.untouched, done.problems) == (1, ())
    last = [each for each in on_kafka(embedded_target) if each.topic == "pfc"][-1]
    assert (last.value, last.timestamp_ms) == (poison.value, poison.timestamp_ms + DAY_NS // 10**6)


def test_an_empty_capture_makes_no_topics_and_says_so(target: KafkaSettings, tmp_path: Path) -> None:
    capture_listed([], tmp_path / "c")
    before = look(target, 10).partitions
    done = replay(tmp_path / "c", target, AT_ONCE, tmp_path / "j")
    assert (done.messages, done.problems) == ({}, ())
    assert done.notes == ("there is nothing to replay: the capture has no message of what was asked for",)
    assert look(target, 10).partitions == before


def test_progress_ends_where_all_is_sent(embedded_target: KafkaSettings, tmp_path: Path) -> None:
    captured = make_capture(tmp_path / "c")
    told: list[Done] = []
    replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j", progress=told.append)
    assert told[-1].messages == told[-1].of_messages == len(captured)


def test_a_dry_run_counts_what_a_replay_sends_and_needs_no_kafka(
    embedded_target: KafkaSettings, tmp_path: Path
) -> None:
    make_capture(tmp_path / "c")
    options = AT_ONCE._replace(wanted=RowFilter(to_ns=START_NS + 2 * HOUR_NS), shift=DAY_NS)
    counted = dry_run(tmp_path / "c", "replay.fabric", options)
    assert list(tmp_path.iterdir()) == [tmp_path / "c"]
    assert counted == replay(tmp_path / "c", embedded_target, options, tmp_path / "j")
    assert counted.messages["pfc"] > 2


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (AT_ONCE._replace(wanted=RowFilter(devices=frozenset(["nobody"]))), "no row of the capture matches"),
        (AT_ONCE._replace(wanted=RowFilter(kinds=frozenset([250]))), "no row of the capture matches"),
        (AT_ONCE._replace(topics=("cascade",)), "the capture has no message of cascade"),
        (AT_ONCE._replace(topics=("ecn", "pfc")), "the capture has no message of ecn"),
    ],
)
def test_what_was_chosen_and_is_not_there_is_told(options: Options, note: str, tmp_path: Path) -> None:
    make_capture(tmp_path / "c")
    assert any(each.startswith(note) for each in dry_run(tmp_path / "c", "replay.fabric", options).notes)
    assert dry_run(tmp_path / "c", "replay.fabric", AT_ONCE).notes == ()
    some = AT_ONCE._replace(wanted=RowFilter(devices=frozenset(["leaf-1"])), topics=("pfc",))
    assert dry_run(tmp_path / "c", "replay.fabric", some).notes == ()


class TestGuards:
    def test_a_prefix_that_does_not_tell_of_a_replay_is_refused(self, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        nowhere = KafkaSettings("127.0.0.1:1", "lab")
        with pytest.raises(ConfigError, match=r"could be taken for what happens now.*--any-prefix"):
            replay(tmp_path / "c", nowhere, AT_ONCE, tmp_path / "j")
        with pytest.raises(ConfigError, match="could be taken for what happens now"):
            dry_run(tmp_path / "c", "lab", AT_ONCE)

    def test_another_prefix_is_taken_if_one_means_it(self, embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
        captured = make_capture(tmp_path / "c")
        options = AT_ONCE._replace(any_prefix=True)
        assert replay(tmp_path / "c", embedded_broker.settings, options, tmp_path / "j").problems == ()
        assert len(on_kafka(embedded_broker.settings)) == len(captured)

    @pytest.mark.parametrize("any_prefix", [False, True])
    def test_the_topics_that_were_captured_are_refused(
        self, any_prefix: bool, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "first")
        replay(tmp_path / "first", embedded_target, AT_ONCE, tmp_path / "j")
        before = on_kafka(embedded_target)
        capture_of(embedded_target, tmp_path / "c")
        options = AT_ONCE._replace(any_prefix=any_prefix)
        with pytest.raises(ConfigError, match=r"replay\.fabric\.\* on this cluster is what was captured; .*source"):
            replay(tmp_path / "c", embedded_target, options, tmp_path / "j2")
        assert on_kafka(embedded_target) == before
        told = replay(tmp_path / "c", embedded_target, options._replace(into_source=True), tmp_path / "j2")
        assert told.problems == ()
        assert len(on_kafka(embedded_target)) == 2 * len(before)

    def test_topics_that_are_too_narrow_are_refused(self, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        with EmbeddedBroker("replay.fabric", partitions=1) as broker:
            with pytest.raises(ConfigError, match=r"has 1 partitions, and 2 were captured; .*by-key"):
                replay(tmp_path / "c", broker.settings, AT_ONCE, tmp_path / "j")
            assert on_kafka(broker.settings) == []
            assert replay(tmp_path / "c", broker.settings, AT_ONCE._replace(by_key=True), tmp_path / "j").problems == ()

    def test_topics_that_are_missing_are_told_where_they_cannot_be_made(
        self, embedded_broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "c")
        other = KafkaSettings(embedded_broker.bootstrap_servers, "replay.lab")
        with pytest.raises(BrokerError, match=r"no topic replay\.lab\.control and cannot make one"):
            replay(tmp_path / "c", other, AT_ONCE, tmp_path / "j")

    def test_a_shift_to_before_1970_is_refused(self, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        with pytest.raises(ConfigError, match="before 1970"):
            dry_run(tmp_path / "c", "replay.fabric", AT_ONCE._replace(shift=-START_NS - 10**6))

    def test_results_cannot_be_shifted(self, tmp_path: Path) -> None:
        capture_listed([*fabric_messages(), message(CASCADE, 0, 0, START_NS)], tmp_path / "c")
        with pytest.raises(ConfigError, match="topic cascade holds results"):
            dry_run(tmp_path / "c", "replay.fabric", AT_ONCE._replace(topics=("cascade",), shift=DAY_NS))

    @pytest.mark.kafka
    def test_events_that_kafka_would_delete_at_once_are_refused(
        self, real_target: KafkaSettings, tmp_path: Path
    ) -> None:
        captured = make_capture(tmp_path / "c", batches=1)
        make_topic(real_target, "pfc", 4, {"retention.ms": str(HOUR_NS // 10**6)})
        with pytest.raises(ConfigError, match=r"pfc keeps 1\.0 h and the capture's oldest message there is"):
            replay(tmp_path / "c", real_target, AT_ONCE, tmp_path / "j")
        assert on_kafka(real_target) == []
        # Moved to the present they stay.
        assert replay(tmp_path / "c", real_target, AT_ONCE._replace(shift="now"), tmp_path / "j").problems == ()
        assert len(on_kafka(real_target)) == len(captured)

    @pytest.mark.kafka
    def test_times_that_kafka_would_refuse_are_refused_before_any_topic_is_made(
        self, real_target: KafkaSettings, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "c")
        ahead_ns = time.time_ns() - START_NS + 2 * HOUR_NS
        options = AT_ONCE._replace(shift=ahead_ns // 10**6 * 10**6)
        with pytest.raises(ConfigError, match=r"ahead of now, and Kafka takes 1\.0 h .*no topic made"):
            replay(tmp_path / "c", real_target, options, tmp_path / "j")
        assert not [name for name in look(real_target).partitions if name.startswith(real_target.prefix)]
        assert list(tmp_path.iterdir()) == [tmp_path / "c"]

    @pytest.mark.kafka
    def test_topics_that_a_replay_makes_keep_it_whatever_its_times(
        self, real_target: KafkaSettings, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "c")
        assert replay(tmp_path / "c", real_target, AT_ONCE, tmp_path / "j").problems == ()
        client = AdminClient({"bootstrap.servers": real_target.bootstrap_servers})
        resource = ConfigResource(ResourceType.TOPIC, full_name(real_target.prefix, "pfc"))
        facts = ConfigResource(ResourceType.TOPIC, full_name(real_target.prefix, "link"))
        for described in client.describe_configs([resource, facts]).values():
            configs = described.result(10)
            assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("-1", "delete")


def capture_of(settings: KafkaSettings, folder: Path) -> None:
    with KafkaSource(settings) as source:
        capture(source, folder, ("pfc", "queue", "link", "control"), settings.prefix, Range())


def make_topic(settings: KafkaSettings, topic: str, partitions: int, config: dict[str, str]) -> None:
    client = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    name = full_name(settings.prefix, topic)
    client.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)


class TestProof:
    def test_a_replay_that_is_done_is_looked_at_and_not_sent_again(self, target: KafkaSettings, tmp_path: Path) -> None:
        captured = make_capture(tmp_path / "c")
        replay(tmp_path / "c", target, AT_ONCE, tmp_path / "j")
        before = on_kafka(target)
        done = replay(tmp_path / "c", target, AT_ONCE, tmp_path / "j")
        assert (done.messages, done.found, done.problems) == ({}, len(captured), ())
        assert on_kafka(target) == before
        assert replay(tmp_path / "c", target, AT_ONCE._replace(again=True), tmp_path / "j").problems == ()
        assert len(on_kafka(target)) == 2 * len(captured)

    def test_a_message_that_is_there_twice_is_told(self, embedded_target: KafkaSettings, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        put(embedded_target, next(each for each in on_kafka(embedded_target) if each.topic == "pfc"))
        told, hint = replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j").problems[::2]
        assert told == "pfc/0: 7 messages on Kafka, 6 were sent"
        assert "--again" in hint

    def test_a_byte_that_differs_is_told(self, embedded_target: KafkaSettings, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        everything = on_kafka(embedded_target)
        # The same on topics of another replay, except for one byte.
        journal = json.loads((tmp_path / "j").read_bytes())
        for each in everything:
            value = each.value or b""
            if each == everything[5]:
                value = value[:-1] + bytes([value[-1] ^ 1])
            put(embedded_target, each._replace(value=value))
        journal["first"] = journal["reached"]
        (tmp_path / "j").write_text(json.dumps(journal))
        problems = replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j").problems
        place = f"{everything[5].topic}/{everything[5].partition}"
        assert problems[0] == f"{place}: the messages on Kafka are not those that were sent"
        assert len(problems) == 2

    def test_a_message_on_another_partition_is_told(self, embedded_target: KafkaSettings, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        put(embedded_target, on_kafka(embedded_target)[0]._replace(partition=3))
        problems = replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j").problems
        assert "pfc/0: 1 messages are on another partition" in problems

    @pytest.mark.kafka
    def test_messages_that_are_gone_are_told(self, real_target: KafkaSettings, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        replay(tmp_path / "c", real_target, AT_ONCE, tmp_path / "j")
        client = AdminClient({"bootstrap.servers": real_target.bootstrap_servers})
        place = TopicPartition(full_name(real_target.prefix, "queue"), 1, 2)
        client.delete_records([place])[place].result(30)
        problems = replay(tmp_path / "c", real_target, AT_ONCE, tmp_path / "j").problems
        assert problems[0] == "queue/1: 4 messages on Kafka, 6 were sent"


def put(settings: KafkaSettings, each: Captured) -> None:
    """One message on the topic as it is."""
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    producer.produce(
        full_name(settings.prefix, each.topic), each.value, each.key, each.partition, headers=list(each.headers),
        timestamp=each.timestamp_ms,
    )  # fmt: skip
    assert producer.flush(30) == 0


class TestJournal:
    def test_another_process_at_the_same_replay_is_kept_out(
        self, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "c")
        with locked(tmp_path / "j"), pytest.raises(CaptureError, match=r"another process is at this replay"):
            replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        assert on_kafka(embedded_target) == []

    def test_another_replay_does_not_begin_where_one_lies_unless_told(
        self, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        captured = make_capture(tmp_path / "c")
        part = AT_ONCE._replace(wanted=RowFilter(devices=frozenset(["leaf-1"])))
        done = replay(tmp_path / "c", embedded_target, part, tmp_path / "j")
        assert 0 < sum(done.messages.values()) < len(captured)
        before = on_kafka(embedded_target)
        with pytest.raises(ConfigError, match=r"holds messages that are not of this replay: .* of run .*beside-others"):
            replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        assert on_kafka(embedded_target) == before
        beside = AT_ONCE._replace(beside_others=True)
        assert replay(tmp_path / "c", embedded_target, beside, tmp_path / "j").problems == ()
        both = on_kafka(embedded_target)
        # The journal is that of the other one now: what Kafka has tells of this one.
        again = replay(tmp_path / "c", embedded_target, part, tmp_path / "j")
        assert (again.found, again.problems) == (len(before), ())
        assert on_kafka(embedded_target) == both

    def test_rows_that_no_replay_sent_are_told_and_leave_no_file(
        self, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        captured = make_capture(tmp_path / "c")
        put(embedded_target, next(each for each in captured if each.topic == "pfc")._replace(headers=()))
        with pytest.raises(ConfigError, match=r"replay\.fabric\.pfc\[0\]@0 is of no replay"):
            replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")
        assert list(tmp_path.iterdir()) == [tmp_path / "c"]

    @pytest.mark.parametrize("stopped", [False, True])
    def test_without_its_journal_a_replay_is_known_by_what_kafka_has(
        self, stopped: bool, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        captured = make_capture(tmp_path / "c")
        options = AT_ONCE._replace(shift="now")
        asked = iter(range(1000))
        replay(tmp_path / "c", embedded_target, options, tmp_path / "j", stop=lambda: stopped and next(asked) > 10)
        before = on_kafka(embedded_target)
        assert (len(before) < len(captured)) == stopped
        shutil.copytree(tmp_path / "c", tmp_path / "copy")
        done = replay(tmp_path / "copy", embedded_target, options, tmp_path / "j2")
        assert (done.found, done.problems) == (len(before), ())
        after = on_kafka(embedded_target)
        assert len(after) == len(captured)
        assert {each.headers[-1] for each in before} <= {each.headers[-1] for each in after}

    def test_what_a_replay_is_called_is_the_same_in_every_process(self) -> None:
        wanted = RowFilter(devices=frozenset(["a", "b", "c", "d"]), kinds=frozenset([1, 2]))
        code = (
            "from stream.capture_select import RowFilter; "
            "print(RowFilter(devices=frozenset('dcba'), kinds=frozenset((2, 1))).text)"
        )
        told = {
            subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | {"PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            for seed in ("1", "2")
        }
        assert told == {wanted.text}

    def test_a_journal_that_cannot_be_read_is_told(self, embedded_target: KafkaSettings, tmp_path: Path) -> None:
        make_capture(tmp_path / "c")
        (tmp_path / "j").write_text("{")
        with pytest.raises(CaptureError, match=r"journal .*/j cannot be read: .*delete it"):
            replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "j")

    def test_a_journal_that_cannot_be_written_is_told_before_anything_is_sent(
        self, embedded_target: KafkaSettings, tmp_path: Path
    ) -> None:
        make_capture(tmp_path / "c")
        with pytest.raises(CaptureError, match=r"cannot write the replay's journal .*; give --journal FILE"):
            replay(tmp_path / "c", embedded_target, AT_ONCE, tmp_path / "nowhere" / "j")
        assert on_kafka(embedded_target) == []


@pytest.mark.kafka
def test_no_message_is_on_kafka_before_it_is_due(real_target: KafkaSettings, tmp_path: Path) -> None:
    # Kafka's own clock is the witness: topics that stamp what they take.
    make_topic(real_target, "pfc", 4, {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"})
    listed = [message(rows("pfc", "leaf-1", 1, START_NS + i * 10**9, i), 0, i, START_NS + i * 10**9) for i in range(8)]
    capture_listed(listed, tmp_path / "c")
    asked_ms: list[float] = []

    def clock_s() -> float:
        asked_ms.append(time.time() * 1000)
        return time.monotonic()

    assert replay(tmp_path / "c", real_target, Options(speed=4.0), tmp_path / "j", clock_s=clock_s).problems == ()
    arrived_ms = [each.timestamp_ms for each in on_kafka(real_target) if each.topic == "pfc"]
    # Kafka counts whole milliseconds.
    due_ms = [int(asked_ms[0]) + i * 250 for i in range(8)]
    assert all(arrived >= due for arrived, due in zip(arrived_ms, due_ms, strict=True))
