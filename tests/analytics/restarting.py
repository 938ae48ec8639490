"""A step that is stopped and started again from its snapshot, so that a test can put restarts into any run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, TypeVar

from stream.messages import Item
from stream.step import Step

StepT = TypeVar("StepT", bound=Step[Item, Item])


class Restarting(Generic[StepT]):
    """Runs a step; before some of the batches, as `random` chooses, a fresh one goes on from its snapshot."""

    def __init__(self, fresh: Callable[[], StepT], random: Random, chance: float = 0.2) -> None:
        self.step = fresh()
        self.restarts = 0
        self._fresh, self._random, self._chance = fresh, random, chance

    def process(self, batch: Sequence[Item]) -> Sequence[Item]:
        """Hands the batch to the step, or to the one that takes its place."""
        if self._random.random() < self._chance:
            state = self.step.snapshot()
            self.step = self._fresh()
            self.step.restore(state)
            assert self.step.snapshot() == state
            self.restarts += 1
        return self.step.process(batch)

    def snapshot(self) -> bytes:
        """The state of the step."""
        return self.step.snapshot()

    def restore(self, state: bytes) -> None:
        """Continues the step from a snapshot."""
        self.step.restore(state)
