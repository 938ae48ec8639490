"""What is usual for stopped queues, and which of them are beyond that: the baselines of analytics.baselines by queue.

In: period by period, the share of it for which each queue was stopped. Out: usual shares, and alarms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analytics import baselines
from analytics.layout import Bools, Floats, Ints
from analytics.topology import PRIORITIES

MAX_SERIES = 65_536
"""Stopped queues whose past is kept, 288 bytes each; more are taken as having none."""
SPARE = 1_024
"""So many may be over before they are dropped."""


class Usual:
    """The baselines of the queues (port * 8 + priority) that were stopped lately."""

    def __init__(self) -> None:
        self._queues: Ints = np.zeros(0, np.int64)
        """In order; by place of a baseline, its queue."""
        self._state: Floats = np.zeros((0, baselines.COLUMNS))

    def follow(self, queues: Ints, shares: Floats, quiet_periods: int) -> None:
        """Takes one period in, of the queues that were stopped in it; so many in which none was came before."""
        new = np.unique(queues[~self._at(queues)[1]])[: MAX_SERIES - len(self._queues)]
        if len(new):
            at = np.searchsorted(self._queues, new)
            fresh = np.zeros((len(new), baselines.COLUMNS))
            # They were not stopped for as long as they are known: so much is usual for them.
            fresh[:, baselines.COUNT] = float(baselines.PERIODS)
            self._queues, self._state = np.insert(self._queues, at, new), np.insert(self._state, at, fresh, axis=0)
        values = np.zeros(len(self._queues))
        at, known = self._at(queues)
        values[at[known]] = shares[known]
        baselines.follow(self._state, values, quiet_periods, np.zeros(baselines.PERIODS))
        # Of those without any stop in their past nothing is lost: they begin anew just so.
        over = (self._state[:, baselines.CUSUM] == 0) & ~self._state[:, baselines.COUNT + 1 :].any(axis=1)
        if over.sum() > SPARE:
            self._queues, self._state = self._queues[~over], self._state[~over]

    def share(self, queues: Ints) -> Floats:
        """The share of a period for which each of some queues is usually stopped."""
        return self._column(baselines.USUAL, queues)

    def beyond(self, queues: Ints) -> Bools:
        """Which of some queues have been beyond what is usual for long enough that they may go on."""
        return self._column(baselines.CUSUM, queues) > 0

    def _column(self, column: int, queues: Ints) -> Floats:
        at, known = self._at(queues)
        return np.where(known, self._state[at, column], 0.0) if len(self._state) else np.zeros(len(queues))

    def _at(self, queues: Ints) -> tuple[Ints, Bools]:
        """The place of each queue's baseline, and whether it has one."""
        if not len(self._queues):
            return np.zeros(len(queues), np.int64), np.zeros(len(queues), np.bool_)
        at = np.minimum(np.searchsorted(self._queues, queues), len(self._queues) - 1)
        return at, self._queues[at] == queues

    def copy(self) -> Usual:
        """A copy that further periods change alone."""
        twin = Usual()
        twin._queues, twin._state = self._queues, self._state.copy()
        return twin

    def state(self) -> list[Any]:
        """Arrays for a snapshot."""
        return [self._queues, self._state]

    @classmethod
    def of_state(cls, state: list[Any]) -> Usual:
        """Continues from `state()`."""
        usual = cls()
        usual._queues, usual._state = state[0], state[1].copy()
        return usual

    def carry(self, moved_ports: dict[int, int]) -> None:
        """Moves all to the ports that their names now mean."""
        port, priority = np.divmod(self._queues, PRIORITIES)
        meant = np.array([moved_ports.get(former, former) for former in port.tolist()], np.int64)
        self._queues, first = np.unique(meant * PRIORITIES + priority, return_index=True)
        self._state = self._state[first]
