"""Spans of time by a whole-numbered key, kept in buckets: whether something happened around a time.

Which buckets are taken depends on the times alone, so spans come out the same whatever parts they came in.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Spans:
    """By key, the buckets of `bucket_ns` in which something happened."""

    def __init__(self, bucket_ns: int) -> None:
        self._bucket_ns = bucket_ns
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def add(self, keys: Ints, from_ns: Ints, to_ns: Ints) -> None:
        """Takes spans in, each with its key."""
        if not len(keys):
            return
        found = np.unique(np.stack((keys, from_ns // self._bucket_ns, to_ns // self._bucket_ns)), axis=1)
        for key, rows in groupby(found.T.tolist(), key=itemgetter(0)):
            new = _merged([(first, last) for _, first, last in rows])
            known = self._spans.setdefault(key, [])
            # What comes is mostly later than all that is known: only the end of the list is looked at.
            while known and known[-1][1] + 1 >= new[0][0]:
                new.append(known.pop())
            known += _merged(new)

    def has(self, key: int, from_ns: int, to_ns: int) -> bool:
        """Whether something happened under the key around these times."""
        first, last = from_ns // self._bucket_ns, to_ns // self._bucket_ns
        return any(begin <= last and first <= end for begin, end in self._spans.get(key, ()))

    def between(self, from_ns: int, to_ns: int) -> list[int]:
        """The keys under which something happened around these times, in order."""
        return sorted(key for key in self._spans if self.has(key, from_ns, to_ns))

    def forget(self, before_ns: int) -> None:
        """Drops what ended before a time."""
        bucket = before_ns // self._bucket_ns
        kept = {key: [span for span in spans if span[1] >= bucket] for key, spans in self._spans.items()}
        self._spans = {key: spans for key, spans in kept.items() if spans}

    def move(self, keys: dict[int, int]) -> None:
        """Gives all of some keys to others."""
        moved: dict[int, list[tuple[int, int]]] = {}
        for key, spans in self._spans.items():
            moved.setdefault(keys.get(key, key), []).extend(spans)
        self._spans = {key: _merged(spans) for key, spans in moved.items()}

    def copy(self) -> Spans:
        """A copy that further spans change alone."""
        twin = Spans(self._bucket_ns)
        twin._spans = {key: list(spans) for key, spans in self._spans.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [[key, [list(span) for span in spans]] for key, spans in self._spans.items()]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        self._spans = {key: [(begin, end) for begin, end in spans] for key, spans in state}


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those joined that touch."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged
