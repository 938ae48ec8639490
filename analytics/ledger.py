"""What a cascade has gathered so far: sums of whole numbers, so that no order of adding can change them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.layout import MARK_GUESSED
from stream.kinds import INT64_MAX

Ints = npt.NDArray[np.int64]

MAX_STOPS = 100_000
"""Stops of a cascade that are remembered one by one, by which it is known whom it held up."""


def bounded_sum(amounts: Iterable[int]) -> int:
    """The sum of amounts that are not negative; it stops at INT64_MAX, which only absurd rows can reach."""
    return min(sum(amounts), INT64_MAX)


@dataclass(slots=True)
class QueueTally:
    """Pauses of one told queue: how many, for how long together, from the first's start to the last's end.

    `pauser` is the port that its link led to then: the link may be another by the time that the cascade closes.
    """

    pauses: int = 0
    pause_ns: int = 0
    first_ns: int = 1 << 62
    last_ns: int = 0
    guessed: int = 0
    pauser: int = -1
    longest_from_ns: int = 0
    longest_ns: int = 0
    """Of the pauses the longest (of equals the first), and below how long the next longest was."""
    second_ns: int = 0

    def longest(self, from_ns: int, pause_ns: int) -> None:
        """Takes a pause into account that may be the longest."""
        if (pause_ns, -from_ns) > (self.longest_ns, -self.longest_from_ns):
            self.second_ns = max(self.second_ns, self.longest_ns)
            self.longest_from_ns, self.longest_ns = from_ns, pause_ns
        else:
            self.second_ns = max(self.second_ns, pause_ns)


@dataclass(slots=True)
class EdgeTally:
    """XOFFs of a told queue that an egress queue of its pauser caused: ppm in all, and of those that it passed on.

    `ingress` is the port of the pauser that the told queue's link led to.
    """

    ppm: int = 0
    passed_ppm: int = 0
    ingress: int = -1


@dataclass(slots=True)
class Ledger:
    """One cascade: tallies by queue and (queue, egress), bytes by (root, flow, where), whom its stops blame."""

    queues: dict[int, QueueTally] = field(default_factory=dict)
    edges: dict[tuple[int, int], EdgeTally] = field(default_factory=dict)
    flow_bytes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    blamed_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """Pause ns by (told queue, root): of whom it was stopped."""
    stops: dict[tuple[int, int], int] = field(default_factory=dict)
    """When stops ended, by (told queue, when they began); of MAX_STOPS at most."""
    stops_not_followed: int = 0
    """Stops beyond those, by which nobody is known to have been held up."""
    former_ids: list[str] = field(default_factory=list)

    def root_ns(self) -> dict[int, int]:
        """Pause ns by root."""
        blamed: dict[int, list[int]] = {}
        for (_, root), ns in self.blamed_ns.items():
            blamed.setdefault(root, []).append(ns)
        return {root: bounded_sum(amounts) for root, amounts in blamed.items()}

    def copy(self) -> Ledger:
        """A copy that further bookings change alone."""
        return Ledger(
            {queue: copy.copy(tally) for queue, tally in self.queues.items()},
            {pair: copy.copy(edge) for pair, edge in self.edges.items()},
            dict(self.flow_bytes), dict(self.blamed_ns), dict(self.stops), self.stops_not_followed,
            list(self.former_ids),
        )  # fmt: skip

    def absorb(self, other: Ledger) -> None:
        """Takes in all of a cascade that was joined to this one."""
        for queue, theirs in other.queues.items():
            mine = self.queues.setdefault(queue, QueueTally())
            mine.pauses += theirs.pauses
            mine.pause_ns = bounded_sum((mine.pause_ns, theirs.pause_ns))
            mine.first_ns = min(mine.first_ns, theirs.first_ns)
            mine.last_ns = max(mine.last_ns, theirs.last_ns)
            mine.guessed += theirs.guessed
            mine.second_ns = max(mine.second_ns, theirs.second_ns)
            mine.longest(theirs.longest_from_ns, theirs.longest_ns)
            mine.pauser = theirs.pauser if mine.pauser < 0 else mine.pauser
        for pair, edge in other.edges.items():
            kept = self.edges.setdefault(pair, EdgeTally())
            kept.ppm += edge.ppm
            kept.passed_ppm += edge.passed_ppm
            kept.ingress = edge.ingress if kept.ingress < 0 else kept.ingress
        for key, amount in other.flow_bytes.items():
            self.flow_bytes[key] = bounded_sum((self.flow_bytes.get(key, 0), amount))
        for pair, ns in other.blamed_ns.items():
            self.blamed_ns[pair] = bounded_sum((self.blamed_ns.get(pair, 0), ns))
        for stop, end_ns in other.stops.items():
            self.stops[stop] = max(self.stops.get(stop, 0), end_ns)
        self.stops_not_followed += other.stops_not_followed
        self.former_ids += other.former_ids


def sums(keys: Ints, *columns: Ints) -> tuple[Ints, ...]:
    """Rows of `keys` (n, k) without repeats, in order, and for each column the sum over the rows of a key."""
    if not len(keys):
        return (keys, *columns)
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], (keys[1:] != keys[:-1]).any(axis=1))))
    return (keys[starts], *(np.add.reduceat(_roomy(column)[order], starts) for column in columns))


def _roomy(column: Ints) -> npt.NDArray[Any]:
    """The column in Python's own integers if its sum could overflow."""
    return column.astype(object) if int(column.max(initial=0)) > INT64_MAX // len(column) else column


