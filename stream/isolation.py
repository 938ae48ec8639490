"""Keeps one bad item from stopping a step: what raises is found, taken out and reported; its neighbours are processed.

In: a step and items. Out: the step's outputs and the items that it could not take. Rests on snapshot and restore.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from stream.batch import Batch
from stream.messages import Item
from stream.step import Step

_log = logging.getLogger(__name__)

JOURNAL_ITEMS = 500
"""Items between two checkpoints at least: a failure costs as many to be processed again."""
JOURNAL_BYTES = 32 << 20
"""Rows between two checkpoints at most, since they stay in memory until then."""
CHECKPOINT_COST_RATIO = 10.0
"""Between these bounds checkpoints take about a tenth of the step's time, whatever the size of its state."""


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

    def __init__(self, step: CountingStep, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self.step = step
        self._monotonic_s = monotonic_s
        self._journal: list[Item] = []
        self._journal_bytes = 0
        self._worked_s = self._cost_s = 0.0
        self.checkpoint()

    def process(self, items: Sequence[Item]) -> tuple[list[Item], list[Bad]]:
        """The outputs, and the items that had to be left out."""
        bad: list[Bad] = []
        counters = Counter(self.step.counters)
        begun_s = self._monotonic_s()
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
        self._worked_s += self._monotonic_s() - begun_s
        self._journal += items
        self._journal_bytes += sum(item.events.nbytes for item in items if isinstance(item, Batch))
        dear = self._worked_s < CHECKPOINT_COST_RATIO * self._cost_s and self._journal_bytes < JOURNAL_BYTES
        if len(self._journal) >= JOURNAL_ITEMS and not dear:
            self.checkpoint()
        return outputs, bad

    def checkpoint(self) -> None:
        """The state is right as it is now: call it after changing the step in another way than by items."""
        begun_s = self._monotonic_s()
        self._checkpoint = self._now()
        self._journal, self._journal_bytes = [], 0
        self._worked_s, self._cost_s = 0.0, self._monotonic_s() - begun_s

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
