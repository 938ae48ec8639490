"""Rows that wait until every stream has passed their time, in the batches in which they came.

In: rows and the number of the names of each. Out: those from before a time, in two parts: rows of windows alone, which
nothing but the kernel reads (analytics.rows), and all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from analytics.layout import FOREVER, NEVER, Ints
from stream.record import Events, joined, picked


class Named(NamedTuple):
    """Rows, and the number of the names that each came under (analytics.asked_names)."""

    events: Events
    numbers: Ints

    def split(self, until_ns: int) -> tuple[Named, Named]:
        """Those from before a time, and the others."""
        due = self.events["time_ns"] < until_ns
        if due.all():
            return self, self.none()
        if not due.any():
            return self.none(), self
        return self.where(due), self.where(~due)

    def where(self, chosen: np.ndarray) -> Named:
        """Those of a mask."""
        return Named(picked(self.events, chosen), self.numbers[chosen])

    def none(self) -> Named:
        """No row."""
        return Named(self.events[:0], self.numbers[:0])

    @staticmethod
    def of(parts: Iterable[Named]) -> Named:
        """All rows of some parts."""
        every = list(parts)
        if len(every) == 1:
            return every[0]
        numbers = [part.numbers for part in every]
        return Named(joined([part.events for part in every]), np.concatenate([np.zeros(0, np.int64), *numbers]))


class Waiting:
    """What waits of one fabric."""

    def __init__(self) -> None:
        self._windows: list[_Part] = []
        self._others: list[_Part] = []

    def add(self, rows: Named, windows_alone: bool = False, oldest_ns: int = NEVER, newest_ns: int = FOREVER) -> None:
        """Takes rows in, none of which is older than `oldest_ns` or later than `newest_ns`.

        Whether they are windows alone makes no difference but for the time that it takes.
        """
        (self._windows if windows_alone else self._others).append((rows, oldest_ns, newest_ns))

    def take(self, until_ns: int) -> tuple[Named, Named]:
        """Windows and others from before a time, which wait no more."""
        windows, self._windows = _split(self._windows, until_ns)
        others, self._others = _split(self._others, until_ns)
        return Named.of(windows), Named.of(others)

    def rows(self) -> tuple[Named, Named]:
        """Windows and others, which go on waiting."""
        return Named.of(part[0] for part in self._windows), Named.of(part[0] for part in self._others)


_Part = tuple[Named, int, int]
"""Rows, and what none of them is older, and none later, than."""


def _split(parts: list[_Part], until_ns: int) -> tuple[list[Named], list[_Part]]:
    """Those from before a time, and the others. Parts that hold both are cut as one: hundreds of streams may have one
    each, of few rows, at each tick."""
    due: list[Named] = []
    left: list[_Part] = []
    mixed: list[Named] = []
    for part in parts:
        rows, oldest_ns, newest_ns = part
        if oldest_ns >= until_ns:
            left.append(part)
        elif newest_ns < until_ns:
            due.append(rows)
        else:
            mixed.append(rows)
    if mixed:
        before, rest = Named.of(mixed).split(until_ns)
        due.append(before)
        if len(rest.numbers):
            times_ns = rest.events["time_ns"]
            left.append((rest, int(times_ns.min()), int(times_ns.max())))
    return due, left
