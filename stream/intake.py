"""Reads what was received from Kafka: items with their place go on, and what cannot be read becomes a dead letter.

In: messages. Out: items in the same order; tombstones and unreadable messages are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream.dead_letters import DeadLetters
from stream.errors import WireError
from stream.messages import Item, decode
from stream.subscriber import Received
from stream.topics import BY_NAME


class Intake:
    """Decodes for one worker; no message, whatever its bytes, stops it."""

    def __init__(self, dead_letters: DeadLetters | None) -> None:
        """Without `dead_letters` what cannot be read is counted alone: another reader tells of it."""
        self.counters = {"tombstones": 0, "unreadable": 0}
        self._dead_letters = dead_letters

    def read(self, received: Sequence[Received]) -> list[tuple[Received, Item]]:
        """The items in these messages, each with the message that it came in."""
        read = []
        for message in received:
            if message.value is None and BY_NAME[message.topic].compacted:
                self.counters["tombstones"] += 1
                continue
            try:
                read.append((message, decode(message.topic, message.key, message.value)))
            except WireError as err:
                self.counters["unreadable"] += 1
                if self._dead_letters is not None:
                    self._dead_letters.message(message, str(err))
        return read
