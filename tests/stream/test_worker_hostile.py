"""Hostile messages among good ones: each gives a dead letter with its place, and no good one is harmed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from confluent_kafka import Producer

from analytics.detect import Detect
from stream import kinds, messages
from stream.batch import MARK_END, Batch, StreamKey
from stream.dead_letters import DeadLetter, DeadLetters, decode_dead_letter
from stream.embedded import EmbeddedBroker
from stream.errors import WireError
from stream.intake import Intake
from stream.messages import Encoded, Item
from stream.record import Events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.subscriber import Received
from stream.topics import BY_NAME, RAW, full_name
from stream.worker import Worker
from tests.stream.hostile import NOW_NS, Message, hostile_messages
from tests.stream.hostile_json import hostile_json_messages
from tests.stream.reading import items_on, messages_on
from tests.stream.sample_items import DEVICE
from tests.stream.source_rows import xoff_rows

SOURCE = "probe:good"
PACKED_VALUES, JSON_VALUES = 85_000, 15_000
PUBLISHED = 3_000
MOST_BYTES = 100_000
"""Of a hostile value through the embedded broker, whose partitions hold 5 MB."""


def hostile(packed: int, json: int) -> list[Message]:
    """Hostile messages of every topic that steps read, some without a key, in random order."""
    rng = random.Random(4)
    mixed = [*hostile_messages(1, packed), *hostile_json_messages(1, json)]
    rng.shuffle(mixed)
    return [message._replace(key=None) if rng.random() < 0.01 else message for message in mixed]


def unreadable(topic: str, key: bytes | None, value: bytes | None) -> bool:
    """Whether decode refuses it; that decode is right about it is what test_wire_hostile and its like show."""
    try:
        messages.decode(topic, key, value)
    except WireError:
        return True
    return False


def good_items(devices: int = 4, values: int = 25) -> list[Item]:
    """A source of several devices whose queues are stopped and let go over and over."""
    names = [f"tor-{number}" for number in range(devices)]
    out: list[Item] = [SourceUp("dc-1", SOURCE, "boot-9", NOW_NS, tuple(StreamUp("pfc", name) for name in names))]
    for number in range(values):
        for name in names:
            start_ns = NOW_NS + number * 1_000_000
            rows = xoff_rows(range(start_ns, start_ns + 8000, 1000))
            rows["kind"][1::2] = kinds.PFC_XON
            key = StreamKey("dc-1", SOURCE, "boot-9", "pfc", name)
            out.append(Batch(key, number * len(rows), start_ns + 8000, ("Ethernet0",), rows))
    last_seq = values * 8 - 1
    downs = tuple(StreamDown("pfc", name, last_seq) for name in names)
    out.append(SourceDown("dc-1", SOURCE, "boot-9", NOW_NS + values * 1_000_000, downs))
    return out


def episodes_of_the_good_source(items: Sequence[Item]) -> dict[str, tuple[bytes, int]]:
    """By device: the rows of its episodes, which follow on one another without a gap, and the last mark."""
    rows: defaultdict[str, list[Events]] = defaultdict(list)
    marks: dict[str, int] = {}
    for item in items:
        if isinstance(item, Batch) and item.stream.source == f"{SOURCE}|pfc":
            assert item.seq == sum(map(len, rows[item.stream.device]))
            rows[item.stream.device].append(item.events)
            marks[item.stream.device] = item.mark_ns
    return {device: (np.concatenate(parts).tobytes(), marks[device]) for device, parts in rows.items()}


def placed(mixed: Sequence[Message]) -> Iterator[Received]:
    """The messages as they come from Kafka, with a place for each."""
    rng = random.Random(5)
    offsets: Counter[tuple[str, int]] = Counter()
    for message in mixed:
        partition = rng.randrange(BY_NAME[message.topic].partitions)
        offset = offsets[message.topic, partition]
        offsets[message.topic, partition] += 1
        yield Received(message.topic, partition, offset, 0, message.key, message.value)


@pytest.mark.slow
def test_each_of_a_hundred_thousand_hostile_messages_is_read_or_gives_a_letter_with_its_place() -> None:
    sent: list[Encoded] = []
    intake = Intake(DeadLetters("detect", sent.append, clock_ns=lambda: 7))
    good = [messages.encode(item) for item in (*good_items(devices=1, values=2), DEVICE)]
    mixed: list[Message] = []
    for number, message in enumerate(hostile(PACKED_VALUES, JSON_VALUES)):
        mixed.append(message)
        if number % 20 == 0:
            mixed.append(Message(*good[number // 20 % len(good)], "good"))
    received = list(placed(mixed))
    bad = {message.place: message for message in received if unreadable(message.topic, message.key, message.value)}
    read: list[tuple[Received, Item]] = []
    for start in range(0, len(received), 500):
        read += intake.read(received[start : start + 500])

    letters = [decode_dead_letter(letter.value) for letter in sent]
    assert [letter.place for letter in letters] == list(bad)
    assert len(letters) == intake.counters["unreadable"] > len(mixed) // 2
    for letter in letters:
        source = bad[letter.place]
        value = source.value or b""
        assert (letter.value, letter.value_bytes) == (value[: 512 * 1024], len(value))
        assert letter.truncated == (len(value) > 512 * 1024)
        assert letter.key == (source.key or b"")[:4096]
        assert letter.error
    assert [message for message, _ in read] == [message for message in received if message.place not in bad]
    for item, encoded in zip([*good_items(devices=1, values=2), DEVICE], good, strict=True):
        came = [got for message, got in read if message.value is encoded.value]
        assert len(came) > 100
        assert all(messages.encode(got) == encoded for got in came), item


def publish(broker: EmbeddedBroker, mixed: Sequence[Message]) -> None:
    """Sends the messages as they are, without any check of ours."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for message in mixed:
        producer.produce(full_name(broker.settings.prefix, message.topic), message.value, message.key)
        producer.poll(0)
    assert producer.flush(30) == 0


