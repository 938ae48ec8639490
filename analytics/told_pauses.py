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
        self._ends: Ints = np.zeros((0, 4), np.int64)

    def take(self, rows: Ints) -> None:
        """Takes the kernel's rows of pauses in."""
        closes = rows[rows[:, layout.ROW_TYPE] == layout.CLOSE]
        if len(closes):
            guessed = closes[:, layout.ROW_ID] & layout.MARK_GUESSED
            columns = (layout.ROW_TIME, layout.ROW_START, layout.ROW_QUEUE)
            new = np.column_stack((closes[:, columns], guessed))
            self._ends = np.concatenate((self._ends, new))

    def near(self, start_ns: int, end_ns: int) -> Ints:
        """Pauses that ended around a cascade of these times: columns TIME, START, QUEUE and GUESSED, in no order.

        Of more than MAX_PAUSES the newest, whatever else is kept, so that it does not depend on how rows arrived.
        """
        ends = self._ends[self._ends[:, TIME] <= end_ns + layout.GAP_NS]
        return ends[ends[:, TIME] >= max(start_ns - layout.GAP_NS, _newest_since(ends[:, TIME]))]

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
        wanted = times_ns >= before_ns
        kept = wanted & (times_ns >= _newest_since(times_ns[times_ns <= closed_ns + layout.GAP_NS]))
        if not kept.all():
            self._ends = self._ends[kept]
        return int(wanted.sum() - kept.sum())

    def copy(self) -> ToldPauses:
        """A copy that further rows change alone."""
        twin = ToldPauses()
        twin._ends = self._ends.copy()
        return twin

    def state(self) -> Ints:
        """The array for a snapshot; the order in which pauses came is of no matter."""
        return self._ends[np.lexsort(self._ends.T)]

    def load(self, state: Ints) -> None:
        """Continues from `state()`."""
        self._ends = state


def _newest_since(times_ns: Ints) -> int:
    """The time of the oldest of the MAX_PAUSES newest."""
    return int(np.partition(times_ns, -MAX_PAUSES)[-MAX_PAUSES]) if len(times_ns) > MAX_PAUSES else layout.NEVER


def _told_and_pauser(queues: Ints, topology: Topology) -> Ints:
    """The devices at either end of the queues' links, as two rows; -1 where there is none."""
    port = queues // PRIORITIES
    peer = topology.port_peer[port]
    return np.stack((topology.port_device[port], np.where(peer >= 0, topology.port_device[peer], -1)))
