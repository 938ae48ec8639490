"""Where a worker's outputs go: at least once as they are made, or exactly once in transactions with the step's state.

In: outputs and dead letters of a turn. Out: messages on Kafka; for exactly once, also where to begin after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from stream.batch import StreamKey
from stream.cascade import FINAL, Cascade
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, Item
from stream.offset_gaps import PartitionId
from stream.outbox import FLUSH_DEADLINE_S, HOLD_S, Outbox
from stream.state_topic import encode_snapshot, read_snapshots
from stream.step import Step
from stream.subscriber import Subscriber
from stream.transactions import Transactions

SNAPSHOT_INTERVAL_S = 1.0
"""Least time between two snapshots of correlate that no final cascade asks for."""
SNAPSHOT_COST_RATIO = 4.0
"""Snapshots take at most a fifth of the time, whatever the size of the state."""


class Outlet(Protocol):
    """What a worker sends by; `end_turn` is called after every turn, `finish` at the end."""

    @property
    def counters(self) -> dict[str, int]:
        """What was sent, and how."""
        ...

    @property
    def notice(self) -> str:
        """What its users should know, in one sentence."""
        ...

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """Where to begin in these partitions; restores what the step knew there."""
        ...

    def publish(self, item: Item, message: Encoded) -> None:
        """Takes an output of the step."""
        ...

    def send(self, message: Encoded) -> None:
        """Takes a dead letter."""
        ...

    def end_turn(self, readers: Sequence[Subscriber], place_of: Mapping[StreamKey, PartitionId]) -> None:
        """The turn is over: what was taken is to be delivered, together with the state that it left behind."""
        ...

    def finish(self) -> None:
        """Waits until everything is delivered."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


class AtLeastOnce:
    """Sends at once; a restarted worker reads everything again. The only way on the embedded broker."""

    notice = (
        "reads from the earliest offset; at least once: after a restart it reads everything again and publishes "
        "the same results under the same identities"
    )

    def __init__(self, settings: KafkaSettings, deadline_s: float) -> None:
        self._outbox = Outbox(settings, deadline_s=deadline_s)
        self.counters = self._outbox.counters

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The earliest offsets."""
        return {}

    def publish(self, item: Item, message: Encoded) -> None:
        """Sends."""
        self._outbox.send_or_wait(message, HOLD_S)

    def send(self, message: Encoded) -> None:
        """Sends."""
        self._outbox.send_or_wait(message, HOLD_S)

    def end_turn(self, readers: Sequence[Subscriber], place_of: Mapping[StreamKey, PartitionId]) -> None:
        """Serves deliveries; raises BrokerError for what could not be delivered."""
        self._outbox.poll()
        self._raise_failure()

    def finish(self) -> None:
        """Waits until everything is delivered."""
        self._outbox.flush(FLUSH_DEADLINE_S)
        self._raise_failure()

    def close(self) -> None:
        """Closes the connection."""
        self._outbox.close()

    def _raise_failure(self) -> None:
        if failure := self._outbox.take_failure():
            raise failure


class StreamStep(Step[Item, Item], Protocol):
    """A step whose state is one piece a stream, so that partitions can move between processes with theirs."""

    def take_touched(self) -> list[StreamKey]:
        """Streams whose state has changed since the last call."""
        ...

    def snapshot_stream(self, stream: StreamKey) -> bytes:
        """The state of one stream."""
        ...

    def restore_stream(self, stream: StreamKey, state: bytes) -> None:
        """Continues a stream from its snapshot."""
        ...


class ByStream:
    """Exactly once for detect: a turn's outputs, its streams' states and its offsets are one transaction.

    The state of a stream stands under `detect/<topic>/<partition>/<stream>`; whoever gets the partition reads it.
    """

    notice = "exactly once: outputs, state and offsets are committed together"

    def __init__(self, settings: KafkaSettings, step: StreamStep, instance: str, deadline_s: float) -> None:
        self._settings = settings
        self._step = step
        self._transactions = Transactions(settings, f"detect.{instance}", deadline_s=deadline_s)
        self.counters = self._transactions.counters
        self._state_partitions = self._transactions.view.partitions[f"{settings.prefix}.state"]
        self._messages: list[Encoded] = []
        self._number = time.time_ns()
        self._committed: dict[PartitionId, int] = {}
        self._restored: dict[StreamKey, PartitionId] = {}
        self.reader: Subscriber | None = None
        """The group's reader, once the worker has made it."""

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The committed offsets; restores the streams of these partitions as they were committed with them."""
        if all(partition.topic == "control" for partition in partitions):
            return {}  # the roster is small and is read whole by everyone
        assert self.reader is not None
        committed = self.reader.committed(partitions)
        for key, (_, state) in read_snapshots(self._settings, "detect/").items():
            _, topic, partition, stream = key.split("/", 3)
            place = PartitionId(topic, int(partition))
            if place in committed:
                restored = StreamKey(*msgspec.json.decode(stream))
                self._step.restore_stream(restored, state)
                self._restored[restored] = place
        self._step.take_touched()
        self._committed.update(committed)
        return committed

    def take_restored(self) -> dict[StreamKey, PartitionId]:
        """The streams restored since the last call, and the partitions that they come from."""
        restored, self._restored = self._restored, {}
        return restored

    def publish(self, item: Item, message: Encoded) -> None:
        """Keeps it for the end of the turn."""
        self._messages.append(message)

    def send(self, message: Encoded) -> None:
        """Keeps it for the end of the turn."""
        self._messages.append(message)

    def end_turn(self, readers: Sequence[Subscriber], place_of: Mapping[StreamKey, PartitionId]) -> None:
        """Commits; raises TransactionLost if that was in vain, Fenced if another process has this one's name."""
        reader = readers[0]
        positions = reader.positions()
        touched = [stream for stream in self._step.take_touched() if stream in place_of]
        if not self._messages and not touched and positions.items() <= self._committed.items():
            return
        self._number += 1
        messages, partitions = self._messages, [None] * len(self._messages)
        states: list[int | None] = []
        for stream in touched:
            place = place_of[stream]
            key = f"detect/{place.topic}/{place.partition}/{msgspec.json.encode(stream).decode()}"
            parts = encode_snapshot(key, self._number, self._step.snapshot_stream(stream))
            messages = messages + parts if messages is self._messages else [*messages, *parts]
            states += [place.partition % self._state_partitions] * len(parts)
        self._messages = []
        self._transactions.commit(messages, reader.kafka_positions(), reader.group_metadata(), [*partitions, *states])
        self._committed = positions

    def finish(self) -> None:
        """Everything was committed at the end of the last turn."""

    def close(self) -> None:
        """Closes the connection."""
        self._transactions.close()


