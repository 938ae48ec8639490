"""What a cascade has gathered so far: sums of whole numbers, so that no order of adding can change them.

In: what runs of the kernel told (columns L_* of analytics.layout). Out: the ledger of a cascade that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from analytics.layout import MARK_COUNTED, MARK_GUESSED, MARK_UNLOGGED, Ints
from analytics.tallies import FIRST_KNOWN, LEAST, LONGEST, MOST, OF_LONGEST, SUM, Tallies
from stream.kinds import INT64_MAX

MAX_STOPS = 100_000
"""Stops of a cascade that are remembered one by one, by which it is known whom it held up."""


def bounded_sum(amounts: Iterable[int]) -> int:
    """The sum of amounts that are not negative; it stops at INT64_MAX, which only absurd rows can reach."""
    return min(sum(amounts), INT64_MAX)


class QueueTally(msgspec.Struct, gc=False):
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
    """Of the pauses whose ends are known the longest (of equals the first), and below how long the next longest was."""
    second_ns: int = 0


class EdgeTally(msgspec.Struct, gc=False):
    """How much of what stopped a told queue an egress of its pauser caused, and passed on: XOFFs in ppm, or bytes.

    `ingress` is the port of the pauser that the told queue's link led to.
    """

    weight: int = 0
    passed_weight: int = 0
    ingress: int = -1


@dataclass(slots=True)
class Ledger:
    """One cascade: tallies by queue and (queue, egress), bytes by (root, flow, where), whom its stops blame."""

    queues: dict[int, QueueTally] = field(default_factory=dict)
    edges: dict[tuple[int, int], EdgeTally] = field(default_factory=dict)
    in_bytes: bool = False
    """Whether edges weigh by bytes held, not by XOFFs."""
    flow_bytes: dict[tuple[int, int, int], int] = field(default_factory=dict)
    blamed_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """Pause ns by (told queue, root): of whom it was stopped."""
    stops: dict[tuple[int, int], int] = field(default_factory=dict)
    """When stops ended, by (told queue, when they began); of MAX_STOPS at most."""
    stops_not_followed: int = 0
    """Stops beyond those, by which nobody is known to have been held up."""
    stops_not_weighed: int = 0
    """Stops of which bytes of flows could tell more than there was time to look at."""
    former_ids: list[str] = field(default_factory=list)

    def weights(self) -> dict[int, int]:
        """The weight of all edges of each told queue."""
        total: dict[int, int] = {}
        for (told, _), edge in self.edges.items():
            total[told] = total.get(told, 0) + edge.weight
        return total

    def root_ns(self) -> dict[int, int]:
        """Pause ns by root."""
        blamed: dict[int, list[int]] = {}
        for (_, root), ns in self.blamed_ns.items():
            blamed.setdefault(root, []).append(ns)
        return {root: bounded_sum(amounts) for root, amounts in blamed.items()}


# What becomes of the measures of each table, whose keys are (slot, queue, 0), (slot, told queue, egress), (slot, root
# and where, flow), (slot, told queue, root) and (slot, told queue, begin).
_QUEUES = (SUM, SUM, LEAST, MOST, SUM, FIRST_KNOWN, LONGEST, OF_LONGEST, OF_LONGEST)
_EDGES = (SUM, SUM, FIRST_KNOWN)
_FLOW_BYTES, _BLAMED, _STOPS = (SUM,), (SUM,), (MOST,)
_TABLES = ("_queues", "_edges", "_flow_bytes", "_blamed", "_stops")


class Ledgers:
    """The ledgers of all slots in use."""

    def __init__(self) -> None:
        self._queues, self._edges, self._stops = Tallies(_QUEUES), Tallies(_EDGES), Tallies(_STOPS)
        self._flow_bytes, self._blamed = Tallies(_FLOW_BYTES), Tallies(_BLAMED)
        self._former_ids: dict[int, list[str]] = {}

    def _tables(self) -> list[Tallies]:
        return [getattr(self, name) for name in _TABLES]

    def copy(self) -> Ledgers:
        """A copy that further bookings change alone."""
        twin = Ledgers()
        for name in _TABLES:
            setattr(twin, name, getattr(self, name).copy())
        twin._former_ids = {slot: list(ids) for slot, ids in self._former_ids.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain lists and arrays for a snapshot."""
        return [[table.state() for table in self._tables()], [[slot, ids] for slot, ids in self._former_ids.items()]]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        tables, former_ids = state
        for table, rows in zip(self._tables(), tables, strict=True):
            table.load(rows)
        self._former_ids = dict(former_ids)

    def of(self, slot: int) -> Ledger:
        """The ledger of a slot as it stands."""
        return Ledger(
            queues={queue: QueueTally(*tally) for queue, _, *tally in self._queues.of(slot).tolist()},
            edges={(told, egress): EdgeTally(*tally) for told, egress, *tally in self._edges.of(slot).tolist()},
            flow_bytes={
                (place >> 1, flow & _FLOW_BITS, place & 1): amount
                for place, flow, amount in self._flow_bytes.of(slot).tolist()
            },
            blamed_ns={(told, root): ns for told, root, ns in self._blamed.of(slot).tolist()},
            stops={(told, begin): end for told, begin, end in self._stops.of(slot).tolist()},
            stops_not_followed=self._stops.left_out(slot),
            former_ids=list(self._former_ids.get(slot, ())),
        )

    def drop(self, slots: Sequence[int]) -> None:
        """Forgets cascades that are over."""
        ended = np.array(slots, np.int64)
        for table in self._tables():
            table.drop(ended)
        for slot in slots:
            self._former_ids.pop(slot, None)

    def join(self, joins: Ints, ended_ids: Sequence[str]) -> None:
        """Moves all of one slot to another, for each row (slot that lives, slot that ends), in order."""
        if not len(joins):
            return
        for table in self._tables():
            table.join(joins)
        for (lives, ends), ended_id in zip(joins.tolist(), ended_ids, strict=True):
            ids = self._former_ids.setdefault(lives, [])
            ids += [ended_id, *self._former_ids.pop(ends, ())]

    def book(self, edges: Ints, closes: Ints, blames: Ints) -> None:
        """Books what a run of the kernel told (columns L_* of analytics.layout; slots already those that live)."""
        self._edges.add(edges)
        self._blamed.add(blames)
        if not len(closes):
            return
        slot, queue, start_ns, pause_ns, marks, pauser, closed_ns = closes.T
        counted = marks & MARK_COUNTED != 0
        guessed = ((marks & MARK_GUESSED != 0) & (~counted | (marks & MARK_UNLOGGED != 0))).astype(np.int64)
        # Counters tell of paused time beyond the pauses known, which is booked on the last one: it lasted no longer.
        known_ns = np.where((marks & MARK_GUESSED == 0) | counted, np.minimum(pause_ns, closed_ns - start_ns), 0)
        end_ns = start_ns + np.minimum(pause_ns, INT64_MAX - np.maximum(start_ns, 0))
        nothing = np.zeros_like(slot)
        self._queues.add(
            np.stack(
                (slot, queue, nothing, np.ones_like(slot), pause_ns, start_ns, end_ns, guessed, pauser,
                 start_ns, known_ns, nothing),
                axis=1,
            )
        )  # fmt: skip
        self._stops.add(np.stack((slot, queue, start_ns, end_ns), axis=1), MAX_STOPS)

    def book_flows(self, flows: Ints, flow_ids: npt.NDArray[np.uint64], amounts: Ints) -> None:
        """Books bytes of flows through active roots; `flow_ids` and `amounts` are indexed by the row ids in `flows`."""
        slot, root, row, at_source = flows.T
        self._flow_bytes.add(np.stack((slot, root * 2 + at_source, flow_ids[row].view(np.int64), amounts[row]), axis=1))


_FLOW_BITS = (1 << 64) - 1
"""A flow's id is kept in an int64 with the same bits."""
