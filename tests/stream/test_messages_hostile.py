"""Hostile JSON values: decode takes what the published schema and the rules in words take, and refuses the rest."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections import Counter

import msgspec
import pytest

from stream import messages
from stream.errors import WireError
from tests.stream import plain_json
from tests.stream.hostile import Message
from tests.stream.hostile_json import hostile_json_messages
from tests.stream.plain_wire import Refused
from tests.stream.sample_items import SAMPLES

VALUES = 20_000


def outcome(message: Message) -> str:
    """Decodes with both readers, holds them to each other and returns what became of the value."""
    assert message.key is not None
    item, plain, refused, complaint, unspecified = None, None, "", "", False
    try:
        plain = plain_json.read(message.topic, message.key, message.value)
    except Refused as err:
        refused = str(err)
    except plain_json.Unspecified:
        unspecified = True
    try:
        item = messages.decode(message.topic, message.key, message.value)
    except WireError as err:
        complaint = str(err)
    assert len(complaint) < 1000, message.how
    if unspecified:
        return "unspecified"
    assert (item is None) == (plain is None), (message.how, refused, complaint)
    if item is None or plain is None:
        return "refused"
    assert says_the_same(msgspec.to_builtins(item), plain), message.how
    return "taken"


def says_the_same(full: object, plain: object) -> bool:
    """Whether every field of the decoded item that the text has is as in the text."""
    if isinstance(full, dict) and isinstance(plain, dict):
        return all(key not in plain or says_the_same(part, plain[key]) for key, part in full.items())
    if isinstance(full, list | tuple) and isinstance(plain, list):
        return len(full) == len(plain) and all(map(says_the_same, full, plain))
    return type(full) is type(plain) and full == plain


@pytest.mark.slow
def test_twenty_thousand_hostile_json_values_are_read_exactly_or_refused_with_their_neighbours_unharmed() -> None:
    encoded = [messages.encode(item) for item in SAMPLES.values()]
    outcomes: Counter[str] = Counter()
    for i, message in enumerate(hostile_json_messages(seed=1, count=VALUES)):
        outcomes[outcome(message)] += 1
        if i % 100 == 0:
            assert [messages.decode(*neighbour) for neighbour in encoded] == list(SAMPLES.values())
    assert outcomes["taken"] > VALUES // 20
    assert outcomes["refused"] > VALUES // 3
    assert outcomes["unspecified"] < VALUES // 5


def test_a_json_value_cut_at_any_byte_is_refused() -> None:
    for item in SAMPLES.values():
        topic, key, value = messages.encode(item)
        for size in range(len(value)):
            with pytest.raises(WireError):
                messages.decode(topic, key, value[:size])


def test_decoding_json_takes_memory_in_proportion_to_the_value() -> None:
    tracemalloc.start()
    try:
        for message in hostile_json_messages(seed=2, count=1_500):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(WireError):
                messages.decode(message.topic, message.key, message.value)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 64 * len(message.value) + (256 << 10), message.how
    finally:
        tracemalloc.stop()
