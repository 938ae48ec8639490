"""Clocks of devices, told apart by the pauses themselves: both ends of a link log the same XOFF and XON.

In: pause edges of both ends with the times of each one's own clock. Out: what each device's clock is ahead of the
fabric's, and links whose two ends do not agree whatever the clocks. The offset of two devices is the densest difference
of their stamps (a monotone alignment of two logs of one sequence, of which each may miss some); offsets spread over the
links, those with most matches first. Where clocks agree to a microsecond nothing is changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analytics.compiled import kernel
from analytics.layout import Bools, Ints

TOLERANCE_NS = 1_000
"""Stamps of one edge differ by this at most on clocks in step: logs stamp within some 100 ns (PTP, IEEE 1588), and two
XOFFs of one queue are several microseconds apart, since the queue has to drain and fill between them."""
MAX_OFFSET_NS = 10_000_000
"""Clocks set by NTP are within some milliseconds; what is further off is left as it is."""
MOST_STAMPS = 256
"""Stamps of one end of a queue that are compared: each with each of the other end."""
SURE_VOTES = 4
"""So many agreeing stamps are no chance: what fewer say does not move a clock that so many had set. Nor is it chance
where so many more agree on another offset than on the one at hand, though most may: pauses that follow each other at
even distances agree as well if they are taken one for the next."""

E_QUEUE, E_KIND, E_TIME, E_START, E_PAUSED, E_SIDE, E_DEVICE, E_OTHER, E_DELAY, E_REPORTS = range(10)
"""Columns of an edge: told queue; XOFF or XON; when it happened and when its pause began, by the clock of the device
that logged it; how long it lasted; the side; that device and the link's other one; the link's delay; whether the told
device reported then."""
EDGE_COLUMNS = 10
XOFF, XON = 0, 1
RX, TX = 0, 1


class Clocks:
    """Offsets by index of device; both ends of a link in step have equal ones."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.apart: set[tuple[int, int]] = set()
        """Pairs of devices whose logs do not match: the stopped side alone is believed."""
        self._votes: dict[tuple[int, int], int] = {}
        """By pair, the stamps that have agreed so far, SURE_VOTES at most."""

    def table(self, devices: int) -> Ints:
        """Offsets of all devices."""
        table = np.zeros(devices, np.int64)
        for device, offset_ns in self.offsets.items():
            table[device] = offset_ns
        return table

    def unplaced(self, devices: int) -> Bools:
        """By device, whether nobody knows its clock, where clocks are known to differ: no pause tells of it."""
        if all(abs(offset_ns) <= TOLERANCE_NS for offset_ns in self.offsets.values()):
            return np.zeros(devices, np.bool_)
        unplaced = np.ones(devices, np.bool_)
        unplaced[[device for pair in self._votes for device in pair]] = False
        return unplaced

    def follow(self, edges: Ints, names: list[str]) -> bool:
        """Looks at the edges of some time; says whether anything changed."""
        both = _both_ends(edges)
        if not len(both):
            return False
        table = self.table(len(names))
        seen = _agreement(both, told_times(both, table))
        before = dict(self.offsets), set(self.apart)
        found: dict[tuple[int, int], _Found] = {}
        moved = False
        for pair, (fewer, matched) in seen.items():
            offset_ns = int(table[pair[1]] - table[pair[0]])
            found[pair] = _Found(matched, offset_ns)
            agrees = 2 * matched >= fewer
            other = found[pair]
            if not agrees or fewer - matched >= SURE_VOTES:
                # By names, since of two offsets that are as likely the sign would choose.
                if names[pair[0]] <= names[pair[1]]:
                    other = _densest(both, pair, offset_ns)
                else:
                    mirrored = _densest(both, pair[::-1], -offset_ns)
                    other = mirrored._replace(offset_ns=-mirrored.offset_ns)
            # Stamps closer than the tolerance vote more than once, and then for where the clock is already.
            better = min(other.votes, fewer) - matched >= SURE_VOTES and abs(other.offset_ns - offset_ns) > TOLERANCE_NS
            if agrees and not better:
                self._votes[pair] = min(self._votes.get(pair, 0) + matched, SURE_VOTES)
                self.apart.discard(pair)
            elif 2 * other.votes >= fewer and other.votes > max(matched, self._votes.get(pair, 0) - 1):
                found[pair], moved = other, True
                self._votes[pair] = min(other.votes, SURE_VOTES)
                self.apart.discard(pair)
            elif fewer >= SURE_VOTES:
                self.apart.add(pair)
        if moved:
            self._spread(found, names)
        return (self.offsets, self.apart) != before

    def _spread(self, found: dict[tuple[int, int], _Found], names: list[str]) -> None:
        """Offsets from those of pairs, over a forest of the pairs with most matches; most devices stay as they are."""
        tree: dict[int, list[tuple[int, int]]] = {}
        root: dict[int, int] = {}

        def head(device: int) -> int:
            while root.setdefault(device, device) != device:
                device = root[device]
            return device

        for pair in sorted(found, key=lambda p: (-found[p].votes, sorted((names[p[0]], names[p[1]])))):
            one, other = head(pair[0]), head(pair[1])
            if found[pair].votes and one != other:
                root[other] = one
                tree.setdefault(pair[0], []).append((pair[1], found[pair].offset_ns))
                tree.setdefault(pair[1], []).append((pair[0], -found[pair].offset_ns))
        members: dict[int, list[int]] = {}
        for device in tree:
            members.setdefault(head(device), []).append(device)
        for devices in members.values():
            first = min(devices, key=lambda device: names[device])
            relative = {first: 0}
            stack = [first]
            while stack:
                device = stack.pop()
                for other, offset_ns in tree[device]:
                    if other not in relative:
                        relative[other] = relative[device] + offset_ns
                        stack.append(other)
            # The clock of the middle is the fabric's: with most clocks in step it is theirs.
            shifts = sorted(relative[device] - self.offsets.get(device, 0) for device in devices)
            middle = shifts[len(shifts) // 2]
            for device in devices:
                offset_ns = relative[device] - middle
                if abs(offset_ns) <= MAX_OFFSET_NS:
                    self.offsets[device] = offset_ns

    def carry(self, moved: dict[int, int]) -> None:
        """Devices whose names now mean other ones: what was known of a clock is known of that device's."""
        for device, other in moved.items():
            if device in self.offsets:
                self.offsets.setdefault(other, self.offsets.pop(device))
        self.apart = {_renamed(pair, moved) for pair in self.apart}
        votes: dict[tuple[int, int], int] = {}
        for pair, count in self._votes.items():
            renamed = _renamed(pair, moved)
            votes[renamed] = max(votes.get(renamed, 0), count)
        self._votes = votes

    def copy(self) -> Clocks:
        """A copy that further edges change alone."""
        twin = Clocks()
        twin.offsets, twin.apart, twin._votes = dict(self.offsets), set(self.apart), dict(self._votes)
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        votes = [[*pair, count] for pair, count in sorted(self._votes.items())]
        return [[list(entry) for entry in sorted(self.offsets.items())], [list(p) for p in sorted(self.apart)], votes]

    @classmethod
    def of_state(cls, state: list[Any]) -> Clocks:
        """Continues from `state()`."""
        clocks = cls()
        offsets, apart, votes = state
        clocks.offsets = dict(offsets)
        clocks.apart = {(one, other) for one, other in apart}
        clocks._votes = {(one, other): count for one, other, count in votes}
        return clocks


class _Found(NamedTuple):
    """So many stamps say that the second device of a pair is ahead of the first by so much."""

    votes: int
    offset_ns: int


def _renamed(pair: tuple[int, int], moved: dict[int, int]) -> tuple[int, int]:
    one, other = sorted(moved.get(device, device) for device in pair)
    return one, other


def told_times(edges: Ints, offsets: Ints) -> Ints:
    """When each edge took effect at the told queue, on the fabric's clock."""
    times: Ints = edges[:, E_TIME] - offsets[edges[:, E_DEVICE]]
    times += np.where(edges[:, E_SIDE] == TX, edges[:, E_DELAY], 0)
    # No event is older than the epoch, whatever a clock has said.
    return np.maximum(times, 0)


def _both_ends(edges: Ints) -> Ints:
    """The edges of queues that both ends have logged."""
    if not len(edges):
        return edges
    order = np.lexsort((edges[:, E_SIDE], edges[:, E_QUEUE]))
    queue, side = edges[order, E_QUEUE], edges[order, E_SIDE]
    first = np.flatnonzero(np.append(True, queue[1:] != queue[:-1]))
    last = np.append(first[1:], len(queue)) - 1
    two = side[first] != side[last]
    chosen: Ints = edges[order[np.repeat(two, last - first + 1)]]
    return chosen


def _pairs(edges: Ints) -> Ints:
    """The two devices of each edge, the one with the lower index first."""
    return np.sort(edges[:, [E_DEVICE, E_OTHER]], axis=1)


def _agreement(edges: Ints, times: Ints) -> dict[tuple[int, int], tuple[int, int]]:
    """By pair of devices: the stamps of the end that has fewer, and how many of one end agree with the other."""
    order = np.lexsort((times, edges[:, E_KIND], edges[:, E_QUEUE]))
    keys = edges[order, E_QUEUE] * 2 + edges[order, E_KIND]
    agree = np.zeros(len(edges), np.int64)
    _match(keys, edges[order, E_SIDE], times[order], agree)
    pairs, index = np.unique(_pairs(edges[order]), axis=0, return_inverse=True)
    index = index.ravel()
    side = edges[order, E_SIDE]
    counts = [np.bincount(index[side == which], minlength=len(pairs)) for which in (RX, TX)]
    matched = np.bincount(index[side == RX], weights=agree[side == RX], minlength=len(pairs)).astype(np.int64)
    fewer = np.minimum(*counts)
    return {
        (one, other): (least, agreeing)
        for (one, other), least, agreeing in zip(pairs.tolist(), fewer.tolist(), matched.tolist(), strict=True)
        if least
    }


@kernel
def _match(keys: Ints, side: Ints, times: Ints, agree: Ints) -> None:
    """Marks the edges, in the order of key and time, that have one of the other side within the tolerance."""
    for at in range(len(keys)):
        for step in (-1, 1):
            near = at + step
            while 0 <= near < len(keys) and keys[near] == keys[at] and abs(times[near] - times[at]) <= TOLERANCE_NS:
                if side[near] != side[at]:
                    agree[at] = 1
                near += step


def _densest(edges: Ints, pair: tuple[int, int], now_ns: int) -> _Found:
    """The offset of the pair's second device against its first that most stamps agree on."""
    of_pair = edges[(_pairs(edges) == sorted(pair)).all(axis=1)]
    of_pair = of_pair[np.argsort(of_pair[:, E_TIME], kind="stable")]
    parts = []
    for key in np.unique(of_pair[:, E_QUEUE] * 2 + of_pair[:, E_KIND]).tolist():
        same = of_pair[of_pair[:, E_QUEUE] * 2 + of_pair[:, E_KIND] == key]
        told = same[same[:, E_SIDE] == RX][:MOST_STAMPS]
        sent = same[same[:, E_SIDE] == TX][:MOST_STAMPS]
        if not len(told) or not len(sent):
            continue
        ahead = told[:, E_TIME][:, None] - (sent[:, E_TIME] + sent[:, E_DELAY])[None, :]
        parts.append(ahead.ravel() if told[0, E_DEVICE] == pair[1] else -ahead.ravel())
    if not parts:
        return _Found(0, now_ns)
    differences = np.sort(np.concatenate(parts))
    differences = differences[np.abs(differences) <= 2 * MAX_OFFSET_NS]
    if not len(differences):
        return _Found(0, now_ns)
    ends = np.searchsorted(differences, differences + TOLERANCE_NS, "right")
    votes = ends - np.arange(len(differences))
    most = np.flatnonzero(votes == votes.max())
    best = int(most[np.argmin(np.abs(differences[most] - now_ns))])
    return _Found(int(votes[best]), int(differences[(best + int(ends[best]) - 1) // 2]))
