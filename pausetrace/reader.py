"""Reads topics for people and programs: decodes every value, counts and skips what does not decode.

In: Kafka. Out: items with their place. Dead letters are the workers' business; nothing is committed.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from stream.closing import Closing
from stream.errors import WireError
from stream.kafka_settings import KafkaSettings
from stream.messages import Item, decode
from stream.offset_gaps import PartitionId
from stream.sampled_log import SampledLog
from stream.subscriber import WAIT_S, Received, Subscriber

_log = logging.getLogger(__name__)

UNDECODED = ("health", "deadletter")
"""JSON topics that no step reads: their values are handed on as they are."""

TROUBLE_S = 5.0
"""Kafka's complaints are told when they last so long: a connection that is made anew is none."""

Start = Literal["earliest", "latest"]


class Read(NamedTuple):
    """A message and the item in it; None for a topic in UNDECODED."""

    received: Received
    item: Item | None


class Reader(Closing):
    """Reads all partitions of topics; `counters` has bad_values and what the subscriber counts."""

    def __init__(self, settings: KafkaSettings, topics: Sequence[str], start: Start = "latest") -> None:
        self._subscriber = Subscriber(settings, topics, start=start)
        self._bad_log = SampledLog(_log)
        self._counts: Counter[str] = Counter(bad_values=0)
        self._trouble_since_s: float | None = None
        self._trouble_told = False

    @property
    def counters(self) -> dict[str, int]:
        """What was read, and what went wrong."""
        return {**self._subscriber.counters, **self._counts}

    def read(self, wait_s: float = WAIT_S) -> list[Read]:
        """What has come; waits at most so long."""
        read = []
        messages = self._subscriber.consume(wait_s=wait_s)
        self._mind_trouble("" if messages else self._subscriber.trouble)
        for received in messages:
            if received.value is None:
                continue  # a tombstone: an older version that compaction may remove
            try:
                undecoded = received.topic in UNDECODED
                item = None if undecoded else decode(received.topic, received.key, received.value)
            except WireError as err:
                self._counts["bad_values"] += 1
                self._bad_log.warning("%s: %s", received.place, err)
                continue
            read.append(Read(received, item))
        self._subscriber.take_gaps()  # the subscriber has counted and logged them
        return read

    def _mind_trouble(self, trouble: str) -> None:
        """Logs once that Kafka does not answer, and once that it does again."""
        now_s = time.monotonic()
        if not trouble:
            if self._trouble_told:
                _log.warning("Kafka answers again")
            self._trouble_since_s, self._trouble_told = None, False
        elif self._trouble_since_s is None:
            self._trouble_since_s = now_s
        elif not self._trouble_told and now_s - self._trouble_since_s >= TROUBLE_S:
            _log.warning("waiting for Kafka: %s", trouble)
            self._trouble_told = True

    def end(self) -> dict[PartitionId, tuple[int, int]]:
        """Where the topics end now, for `has_reached`."""
        return self._subscriber.watermarks()

    def has_reached(self, end: dict[PartitionId, tuple[int, int]]) -> bool:
        """Whether everything up to there has been read, and Kafka has said of what is empty that it is."""
        return self._subscriber.has_read(end, asked=True)

    def close(self) -> None:
        """Closes the connections."""
        self._subscriber.close()
