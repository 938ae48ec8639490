"""Pauses of the whole fabric, and which ends were guessed: how likely a small cascade is a piece cut off by loss.

In: the kernel's rows of pauses that end. Out: how many cascades of so many rounds the losses around may have cut off.
Where the stops of a cause are lost, what they caused seems to begin at the queue that they stopped. One lost stop
explains one round of stops upstream, so that only a cascade of few rounds can be such a piece.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analytics import layout
from analytics.layout import Ints
from analytics.topology import PRIORITIES, Topology

MAX_PAUSES = 100_000
"""Of the pauses up to a cascade's end, the newest that it may ask for: as many as it remembers of its own, 32 bytes
each."""
TIME, START, QUEUE, GUESSED = range(4)


class ToldPauses:
    """The ends of pauses that a cascade may still ask for."""

    def __init__(self) -> None:
        self._room: Ints = np.zeros((0, 4), np.int64)
        self._first = self._last = 0
        """Where in the room they are: some thousand come and go with each tick, of a hundred thousand."""
        self._guessed_ns = layout.NEVER
        """When the last one ended whose end was guessed."""

    @property
    def _ends(self) -> Ints:
        """In order of their times, so that those around a cascade need not be looked for."""
        return self._room[self._first : self._last]

    def take(self, rows: Ints) -> None:
        """Takes the kernel's rows of pauses in."""
        closes = rows[rows[:, layout.ROW_TYPE] == layout.CLOSE]
        if not len(closes):
            return
        before = self._ends
        if self._last + len(closes) > len(self._room):
            self._room = np.empty((2 * (len(before) + len(closes)), 4), np.int64)
            self._room[: len(before)] = before
            self._first, self._last = 0, len(before)
        new = self._room[self._last : self._last + len(closes)]
        new[:, :GUESSED] = closes[:, (layout.ROW_TIME, layout.ROW_START, layout.ROW_QUEUE)]
        new[:, GUESSED] = closes[:, layout.ROW_ID] & layout.MARK_GUESSED
        new[:] = _by_time(new)
        self._last += len(new)
        self._guessed_ns = max(self._guessed_ns, _last_guessed(new))
        if len(before) and new[0, TIME] < before[-1, TIME]:
            self._ends[:] = _by_time(self._ends)

    def near(self, start_ns: int, end_ns: int, most: int = MAX_PAUSES) -> Ints:
        """Pauses that ended around a cascade of these times: columns TIME, START, QUEUE and GUESSED, in order of TIME.

        Of more than `most` the newest, whatever else is kept, so that it does not depend on how rows arrived. It is no
        copy.
        """
        times_ns = self._ends[:, TIME]
        bounds_ns = (start_ns - layout.GAP_NS, end_ns + layout.GAP_NS)
        first, last = (
            int(np.searchsorted(times_ns, bounds_ns[0])),
            int(np.searchsorted(times_ns, bounds_ns[1], "right")),
        )
        if last > most:
            first = max(first, int(np.searchsorted(times_ns, times_ns[last - most])))
        return self._ends[first:last]

    def cut_off(
        self, queues: Sequence[int], start_ns: int, end_ns: int, rounds: int, stopped_ns: int, topology: Topology
    ) -> tuple[int, float]:
        """Of a cascade with these told queues: lost ends around that are not its own, and the pieces to be expected.

        Around are the queues that stop, or are stopped by, the devices at either end of the cascade's own ones. An end
        was lost if it was guessed and the queue was stopped again: one that never came was not. With G of N pauses
        lost, r of them in a row are with (G / N)^(r - 1) once one is, and there are G to begin with. A lost stop
        explains what begins up to W after it, so that no more have to be lost than usual stops fit into the cascade;
        and no fewer than fit into the time that the queue of most stops, or time, was stopped (`rounds`, `stopped_ns`).
        """
        if self._guessed_ns < start_ns - layout.GAP_NS:
            return 0, 0.0
        ends = self.near(start_ns, end_ns)
        if not ends[:, GUESSED].any():
            return 0, 0.0
        ends = ends[np.lexsort((ends[:, GUESSED], ends[:, TIME], ends[:, QUEUE]))]
        again = np.append(ends[1:, QUEUE] == ends[:-1, QUEUE], False)
        told = np.array(queues, np.int64)
        here = np.zeros(len(topology.devices) + 1, np.bool_)
        here[_told_and_pauser(told, topology)] = True
        here[-1] = False
        near = here[_told_and_pauser(ends[:, QUEUE], topology)].any(axis=0)
        lost = near & again & (ends[:, GUESSED] != 0)
        own = np.isin(ends[:, QUEUE], told) & (ends[:, TIME] >= start_ns) & (ends[:, TIME] <= end_ns)
        beside = int((lost & ~own).sum())
        if not beside:
            return 0, 0.0
        other = near & ~own
        usual_ns = int((ends[other, TIME] - ends[other, START]).mean()) + layout.MEMORY_NS
        in_a_row = min(max(rounds, stopped_ns // usual_ns, 1), 1 + (end_ns - start_ns) // usual_ns)
        return beside, beside * (int(lost.sum()) / int(near.sum())) ** (in_a_row - 1)

    def carry(self, topology: Topology) -> None:
        """Moves what is known to what the names of ports now mean."""
        port = self._ends[:, QUEUE] // PRIORITIES
        for former, now in topology.moved_ports.items():
            self._ends[port == former, QUEUE] += (now - former) * PRIORITIES

    def forget(self, before_ns: int, closed_ns: int) -> int:
        """Drops what no cascade can ask for any more; those that ended before `closed_ns` have closed.

        Returns how many more had to go since there were too many.
        """
        times_ns = self._ends[:, TIME]
        wanted = int(np.searchsorted(times_ns, before_ns))
        closed = times_ns[: np.searchsorted(times_ns, closed_ns + layout.GAP_NS, "right")]
        kept = max(wanted, int(np.searchsorted(times_ns, _newest_since(closed))))
        self._first += kept
        return kept - wanted

    def copy(self) -> ToldPauses:
        """A copy that further rows change alone."""
        twin = ToldPauses()
        twin.load(self._ends)
        return twin

    def state(self) -> Ints:
        """The array for a snapshot; the order in which pauses came is of no matter."""
        return self._ends[np.lexsort(self._ends.T)]

    def load(self, state: Ints) -> None:
        """Continues from `state()`."""
        self._room = _by_time(state)
        self._first, self._last = 0, len(state)
        self._guessed_ns = _last_guessed(state)


def _by_time(ends: Ints) -> Ints:
    return ends[np.argsort(ends[:, TIME], kind="stable")]


def _last_guessed(ends: Ints) -> int:
    return int(ends[ends[:, GUESSED] != 0, TIME].max(initial=layout.NEVER))


def _newest_since(times_ns: Ints) -> int:
    """Of times in order, that of the oldest of the MAX_PAUSES newest."""
    return int(times_ns[-MAX_PAUSES]) if len(times_ns) > MAX_PAUSES else layout.NEVER


def _told_and_pauser(queues: Ints, topology: Topology) -> Ints:
    """The devices at either end of the queues' links, as two rows; -1 where there is none."""
    port = queues // PRIORITIES
    peer = topology.port_peer[port]
    return np.stack((topology.port_device[port], np.where(peer >= 0, topology.port_device[peer], -1)))
