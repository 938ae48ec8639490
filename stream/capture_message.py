"""A Kafka message as a capture keeps it: everything that Kafka said of it, what is in it, and when that was.

In: a message as received. Out: `Examined`: its batch where it is a packed value, its event time, and whether its
columns alone give the exact value back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stream import messages, wire
from stream.batch import MARK_END, Batch
from stream.cascade import Cascade
from stream.errors import WireError
from stream.facts import Idle
from stream.record import MAX_TIME_NS
from stream.roster import RosterChange, change_ns
from stream.topics import FACTS, PACKED

NS_PER_MS = 1_000_000
NO_TIMESTAMP_MS = -1

PRELUDE: tuple[str, ...] = ("control", *FACTS)
"""Topics that a capture has from their beginning: without them nobody knows what the rows speak of."""
_WITH_TIMES = ("cascade", *PRELUDE)

Headers = tuple[tuple[str, bytes | None], ...]


class Captured(NamedTuple):
    """One message by its topic's bare name; `timestamp_type` is create, append or "" where Kafka tells no time."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    headers: Headers
    value: bytes | None

    @property
    def place(self) -> str:
        """topic[partition]@offset"""
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Examined:
    """A message, its first and last event time, and its rows.

    `exact` says that the columns of the batch give back the same bytes; `error` why a value does not decode.
    """

    message: Captured
    first_ns: int
    last_ns: int
    batch: Batch | None = None
    exact: bool = False
    error: str = ""


def examine(message: Captured) -> Examined:
    """Looks into a message; whatever its bytes, something comes back."""
    if message.value is None:
        return _timed_by_kafka(message)
    try:
        if message.topic in PACKED:
            return _packed(message, message.value)
        if message.topic in _WITH_TIMES:
            item = messages.decode(message.topic, message.key, message.value)
            return Examined(message, *_times_of(item))
    except WireError as err:
        return _timed_by_kafka(message, str(err))
    return _timed_by_kafka(message)


def _packed(message: Captured, value: bytes) -> Examined:
    if message.key is None:
        raise WireError("a packed value without a key")
    batch = wire.decode(message.topic, value, message.key)
    if len(batch.events):
        times = batch.events["time_ns"]
        first_ns, last_ns = int(times.min()), int(times.max())
    elif batch.mark_ns < MARK_END:
        first_ns = last_ns = batch.mark_ns
    else:
        first_ns = last_ns = _kafka_ns(message)
    return Examined(message, first_ns, last_ns, batch, _gives_itself_back(batch, value))


def _gives_itself_back(batch: Batch, value: bytes) -> bool:
    # A port named twice, or texts out of order, would come back in another form than they had.
    rows = [row for row, _ in batch.texts]
    plain = batch.positions is None and len(set(batch.ports)) == len(batch.ports) and sorted(set(rows)) == rows
    return plain and wire.assemble(batch) == value


def _times_of(item: messages.Item) -> tuple[int, int]:
    if isinstance(item, Cascade):
        return item.start_ns, item.end_ns
    if isinstance(item, RosterChange):
        return change_ns(item), change_ns(item)
    if isinstance(item, Idle):
        return min(item.stream.mark_ns, MAX_TIME_NS), min(item.stream.mark_ns, MAX_TIME_NS)
    assert not isinstance(item, Batch)
    return item.valid_from_ns, item.valid_from_ns


def _kafka_ns(message: Captured) -> int:
    return min(max(message.timestamp_ms, 0) * NS_PER_MS, MAX_TIME_NS)


def _timed_by_kafka(message: Captured, error: str = "") -> Examined:
    time_ns = _kafka_ns(message)
    return Examined(message, time_ns, time_ns, error=error)
