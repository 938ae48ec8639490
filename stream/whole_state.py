"""Exactly once for correlate, whose state is one piece, and whose offsets are part of it: one process is active.

In: outputs and dead letters. Out: transactions of final cascades with snapshots; provisional revisions at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stream.batch import StreamKey
from stream.cascade import FINAL, Cascade
from stream.errors import BrokerError
from stream.kafka_settings import KafkaSettings, require_topics
from stream.messages import Encoded, Item
from stream.offset_gaps import PartitionId
from stream.outbox import FLUSH_DEADLINE_S, HOLD_S, Outbox
from stream.outlets import Places
from stream.state_topic import chunk_count, encode_snapshot, read_snapshots
from stream.step import Step
from stream.subscriber import Subscriber
from stream.transactions import COMMIT_DEADLINE_S, Placed, TransactionLostError, Transactions

SNAPSHOT_INTERVAL_S = 1.0
"""Least time between two snapshots that no final cascade asks for."""
SNAPSHOT_COST_RATIO = 4.0
"""Snapshots take at most a fifth of the time, whatever the size of the state."""
KEY = "correlate/state"


class WholeState:
    """Final cascades and a snapshot that holds the offsets are one transaction.

    Provisional revisions go out at once and by themselves: they may be repeated after a restart, as they may differ.
    """

    notice = "exactly once: final cascades are committed together with the state; provisional revisions go out at once"
    keeps_control = True

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
        require_topics(settings, self._transactions.view, ["state", "cascade", "control", "deadletter"])
        self._outbox = Outbox(settings, deadline_s=deadline_s)
        self._messages: list[Placed] = []
        self._number, self._chunks = 0, 0
        self._positions: dict[PartitionId, int] = {}
        self._reached: dict[PartitionId, int] = {}
        self._last_s = self._cost_s = 0.0
        try:
            self._restore(settings)
        except BaseException:
            self.close()
            raise

    @property
    def counters(self) -> dict[str, int]:
        """Of the transactions and, for provisional revisions, of the outbox."""
        return {**self._transactions.counters, **{f"at_once_{name}": n for name, n in self._outbox.counters.items()}}

    @property
    def published_up_to(self) -> Mapping[PartitionId, int]:
        """Offsets of the cascade topic up to which the restored state knows what was published."""
        return {place: offset for place, offset in self._positions.items() if place.topic == "cascade"}

    def serves(self, reader: Subscriber) -> None:
        """Of no interest here: the offsets come with each turn."""

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The offsets in the snapshot that the step was restored from."""
        return {partition: self._positions[partition] for partition in partitions if partition in self._positions}

    def take_restored(self) -> Mapping[StreamKey, PartitionId]:
        """Nothing that anybody asks for."""
        return {}

    def publish(self, item: Item, message: Encoded) -> None:
        """Sends a provisional cascade; keeps anything else for the next commit."""
        if isinstance(item, Cascade) and item.revision != FINAL:
            self._outbox.send_or_wait(message, HOLD_S)
        else:
            self._messages.append(Placed(message))

    def send(self, message: Encoded) -> None:
        """Keeps it for the next commit."""
        self._messages.append(Placed(message))

    def end_turn(self, readers: Sequence[Subscriber], places: Places, *, more: bool = False) -> None:
        """Commits if it is time; raises TransactionLostError if that was in vain."""
        self._outbox.poll()
        self._go_back_if_lost()
        self._reached = {partition: offset for reader in readers for partition, offset in reader.positions().items()}
        now_s = self._monotonic_s()
        least_s = SNAPSHOT_COST_RATIO * self._cost_s
        if not self._messages:
            least_s = max(least_s, SNAPSHOT_INTERVAL_S)
        if now_s - self._last_s >= least_s:
            self._commit()

    def finish(self, *, amid_turn: bool = False) -> None:
        """Delivers what was sent at once, and commits; amid a turn, messages and state do not belong together."""
        self._outbox.flush(FLUSH_DEADLINE_S)
        self._go_back_if_lost()
        if not amid_turn:
            self._commit()

    def close(self) -> None:
        """Closes the connections."""
        self._transactions.close()
        self._outbox.close()

    def _restore(self, settings: KafkaSettings) -> None:
        found = read_snapshots(settings, KEY).get(KEY)
        if found is None:
            return
        self._number, data = found
        self._chunks = chunk_count(len(data))
        positions, state = msgspec.msgpack.decode(data, type=tuple[list[tuple[str, int, int]], bytes])
        self._positions = {PartitionId(topic, number): offset for topic, number, offset in positions}
        self._step.restore(state)

    def _go_back_if_lost(self) -> None:
        if failure := self._outbox.take_failure():
            # The step takes it for said; what it finds on the topic when it begins again is the truth.
            raise TransactionLostError(failure.message, failure.next_step)

    def _deliver_what_went_at_once(self) -> None:
        """No revision may follow the final one, and the two go by different ways."""
        try:
            self._outbox.flush(COMMIT_DEADLINE_S)
        except BrokerError as err:
            raise TransactionLostError(err.message, err.next_step) from err
        self._go_back_if_lost()

    def _commit(self) -> None:
        reached = self._reached
        if not reached or (not self._messages and reached.items() <= self._positions.items()):
            return
        begun_s = self._monotonic_s()
        if self._messages:
            self._deliver_what_went_at_once()
        self._number += 1
        positions = {**self.published_up_to, **self._outbox.delivered_up_to, **reached}
        places = [(partition.topic, partition.partition, offset) for partition, offset in sorted(positions.items())]
        data = msgspec.msgpack.encode((places, self._step.snapshot()))
        state = encode_snapshot(KEY, self._number, data, chunks_before=self._chunks)
        messages, self._messages = [*self._messages, *map(Placed, state)], []
        self._transactions.commit(messages)
        self._chunks, self._positions = chunk_count(len(data)), positions
        self._last_s = self._monotonic_s()
        self._cost_s = self._last_s - begun_s
