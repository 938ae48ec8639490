"""The compiled first look: values are taken and refused as the plain reader does, and as without it."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import pytest

from analytics.first_look import any_flaw
from stream import wire
from stream.errors import WireError
from stream.record import words
from tests.stream.both_readers import agree
from tests.stream.hostile import hostile_messages

VALUES = 10_000


@pytest.fixture
def compiled() -> Iterator[None]:
    before = wire.look_by(any_flaw)
    yield
    wire.look_by(before)


@pytest.mark.usefixtures("compiled")
def test_hostile_values_are_read_exactly_or_refused() -> None:
    outcomes = Counter(agree(message).split(":")[0] for message in hostile_messages(seed=2, count=VALUES))
    assert min(outcomes[outcome] for outcome in ("taken", "unknown kinds skipped", "refused")) > VALUES // 50


def test_no_value_that_may_be_taken_at_once_needs_a_closer_look() -> None:
    taken = 0
    for message in hostile_messages(seed=3, count=VALUES):
        with contextlib.suppress(WireError):
            batch = wire.decode(message.topic, message.value, message.key)
            if len(batch.events) and not wire.plain_look(message.topic, batch.events, len(batch.ports)):
                assert not any_flaw(words(batch.events), len(batch.ports), *wire.tables(message.topic))
                taken += 1
    assert taken > VALUES // 50
