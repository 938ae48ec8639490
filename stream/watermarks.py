"""Asks a broker where partitions begin and end, on a connection of its own.

On a reader's own connection the question would wait behind a fetch that waits for messages, half a second each time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaError, KafkaException, TopicPartition

# A public name of the package, which its type hints forget to export.
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from stream.errors import UnreachableError
from stream.kafka_log import error_text
from stream.kafka_settings import KafkaSettings, admin_client
from stream.offset_gaps import PartitionId
from stream.refusals import denied
from stream.topics import full_name

# The package gives these two no types.
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_RETRY_S = 0.1
# A new topic's brokers deny for a moment that they have it; the answer to an admin call does not count as retriable.
_PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)

Watermarks = dict[PartitionId, tuple[int, int]]
"""Offset of the first message that is left, and the offset that the next message will get."""


class WatermarkQuery:
    """The question; its connection is made when it is first asked."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._client: AdminClient | None = None

    def ask(self, partitions: Collection[PartitionId], deadline_s: float) -> Watermarks:
        """Watermarks of these partitions as they are now; raises UnreachableError at the deadline."""
        if not partitions:
            return {}
        if self._client is None:
            self._client = admin_client(self._settings)
        end_s = time.monotonic() + deadline_s
        while True:
            try:
                return self._ask_once(self._client, partitions, max(end_s - time.monotonic(), _RETRY_S))
            except KafkaException as err:
                error = err.args[0]
                if (error.retriable() or error.code() in _PASSING) and time.monotonic() + _RETRY_S < end_s:
                    time.sleep(_RETRY_S)
                    continue
                topics = ", ".join(sorted({full_name(self._settings.prefix, place.topic) for place in partitions}))
                if refused := denied(self._settings, error, "Describe", topics):
                    raise refused from err
                raise _no_answer(partitions, deadline_s, f": {error_text(error)}") from err
            except FutureTimeoutError as err:
                raise _no_answer(partitions, deadline_s, "") from err

    def _ask_once(self, client: AdminClient, partitions: Collection[PartitionId], deadline_s: float) -> Watermarks:
        places = {
            partition: TopicPartition(full_name(self._settings.prefix, partition.topic), partition.partition)
            for partition in sorted(partitions)
        }
        # librdkafka looks up leaders that it does not know both here and in its own thread, as soon as any metadata
        # arrives: where that comes first, this thread goes on with memory that is freed, and the process dies
        # (rd_kafka_topic_partition_list_query_leaders_async_worker, 2.16). So no metadata may be on its way: they are
        # here before the first question, and what that may ask for is here before the second.
        client.list_topics(timeout=deadline_s)
        low, high = (_offsets(client, places, spec, deadline_s) for spec in (_EARLIEST, _LATEST))
        return {partition: (low[partition], high[partition]) for partition in places}


def _offsets(
    client: AdminClient, places: Mapping[PartitionId, TopicPartition], spec: OffsetSpec, deadline_s: float
) -> dict[PartitionId, int]:
    found = client.list_offsets(dict.fromkeys(places.values(), spec), request_timeout=deadline_s)
    return {partition: int(found[place].result(deadline_s).offset) for partition, place in places.items()}


def _no_answer(partitions: Collection[PartitionId], deadline_s: float, why: str) -> UnreachableError:
    topics = ", ".join(sorted({partition.topic for partition in partitions}))
    return UnreachableError(
        f"no end offsets of {topics} within {deadline_s:.3g} s{why}", "check that the broker runs and can be reached"
    )
