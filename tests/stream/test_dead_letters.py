"""A dead letter says where a value stood, what was wrong and what it was; the log is thinned out."""

import base64
import json

import msgspec
import pytest

from stream.dead_letters import MAX_KEPT_BYTES, DeadLetter, DeadLetters, decode_dead_letter
from stream.errors import WireError
from stream.messages import Encoded
from stream.offset_gaps import TRUNCATED, OffsetGap
from stream.sampled_log import FIRST
from stream.subscriber import Received


class Sent(list[Encoded]):
    def letter(self) -> DeadLetter:
        return decode_dead_letter(self[-1].value)


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def letters(sent: Sent) -> DeadLetters:
    return DeadLetters("detect", sent.append, clock_ns=lambda: 77)


def test_a_letter_holds_the_place_and_the_bytes(letters: DeadLetters, sent: Sent) -> None:
    letters.message(Received("pfc", 3, 41, 0, b"lab/leaf1", b"\x00junk"), "not a value")
    assert (sent[0].topic, sent[0].key) == ("deadletter", b"pfc/3")
    assert sent.letter() == DeadLetter("pfc", 3, 41, b"lab/leaf1", b"\x00junk", 5, False, "not a value", "detect", 77)
    assert sent.letter().place == "pfc[3]@41"
    raw = json.loads(sent[0].value)
    assert base64.b64decode(raw["value"]) == b"\x00junk"
    assert letters.count == 1


def test_a_large_value_is_cut_and_says_so(letters: DeadLetters, sent: Sent) -> None:
    letters.message(Received("pfc", 0, 0, 0, None, bytes(MAX_KEPT_BYTES + 1)), "too large")
    assert len(sent.letter().value) == MAX_KEPT_BYTES
    assert (sent.letter().truncated, sent.letter().value_bytes) == (True, MAX_KEPT_BYTES + 1)
    assert len(sent[0].value) < 1_000_000


def test_a_gap_is_a_letter_at_the_first_offset_that_is_missing(letters: DeadLetters, sent: Sent) -> None:
    letters.gap(OffsetGap("pfc", 1, 10, 501, TRUNCATED, loss=True))
    assert sent.letter().place == "pfc[1]@10"
    assert sent.letter().error.startswith("491 messages truncated by the embedded broker")


def test_a_million_letters_do_not_make_a_million_lines(letters: DeadLetters, caplog: pytest.LogCaptureFixture) -> None:
    for offset in range(1000):
        letters.message(Received("pfc", 0, offset, 0, None, b""), "bad")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == FIRST + 6  # and numbers 16, 32, ... 512
    assert lines[0] == "pfc[0]@0: dead letter of detect: bad"
    assert lines[-1] == "pfc[0]@511: dead letter of detect: bad (number 512 of its sort)"
    assert letters.count == 1000


def test_anything_else_is_not_a_letter() -> None:
    with pytest.raises(WireError, match="not a dead letter"):
        decode_dead_letter(b'{"topic": 1}')


def test_the_schema_of_a_letter_names_its_fields() -> None:
    schema = msgspec.json.schema(DeadLetter)
    properties = schema["$defs"]["DeadLetter"]["properties"]
    assert properties["value"] == {"type": "string", "contentEncoding": "base64"}
    assert set(properties) == set(DeadLetter.__struct_fields__)
