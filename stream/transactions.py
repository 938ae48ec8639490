"""A transactional producer: outputs, state and offsets become visible together or not at all (KIP-98, KIP-447).

In: encoded messages and the offsets that they come from. Out: one committed transaction, or `TransactionLost`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from stream.errors import BrokerError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, look_through, producer_config, setting_error
from stream.messages import Encoded
from stream.refusals import denied
from stream.topics import full_name

PARTITION_UA = -1
"""librdkafka's word for: by the key."""

_log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 6_000
"""A transaction that its process left open when it died holds readers back no longer than a session's timeout does."""
COMMIT_DEADLINE_S = 5.0
QUEUE_BYTES = 64 << 20
_SLICE_S = 1.0

# An earlier transaction under the same id is still being ended; librdkafka gives up at the end of a slice.
_AGAIN = frozenset({KafkaError.CONCURRENT_TRANSACTIONS, KafkaError._TIMED_OUT})


class TransactionLost(BrokerError):
    """The transaction was not committed: the step goes back to its last committed state and reads again from there."""


class Fenced(BrokerError):
    """Another process has taken this one's place; it must not write any more."""


class Transactions:
    """One process' transactions under an id of its own: a later process with the same id fences this one."""

    def __init__(
        self, settings: KafkaSettings, transactional_id: str, *, deadline_s: float = CONNECT_DEADLINE_S
    ) -> None:
        self.counters: dict[str, int] = {"commits": 0, "aborts": 0, "messages": 0}
        self._settings = settings
        self._last_error = LastError()
        self._refused: BrokerError | None = None
        config = producer_config(settings, queue_bytes=QUEUE_BYTES, message_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._transactional_id = f"{settings.prefix}.{transactional_id}"
        config |= {
            "transactional.id": self._transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            # A transaction is sent in one go: what waits for company only makes it longer.
            "linger.ms": 0,
            "error_cb": self._last_error,
        }
        try:
            self._producer = Producer(config)
        except KafkaException as err:
            raise setting_error(err) from err
        self.view = look_through(self._producer, settings, self._last_error, deadline_s)
        self._until(deadline_s, lambda left_s: self._producer.init_transactions(left_s), "begin its transactions")

    def commit(
        self,
        messages: Sequence[Encoded],
        offsets: Sequence[TopicPartition] = (),
        group_metadata: Any = None,
        partitions: Sequence[int | None] | None = None,
    ) -> None:
        """Commits messages (to a partition of choice, if given) and offsets of a group in one transaction.

        Raises TransactionLost if it was aborted, Fenced if this process has been replaced.
        """
        end_s = time.monotonic() + COMMIT_DEADLINE_S
        try:
            self._producer.begin_transaction()
            for index, message in enumerate(messages):
                self._produce(message, None if partitions is None else partitions[index])
            if offsets:
                self._attempt(
                    end_s,
                    lambda left_s: self._producer.send_offsets_to_transaction(list(offsets), group_metadata, left_s),
                )
            self._attempt(end_s, lambda left_s: self._producer.commit_transaction(left_s))
        except KafkaException as err:
            self._producer.poll(0)
            if self._refused is not None:
                raise self._refused from err  # no later attempt would have the right either
            self._abort(err.args[0])
        self.counters["commits"] += 1
        self.counters["messages"] += len(messages)

    def close(self) -> None:
        """Gives up what is not committed and closes the connections."""
        self._producer.purge()
        self._producer.flush(0.5)
        self._producer.close()

    def _produce(self, message: Encoded, partition: int | None) -> None:
        topic = full_name(self._settings.prefix, message.topic)
        place = PARTITION_UA if partition is None else partition
        # A tombstone of the state topic has no value.
        value = message.value or None
        while True:
            try:
                self._producer.produce(topic, value, message.key, place, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
                continue
            self._producer.poll(0)
            return

    def _attempt(self, end_s: float, call: Callable[[float], None]) -> None:
        """Calls again what may be called again, until the deadline."""
        while True:
            try:
                return call(max(min(end_s - time.monotonic(), _SLICE_S), 0.1))
            except KafkaException as err:
                again = err.args[0].retriable() or err.args[0].code() in _AGAIN
                if not again or time.monotonic() >= end_s:
                    raise

    def _until(self, deadline_s: float, call: Callable[[float], None], what: str) -> None:
        try:
            self._attempt(time.monotonic() + deadline_s, call)
        except KafkaException as err:
            if refused := denied(self._settings, err.args[0], "Write", self._transactional_id):
                raise refused from err
            raise BrokerError(
                f"cannot {what} within {deadline_s:g} s: {error_text(err.args[0])}",
                "check that the broker runs and allows this transactional id",
            ) from err

    def _delivered(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is not None:
            self._refused = self._refused or denied(self._settings, error, "Write", str(message.topic()))

    def _abort(self, error: KafkaError) -> None:
        """Aborts what cannot be committed, and says which of both kinds it is."""
        self.counters["aborts"] += 1
        if error.fatal() or error.code() in (
            KafkaError._FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
            KafkaError.PRODUCER_FENCED,
        ):
            raise Fenced(f"another process works under the same name: {error_text(error)}", "stop one of the two")
        try:
            self._attempt(time.monotonic() + COMMIT_DEADLINE_S, lambda left_s: self._producer.abort_transaction(left_s))
        except KafkaException as err:
            _log.info("a transaction could not be aborted: %s", error_text(err.args[0]))
        raise TransactionLost(f"a transaction was not committed: {error_text(error)}")
