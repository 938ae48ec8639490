"""What could not be seen though its device reports: queues that a PFC watchdog masks, and counters with gaps.

In: settled rows, by port. Out: whether a queue was masked, and which ports had gaps, at some time between two instants.

A watchdog that finds a storm ignores pause on the queue, and the counters of pause received stand still meanwhile: a
queue that shows no pause then is not known to have had none.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from analytics.asked_names import merged
from stream import kinds
from stream.record import Events

Ints = npt.NDArray[np.int64]

PFC_WATCHDOG = kinds.BY_NAME["PFC_WATCHDOG"].code
_COUNTED = np.zeros(256, np.bool_)
"""Kinds of which a verdict needs what was counted."""
for _name in ("PFC_PAUSED", "PFC_FRAMES", "QUEUE_DEPTH", "PORT_BYTES", "ECN_MARKED", "FLOW_BYTES"):
    _COUNTED[kinds.BY_NAME[_name].code] = True


class Blind:
    """By port: what watchdogs said and when, and the windows of counters that began anew or were not read."""

    def __init__(self) -> None:
        self._watchdogs: dict[int, list[tuple[int, int, int]]] = {}
        """(time_ns, priority, storm) in order."""
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        """Windows in order, those joined that touch: a counter that is bad for hours is so once."""
        self._forgotten_ns = 0

    def take(self, events: Events, ports: Ints) -> None:
        """Reads settled rows."""
        gap = ((events["quality"] & kinds.GAP) != 0) & _COUNTED[events["kind"]]
        end_ns, port = events["time_ns"][gap], ports[gap]
        for begin, end, of in zip(
            (end_ns - events["span_ns"][gap]).tolist(), end_ns.tolist(), port.tolist(), strict=True
        ):
            self._gaps.setdefault(of, []).append((begin, end))
        for of in np.unique(port).tolist():
            self._gaps[of] = merged(self._gaps[of])
        told = events["kind"] == PFC_WATCHDOG
        for row, port in zip(events[told], ports[told].tolist(), strict=True):
            reading = int(row["time_ns"]), int(row["priority"]), int(row["value"])
            if reading not in (readings := self._watchdogs.setdefault(port, [])):
                insort(readings, reading)

    def masked(self, port: int, priority: int, first_ns: int, last_ns: int) -> bool:
        """Whether a watchdog ignored pause on the queue at some time between two instants."""
        since_ns = None
        for time_ns, of, storm in self._watchdogs.get(port, ()):
            if of not in (priority, kinds.NO_PRIORITY):
                continue
            if storm == 1 and since_ns is None:
                since_ns = time_ns
            elif storm == 0 and since_ns is not None:
                if since_ns <= last_ns and first_ns < time_ns:
                    return True
                since_ns = None
        return since_ns is not None and since_ns <= last_ns

    def gaps(self, first_ns: int, last_ns: int) -> set[int]:
        """The ports of which a counter had a gap at some time between two instants."""
        return {
            port
            for port, windows in self._gaps.items()
            if any(begin < last_ns and first_ns < end for begin, end in windows)
        }

    def forget(self, before_ns: int) -> None:
        """Drops what no cascade can ask for any more: of a watchdog, all but the last that it said by then."""
        if before_ns == self._forgotten_ns:
            return
        self._forgotten_ns = before_ns
        gaps = {port: [gap for gap in gaps if gap[1] >= before_ns] for port, gaps in self._gaps.items()}
        self._gaps = {port: windows for port, windows in gaps.items() if windows}
        self._watchdogs = {port: _needed(readings, before_ns) for port, readings in self._watchdogs.items()}

    def carry(self, moved_ports: Mapping[int, int]) -> None:
        """Moves all to the ports that their names now mean."""
        watchdogs: dict[int, list[tuple[int, int, int]]] = {}
        for port, readings in self._watchdogs.items():
            watchdogs.setdefault(moved_ports.get(port, port), []).extend(readings)
        gaps: dict[int, list[tuple[int, int]]] = {}
        for port, windows in self._gaps.items():
            gaps.setdefault(moved_ports.get(port, port), []).extend(windows)
        self._watchdogs = {port: sorted(set(readings)) for port, readings in watchdogs.items()}
        self._gaps = {port: merged(windows) for port, windows in gaps.items()}

    def copy(self) -> Blind:
        """A copy that further rows change alone."""
        twin = Blind()
        twin._watchdogs = {port: list(readings) for port, readings in self._watchdogs.items()}
        twin._gaps = {port: list(gaps) for port, gaps in self._gaps.items()}
        return twin

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        watchdogs = [[port, [list(reading) for reading in readings]] for port, readings in self._watchdogs.items()]
        return [watchdogs, [[port, [list(gap) for gap in gaps]] for port, gaps in self._gaps.items()]]

    @classmethod
    def of_state(cls, state: list[Any]) -> Blind:
        """Continues from `state()`."""
        blind = cls()
        watchdogs, gaps = state
        blind._watchdogs = {
            port: [(time_ns, priority, storm) for time_ns, priority, storm in readings] for port, readings in watchdogs
        }
        blind._gaps = {port: [(begin, end) for begin, end in windows] for port, windows in gaps}
        return blind


def _needed(readings: list[tuple[int, int, int]], before_ns: int) -> list[tuple[int, int, int]]:
    last = {reading[1]: reading for reading in readings if reading[0] < before_ns}
    return [reading for reading in readings if reading[0] >= before_ns or last[reading[1]] == reading]
