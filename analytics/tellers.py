"""Whose pauses count where several sources tell of one port: those of one at a time, so that none counts twice.

In: settled rows with their ports and sources. Out: the rows without pauses that another source's stand for.

The source that first told of a pause of a port and side tells of that side from then on. Another takes over where a
pause opens by its rows and the first has ended or has told of nothing there for GAP_NS, or where its rows are exact and
the first's were not. Two sources never agree to the ns: to mix their rows would make two pauses of each one, and to
join what they say would keep a pause open whose end one of them lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from analytics.layout import GAP_NS, NEVER
from stream import kinds
from stream.record import Events, picked

Ints = npt.NDArray[np.int64]

SIDES = len(kinds.SIDES)
SOURCE, LAST_NS, EXACT = range(3)
"""Columns: the number of the source that tells, when it last did, whether any row of it was exact."""
_NOBODY = np.array([[-1, NEVER, 0]], np.int64)


class Tellers:
    """Whose pauses count, by port * SIDES + side."""

    def __init__(self) -> None:
        self._told: Ints = _NOBODY[:0]

    def chosen(
        self,
        events: Events,
        ports: Ints,
        sources: Ints,
        names: Sequence[str],
        has_ended: Callable[[int, str, int], bool],
    ) -> tuple[Events, Ints, int]:
        """The rows and ports that count, and how many were left out; to be asked slice by slice of event time.

        `sources` numbers each row's source, `names` names the sources: of two at one instant, the first by name counts.
        `has_ended` says of a port and a source whether that source tells of the port's device no more at a time.
        """
        pauses = np.flatnonzero((events["kind"] == kinds.PAUSE_OPEN) | (events["kind"] == kinds.PAUSE_INTERVAL))
        if not len(pauses):
            return events, ports, 0
        side, of = ports[pauses] * SIDES + events["side"][pauses] % SIDES, sources[pauses]
        missing = int(side.max()) + 1 - len(self._told)
        if missing > 0:
            self._told = np.concatenate((self._told, np.repeat(_NOBODY, missing, axis=0)))
        before = self._told[side, SOURCE]
        self._told[side[before < 0], SOURCE] = of[before < 0]
        times, exact = events["time_ns"][pauses], (events["quality"][pauses] & kinds.EXACT) != 0
        others = self._told[side, SOURCE] != of
        left_out = pauses[:0]
        if others.any():
            shared = np.isin(side, side[others])
            self._told[side[shared], SOURCE] = before[shared]
            opens = events["kind"][pauses] == kinds.PAUSE_OPEN
            rank = np.argsort(np.argsort(np.array(names)))
            # At one instant openings come first, so that a pause without length is not left without its end.
            keys = (~opens[shared], rank[of[shared]], ~exact[shared], times[shared])
            order = np.flatnonzero(shared)[np.lexsort(keys)]
            rows = [column[order].tolist() for column in (side, of, times, exact, opens)]
            left_out = pauses[order[self._one_by_one(list(zip(*rows, strict=True)), names, has_ended)]]
            side, times, exact = side[~shared], times[~shared], exact[~shared]
        np.maximum.at(self._told[:, LAST_NS], side, times)
        self._told[side[exact], EXACT] = 1
        if not len(left_out):
            return events, ports, 0
        kept = np.ones(len(events), np.bool_)
        kept[left_out] = False
        return picked(events, kept), ports[kept], len(left_out)

    def _one_by_one(
        self,
        rows: Sequence[tuple[int, int, int, bool, bool]],
        names: Sequence[str],
        has_ended: Callable[[int, str, int], bool],
    ) -> list[int]:
        """Which of these rows (side, source, time, whether exact, whether it opens), in order of time, do not count."""
        left_out = []
        for place, (key, source, time_ns, is_exact, opening) in enumerate(rows):
            teller, last_ns, was_exact = self._told[key].tolist()
            if teller == source:
                self._told[key] = source, time_ns, was_exact or is_exact
            elif teller < 0 or (
                opening
                and (
                    time_ns - last_ns > GAP_NS
                    or (is_exact and not was_exact)
                    or has_ended(key // SIDES, names[teller], time_ns)
                )
            ):
                self._told[key] = source, time_ns, is_exact
            else:
                left_out.append(place)
        return left_out

    def copy(self) -> Tellers:
        """A copy that further rows change alone."""
        return Tellers.of_state(self._told)

    def state(self) -> Ints:
        """An array for a snapshot."""
        return self._told

    @classmethod
    def of_state(cls, state: Ints) -> Tellers:
        """Continues from `state()`."""
        tellers = cls()
        tellers._told = state.reshape(-1, 3).copy()
        return tellers
