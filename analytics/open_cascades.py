"""The cascades of polled devices that are open, found by their queues and roots.

In: groups of stops of a period. Out: the cascades that they belong to, in the order in which those began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analytics.sampled_cascade import SampledCascade


class OpenCascades:
    """All that are open, each with a number, which grows."""

    def __init__(self, cascades: Iterable[SampledCascade] = ()) -> None:
        self._open: dict[int, SampledCascade] = {}
        self._of_queue: dict[int, int] = {}
        self._of_root: dict[int, set[int]] = {}
        self._next = 0
        for cascade in cascades:
            self.note(self.open(cascade))

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[SampledCascade]:
        return iter(list(self._open.values()))

    def meeting(self, queues: list[int], roots: set[int]) -> list[int]:
        """The numbers of those to which stops of these queues, that blame these roots, belong."""
        found = {self._of_queue[queue] for queue in queues if queue in self._of_queue}
        for number in {number for root in roots for number in self._of_root.get(root, ())} - found:
            if self._open[number].has_root(roots):
                found.add(number)
        return sorted(found)

    def __getitem__(self, number: int) -> SampledCascade:
        return self._open[number]

    def open(self, cascade: SampledCascade) -> int:
        """Takes a new one in; returns its number."""
        self._open[self._next] = cascade
        self._next += 1
        return self._next - 1

    def note(self, number: int) -> None:
        """Takes in what queues and roots one has by now."""
        cascade = self._open[number]
        self._of_queue.update(dict.fromkeys(cascade.queues, number))
        for root in cascade.members:
            self._of_root.setdefault(root, set()).add(number)

    def remove(self, number: int) -> None:
        """One has closed, or is part of another now."""
        cascade = self._open.pop(number)
        for queue in cascade.queues:
            if self._of_queue.get(queue) == number:
                del self._of_queue[queue]
        for root in cascade.members:
            self._of_root[root].discard(number)
            if not self._of_root[root]:
                del self._of_root[root]

    def numbered(self) -> list[tuple[int, SampledCascade]]:
        """All, with their numbers."""
        return list(self._open.items())
