"""Many like series, such as one measure of all ports: scored tick by tick against their peers and their own past.

In: ticks that rise, and a sample a series for each. Out: `Scores`. Equal bytes whatever was sampled when: NaN and
infinite samples count as not seen, and what is not seen changes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analytics.tails import past, peers
from analytics.tails.past import Floats

Ints = npt.NDArray[np.int64]

SHORT_TICKS, LONG_TICKS = 10.0, 300.0
"""Half-lives of the two decayed means: of polls of a second, what is now and what has been for some minutes."""


class Scores(NamedTuple):
    """Of one tick, by series; NaN where there was no sample, or too few to compare it with."""

    against_peers: Floats
    against_past: Floats


class Tails:
    """`groups` numbers each series' peers: those of one number are compared. Groups count from 0.

    A deviation counts as at least `least`, in the unit of the samples, and at least as `relative` of the median: what
    never varies has none of its own, and would make a grain of dust far away.
    """

    def __init__(
        self,
        groups: npt.ArrayLike = (),
        *,
        least: float = 0.0,
        relative: float = 0.0,
        half_lives: tuple[float, float] = (SHORT_TICKS, LONG_TICKS),
    ) -> None:
        self._least, self._relative = float(least), float(relative)
        self._half_lives = half_lives
        self._decays = past.decay(half_lives[0]), past.decay(half_lives[1])
        self._groups = np.zeros(0, np.int64)
        self._past = past.empty_past(0)
        self._scores = Scores(np.zeros(0), np.zeros(0))
        self._order = self._starts = np.zeros(0, np.int64)
        self._work, self._figures = np.zeros(0), np.zeros(past.BLOCKS)
        self.of_groups = np.zeros((0, peers.GROUP_ROW))
        """Of the last tick, by group: the columns of analytics/tails/peers.py."""
        self.grow(groups)

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Memory of all series, in bytes."""
        arrays = (self._groups, self._past, *self._scores, self._order, self._starts, self._work, self.of_groups)
        return sum(array.nbytes for array in arrays)

    def grow(self, groups: npt.ArrayLike) -> None:
        """Adds series without a past."""
        more = np.asarray(groups, np.int64)
        if (more < 0).any():
            raise ValueError("groups count from 0")
        self._groups = np.concatenate((self._groups, more))
        self._past = np.concatenate((self._past, past.empty_past(len(more))))
        self._arrange()

    def _arrange(self) -> None:
        count = len(self._groups)
        self._order = np.argsort(self._groups, kind="stable")
        sizes = np.bincount(self._groups)
        self._starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        self._work = np.zeros(2 * int(sizes.max(initial=0)))
        self._scores = Scores(np.full(count, np.nan), np.full(count, np.nan))
        self.of_groups = np.full((len(sizes), peers.GROUP_ROW), np.nan)

    def take(self, tick: int, values: Floats) -> Scores:
        """Scores the samples of a tick, then takes them into the past; the next tick's scores take these ones' place.

        Raises ValueError where it is not one sample a series.
        """
        if values.shape != self._groups.shape:
            raise ValueError(f"{values.shape[0]} samples of {len(self)} series")
        values = np.ascontiguousarray(values, np.float64)
        peers.take_peers(
            values, self._order, self._starts, self._least, self._relative, self.of_groups,
            self._scores.against_peers, self._work,
        )  # fmt: skip
        past.take_past(
            values, tick, self._least, self._relative, *self._decays, self._past, self._scores.against_past,
            self._figures,
        )  # fmt: skip
        return self._scores

    @property
    def rising(self) -> Floats:
        """CUSUM of shifts upward, by series; from past.ALARM on it is no chance."""
        return self._past[:, past.UP]

    @property
    def falling(self) -> Floats:
        """CUSUM of shifts downward."""
        return self._past[:, past.DOWN]

    def recent(self) -> Floats:
        """The mean of each series with the shorter half-life, NaN where it was never seen."""
        return _mean(self._past, past.SHORT, past.SHORT_WEIGHT)

    def usual(self) -> Floats:
        """The mean of each series with the longer half-life, NaN where it was never seen."""
        return _mean(self._past, past.LONG, past.LONG_WEIGHT)

    def medians(self) -> Floats:
        """The median of each series' past, NaN where it has none yet."""
        return np.where(self._past[:, past.FULL] >= past.LEAST, self._past[:, past.MEDIAN], np.nan)

    def state(self) -> list[Any]:
        """Plain bytes for a snapshot."""
        return [self._groups.tobytes(), self._past.tobytes()]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        groups, rows = state
        self._groups = np.frombuffer(groups, np.int64).copy()
        self._past = np.frombuffer(rows, np.float64).reshape(-1, past.ROW).copy()
        self._arrange()


def _mean(rows: Floats, total: int, weight: int) -> Floats:
    weights = rows[:, weight]
    return np.divide(rows[:, total], weights, out=np.full(len(rows), np.nan), where=weights > 0)
