"""The windows of all ports that a cascade may ask for when it closes: bytes that left by a queue, and how high it was.

In: the kernel's rows (columns ROW_* of analytics.layout), as they take effect. Out: those around a cascade. Which
queues will have told pauses, and whose bytes stood in them, is known only when it closes, so that all are kept.
"""

from __future__ import annotations

import numpy as np

from analytics import layout
from analytics.layout import MAX_POLL_NS, Ints
from analytics.topology import PRIORITIES, Topology

MAX_WINDOWS = 1_000_000
"""The newest that a cascade may ask for, 40 bytes each: 20 ms of windows of 100 us, and of depths, of 2,500
queues."""
END, START, QUEUE, AMOUNT, IS_DEPTH = range(5)
_OF_ROWS = [layout.ROW_END, layout.ROW_START, layout.ROW_QUEUE, layout.ROW_AMOUNT]


class PortWindows:
    """Windows of up to MAX_POLL_NS: in longer ones nobody can tell when bytes flowed."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        """Pieces as they came, none of which is ever changed."""
        self._newest_ns: list[int] = []
        """The end of the newest window of each piece."""

    def take(self, rows: Ints) -> None:
        """Takes the kernel's rows in."""
        kind, span_ns = rows[:, layout.ROW_TYPE], rows[:, layout.ROW_END] - rows[:, layout.ROW_START]
        some = (kind == layout.BYTES) | (kind == layout.DEPTH)
        some &= (rows[:, layout.ROW_AMOUNT] > 0) & (span_ns > 0) & (span_ns <= MAX_POLL_NS)
        which = np.flatnonzero(some)
        if len(which):
            part = np.empty((len(which), 5), np.int64)
            part[:, :IS_DEPTH] = rows[which][:, _OF_ROWS]
            part[:, IS_DEPTH] = kind[which] == layout.DEPTH
            self._append(part)

    def near(self, start_ns: int, end_ns: int) -> Ints:
        """Windows that ended around a cascade of these times: columns END, START, QUEUE, AMOUNT and IS_DEPTH.

        In no order. Of more than MAX_WINDOWS the newest, whatever else is kept, so that it does not depend on how rows
        arrived.
        """
        windows = self._all()
        windows = windows[windows[:, END] <= end_ns + layout.GAP_NS]
        return windows[windows[:, END] >= max(start_ns - layout.GAP_NS, _newest_since(windows[:, END]))]

    def forget(self, before_ns: int, closed_ns: int) -> int:
        """Drops what no cascade can ask for any more; those that ended before `closed_ns` have closed.

        Returns how many more had to go since there were too many.
        """
        kept = [number for number, newest_ns in enumerate(self._newest_ns) if newest_ns >= before_ns]
        if len(kept) < len(self._parts):
            self._parts = [self._parts[number] for number in kept]
            self._newest_ns = [self._newest_ns[number] for number in kept]
        if sum(map(len, self._parts)) <= MAX_WINDOWS:
            return 0
        windows = self._all()
        times_ns = windows[:, END]
        wanted = times_ns >= before_ns
        chosen = wanted & (times_ns >= _newest_since(times_ns[times_ns <= closed_ns + layout.GAP_NS]))
        self._parts, self._newest_ns = [], []
        if chosen.any():
            self._append(windows[chosen])
        return int(wanted.sum() - chosen.sum())

    def carry(self, topology: Topology) -> None:
        """Moves what is known to what the names of ports now mean."""
        if not topology.moved_ports or not self._parts:
            return
        windows = self._all().copy()
        port = windows[:, QUEUE] // PRIORITIES
        for former, now in topology.moved_ports.items():
            windows[port == former, QUEUE] += (now - former) * PRIORITIES
        self.load(windows)

    def copy(self) -> PortWindows:
        """A copy that further rows change alone."""
        twin = PortWindows()
        twin._parts, twin._newest_ns = list(self._parts), list(self._newest_ns)
        return twin

    def state(self) -> Ints:
        """The array for a snapshot; the order in which windows came is of no matter."""
        windows = self._all()
        return windows[np.lexsort(windows.T)]

    def load(self, state: Ints) -> None:
        """Continues from `state()`."""
        self._parts, self._newest_ns = [], []
        if len(state):
            self._append(state)

    def _append(self, part: Ints) -> None:
        self._parts.append(part)
        self._newest_ns.append(int(part[:, END].max()))

    def _all(self) -> Ints:
        if len(self._parts) > 1:
            together = np.concatenate(self._parts)
            self._parts, self._newest_ns = [together], [max(self._newest_ns)]
        return self._parts[0] if self._parts else np.zeros((0, 5), np.int64)


def _newest_since(times_ns: Ints) -> int:
    """The time of the oldest of the MAX_WINDOWS newest."""
    if len(times_ns) <= MAX_WINDOWS:
        return layout.NEVER
    return int(np.partition(times_ns, -MAX_WINDOWS)[-MAX_WINDOWS])
