"""Sums by pairs of numbers, such as stopped queue and root, in arrays: a storm has hundreds of thousands of pairs.

In: pairs, each once at a time, and what is to be added to each. Out: pairs in order, with their sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analytics.layout import Floats, Ints

_SECOND_BITS = 32


class PairSums:
    """Sums of `columns` measures by pairs of numbers from 0 to below 2^31, and 2^32 for the second."""

    def __init__(self, columns: int) -> None:
        self._keys: Ints = np.zeros(0, np.int64)
        """In order: the first number times 2^32, and the second."""
        self._sums: Floats = np.zeros((0, columns))

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, first: Ints, second: Ints, amounts: Floats) -> None:
        """Adds amounts, float64 (n, columns), to n pairs; a pair that is there twice gets both, in order."""
        packed: Ints = (first << _SECOND_BITS) | second
        keys, at = np.unique(packed, return_inverse=True)
        place = np.searchsorted(self._keys, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = place < len(self._keys)
        known[inside] = self._keys[place[inside]] == keys[inside]
        if not known.all():
            new = ~known
            self._keys = np.insert(self._keys, place[new], keys[new])
            self._sums = np.insert(self._sums, place[new], 0.0, axis=0)
            place = np.searchsorted(self._keys, keys)
        np.add.at(self._sums, place[at], amounts)

    def join(self, other: PairSums) -> None:
        """Adds those of another."""
        self.add(*other.pairs(), other._sums)

    def pairs(self) -> tuple[Ints, Ints]:
        """The numbers of all pairs, in order."""
        return self._keys >> _SECOND_BITS, self._keys & ((1 << _SECOND_BITS) - 1)

    def rounded(self, column: int) -> dict[tuple[int, int], int]:
        """By pair, one measure as whole numbers; those that are 0 are left out."""
        amounts = np.rint(self._sums[:, column]).astype(np.int64)
        kept = np.flatnonzero(amounts)
        first, second = (part[kept].tolist() for part in self.pairs())
        return dict(zip(zip(first, second, strict=True), amounts[kept].tolist(), strict=True))

    def moved(self, first_now: Callable[[int], int], second_now: Callable[[int], int]) -> PairSums:
        """The same under other numbers."""
        twin = PairSums(self._sums.shape[1])
        first, second = self.pairs()
        first = np.array([first_now(each) for each in first.tolist()], np.int64)
        second = np.array([second_now(each) for each in second.tolist()], np.int64)
        twin.add(first, second, self._sums)
        return twin

    def copy(self) -> PairSums:
        """A copy that further pairs change alone."""
        twin = PairSums(0)
        twin._keys, twin._sums = self._keys, self._sums.copy()
        return twin

    def state(self) -> list[Any]:
        """Arrays for a snapshot."""
        return [self._keys, self._sums]

    @classmethod
    def of_state(cls, state: list[Any]) -> PairSums:
        """Continues from `state()`."""
        sums = cls(0)
        sums._keys, sums._sums = state[0], state[1].copy()
        return sums
