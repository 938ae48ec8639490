"""Pauses that end by themselves: a queue may send again when its quanta have run out, whether or not an XON came.

In: single pauses in order of time, and the speeds of the ports. Out: the same, with an XON where a timer ran out. A
pause frame sets the timer anew to its quanta of 512 bit times each (IEEE 802.1Q, 36.1.3.2 and 802.3, 31B.2), so that an
XON that was lost, or never sent, leaves no queue stopped.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream import kinds
from stream.record import Events, empty_events, joined, picked

UNKNOWN_SPEED_MBPS = 10_000
"""Of a port that does not tell its speed: the slowest that has priorities to pause, so that no pause ends too early."""
BIT_TIMES = 512
ALLOWED_NS = 2_000_000
"""How much later than its time a pause may still come through the ring."""
_PRIORITIES, _SIDES = 9, 3
_WHOLE_PORT = 8
Ints = npt.NDArray[np.int64]


class PauseTimers:
    """The timer of every (port, side, priority) of as many ports."""

    def __init__(self, ports: int) -> None:
        self._until_ns: Ints = np.zeros(ports * _SIDES * _PRIORITIES, np.int64)
        """When each runs out; 0 where none runs."""

    def ended(self, events: Events, speeds_mbps: Ints, now_ns: int) -> Events:
        """Pauses in order of time, those ended by a timer too: up to now_ns less ALLOWED_NS.

        `speeds_mbps` is by port, 0 where unknown.
        """
        priority = np.where(events["priority"] == kinds.NO_PRIORITY, _WHOLE_PORT, events["priority"]).astype(np.int64)
        key = (events["port"].astype(np.int64) * _SIDES + events["side"]) * _PRIORITIES + priority
        time_ns = events["time_ns"].astype(np.int64)
        speed = np.where(speeds_mbps > 0, speeds_mbps, UNKNOWN_SPEED_MBPS)[events["port"]]
        stops = events["kind"] == kinds.PFC_XOFF
        until_ns = np.where(stops, time_ns + events["value"] * BIT_TIMES * 1000 // speed, 0)

        order = np.lexsort((time_ns, key))
        key, time_ns, until_ns = key[order], time_ns[order], until_ns[order]
        first = np.append(True, key[1:] != key[:-1]) if len(key) else np.zeros(0, bool)
        before_ns = np.where(first, self._until_ns[key], np.append(0, until_ns[:-1]) if len(key) else 0)
        over = (before_ns > 0) & (before_ns < time_ns)
        ended_keys, ended_ns = key[over], before_ns[over]
        last = np.append(first[1:], True) if len(key) else first
        self._until_ns[key[last]] = until_ns[last]

        silent = np.flatnonzero((self._until_ns > 0) & (self._until_ns < now_ns - ALLOWED_NS))
        ended_keys, ended_ns = np.append(ended_keys, silent), np.append(ended_ns, self._until_ns[silent])
        self._until_ns[silent] = 0
        if not len(ended_keys):
            return events
        every = joined([events, _xon(ended_keys, ended_ns, now_ns)])
        return picked(every, np.argsort(every["time_ns"], kind="stable"))


def _xon(key: Ints, time_ns: Ints, now_ns: int) -> Events:
    rows = empty_events(len(key))
    rows["kind"], rows["quality"] = kinds.PFC_XON, kinds.ESTIMATED
    rows["time_ns"], rows["seen_ns"] = time_ns, now_ns
    priority, place = key % _PRIORITIES, key // _PRIORITIES
    rows["priority"] = np.where(priority == _WHOLE_PORT, kinds.NO_PRIORITY, priority)
    rows["side"], rows["port"] = place % _SIDES, place // _SIDES
    return rows