class Ledgers:
    """The ledgers of all slots in use."""

    def __init__(self) -> None:
        self.by_slot: dict[int, Ledger] = {}

    def copy(self) -> Ledgers:
        """A copy that further bookings change alone."""
        twin = Ledgers()
        twin.by_slot = {slot: ledger.copy() for slot, ledger in self.by_slot.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [
            [slot,
             [[queue, *dataclasses.astuple(tally)] for queue, tally in ledger.queues.items()],
             [[*pair, *dataclasses.astuple(edge)] for pair, edge in ledger.edges.items()],
             [[*key, amount] for key, amount in ledger.flow_bytes.items()],
             [[*pair, ns] for pair, ns in ledger.blamed_ns.items()], _stops_array(ledger.stops),
             ledger.stops_not_followed, ledger.former_ids]
            for slot, ledger in self.by_slot.items()
        ]  # fmt: skip

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        self.by_slot = {
            slot: Ledger(
                {queue: QueueTally(*tally) for queue, *tally in queues},
                {(told, egress): EdgeTally(*tally) for told, egress, *tally in edges},
                {(root, flow, at_source): amount for root, flow, at_source, amount in flows},
                {(queue, root): ns for queue, root, ns in blamed},
                {(queue, begin): end for queue, begin, end in stops.reshape(-1, 3).tolist()},
                not_followed,
                former_ids,
            )
            for slot, queues, edges, flows, blamed, stops, not_followed, former_ids in state
        }

    def open(self, slot: int) -> Ledger:
        """The ledger of a slot, made if new."""
        ledger = self.by_slot.get(slot)
        if ledger is None:
            ledger = self.by_slot[slot] = Ledger()
        return ledger

    def join(self, lives: int, ends: int, ended_id: str) -> None:
        """Moves all of one slot to another."""
        ledger = self.open(lives)
        ledger.former_ids.append(ended_id)
        ended = self.by_slot.pop(ends, None)
        if ended is not None:
            ledger.absorb(ended)

    def book(self, edges: Ints, closes: Ints, blames: Ints) -> None:
        """Books what a run of the kernel told (columns L_* of analytics.layout; slots already those that live)."""
        keys = edges[:, [0, 1, 2, 5]]
        tallies, of_slot = {}, -1
        for slot, queue, egress, ingress, ppm, passed in _rows(sums(keys, edges[:, 3], edges[:, 3] * edges[:, 4])):
            if slot != of_slot:
                tallies, of_slot = self.open(slot).edges, slot
            edge = tallies.get((queue, egress))
            if edge is None:
                tallies[queue, egress] = EdgeTally(ppm, passed, ingress)
            else:
                edge.ppm += ppm
                edge.passed_ppm += passed
        blamed_ns, of_slot = {}, -1
        for slot, queue, root, pause_ns in _rows(sums(blames[:, :3], blames[:, 3])):
            if slot != of_slot:
                blamed_ns, of_slot = self.open(slot).blamed_ns, slot
            blamed_ns[queue, root] = min(blamed_ns.get((queue, root), 0) + pause_ns, INT64_MAX)
        for slot, queue, start_ns, pause_ns, marks, pauser in closes.tolist():
            ledger = self.open(slot)
            if len(ledger.stops) < MAX_STOPS:
                end_ns = bounded_sum((start_ns, pause_ns))
                ledger.stops[queue, start_ns] = max(ledger.stops.get((queue, start_ns), 0), end_ns)
            else:
                ledger.stops_not_followed += 1
            tally = ledger.queues.setdefault(queue, QueueTally())
            tally.pauses += 1
            tally.pause_ns = bounded_sum((tally.pause_ns, pause_ns))
            tally.first_ns = min(tally.first_ns, start_ns)
            tally.last_ns = max(tally.last_ns, start_ns + pause_ns)
            tally.guessed += marks & MARK_GUESSED
            tally.pauser = pauser if tally.pauser < 0 else tally.pauser
            tally.longest(start_ns, pause_ns)

    def book_flows(self, flows: Ints, flow_ids: npt.NDArray[Any], amounts: Ints) -> None:
        """Books bytes of flows through active roots; `flow_ids` and `amounts` are indexed by the row ids in `flows`."""
        for slot, root, row, at_source in flows.tolist():
            key = (root, int(flow_ids[row]), at_source)
            ledger = self.open(slot)
            ledger.flow_bytes[key] = bounded_sum((ledger.flow_bytes.get(key, 0), int(amounts[row])))


def _stops_array(stops: dict[tuple[int, int], int]) -> Ints:
    return np.array([(queue, begin, end) for (queue, begin), end in stops.items()], np.int64).ravel()


def _rows(summed: tuple[Ints, ...]) -> Iterable[Any]:
    keys, *columns = summed
    return zip(*keys.T.tolist(), *(column.tolist() for column in columns), strict=True)
