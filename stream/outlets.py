"""Where a worker's outputs go: at least once as they are made, or exactly once in transactions with the step's state.

In: outputs and dead letters of a turn. Out: messages on Kafka; for exactly once, also where to begin after a restart.
The two ways of exactly once are in by_stream.py and whole_state.py.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Protocol

from stream.batch import StreamKey
from stream.kafka_settings import KafkaSettings
from stream.messages import Encoded, Item
from stream.offset_gaps import PartitionId
from stream.outbox import FLUSH_DEADLINE_S, HOLD_S, Outbox
from stream.subscriber import Subscriber

Places = MutableMapping[StreamKey, PartitionId]
"""The partition that each stream comes from."""


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

    @property
    def keeps_control(self) -> bool:
        """Whether it keeps how far the roster has been read; where it does not, every worker reads it all again."""
        ...

    def serves(self, reader: Subscriber) -> None:
        """The worker reads its topics by this reader."""
        ...

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """Where to begin in these partitions; restores what the step knew there."""
        ...

    def take_restored(self) -> Mapping[StreamKey, PartitionId]:
        """The streams restored since the last call, and where they come from."""
        ...

    def publish(self, item: Item, message: Encoded) -> None:
        """Takes an output of the step."""
        ...

    def send(self, message: Encoded) -> None:
        """Takes a dead letter."""
        ...

    def end_turn(self, readers: Sequence[Subscriber], places: Places, *, more: bool = False) -> None:
        """The turn is over: what was taken is to be delivered, together with the state that it left behind.

        `more`: the worker is behind, and the next turn follows at once: what is dear may wait for it.
        """
        ...

    def finish(self, *, amid_turn: bool = False) -> None:
        """Waits until everything is delivered that a restart would not make again; `amid_turn`: one was given up."""
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
    keeps_control = True

    def __init__(self, settings: KafkaSettings, deadline_s: float) -> None:
        self._outbox = Outbox(settings, deadline_s=deadline_s)
        self.counters = self._outbox.counters

    def serves(self, reader: Subscriber) -> None:
        """Of no interest here."""

    def starts(self, partitions: list[PartitionId]) -> Mapping[PartitionId, int]:
        """The earliest offsets."""
        return {}

    def take_restored(self) -> Mapping[StreamKey, PartitionId]:
        """Nothing is."""
        return {}

    def publish(self, item: Item, message: Encoded) -> None:
        """Sends."""
        self._outbox.send_or_wait(message, HOLD_S)

    def send(self, message: Encoded) -> None:
        """Sends."""
        self._outbox.send_or_wait(message, HOLD_S)

    def end_turn(self, readers: Sequence[Subscriber], places: Places, *, more: bool = False) -> None:
        """Serves deliveries; raises BrokerError for what could not be delivered."""
        self._outbox.poll()
        self._raise_failure()

    def finish(self, *, amid_turn: bool = False) -> None:
        """Waits until everything is delivered."""
        self._outbox.flush(FLUSH_DEADLINE_S)
        self._raise_failure()

    def close(self) -> None:
        """Closes the connection."""
        self._outbox.close()

    def _raise_failure(self) -> None:
        if failure := self._outbox.take_failure():
            raise failure
