"""The open cascades of polled devices, in pieces: those that stops belong to, and those that are one cascade.

In: groups of stops of a period. Out: the pieces that they belong to, by their queues and roots, in the order in which
those began, and which pieces belong together. Queues that turn up together are a piece. Where one incident ends and
another begins in one poll, that shows both as one, and the polls before and after tell them apart: so pieces that met
are one cascade if they went on beside each other, or if most of what one of them was stopped for was in periods in
which they met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analytics.sampled_cascade import SampledCascade

Met = tuple[int, int, float]
"""Places of two pieces among all, and the paused ns of the first in periods in which they met."""
MET_SHARE = 0.5
"""Of what a piece was stopped for, so much in periods in which it met another makes the two one cascade for now. That
both go on for ENOUGH_PERIODS does so for good: as of any period, a poll or two may show what is not."""


class OpenCascades:
    """All pieces that are open, each with a number, which grows."""

    def __init__(self, cascades: Iterable[SampledCascade] = (), met: Iterable[Met] = ()) -> None:
        self._open: dict[int, SampledCascade] = {}
        self._of_queue: dict[int, int] = {}
        self._of_root: dict[int, set[int]] = {}
        self._next = 0
        self._met: dict[int, dict[int, float]] = {}
        """By number, and by that of another: the paused ns of the former in periods in which the two met."""
        for cascade in cascades:
            self.note(self.open(cascade))
        for one, other, met_ns in met:
            self._met[one][other] = met_ns

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
        self._open[self._next], self._met[self._next] = cascade, {}
        self._next += 1
        return self._next - 1

    def note(self, number: int) -> None:
        """Takes in what queues and roots one has by now."""
        cascade = self._open[number]
        self._of_queue.update(dict.fromkeys(cascade.queues, number))
        for root in cascade.members:
            self._of_root.setdefault(root, set()).add(number)

    def owners(self, queues: list[int]) -> list[int]:
        """The number of the piece that each queue belongs to, -1 for none."""
        return [self._of_queue.get(queue, -1) for queue in queues]

    def meet(self, paused_ns: dict[int, float]) -> None:
        """Some met in a period: for how long queues of each were stopped in a group of it."""
        for one, own_ns in paused_ns.items():
            for other in paused_ns if own_ns > 0 else ():
                if other != one:
                    self._met[one][other] = self._met[one].get(other, 0.0) + own_ns

    def together(self) -> list[list[int]]:
        """The numbers of all, those of one cascade together: its oldest first, and so the cascades among each other."""
        first = {number: number for number in self._open}

        def find(one: int) -> int:
            while first[one] != one:
                one = first[one]
            return one

        for one, other, _ in self._pairs():
            one, other = find(one), find(other)
            first[max(one, other)] = min(one, other)
        found: dict[int, list[int]] = {}
        for number in self._open:
            found.setdefault(find(number), []).append(number)
        return list(found.values())

    def for_good(self) -> tuple[int, int] | None:
        """Two that stay one cascade, the older first; None where there are none."""
        return next(((one, other) for one, other, stays in self._pairs() if stays), None)

    def _pairs(self) -> list[tuple[int, int, bool]]:
        """Those that are one cascade, by twos, the older first, and whether they stay so."""
        pairs: dict[tuple[int, int], bool] = {}
        for one, others in self._met.items():
            paused_ns = self._open[one].paused_ns() if others else 0.0
            for other, met_ns in others.items():
                stays = self._open[one].goes_on_beside(self._open[other])
                if stays or met_ns >= MET_SHARE * paused_ns:
                    pair = min(one, other), max(one, other)
                    pairs[pair] = pairs.get(pair, False) or stays
        return [(*pair, stays) for pair, stays in sorted(pairs.items())]

    def join(self, number: int, other: int, name: str) -> None:
        """The second, which bore this name, is part of the first from now on."""
        self._open[number].join(self._open[other], name)
        own = self._met[number]
        for third, met_ns in self._met[other].items():
            if third != number:
                own[third] = own.get(third, 0.0) + met_ns
        for third, others in self._met.items():
            if third != number and other in others:
                # A third may have met both in the same periods.
                others[number] = max(others.get(number, 0.0), others[other])
        self.remove(other)
        self.note(number)

    def met(self) -> list[Met]:
        """What pieces met, by their places among all."""
        place = {number: at for at, number in enumerate(self._open)}
        return [
            (place[one], place[other], met_ns)
            for one, others in self._met.items()
            for other, met_ns in sorted(others.items())
        ]

    def remove(self, number: int) -> None:
        """One has closed, or is part of another now."""
        cascade = self._open.pop(number)
        del self._met[number]
        for others in self._met.values():
            others.pop(number, None)
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
