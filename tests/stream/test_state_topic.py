"""A snapshot on the state topic is read back whole or not at all, whatever its size and whatever lies beside it."""

from __future__ import annotations

import pytest

from stream.embedded import EmbeddedBroker
from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded
from stream.outbox import Outbox
from stream.state_topic import CHUNK_BYTES, chunk_count, encode_removal, encode_snapshot, read_snapshots
from stream.transactions import Placed, Transactions

KEY = "correlate/state"


def send(settings: KafkaSettings, *messages: Encoded) -> None:
    with Outbox(settings) as outbox:
        for message in messages:
            outbox.send_or_wait(message)
        outbox.flush()
        assert outbox.take_failure() is None


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_a_snapshot_takes_as_many_messages_as_its_size_needs(size: int) -> None:
    messages = encode_snapshot(KEY, 7, bytes(size))
    assert len(messages) == chunk_count(size) == max(1, -(-size // CHUNK_BYTES))
    assert all(len(message.value) < CHUNK_BYTES + 64 for message in messages)
    assert [message.key for message in messages] == [f"{KEY}#{index}".encode() for index in range(len(messages))]


def test_a_shorter_snapshot_removes_the_parts_of_a_longer_one() -> None:
    *parts, removed = encode_snapshot(KEY, 8, bytes(CHUNK_BYTES + 1), chunks_before=3)
    assert len(parts) == 2
    assert removed == Encoded("state", f"{KEY}#2".encode(), b"")


def test_the_last_snapshot_of_each_key_is_read_back_even_above_a_megabyte(any_kafka: KafkaSettings) -> None:
    large = bytes(range(256)) * 8192
    send(any_kafka, *encode_snapshot(KEY, 1, large), *encode_snapshot("detect/a/0/x", 4, b"old"))
    send(any_kafka, *encode_snapshot("detect/a/0/x", 5, b"new"), *encode_snapshot("detect/a/1/y", 6, b""))
    assert len(large) > 2_000_000
    assert read_snapshots(any_kafka, KEY) == {KEY: (1, large)}
    assert read_snapshots(any_kafka, "detect/") == {"detect/a/0/x": (5, b"new"), "detect/a/1/y": (6, b"")}
    assert read_snapshots(any_kafka, "nobody/") == {}


@pytest.mark.kafka
def test_a_removed_snapshot_is_gone(real_settings: KafkaSettings) -> None:
    send(real_settings, *encode_snapshot("detect/a/0/x", 1, b"x"), *encode_snapshot("detect/a/0/y", 1, b"y"))
    transactions = Transactions(real_settings, "detect.one")
    transactions.commit([Placed(encode_removal("detect/a/0/x"))])
    transactions.close()
    assert read_snapshots(real_settings, "detect/") == {"detect/a/0/y": (1, b"y")}


def test_only_the_partitions_asked_for_are_read(embedded_broker: EmbeddedBroker) -> None:
    send(embedded_broker.settings, *(message for n in range(20) for message in encode_snapshot(f"k/{n}", 1, b"")))
    parts = [read_snapshots(embedded_broker.settings, "k/", [partition]) for partition in range(4)]
    assert all(parts)
    assert sum(map(len, parts)) == 20


def test_a_snapshot_of_which_a_part_is_missing_or_foreign_says_so(embedded_broker: EmbeddedBroker) -> None:
    first, second = encode_snapshot(KEY, 1, bytes(CHUNK_BYTES + 1))
    _, other = encode_snapshot(KEY, 2, bytes(CHUNK_BYTES + 1))
    for number, messages in enumerate(([second], [first, other], [first._replace(value=b"nothing of ours")])):
        key = f"{number}/{KEY}"
        send(embedded_broker.settings, *(m._replace(key=f"{number}/".encode() + m.key) for m in messages))
        with pytest.raises(PausetraceError, match="is not whole") as caught:
            read_snapshots(embedded_broker.settings, key)
        assert "docs/exactly-once.md" in caught.value.next_step


def test_keys_that_are_no_snapshots_are_passed_over(embedded_broker: EmbeddedBroker) -> None:
    strange = [Encoded("state", key, b"x") for key in (b"", b"\xff", b"correlate", b"correlate/state#", b"a#b#c")]
    send(embedded_broker.settings, *strange, *encode_snapshot(KEY, 1, b"right"))
    assert read_snapshots(embedded_broker.settings, KEY) == {KEY: (1, b"right")}