class WholeState:
    """Exactly once for correlate: final cascades and a snapshot that holds the offsets are one transaction.

    Provisional revisions go out at once and by themselves: they may be repeated after a restart, as they may differ.
    """

    notice = "exactly once: final cascades are committed together with the state; provisional revisions go out at once"

    KEY = "correlate/state"

    def __init__(
        self,
        settings: KafkaSettings,
        step: Step[Item, Item],
        deadline_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._step = step
        self._monotonic_s = monotonic_s
        # Fences whoever was active before, and ends what it left open, before its state is read.
        self._transactions = Transactions(settings, "correlate", deadline_s=deadline_s)
        self._outbox = Outbox(settings, deadline_s=deadline_s)
        self._messages: list[Encoded] = []
        self._number, self._chunks = 0, 0
        self._positions: dict[PartitionId, int] = {}
        self._reached: dict[PartitionId, int] = {}
        self._last_s = self._cost_s = 0.0
        found = read_snapshots(settings, self.KEY).get(self.KEY)
        if found is not None:
            self._number, data = found
            positions, state = msgspec.msgpack.decode(data, type=tuple[list[tuple[str, int, int]], bytes])
            self._positions = {PartitionId(topic, number): offset for topic, number, offset in positions}
            self._step.restore(state)

    @property
    def counters(self) -> dict[str, int]:
        """Of the transactions and, for provisional revisions, of the outbox."""
        return {**self._transactions.counters, **{f"at_once_{name}": n for name, n in self._outbox.counters.items()}}

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The offsets in the snapshot that the step was restored from."""
        return {partition: self._positions[partition] for partition in partitions if partition in self._positions}

    def publish(self, item: Item, message: Encoded) -> None:
        """Keeps a final cascade for the next commit; sends a provisional one."""
        if isinstance(item, Cascade) and item.revision != FINAL:
            self._outbox.send_or_wait(message, HOLD_S)
        else:
            self._messages.append(message)

    def send(self, message: Encoded) -> None:
        """Keeps it for the next commit."""
        self._messages.append(message)

    def end_turn(self, readers: Sequence[Subscriber], place_of: Mapping[StreamKey, PartitionId]) -> None:
        """Commits if it is time; raises TransactionLost if that was in vain, Fenced if another process is active."""
        self._outbox.poll()
        if failure := self._outbox.take_failure():
            raise failure
        self._reached = {partition: offset for reader in readers for partition, offset in reader.positions().items()}
        now_s = self._monotonic_s()
        least_s = SNAPSHOT_COST_RATIO * self._cost_s
        if not self._messages:
            least_s = max(least_s, SNAPSHOT_INTERVAL_S)
        if now_s - self._last_s >= least_s:
            self._commit(self._reached)

    def finish(self) -> None:
        """Delivers what was sent at once, and commits."""
        self._commit(self._reached)
        self._outbox.flush(FLUSH_DEADLINE_S)
        if failure := self._outbox.take_failure():
            raise failure

    def close(self) -> None:
        """Closes the connections."""
        self._transactions.close()
        self._outbox.close()

    def _commit(self, positions: dict[PartitionId, int]) -> None:
        if not self._messages and positions.items() <= self._positions.items():
            return
        begun_s = self._monotonic_s()
        self._number += 1
        places = [(partition.topic, partition.partition, offset) for partition, offset in sorted(positions.items())]
        data = msgspec.msgpack.encode((places, self._step.snapshot()))
        state = encode_snapshot(self.KEY, self._number, data, chunks_before=self._chunks)
        messages, self._messages = [*self._messages, *state], []
        self._transactions.commit(messages)
        self._chunks, self._positions = len(state), positions
        self._last_s = self._monotonic_s()
        self._cost_s = self._last_s - begun_s
