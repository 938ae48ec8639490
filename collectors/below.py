"""Which of many paths are at or below a path that is deleted, without a look at each of them.

In: paths by number, in ascending order, then prefixes. Out: the numbers of those that begin with a prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectors.pattern import Element

_MOST_KEPT = 4096
"""Answers kept until the next path comes: whatever a device deletes again and again is looked up once."""

Key = tuple[int, str, str]
"""A key's value at a place of a path."""


class Below:
    """Paths are added with rising numbers; a prefix's key may be left out or be `*`."""

    def __init__(self) -> None:
        self._paths: list[tuple[Element, ...]] = []
        self._with: dict[Key, list[int]] = {}
        self._names: set[tuple[str, ...]] = {()}
        """The names of every prefix that some path has."""
        self._answers: dict[tuple[Element, ...], list[int]] = {}

    def add(self, elements: tuple[Element, ...]) -> None:
        """The next path."""
        number = len(self._paths)
        self._paths.append(elements)
        for key in _keys(elements):
            self._with.setdefault(key, []).append(number)
        names = tuple(name for name, _ in elements)
        self._names.update(names[:depth] for depth in range(1, len(names) + 1))
        self._answers.clear()

    def find(self, prefix: tuple[Element, ...]) -> list[int]:
        """The numbers of all paths at or below a prefix, in ascending order."""
        if tuple(name for name, _ in prefix) not in self._names:
            return []
        prefix = tuple((name, tuple((key, value) for key, value in keys if value != "*")) for name, keys in prefix)
        answer = self._answers.get(prefix)
        if answer is None:
            # Of all keys the one that the fewest paths have leaves the least to look at.
            with_key: list[Sequence[int]] = [self._with.get(key, ()) for key in _keys(prefix)]
            having = min(with_key, key=len, default=range(len(self._paths)))
            answer = [number for number in having if is_below(self._paths[number], prefix)]
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[prefix] = answer
        return answer


def is_below(elements: tuple[Element, ...], prefix: tuple[Element, ...]) -> bool:
    """Whether elements begin with those of a prefix, of which a key may be left out or be `*`."""
    if len(prefix) > len(elements):
        return False
    for (name, keys), (of_prefix, keys_of_prefix) in zip(elements, prefix, strict=False):
        told = dict(keys)
        if name != of_prefix or any(value not in ("*", told.get(key)) for key, value in keys_of_prefix):
            return False
    return True


def _keys(elements: tuple[Element, ...]) -> list[Key]:
    return list({(place, key, value): None for place, (_, keys) in enumerate(elements) for key, value in keys})