@pytest.mark.slow
def test_hostile_messages_through_a_broker_leave_the_good_source_s_episodes_as_they_are(
    embedded_broker: EmbeddedBroker,
) -> None:
    settings = embedded_broker.settings
    read_by_detect = (*RAW, "control")
    good = [Message(*messages.encode(item), "good") for item in good_items()]
    mixed = [message for message in hostile(PUBLISHED, PUBLISHED // 5) if message.topic in read_by_detect]
    mixed = [message for message in mixed if len(message.value) < MOST_BYTES]
    # The good source keeps its own order, with hostile messages anywhere between.
    slots = sorted(random.Random(6).sample(range(len(mixed)), len(good)))
    for slot, message in reversed(list(zip(slots, good, strict=True))):
        mixed.insert(slot, message)
    publish(embedded_broker, mixed)

    worker = Worker(settings, Detect(), name="detect", topics=RAW, say=lambda _: None)
    try:
        worker.run(until_caught_up=True, deadline_s=120)
        counters = worker.counters
    finally:
        worker.close()

    received = messages_on(settings, read_by_detect)
    assert len(received) == len(mixed)
    bad = {message.place for message in received if unreadable(message.topic, message.key, message.value)}
    letters = letters_on(embedded_broker)
    assert Counter(letter.place for letter in letters) == Counter(bad)
    assert (counters["unreadable"], counters["poisoned"], counters["unsendable"]) == (len(bad), 0, 0)
    assert len(bad) > len(mixed) // 2
    by_place = {message.place: message for message in received}
    assert all(letter.value == by_place[letter.place].value for letter in letters)

    alone = Detect().process(good_items())
    episodes = episodes_of_the_good_source(items_on(settings, "episode"))
    assert episodes == episodes_of_the_good_source(alone)
    assert len(episodes) == 4
    assert {mark for _, mark in episodes.values()} == {MARK_END}


def letters_on(broker: EmbeddedBroker) -> list[DeadLetter]:
    return [decode_dead_letter(message.value or b"") for message in messages_on(broker.settings, ["deadletter"])]


def test_what_is_no_dead_letter_is_refused_as_such() -> None:
    for value in (b"", b"null", b"{", b'{"topic":1}', b"\xff", b'{"later":' + b"[" * 100_000):
        with pytest.raises(WireError, match="not a dead letter"):
            decode_dead_letter(value)
