"""A transactional producer: outputs, state and offsets become visible together or not at all (KIP-98, KIP-447).

In: encoded messages and the offsets that they come from. Out: one committed transaction, or `TransactionLostError`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from stream.bounded_call import call_within
from stream.errors import BrokerError, UnreachableError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import CONNECT_DEADLINE_S, KafkaSettings, look_through, producer_config, setting_error
from stream.messages import Encoded
from stream.refusals import denied
from stream.sampled_log import SampledLog
from stream.topics import full_name

BY_KEY = -1
"""librdkafka's word for a partition that the key chooses."""

_log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 6_000
"""A transaction that its process left open when it died holds readers back no longer than a session's timeout does."""
COMMIT_DEADLINE_S = 5.0
QUEUE_BYTES = 64 << 20
_SLICE_S = 1.0
_REJOINS = 3
"""Times that one commit follows its group through a rebalance, in which every member's generation changes."""
_REJOIN_S = 0.05
_PAUSE_S = 0.02
"""Before a call is made again, which may be refused at once."""

# An earlier transaction under the same id is still being ended; librdkafka gives up at the end of a slice.
# While a coordinator is being chosen, as on a cluster that has just started, brokers say that they are none.
_AGAIN = frozenset({
    KafkaError.CONCURRENT_TRANSACTIONS, KafkaError._TIMED_OUT, KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip
# Also what a broker says of a transaction that it ended itself because it took too long (KIP-588).
_REPLACED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})


class TransactionLostError(BrokerError):
    """The transaction was not committed: the step goes back to its last committed state and reads again from there."""


class FencedError(TransactionLostError):
    """Another process works under this one's transactional id, or this one was silent for too long."""


class Placed(NamedTuple):
    """A message, and the partition that it goes to if not its key chooses."""

    message: Encoded
    partition: int = BY_KEY


class Member(Protocol):
    """A reader in a group whose offsets are committed with the outputs."""

    def kafka_positions(self) -> list[TopicPartition]:
        """Where it stands."""
        ...

    def group_metadata(self) -> Any:
        """Its membership now; None if it has none."""
        ...


