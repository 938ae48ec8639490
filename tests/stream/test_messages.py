"""What travels on the topics: every item comes back as it was sent, under the key that its values are kept by."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given

from stream import messages
from stream.batch import MARK_END, Batch
from stream.errors import WireError
from stream.messages import JsonItem
from stream.roster import SourceUp, StreamUp
from tests.stream.batches import batches
from tests.stream.plain_json import read
from tests.stream.sample_items import CASCADE, DEVICE, DOWN, FLOW, IDLE, LINK, SAMPLES, STREAM, UP


@pytest.mark.parametrize("name", SAMPLES)
def test_a_json_item_comes_back_as_it_was_sent_and_matches_its_published_schema(name: str) -> None:
    topic, key, value = messages.encode(SAMPLES[name])
    assert messages.decode(topic, key, value) == SAMPLES[name]
    assert read(topic, key, value) == json.loads(value)


def test_an_idle_value_of_a_known_stream_is_the_same() -> None:
    assert messages.encode(IDLE, checked=True) == messages.encode(IDLE)


@given(batches())
def test_a_batch_goes_to_its_topic_under_the_key_of_its_device(sent: Batch) -> None:
    topic, key, value = messages.encode(sent)
    assert topic == sent.stream.topic
    assert key == f"{sent.stream.fabric}/{sent.stream.device}".encode()
    came = messages.decode(topic, key, value)
    assert isinstance(came, Batch)
    assert came.events.tobytes() == sent.events.tobytes()


def test_keys_name_the_thing_and_a_fact_also_its_version() -> None:
    keys = {name: messages.encode(item).key.decode() for name, item in SAMPLES.items()}
    assert keys == {
        "device": "dc-1/leaf-1@1790000000000000000",
        "device that sorts packets": "dc-1/host-7@1790000000000000000",
        "link": "dc-1/leaf-1:Ethernet0-host-7:mlx5_0@1790000000000000000",
        "flow": "dc-1/00f1a2b3c4d5e6f7@1790000000000000000",
        "idle facts": "dc-1/@inventory/boot-1",
        "source up": "dc-1/gnmi:leaf-1",
        "source down": "dc-1/inventory",
        "source suspended": "dc-1/gnmi:leaf-1",
        "source resumed": "dc-1/gnmi:leaf-1",
        "cascade": "dc-1/c0ffee0123456789",
    }


def test_the_same_item_gives_the_same_bytes() -> None:
    one, other = (msgspec.structs.replace(CASCADE, losses=losses) for losses in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert messages.encode(one) == messages.encode(other)


def test_a_field_of_a_later_version_is_ignored() -> None:
    topic, key, value = messages.encode(LINK)
    assert messages.decode(topic, key, value[:-1] + b',"later":[1.5,{"deep":null}]}') == LINK


def test_a_fact_stream_may_be_complete() -> None:
    last = msgspec.structs.replace(DEVICE, stream=msgspec.structs.replace(STREAM, mark_ns=MARK_END))
    assert messages.decode(*messages.encode(last)) == last


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        (msgspec.structs.replace(DEVICE, fabric="a/b"), "fabric"),
        (msgspec.structs.replace(DEVICE, device=""), "device"),
        (msgspec.structs.replace(DEVICE, device="\ud800"), "does not encode"),
        (msgspec.structs.replace(DEVICE, valid_from_ns=-1), "valid_from_ns"),
        (msgspec.structs.replace(DEVICE, stream=msgspec.structs.replace(STREAM, mark_ns=MARK_END - 1)), "mark_ns"),
        (msgspec.structs.replace(DEVICE, stream=msgspec.structs.replace(STREAM, seq=MARK_END - 1023)), "seq"),
        (msgspec.structs.replace(LINK, b_device="leaf-1", b_port="Ethernet0"), "to itself"),
        (msgspec.structs.replace(FLOW, flow="0" * 16), "flow"),
        (msgspec.structs.replace(FLOW, flow="00F1A2B3C4D5E6F7"), "flow"),
        (msgspec.structs.replace(FLOW, priority=8), "priority 8"),
        (msgspec.structs.replace(UP, streams=(StreamUp("control"),)), "has no streams"),
        (msgspec.structs.replace(UP, streams=(StreamUp("pfc"),)), "facts have none, rows one"),
        (msgspec.structs.replace(UP, streams=(StreamUp("link", "leaf-1"),)), "facts have none, rows one"),
        (msgspec.structs.replace(UP, streams=UP.streams * 2), "twice"),
        (msgspec.structs.replace(DOWN, at_ns=(1 << 62) + 1), "at_ns"),
        (msgspec.structs.replace(CASCADE, revision=0), "revision"),
        (msgspec.structs.replace(CASCADE, revision="draft"), "revision"),
        (msgspec.structs.replace(CASCADE, end_ns=0), "ends at 0"),
        (msgspec.structs.replace(CASCADE, confidence_ppm=1_000_001), "confidence_ppm"),
    ],
)
def test_an_item_that_no_reader_would_take_is_not_encoded(item: JsonItem, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        messages.encode(item)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_value_under_a_foreign_key_or_on_a_foreign_topic_is_refused(name: str) -> None:
    topic, key, value = messages.encode(SAMPLES[name])
    with pytest.raises(WireError, match="is not that of the value"):
        messages.decode(topic, key + b"0", value)
    for other in {"device", "link", "flow", "control", "cascade", "health", "nonsense"} - {topic}:
        with pytest.raises(WireError, match=other):
            messages.decode(other, key, value)


def test_a_message_without_key_or_value_is_refused_on_every_topic() -> None:
    for topic in ("pfc", "device", "control", "cascade"):
        with pytest.raises(WireError, match=f"without a value on topic {topic}"):
            messages.decode(topic, b"dc-1/leaf-1", None)
        with pytest.raises(WireError, match=f"without a key on topic {topic}"):
            messages.decode(topic, None, b"{}")


def test_a_roster_change_names_its_streams_in_the_order_told() -> None:
    up = SourceUp("dc-1", "s", "e", 0, (StreamUp("pfc", "b"), StreamUp("device"), StreamUp("pfc", "a")))
    assert [(key.topic, key.device) for key in up.stream_keys()] == [("pfc", "b"), ("device", ""), ("pfc", "a")]
