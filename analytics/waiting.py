"""Rows that wait until every stream has passed their time, in the batches in which they came.

In: rows and the number of the names of each. Out: those from before a time: rows of windows alone, which nothing but
the kernel reads (analytics.rows), in parts as they came, and all others as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from analytics.layout import FOREVER, NEVER, Ints
from stream.record import Events, joined, picked

SMALL_ROWS = 1024
"""Parts of fewer rows are joined: to look at a part takes as long as to copy so many."""


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


class Part(NamedTuple):
    """Rows, and what none of them is older, and none later, than."""

    rows: Named
    oldest_ns: int
    newest_ns: int


class Waiting:
    """What waits of one fabric."""

    def __init__(self) -> None:
        self._windows: list[Part] = []
        self._others: list[Part] = []

    def add(self, rows: Named, windows_alone: bool = False, oldest_ns: int = NEVER, newest_ns: int = FOREVER) -> None:
        """Takes rows in, none of which is older than `oldest_ns` or later than `newest_ns`.

        Whether they are windows alone makes no difference but for the time that it takes.
        """
        (self._windows if windows_alone else self._others).append(Part(rows, oldest_ns, newest_ns))

    def take(self, until_ns: int) -> tuple[list[Part], Named]:
        """Windows and others from before a time, which wait no more."""
        windows, self._windows = split(self._windows, until_ns)
        others, self._others = split(self._others, until_ns)
        return _few(windows), Named.of(part.rows for part in others)

    def rows(self) -> tuple[list[Part], Named]:
        """Windows and others, which go on waiting."""
        return _few(self._windows), Named.of(part.rows for part in self._others)


def split(parts: list[Part], until_ns: int) -> tuple[list[Part], list[Part]]:
    """Those from before a time, and the others. Parts that hold both are cut as one: hundreds of streams may have one
    each, of few rows, at each tick."""
    due: list[Part] = []
    left: list[Part] = []
    mixed: list[Named] = []
    for part in parts:
        if part.oldest_ns >= until_ns:
            left.append(part)
        elif part.newest_ns < until_ns:
            due.append(part)
        else:
            mixed.append(part.rows)
    if mixed:
        for rows, side in zip(Named.of(mixed).split(until_ns), (due, left), strict=True):
            if len(rows.numbers):
                times_ns = rows.events["time_ns"]
                side.append(Part(rows, int(times_ns.min()), int(times_ns.max())))
    return due, left


def _few(parts: list[Part]) -> list[Part]:
    """The parts, small ones joined."""
    large = [part for part in parts if len(part.rows.numbers) >= SMALL_ROWS]
    small = [part for part in parts if len(part.rows.numbers) < SMALL_ROWS]
    if len(small) > 1:
        rows = Named.of(part.rows for part in small)
        small = [Part(rows, min(part.oldest_ns for part in small), max(part.newest_ns for part in small))]
    return [*large, *small]
