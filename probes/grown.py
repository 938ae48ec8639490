"""How much counters have grown since the last look, where keys come and go.

In: keys as numbers and their counters. Out: the growth of each, as arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.uint64]


class Grown:
    """Remembers the counters of the last look; a key that was not there then, or had counted more, began at 0."""

    def __init__(self, counters: int) -> None:
        self._keys = np.zeros(0, np.uint64)
        self._counts = np.zeros((0, counters), np.uint64)

    def since(self, keys: Keys, counts: Counts) -> Counts:
        """Growth since the last call, of shape (keys, counters); keys are distinct."""
        growth = counts.copy()
        if len(self._keys):
            place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            known = self._keys[place] == keys
            before = self._counts[place[known]]
            growth[known] -= np.where(before <= counts[known], before, 0)
        order = np.argsort(keys)
        self._keys, self._counts = keys[order], counts[order]
        return growth
