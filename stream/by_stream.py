"""Exactly once for detect, whose state is one piece a stream, so that partitions move between processes with theirs.

In: outputs and dead letters of a turn. Out: one transaction of them, the state of the streams touched, and the offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from stream.batch import StreamKey
from stream.errors import PausetraceError
from stream.kafka_settings import KafkaSettings, require_topics
from stream.messages import Encoded, Item
from stream.offset_gaps import PartitionId
from stream.outlets import Places
from stream.state_topic import encode_removal, encode_snapshot, read_snapshots
from stream.step import Step
from stream.subscriber import Subscriber
from stream.topics import full_name
from stream.transactions import Placed, Transactions

_PREFIX = "detect/"
COMMIT_COST_RATIO = 8.0
"""While the worker is behind, commits take at most a ninth of the time."""
MOST_BETWEEN_S = 1.0
MOST_BETWEEN_BYTES = 32 << 20
"""Of outputs, which wait in memory for the commit."""


class StreamStep(Step[Item, Item], Protocol):
    """A step whose state is one piece a stream."""

    def take_touched(self) -> list[StreamKey]:
        """Streams whose state has changed since the last call."""
        ...

    def snapshot_stream(self, stream: StreamKey) -> bytes | None:
        """The state of one stream; None if it has been forgotten for good."""
        ...

    def restore_stream(self, stream: StreamKey, state: bytes) -> None:
        """Continues a stream from its snapshot."""
        ...


class ByStream:
    """A turn's outputs, its streams' states and its offsets are one transaction; of several turns if it is behind.

    The state of a stream stands under `detect/<topic>/<partition>/<stream>`, on the partition of the state topic that
    belongs to the one that the stream comes from: whoever is given that reads the state.
    """

    notice = "exactly once: outputs, state and offsets are committed together"
    keeps_control = False

    def __init__(
        self,
        settings: KafkaSettings,
        step: StreamStep,
        instance: str,
        deadline_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._step = step
        self._transactions = Transactions(settings, f"detect.{instance}", deadline_s=deadline_s)
        require_topics(settings, self._transactions.view, ["state", "episode", "control", "deadletter"])
        self.counters = self._transactions.counters
        self._state_partitions = self._transactions.view.partitions[full_name(settings.prefix, "state")]
        self._monotonic_s = monotonic_s
        self._messages: list[Placed] = []
        self._bytes = 0
        self._last_s = self._cost_s = 0.0
        self._number = time.time_ns()
        self._committed: dict[PartitionId, int] = {}
        self._restored: dict[StreamKey, PartitionId] = {}
        self._reader: Subscriber | None = None

    def serves(self, reader: Subscriber) -> None:
        """The member of the group whose offsets are committed."""
        self._reader = reader

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The committed offsets; restores the streams of these partitions as they were committed with them."""
        if all(partition.topic == "control" for partition in partitions):
            return {}  # the roster is small and is read whole by everyone
        assert self._reader is not None
        committed = self._reader.committed(partitions)
        if committed:
            places = {place.partition % self._state_partitions for place in committed}
            for key, (_, state) in read_snapshots(self._settings, _PREFIX, places).items():
                stream, place = _parse(key)
                if place in committed:
                    self._step.restore_stream(stream, state)
                    self._restored[stream] = place
        self._committed.update(committed)
        return committed

    def take_restored(self) -> Mapping[StreamKey, PartitionId]:
        """The streams restored since the last call, and the partitions that they come from."""
        restored, self._restored = self._restored, {}
        return restored

    def publish(self, item: Item, message: Encoded) -> None:
        """Keeps it for the commit."""
        self.send(message)

    def send(self, message: Encoded) -> None:
        """Keeps it for the commit."""
        self._messages.append(Placed(message))
        self._bytes += len(message.value)

    def end_turn(self, readers: Sequence[Subscriber], places: Places, *, more: bool = False) -> None:
        """Commits; raises TransactionLostError if that was in vain."""
        assert self._reader is not None
        begun_s = self._monotonic_s()
        least_s = min(COMMIT_COST_RATIO * self._cost_s, MOST_BETWEEN_S)
        if more and begun_s - self._last_s < least_s and self._bytes < MOST_BETWEEN_BYTES:
            return
        positions = self._reader.positions()
        touched = [stream for stream in self._step.take_touched() if stream in places]
        if not self._messages and not touched and positions.items() <= self._committed.items():
            return
        self._number += 1
        for stream in touched:
            self._keep_state(stream, places)
        messages, self._messages, self._bytes = self._messages, [], 0
        self._transactions.commit(messages, self._reader)
        self._committed = positions
        self._last_s = self._monotonic_s()
        self._cost_s = self._last_s - begun_s

    def finish(self, *, amid_turn: bool = False) -> None:
        """Everything was committed at the end of the last turn; if one was given up, a restart reads it again."""

    def close(self) -> None:
        """Closes the connection."""
        self._transactions.close()

    def _keep_state(self, stream: StreamKey, places: Places) -> None:
        place = places[stream]
        key = f"{_PREFIX}{place.topic}/{place.partition}/{msgspec.json.encode(stream).decode()}"
        state = self._step.snapshot_stream(stream)
        if state is None:
            del places[stream]
        messages = encode_snapshot(key, self._number, state) if state is not None else [encode_removal(key)]
        self._messages += [Placed(message, place.partition % self._state_partitions) for message in messages]


def _parse(key: str) -> tuple[StreamKey, PartitionId]:
    try:
        _, topic, partition, stream = key.split("/", 3)
        return StreamKey(*msgspec.json.decode(stream, type=tuple[str, str, str, str, str])), PartitionId(
            topic, int(partition)
        )
    except (ValueError, msgspec.DecodeError):
        raise PausetraceError(
            f"the state topic has {key!r}, which no version of detect writes",
            "start the step over: docs/exactly-once.md says how",
        ) from None
