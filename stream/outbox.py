"""The way out to Kafka: hands messages to librdkafka, holds them through an outage in bounded memory, counts losses.

In: encoded messages, each with a callback for its loss. Out: deliveries, counters and failures that name the topic.
Not safe for several threads; callbacks run inside `poll`, `flush` and `close`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream.closing import Closing
from stream.errors import BrokerError
from stream.kafka_log import LastError, error_text
from stream.kafka_settings import (
    CONNECT_DEADLINE_S,
    KafkaSettings,
    look_through,
    producer_config,
    setting_error,
)
from stream.messages import Encoded
from stream.offset_gaps import PartitionId
from stream.refusals import GRANT, denied, no_right_to_write
from stream.sampled_log import SampledLog
from stream.topics import full_name

_log = logging.getLogger(__name__)

QUEUE_FULL = 1
DELIVERY_FAILED = 2
"""Reasons of a loss, codes of stream.kinds.LOSS_REASONS."""

HOLD_S = 60.0
QUEUE_BYTES = 4 << 20
HELD_BYTES = 60 << 20
FLUSH_DEADLINE_S = 30.0

FOR_EVER_MS = 0
"""librdkafka's word for a message that never expires."""

_OVERHEAD_BYTES = 256
"""What a held message costs beside its key and value, roughly."""
_SLICE_S = 0.05

OnLost = Callable[[int], None]


def _ignore(_reason: int) -> None:
    pass


class _Held(NamedTuple):
    message: Encoded
    on_lost: OnLost
    since_s: float

    @property
    def cost_bytes(self) -> int:
        return len(self.message.key) + len(self.message.value) + _OVERHEAD_BYTES


