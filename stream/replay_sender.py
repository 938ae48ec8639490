"""Sends a replay's messages through an idempotent producer and books each confirmation in the journal.

In: messages with their origin. Out: a journal that never claims more than Kafka has confirmed. Not safe for threads.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream.capture_message import NO_TIMESTAMP_MS, Captured
from stream.errors import BrokerError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, look_through, producer_config, setting_error
from stream.refusals import denied
from stream.replay_check import Origin, digest, origin_header
from stream.replay_journal import Journal
from stream.topics import full_name

PARTITION_BY_KEY = -1
QUEUE_BYTES = 32 << 20
MESSAGE_TIMEOUT_S = 60.0
_SLICE_S = 0.05


class _Sent:
    """A message on its way."""

    __slots__ = ("confirmed", "digest", "offset")

    def __init__(self, offset: int, digest: int) -> None:
        self.offset = offset
        self.digest = digest
        self.confirmed = False


class ReplaySender:
    """One replay's producer; raises BrokerError from any call if a message could not be delivered."""

    def __init__(self, settings: KafkaSettings, journal: Journal, *, by_key: bool) -> None:
        self.bytes = 0
        self._settings = settings
        self._journal = journal
        self._by_key = by_key
        self._sent: defaultdict[str, deque[_Sent]] = defaultdict(deque)
        self._failure: BrokerError | None = None
        self._last_error = LastError()
        config = (
            producer_config(settings, queue_bytes=QUEUE_BYTES, message_timeout_ms=int(MESSAGE_TIMEOUT_S * 1000))
            | self._last_error.callbacks
        )
        try:
            self._producer = Producer(config)
        except KafkaException as err:
            raise setting_error(err) from err
        look_through(self._producer, settings, self._last_error, CONNECT_DEADLINE_S)

    def send(self, message: Captured, origin: Origin) -> None:
        """Sends, waiting while the queue is full."""
        sent = self._book(message, origin)
        name, value = origin_header(origin)
        timestamp: dict[str, Any] = {}
        if message.timestamp_ms != NO_TIMESTAMP_MS:
            timestamp["timestamp"] = message.timestamp_ms
        partition = PARTITION_BY_KEY if self._by_key else origin.partition_kept
        while True:
            try:
                self._producer.produce(
                    full_name(self._settings.prefix, message.topic),
                    message.value,
                    message.key,
                    partition,
                    partial(self._delivered, origin.place, sent),
                    headers=[*message.headers, (name, value)],
                    **timestamp,
                )
                break
            except BufferError:
                self.poll(_SLICE_S)
            except KafkaException as err:
                raise self._refused(message.topic, err.args[0]) from err
        self.bytes += len(message.value or b"")

    def there_already(self, message: Captured, origin: Origin) -> None:
        """Books a message that an earlier process sent and did not live to book."""
        sent = self._book(message, origin)
        sent.confirmed = True
        self._settle(origin.place)

    def poll(self, wait_s: float) -> None:
        """Serves confirmations for so long."""
        self._producer.poll(wait_s)
        self._raise_failure()

    def flush(self, deadline_s: float = MESSAGE_TIMEOUT_S) -> None:
        """Waits until everything is confirmed."""
        end_s = time.monotonic() + deadline_s
        while len(self._producer):
            self._producer.flush(_SLICE_S)
            self._raise_failure()
            if len(self._producer) and time.monotonic() >= end_s:
                why = self._last_error.fatal or self._last_error.text
                raise BrokerError(
                    f"{len(self._producer)} messages could not be delivered within {deadline_s:g} s"
                    f"{f' ({why})' if why else ''}",
                    "see to Kafka, then run the same replay again: it goes on where it stopped",
                )
        self._raise_failure()

    def close(self) -> None:
        """Gives up what is on its way; what Kafka has is found when the replay goes on."""
        self._producer.purge()
        self._producer.flush(1.0)
        self._producer.close()

    def _book(self, message: Captured, origin: Origin) -> _Sent:
        sent = _Sent(origin.offset, digest(origin, message))
        self._sent[origin.place].append(sent)
        return sent

    def _delivered(self, place: str, sent: _Sent, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is not None:
            self._failure = self._failure or self._refused(place.partition("/")[0], error)
            return
        self._last_error.clear()
        sent.confirmed = True
        self._settle(place)
        if not self._by_key:
            # By key, a partition of the target has messages of several of the capture: only a look at it tells.
            topic, number, offset = place.partition("/")[0], message.partition(), message.offset()
            assert offset is not None
            reached = f"{topic}/{number}"
            self._journal.reached[reached] = max(self._journal.reached.get(reached, 0), offset + 1)

    def _settle(self, place: str) -> None:
        """Books what is confirmed up to the first message that is not."""
        waiting, confirmed = self._sent[place], self._journal.of(place)
        while waiting and waiting[0].confirmed:
            first = waiting.popleft()
            confirmed.add(first.offset, first.digest)

    def _refused(self, topic: str, error: KafkaError) -> BrokerError:
        full = full_name(self._settings.prefix, topic)
        if refused := denied(self._settings, error, "Write", full):
            return refused
        if error.code() == KafkaError.INVALID_TIMESTAMP:
            return BrokerError(
                f"{full} takes no message of that time: {error_text(error)}",
                "see its message.timestamp.before.max.ms and .after.max.ms (an hour ahead of its clock by default), or "
                "give another --shift",
            )
        return BrokerError(
            f"a message to {full} could not be delivered: {error_text(error)}",
            "see to Kafka, then run the same replay again: it goes on where it stopped",
        )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._last_error.fatal:
            raise BrokerError(f"cannot write to Kafka: {self._last_error.fatal}", "run the same replay again")
