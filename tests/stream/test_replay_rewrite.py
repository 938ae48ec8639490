"""A replay's shift moves every time that is told, and touches nothing else."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import messages
from stream.batch import MARK_END, Batch
from stream.capture_message import NO_TIMESTAMP_MS, Captured
from stream.capture_select import RowFilter
from stream.errors import WireError
from stream.messages import Encoded, encode
from stream.record import MAX_TIME_NS
from stream.replay_rewrite import SHIFTABLE, UnchangeableError, rewritten, stamped
from tests.stream import plain_wire
from tests.stream.batches import batches
from tests.stream.capture_samples import START_NS, rows
from tests.stream.hostile import hostile_messages
from tests.stream.hostile_json import hostile_json_messages
from tests.stream.sample_items import SAMPLES
from tests.stream.test_captures import grown

EVERYTHING = RowFilter()
HOUR_NS = 3_600_000_000_000
TIMES = ("valid_from_ns", "mark_ns", "from_ns", "at_ns")
"""The fields of JSON values that are times; by the published schemas, not by the code under test."""


def captured(encoded: Encoded, timestamp_ms: int = 1_790_000_000_000) -> Captured:
    return Captured(encoded.topic, 0, 0, timestamp_ms, "create", encoded.key, (("h", b"1"),), encoded.value)


def clamped(time_ns: int, shift_ns: int) -> int:
    return time_ns if time_ns == MARK_END else min(max(time_ns + shift_ns, 0), MAX_TIME_NS)


@settings(max_examples=80, deadline=None)
@given(batches(), st.integers(-(10**9), 10**9).map(lambda ms: ms * 10**6))
def test_rows_and_marks_move_and_nothing_else_does(batch: Batch, shift_ns: int) -> None:
    was = captured(encode(batch))
    assert was.value is not None
    before = plain_wire.read(was.topic, was.key, was.value)
    now = rewritten(was, shift_ns, EVERYTHING)
    assert now.value is not None
    after = plain_wire.read(now.topic, now.key, now.value)
    before.mark_ns = clamped(before.mark_ns, shift_ns)
    for at, (time_ns, seen_ns, span_ns, *rest) in enumerate(before.rows):
        end_ns = clamped(time_ns, shift_ns)
        # Nobody saw what was seen at 0, and no window begins before 1970.
        before.rows[at] = (end_ns, clamped(seen_ns, shift_ns) if seen_ns else 0, min(span_ns, end_ns), *rest)
    assert after == before
    assert now == was._replace(value=now.value, timestamp_ms=was.timestamp_ms + shift_ns // 10**6)


@pytest.mark.parametrize("name", [name for name, item in SAMPLES.items() if encode(item).topic in SHIFTABLE])
def test_times_of_facts_and_roster_move_and_nothing_else_does(name: str) -> None:
    was = captured(encode(SAMPLES[name]))
    now = rewritten(was, HOUR_NS, EVERYTHING)
    # The key of a fact ends with its time: decoding proves that it moved as well.
    messages.decode(now.topic, now.key, now.value)
    assert now.value is not None
    assert was.value is not None
    assert msgspec.json.decode(now.value) == moved(msgspec.json.decode(was.value))
    assert now.timestamp_ms == was.timestamp_ms + 3_600_000


def moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: part + HOUR_NS if key in TIMES else moved(part) for key, part in value.items()}
    return value


def test_a_tombstone_moves_with_the_fact_that_it_ends() -> None:
    fact = captured(encode(SAMPLES["link"]))
    now = rewritten(fact._replace(value=None), HOUR_NS, EVERYTHING)
    assert (now.key, now.value) == (rewritten(fact, HOUR_NS, EVERYTHING).key, None)


def test_fields_and_kinds_of_later_versions_go_along_untouched() -> None:
    topic, key, value = encode(rows("pfc", "leaf-1", 3, START_NS))
    later = grown(value, b"\xa5" * 8)
    now = rewritten(captured(Encoded(topic, key, later)), HOUR_NS, EVERYTHING)
    assert now.value == grown(rewritten(captured(Encoded(topic, key, value)), HOUR_NS, EVERYTHING).value or b"",
                              b"\xa5" * 8)  # fmt: skip


def test_without_a_shift_and_a_choice_every_byte_stays() -> None:
    for message in [*hostile_messages(1, 300), *hostile_json_messages(2, 100)]:
        was = Captured(message.topic, 0, 0, 5, "create", message.key, (), message.value)
        assert rewritten(was, 0, EVERYTHING) is was


def test_values_of_whatever_bytes_are_shifted_or_refused_and_never_made_wrong() -> None:
    outcomes = {"shifted": 0, "refused": 0}
    for message in [*hostile_messages(3, 1500), *hostile_json_messages(4, 400)]:
        was = Captured(message.topic, 0, 0, 5, "create", message.key, (), message.value)
        try:
            now = rewritten(was, HOUR_NS, EVERYTHING)
        except UnchangeableError:
            outcomes["refused"] += 1
            continue
        outcomes["shifted"] += 1
        assert readable(was) == readable(now), message
    assert min(outcomes.values()) > 50


def readable(message: Captured) -> bool:
    try:
        messages.decode(message.topic, message.key, message.value or b"")
    except WireError:
        return False
    return True


def test_kafkas_time_moves_where_there_is_one() -> None:
    message = captured(encode(rows("pfc", "leaf-1", 1, START_NS)))
    assert stamped(message, -HOUR_NS).timestamp_ms == message.timestamp_ms - 3_600_000
    none = message._replace(timestamp_ms=NO_TIMESTAMP_MS)
    assert stamped(none, HOUR_NS) == none


def test_shifting_there_and_back_gives_the_same_bytes() -> None:
    rng = random.Random(5)
    for _ in range(50):
        message = captured(encode(rows("queue", "leaf-2", rng.randint(0, 9), START_NS, rng.getrandbits(20))))
        shift_ns = rng.randint(-(10**9), 10**9) * 10**6
        assert rewritten(rewritten(message, shift_ns, EVERYTHING), -shift_ns, EVERYTHING) == message