class Transactions:
    """One process' transactions under an id of its own: a later process with the same id fences this one."""

    def __init__(
        self, settings: KafkaSettings, transactional_id: str, *, deadline_s: float = CONNECT_DEADLINE_S
    ) -> None:
        self.counters: dict[str, int] = {"commits": 0, "aborts": 0, "messages": 0, "too_large": 0}
        self._settings = settings
        self._last_error = LastError()
        self._refused: BrokerError | None = None
        self._sampled_log = SampledLog(_log)
        config = producer_config(settings, queue_bytes=QUEUE_BYTES, message_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._transactional_id = f"{settings.prefix}.{transactional_id}"
        config |= {
            "transactional.id": self._transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            # A transaction is sent in one go: what waits for company only makes it longer.
            "linger.ms": 0,
            **self._last_error.callbacks,
        }
        try:
            self._producer = Producer(config)
        except KafkaException as err:
            raise setting_error(err) from err
        self.view = look_through(self._producer, settings, self._last_error, deadline_s)
        if self.view.broker.embedded:
            # It answers every call, and shows readers what was aborted.
            raise BrokerError(
                "the embedded broker has no transactions: exactly once needs a real Kafka",
                "docker compose up -d --wait",
            )
        self._begin_working(deadline_s)

    def commit(self, messages: Sequence[Placed], member: Member | None = None) -> None:
        """Commits messages, and where a group's member stands, in one transaction.

        Raises TransactionLostError if nothing of it counts; FencedError, which is one, if this producer can do no more.
        """
        end_s = time.monotonic() + COMMIT_DEADLINE_S
        for rejoins in range(_REJOINS + 1):
            try:
                self._commit_once(messages, member, end_s)
            except KafkaException as err:
                error = self._worst(err.args[0])
                if self._refused is not None:
                    raise self._refused from err  # no later attempt would have the right either
                self._abort(error)
                # The partitions are this member's until it agrees to give them up, which it does between two commits.
                if error.code() == KafkaError.ILLEGAL_GENERATION and rejoins < _REJOINS:
                    time.sleep(_REJOIN_S)
                    continue
                raise TransactionLostError(f"a transaction was not committed: {error_text(error)}") from err
            self.counters["commits"] += 1
            self.counters["messages"] += len(messages)
            return

    def close(self) -> None:
        """Gives up what is not committed and ends the connections."""
        # A delivery's callback that runs while an exception is on its way makes a SystemError of it.
        with suppress(KafkaException, SystemError):
            self._producer.purge()
            self._producer.flush(0.5)
        # Without a reference its connections end; older clients have no close().
        del self._producer

    def _begin_working(self, deadline_s: float) -> None:
        try:
            attempt(time.monotonic() + deadline_s, self._producer.init_transactions)
        except KafkaException as err:
            if refused := denied(self._settings, err.args[0], "Write", self._transactional_id):
                raise refused from err
            raise UnreachableError(
                f"cannot begin transactions within {deadline_s:g} s: {error_text(err.args[0])}",
                "check that the broker runs and allows this transactional id",
            ) from err

    def _commit_once(self, messages: Sequence[Placed], member: Member | None, end_s: float) -> None:
        self._producer.begin_transaction()
        for placed in messages:
            self._produce(placed)
        if member is not None:
            metadata, positions = member.group_metadata(), member.kafka_positions()
            if metadata is None or not positions:
                # A broker checks who we are by our offsets alone, and lets those without any membership pass.
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "not a member of the group any more"))
            self._send_offsets(positions, metadata, end_s)
        attempt(end_s, self._producer.commit_transaction)

    def _send_offsets(self, positions: list[TopicPartition], metadata: Any, end_s: float) -> None:
        producer = self._producer
        try:
            # While the group's coordinator is gone, librdkafka 2.16 may wait for ever: confluentinc/librdkafka#5456.
            call_within(
                max(end_s - time.monotonic(), 0.0) + 2 * _SLICE_S,
                lambda: attempt(
                    end_s, lambda left_s: producer.send_offsets_to_transaction(positions, metadata, left_s)
                ),
            )
        except TimeoutError as err:
            # Nor can such a producer abort: its successor does, and takes its name from it.
            self.counters["aborts"] += 1
            raise TransactionLostError("a transaction was not committed: the group has no coordinator now") from err

    def _produce(self, placed: Placed) -> None:
        message = placed.message
        topic = full_name(self._settings.prefix, message.topic)
        # A tombstone of a compacted topic has no value.
        value = message.value or None
        while True:
            try:
                self._producer.produce(topic, value, message.key, placed.partition, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
                continue
            except KafkaException as err:
                if err.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    # What the metadata of the topic has told already, librdkafka says at once and not by the delivery.
                    self._refused = self._refused or denied(self._settings, err.args[0], "Write", topic)
                    raise
                # No later attempt would make it smaller, and the stream must go on.
                self.counters["too_large"] += 1
                self._sampled_log.warning("a value of %d bytes is too large for %s", len(message.value), topic)
            self._producer.poll(0)
            return

    def _delivered(self, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is None:
            return
        topic = str(message.topic())
        refused = denied(self._settings, error, "Write", topic)
        if refused is None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            refused = BrokerError(f"{topic} takes no value of {len(message)} bytes", "raise its max.message.bytes")
        self._refused = self._refused or refused

    def _worst(self, error: KafkaError) -> KafkaError:
        """The error, or the fatal one that stands behind it; deliveries are heard of."""
        try:
            self._producer.poll(0)
        except KafkaException as err:
            later: KafkaError = err.args[0]
            return later
        return error

    def _abort(self, error: KafkaError) -> None:
        """Aborts what cannot be committed; raises FencedError where this producer can do no more."""
        self.counters["aborts"] += 1
        if error.fatal() or error.code() in _REPLACED:
            raise FencedError(
                f"another process took over its name {self._transactional_id}, or it was silent for too long "
                f"({error_text(error)})"
            )
        try:
            attempt(time.monotonic() + COMMIT_DEADLINE_S, self._producer.abort_transaction)
        except KafkaException as err:
            raise TransactionLostError(
                f"a transaction was neither committed nor aborted: {error_text(err.args[0])}"
            ) from err


def attempt(end_s: float, call: Callable[[float], None]) -> None:
    """Calls again what may be called again, until the deadline; `call` is given the seconds that it may take."""
    while True:
        try:
            return call(max(min(end_s - time.monotonic(), _SLICE_S), 0.1))
        except KafkaException as err:
            error: KafkaError = err.args[0]
            again = (error.retriable() or error.code() in _AGAIN) and not error.fatal()
            if not again or time.monotonic() >= end_s:
                raise
        time.sleep(_PAUSE_S)
