"""One budget of bytes for all messages that a process holds undecoded, shared fairly among its targets.

In: messages that were read, and that were decoded. Out: whether a target may be read from now. What may not be read
stays in the connection: HTTP/2's flow control then stops the target, and nothing has to be dropped.
"""

from __future__ import annotations

import asyncio

MESSAGE_OVERHEAD_BYTES = 128
"""What a message costs beside its bytes, roughly."""
LEAST_SHARE_BYTES = 64 << 10


class Budget:
    """Of one event loop; all calls are made in its thread. A message that is read may exceed what was left by itself:
    how long it is, nobody knows before.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.most_bytes = 0
        """Held at most so far."""
        self.waits = 0
        """Times that a target had to wait."""
        self._held: dict[int, int] = {}
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Who waits, and for which target: a target may have several RPCs."""

    def share_bytes(self) -> int:
        """What one target may hold: all of it if alone, else twice its equal share of it."""
        return max(self.limit_bytes * 2 // (len(self._held) + 1), LEAST_SHARE_BYTES)

    def may_read(self, target: int) -> bool:
        """Whether the target may be read from now."""
        return self.held_bytes < self.limit_bytes and self._held.get(target, 0) < self.share_bytes()

    async def room(self, target: int) -> None:
        """Waits until it may."""
        while not self.may_read(target):
            self.waits += 1
            waiting = asyncio.get_running_loop().create_future()
            self._waiting[waiting] = target
            try:
                await waiting
            finally:
                del self._waiting[waiting]

    def took(self, target: int, message_bytes: int) -> None:
        """A message of the target's was read."""
        cost = message_bytes + MESSAGE_OVERHEAD_BYTES
        self.held_bytes += cost
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        self._held[target] = self._held.get(target, 0) + cost

    def gave_back(self, costs: dict[int, int]) -> None:
        """Messages were decoded; by target, their bytes with what each costs beside."""
        for target, cost in costs.items():
            left = self._held.get(target, 0) - cost
            self.held_bytes -= cost
            if left > 0:
                self._held[target] = left
            else:
                self._held.pop(target, None)
        for waiting, target in self._waiting.items():
            if not waiting.done() and self.may_read(target):
                waiting.set_result(None)