class Outbox(Closing):
    """An idempotent producer with a bounded memory: librdkafka's queue, and behind it what that does not take.

    What librdkafka has taken waits there for as long as it takes: it may be on its way, and nobody could tell whether a
    broker that comes back still takes it. Behind it a message waits `hold_s` at most; what does not fit or waits longer
    is lost, oldest first: its `on_lost` is called with the reason, and the next `take_failure` tells it. So the count
    of lost messages is exact.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        queue_bytes: int = QUEUE_BYTES,
        held_bytes: int = HELD_BYTES,
        hold_s: float = HOLD_S,
        deadline_s: float = CONNECT_DEADLINE_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters: dict[str, int] = {
            "messages": 0, "delivered": 0, "held": 0, "dropped_queue_full": 0, "delivery_errors": 0
        }  # fmt: skip
        self._settings = settings
        self._held_limit_bytes = held_bytes
        self._hold_s = hold_s
        self._monotonic_s = monotonic_s
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._failures: dict[tuple[str, str], int] = {}
        self.delivered_up_to: dict[PartitionId, int] = {}
        """Offset after the last message that Kafka has, partition by partition."""
        self._sampled_log = SampledLog(_log)
        self._last_error = LastError()
        self._closed = False
        config = producer_config(settings, queue_bytes=queue_bytes, message_timeout_ms=FOR_EVER_MS)
        try:
            self._producer = Producer(config | self._last_error.callbacks)
        except KafkaException as err:
            raise setting_error(err) from err
        self.view = look_through(self._producer, settings, self._last_error, deadline_s)

    @property
    def waiting(self) -> int:
        """Messages not delivered yet."""
        return len(self._producer) + len(self._held)

    @property
    def trouble(self) -> str:
        """What Kafka last complained of since the last delivery; "" if nothing."""
        return self._last_error.fatal or self._last_error.text

    def send(self, message: Encoded, on_lost: OnLost = _ignore) -> None:
        """Sends, or holds while librdkafka's queue is full; never waits."""
        self.counters["messages"] += 1
        if self._held or not self._hand_over(message, on_lost):
            self.counters["held"] += 1
            held = _Held(message, on_lost, self._monotonic_s())
            self._held.append(held)
            self._held_bytes += held.cost_bytes
            self._drop_what_does_not_fit()

    def send_or_wait(self, message: Encoded, deadline_s: float = HOLD_S) -> None:
        """Sends, waiting while librdkafka's queue is full; raises BrokerError at the deadline."""
        end_s = time.monotonic() + deadline_s
        self.counters["messages"] += 1
        while self._held or not self._hand_over(message, _ignore):
            if time.monotonic() >= end_s:
                raise self._not_delivered(deadline_s)
            self.poll(_SLICE_S)

    def poll(self, wait_s: float = 0.0) -> None:
        """Serves delivery callbacks and hands over what was held."""
        self._serve(self._producer.poll, wait_s)
        while self._held and self._hand_over(self._held[0].message, self._held[0].on_lost):
            self._unhold()
        oldest_s = self._monotonic_s() - self._hold_s
        while self._held and self._held[0].since_s < oldest_s:
            self._drop_oldest()

    def flush(self, deadline_s: float = FLUSH_DEADLINE_S) -> None:
        """Waits until nothing waits any more; raises BrokerError at the deadline. Losses are told by `take_failure`."""
        end_s = time.monotonic() + deadline_s
        while self.waiting:
            # flush() of librdkafka sends at once what lingers, and serves callbacks like poll().
            self._serve(self._producer.flush, _SLICE_S)
            self.poll()
            if self.waiting and (time.monotonic() >= end_s or self._last_error.fatal):
                raise self._not_delivered(deadline_s)

    def take_failure(self) -> BrokerError | None:
        """What was lost since the last call, with topics and counts; None if nothing was."""
        if not self._failures:
            return None
        failures, self._failures = self._failures, {}
        parts = [
            f"{count} message{'s' * (count > 1)} to {full_name(self._settings.prefix, topic)} lost: {why}"
            for (topic, why), count in sorted(failures.items())
        ]
        return BrokerError("; ".join(parts), _next_step(failures))

    def close(self) -> None:
        """Gives up what still waits, counted as lost; call `flush` before."""
        if self._closed:
            return
        self._closed = True
        while self._held:
            self._drop_oldest()
        self._producer.purge()
        with contextlib.suppress(BrokerError):  # that it has given up was told where it mattered
            self._serve(self._producer.flush, 1.0)
        # Without a reference its connections end; older clients have no close().
        del self._producer

    def _hand_over(self, message: Encoded, on_lost: OnLost) -> bool:
        """Whether librdkafka took the message or refused it for good; false if its queue is full."""
        try:
            self._producer.produce(
                full_name(self._settings.prefix, message.topic),
                message.value,
                message.key,
                on_delivery=partial(self._delivered, message.topic, on_lost),
            )
        except BufferError:
            return False
        except KafkaException as err:
            self._fail(message.topic, on_lost, err.args[0])
        return True

    def _delivered(self, topic: str, on_lost: OnLost, error: KafkaError | None, message: Message[Any, Any]) -> None:
        if error is None:
            self.counters["delivered"] += 1
            partition, offset = message.partition(), message.offset()
            if partition is not None and offset is not None:
                self.delivered_up_to[PartitionId(topic, partition)] = offset + 1
            self._last_error.clear()
        else:
            self._fail(topic, on_lost, error)

    def _fail(self, topic: str, on_lost: OnLost, error: KafkaError) -> None:
        """A message is lost since Kafka, or librdkafka that has heard it from Kafka before, refuses it."""
        refused = denied(self._settings, error, "Write", full_name(self._settings.prefix, topic))
        self._lose(topic, on_lost, DELIVERY_FAILED, refused.message if refused else error_text(error))

    def _serve(self, call: Callable[[float], object], wait_s: float) -> None:
        """Serves callbacks; raises BrokerError where librdkafka has given up for good, which no callback is told."""
        try:
            call(wait_s)
        except KafkaException as err:
            raise self._given_up(err.args[0]) from err
        except SystemError as err:
            # A delivery's callback ran while the exception was on its way, which Python takes badly.
            if not isinstance(err.__cause__, KafkaException):
                raise
            raise self._given_up(err.__cause__.args[0]) from err

    def _given_up(self, error: KafkaError) -> BrokerError:
        self._last_error(error)
        if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return no_right_to_write(self._settings)
        return BrokerError(f"the producer has given up: {error_text(error)}", "start the publisher again")

    def _unhold(self) -> _Held:
        held = self._held.popleft()
        self._held_bytes -= held.cost_bytes
        return held

    def _drop_what_does_not_fit(self) -> None:
        while self._held and self._held_bytes > self._held_limit_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        held = self._unhold()
        why = f"the queue was full while the broker took nothing{': ' * bool(self.trouble)}{self.trouble}"
        self._lose(held.message.topic, held.on_lost, QUEUE_FULL, why)

    def _lose(self, topic: str, on_lost: OnLost, reason: int, why: str) -> None:
        self.counters["dropped_queue_full" if reason == QUEUE_FULL else "delivery_errors"] += 1
        self._failures[topic, why] = self._failures.get((topic, why), 0) + 1
        self._sampled_log.warning("a message to %s is lost: %s", full_name(self._settings.prefix, topic), why)
        on_lost(reason)

    def _not_delivered(self, deadline_s: float) -> BrokerError:
        why = f" ({self.trouble})" if self.trouble else ""
        fatal = self._last_error.fatal
        return BrokerError(
            f"{self.waiting} message{'s' * (self.waiting != 1)} could not be delivered to "
            f"{self._settings.bootstrap_servers} within {deadline_s:.3g} s{why}",
            "start the publisher again" if fatal else "check that the broker runs and can be reached",
        )


def _next_step(failures: dict[tuple[str, str], int]) -> str:
    if any("Unknown topic" in why for _, why in failures):
        return "make the topics: pausetrace topics create"
    if any("has no right" in why for _, why in failures):
        return GRANT
    return "check that the broker runs and can be reached"
