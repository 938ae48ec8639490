"""Keeps one bad item from stopping a step: what raises is found, taken out and reported; its neighbours are processed.

In: a step and items. Out: the step's outputs and the items that it could not take. Rests on snapshot and restore.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stream.messages import Item
from stream.step import Step

_log = logging.getLogger(__name__)

JOURNAL_ITEMS = 500
"""Items between two checkpoints: a failure costs as many to be processed again, and they stay in memory until then."""


class CountingStep(Step[Item, Item], Protocol):
    """A step that counts what it meets."""

    counters: Counter[str]


class Bad(NamedTuple):
    """An item that the step cannot take: where it stands among those given, and what the step raised."""

    position: int
    error: Exception


class _Checkpoint(NamedTuple):
    state: bytes
    counters: Counter[str]


class IsolatedStep:
    """A step behind a guard: after an exception, it goes back to before it and processes what it can.

    Since a step's outputs depend on its items alone, going back means the last checkpoint and the items since then,
    whose outputs have been given out already.
    """

    def __init__(self, step: CountingStep) -> None:
        self.step = step
        self._journal: list[Item] = []
        self._checkpoint = self._now()

    def process(self, items: Sequence[Item]) -> tuple[list[Item], list[Bad]]:
        """The outputs, and the items that had to be left out."""
        bad: list[Bad] = []
        counters = Counter(self.step.counters)
        try:
            outputs = list(self.step.process(items))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises, the stream goes on
            _log.debug("a step failed on %d items", len(items), exc_info=error)
            self._go_back(counters)
            outputs = self._salvage(items, 0, bad)
            self.checkpoint()
            return outputs, bad
        self._journal += items
        if len(self._journal) >= JOURNAL_ITEMS:
            self.checkpoint()
        return outputs, bad

    def checkpoint(self) -> None:
        """The state is right as it is now: call it after changing the step in another way than by items."""
        self._checkpoint = self._now()
        self._journal = []

    def _go_back(self, counters: Counter[str]) -> None:
        self._restore(self._checkpoint)
        if self._journal:
            self.step.process(self._journal)
        self._set_counters(counters)

    def _salvage(self, items: Sequence[Item], first: int, bad: list[Bad]) -> list[Item]:
        """Processes the items by halves, so that a few bad ones among many cost few attempts."""
        before = self._now()
        try:
            return list(self.step.process(items))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the same
            self._restore(before)
            if len(items) == 1:
                bad.append(Bad(first, error))
                return []
        half = len(items) // 2
        return self._salvage(items[:half], first, bad) + self._salvage(items[half:], first + half, bad)

    def _now(self) -> _Checkpoint:
        return _Checkpoint(self.step.snapshot(), Counter(self.step.counters))

    def _restore(self, checkpoint: _Checkpoint) -> None:
        self.step.restore(checkpoint.state)
        self._set_counters(checkpoint.counters)

    def _set_counters(self, counters: Counter[str]) -> None:
        # In place: others hold the object.
        self.step.counters.clear()
        self.step.counters.update(counters)
