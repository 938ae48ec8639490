"""Dead letters: what could not be read or processed goes to the topic deadletter, with its place, and is counted.

In: a received message and what was wrong with it. Out: a JSON value, a counter and a thinned-out log line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from stream.errors import WireError
from stream.messages import Encoded
from stream.offset_gaps import OffsetGap
from stream.sampled_log import SampledLog
from stream.subscriber import Received

_log = logging.getLogger(__name__)

MAX_KEPT_BYTES = 512 * 1024
"""Of a value; base64 makes a third more of it, and a Kafka message holds 1 MB by default."""
MAX_KEPT_KEY_BYTES = 4096
MAX_ERROR_CHARS = 2000


class DeadLetter(msgspec.Struct, frozen=True):
    """A message of topic[partition]@offset that `step` could not take in.

    `key` and `value` are base64; `value_bytes` is the length of the whole value, of which `value` holds the beginning
    where `truncated` is true. A letter about messages that were gone before they were read has no value: it stands at
    the first one's offset, and the error says how many.
    """

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    value_bytes: int
    truncated: bool
    error: str
    step: str
    seen_ns: int

    @property
    def place(self) -> str:
        """topic[partition]@offset"""
        return f"{self.topic}[{self.partition}]@{self.offset}"


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(DeadLetter)


def decode_dead_letter(value: bytes) -> DeadLetter:
    """The letter in a value of topic deadletter; raises WireError for anything else."""
    try:
        return _decoder.decode(value)
    except (msgspec.DecodeError, RecursionError) as err:
        raise WireError(f"not a dead letter: {str(err)[:200]}") from err


class DeadLetters:
    """Writes one step's dead letters; `send` takes them to Kafka."""

    def __init__(self, step: str, send: Callable[[Encoded], None], clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.count = 0
        self._step = step
        self._send = send
        self._clock_ns = clock_ns
        self._sampled_log = SampledLog(_log)

    def message(self, received: Received, error: str) -> DeadLetter:
        """A message could not be read or processed."""
        key, value = received.key or b"", received.value or b""
        return self._write(
            DeadLetter(
                topic=received.topic,
                partition=received.partition,
                offset=received.offset,
                key=key[:MAX_KEPT_KEY_BYTES],
                value=value[:MAX_KEPT_BYTES],
                value_bytes=len(value),
                truncated=len(value) > MAX_KEPT_BYTES,
                error=error[:MAX_ERROR_CHARS],
                step=self._step,
                seen_ns=self._clock_ns(),
            )
        )

    def gap(self, gap: OffsetGap) -> DeadLetter:
        """Messages were gone before they could be read."""
        return self._write(
            DeadLetter(
                topic=gap.topic,
                partition=gap.partition,
                offset=gap.first_missing,
                key=b"",
                value=b"",
                value_bytes=0,
                truncated=False,
                error=f"{gap.missing} messages {gap.reason}",
                step=self._step,
                seen_ns=self._clock_ns(),
            )
        )

    def _write(self, letter: DeadLetter) -> DeadLetter:
        self.count += 1
        self._sampled_log.warning("%s: dead letter of %s: %s", letter.place, letter.step, letter.error)
        key = f"{letter.topic}/{letter.partition}".encode()
        self._send(Encoded("deadletter", key, _encoder.encode(letter)))
        return letter
