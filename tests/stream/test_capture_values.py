"""Whatever is on a topic, a capture gives it back byte for byte: values, keys, headers, timestamps and their types."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import wire
from stream.batch import MARK_END, MAX_EVENTS, Batch, StreamKey
from stream.capture_message import NO_TIMESTAMP_MS, Captured, examine
from stream.capture_verify import verify
from stream.messages import encode
from stream.record import empty_events
from stream.topics import PACKED
from tests.stream.batches import NAME, batches
from tests.stream.capture_v1 import items as items_v1
from tests.stream.hostile import hostile_messages
from tests.stream.hostile_json import hostile_json_messages
from tests.stream.listed_source import capture_listed, in_place, messages_in
from tests.stream.sample_items import SAMPLES

NOW_MS = 1_790_000_000_000

HEADERS = st.lists(st.tuples(NAME, st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
TIMESTAMPS = st.tuples(st.integers(0, 1 << 50), st.sampled_from(("create", "append"))) | st.just((NO_TIMESTAMP_MS, ""))


@st.composite
def captured(draw: st.DrawFn) -> list[Captured]:
    """Messages of several partitions, some without a value."""
    offsets: dict[tuple[str, int], int] = {}
    messages = []
    for batch in draw(st.lists(batches(), max_size=12)):
        topic, partition = batch.stream.topic, draw(st.integers(0, 2))
        offset = offsets.get((topic, partition), 0) + draw(st.integers(0, 2))
        offsets[topic, partition] = offset + 1
        value = draw(st.just(wire.encode(batch)) | st.binary(max_size=40) | st.none())
        key = draw(st.just(batch.key) | st.none() | st.binary(max_size=8))
        messages.append(Captured(topic, partition, offset, *draw(TIMESTAMPS), key, draw(HEADERS), value))
    for offset in range(draw(st.integers(0, 3))):
        key, value = draw(st.binary(max_size=8)), draw(st.binary(max_size=20) | st.none())
        topic = draw(st.sampled_from(("control", "health", "state")))
        if not any(message.topic == topic and message.offset == offset for message in messages):
            messages.append(Captured(topic, 0, offset, *draw(TIMESTAMPS), key, draw(HEADERS), value))
    return messages


@settings(max_examples=60, deadline=None)
@given(captured())
def test_every_message_comes_back_as_it_was(messages: list[Captured]) -> None:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "capture"
        capture_listed(messages, folder)
        assert messages_in(folder) == in_place(messages)
        assert verify(folder, rows=True).problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_hostile_values_come_back_as_they_were(seed: int, tmp_path: Path) -> None:
    offsets: dict[str, int] = {}
    messages = []
    hostile = [*hostile_messages(seed, 3000), *hostile_json_messages(seed, 500)]
    random.Random(seed).shuffle(hostile)
    for message in hostile:
        offset = offsets[message.topic] = offsets.get(message.topic, -1) + 1
        headers = (("how", message.how.encode()),)
        messages.append(Captured(message.topic, 0, offset, NOW_MS, "create", message.key, headers, message.value))
    capture_listed(messages, tmp_path / "capture")
    assert messages_in(tmp_path / "capture") == in_place(messages)
    assert verify(tmp_path / "capture", rows=True).problems == ()


def test_a_value_is_kept_in_columns_alone_if_they_give_it_back() -> None:
    batch = Batch(StreamKey("dc-1", "s", "e", "pfc", "leaf-1"), 7, 5, ("b", "a"), empty_events(0))
    value = wire.encode(batch)
    message = Captured("pfc", 0, 0, NOW_MS, "create", batch.key, (), value)
    assert examine(message).exact
    for other in (
        value.replace(b"PTB1\x38\x00\x01\x00", b"PTB1\x38\x00\x02\x00"),  # a later version
        wire.encode(Batch(batch.stream, 7, 5, ("b", "b"), empty_events(0))),  # a name twice
    ):
        assert not examine(message._replace(value=other)).exact


def test_a_full_message_of_every_topic_and_the_items_of_version_1_come_back(tmp_path: Path) -> None:
    offsets: dict[str, int] = {}
    messages = []
    for item in [*items_v1(), *SAMPLES.values(), *(_full(topic) for topic in PACKED)]:
        topic, key, value = encode(item)
        offset = offsets[topic] = offsets.get(topic, -1) + 1
        messages.append(Captured(topic, 0, offset, NOW_MS, "create", key, (), value))
    capture_listed(messages, tmp_path / "capture")
    assert messages_in(tmp_path / "capture") == in_place(messages)


def _full(topic: str) -> Batch:
    """As many rows as a value may have, in no order of time, all with texts."""
    events = empty_events(MAX_EVENTS)
    order = np.random.default_rng(3).permutation(MAX_EVENTS)
    events["time_ns"] = NOW_MS * 1_000_000 + order * 3
    events["kind"], events["port"] = 192, order % 5
    texts = tuple((row, f"text {row % 7}") for row in range(MAX_EVENTS))
    stream = StreamKey("dc-1", "source", "epoch", topic, "leaf-1")
    return Batch(stream, 3, MARK_END, tuple("abcde"), events, texts=texts)
