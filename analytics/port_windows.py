"""The windows of all ports that a cascade may ask for when it closes: bytes that left by a queue, and how high it was.

In: the kernel's rows (columns ROW_* of analytics.layout), as they take effect. Out: those around a cascade. Which
queues will have told pauses, and whose bytes stood in them, is known only when it closes, so that all are kept.
"""

from __future__ import annotations

import numpy as np

from analytics import layout
from analytics.compiled import kernel
from analytics.layout import MAX_POLL_NS, Bools, Ints
from analytics.topology import PRIORITIES, Topology

MAX_WINDOWS = 1_000_000
"""The newest that a cascade may ask for, 40 bytes each: 20 ms of windows of 100 us, and of depths, of 2,500
queues."""
END, START, QUEUE, AMOUNT, IS_DEPTH = range(5)


class PortWindows:
    """Windows of up to MAX_POLL_NS: in longer ones nobody can tell when bytes flowed."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        """Pieces as they came, none of which is ever changed."""
        self._newest_ns: list[int] = []
        """The end of the newest window of each piece."""
        self._of_bytes: list[bool] = []
        """Whether there are windows of bytes in each piece."""

    def take(self, rows: Ints) -> None:
        """Takes the kernel's rows in."""
        room = np.empty((len(rows), 5), np.int64)
        if count := _keep(rows, room):
            self._append(room if count == len(room) else room[:count].copy())

    def near(self, start_ns: int, end_ns: int, wanted: Bools, depths: bool = True) -> Ints:
        """Windows of some ports that ended around a cascade of these times, of bytes alone or with those of depths.

        `wanted` is by port. Columns END, START, QUEUE, AMOUNT and IS_DEPTH, in no order. Of more than MAX_WINDOWS of
        all ports the newest, whatever else is kept, so that it does not depend on how rows arrived.
        """
        from_ns, until_ns = start_ns - layout.GAP_NS, end_ns + layout.GAP_NS
        if self._count > MAX_WINDOWS:
            times_ns = np.concatenate([part[:, END] for part in self._parts])
            from_ns = max(from_ns, _newest_since(times_ns[times_ns <= until_ns]))
        found = [np.zeros((0, 5), np.int64)]
        for part, newest_ns, of_bytes in zip(self._parts, self._newest_ns, self._of_bytes, strict=True):
            if newest_ns >= from_ns and (depths or of_bytes):
                room = np.empty_like(part)
                found.append(room[: _pick(part, from_ns, until_ns, wanted, depths, room)].copy())
        return np.concatenate(found)

    @property
    def tell_of_bytes(self) -> bool:
        """Whether there are any windows of bytes."""
        return any(self._of_bytes)

    def forget(self, before_ns: int, closed_ns: int) -> int:
        """Drops what no cascade can ask for any more; those that ended before `closed_ns` have closed.

        Returns how many more had to go since there were too many.
        """
        kept = [number for number, newest_ns in enumerate(self._newest_ns) if newest_ns >= before_ns]
        if len(kept) < len(self._parts):
            self._parts = [self._parts[number] for number in kept]
            self._newest_ns = [self._newest_ns[number] for number in kept]
            self._of_bytes = [self._of_bytes[number] for number in kept]
        if self._count <= MAX_WINDOWS:
            return 0
        windows = self._all()
        times_ns = windows[:, END]
        wanted = times_ns >= before_ns
        chosen = wanted & (times_ns >= _newest_since(times_ns[times_ns <= closed_ns + layout.GAP_NS]))
        self._parts, self._newest_ns, self._of_bytes = [], [], []
        if chosen.any():
            self._append(windows[chosen])
        return int(wanted.sum() - chosen.sum())

    def carry(self, topology: Topology) -> None:
        """Moves what is known to what the names of ports now mean."""
        if not topology.moved_ports or not self._parts:
            return
        windows = self._all()
        port = windows[:, QUEUE] // PRIORITIES
        for former, now in topology.moved_ports.items():
            windows[port == former, QUEUE] += (now - former) * PRIORITIES
        self.load(windows)

    def copy(self) -> PortWindows:
        """A copy that further rows change alone."""
        twin = PortWindows()
        twin._parts, twin._newest_ns, twin._of_bytes = list(self._parts), list(self._newest_ns), list(self._of_bytes)
        return twin

    def state(self) -> Ints:
        """The array for a snapshot; the order in which windows came is of no matter."""
        windows = self._all()
        return windows[np.lexsort(windows.T)]

    def load(self, state: Ints) -> None:
        """Continues from `state()`."""
        self._parts, self._newest_ns, self._of_bytes = [], [], []
        if len(state):
            self._append(state)

    @property
    def _count(self) -> int:
        return sum(map(len, self._parts))

    def _append(self, part: Ints) -> None:
        self._parts.append(part)
        self._newest_ns.append(int(part[:, END].max()))
        self._of_bytes.append(not part[:, IS_DEPTH].all())

    def _all(self) -> Ints:
        return np.concatenate([np.zeros((0, 5), np.int64), *self._parts])


def _newest_since(times_ns: Ints) -> int:
    """The time of the oldest of the MAX_WINDOWS newest."""
    if len(times_ns) <= MAX_WINDOWS:
        return layout.NEVER
    return int(np.partition(times_ns, -MAX_WINDOWS)[-MAX_WINDOWS])


@kernel
def _keep(rows: Ints, out: Ints) -> int:
    """Copies rows of bytes and depths over windows that are short enough; returns how many there are."""
    count = 0
    for row in range(len(rows)):
        kind, span_ns = rows[row, layout.ROW_TYPE], rows[row, layout.ROW_END] - rows[row, layout.ROW_START]
        if kind not in (layout.BYTES, layout.DEPTH) or not 0 < span_ns <= MAX_POLL_NS:
            continue
        if rows[row, layout.ROW_AMOUNT] > 0:
            out[count, END], out[count, START] = rows[row, layout.ROW_END], rows[row, layout.ROW_START]
            out[count, QUEUE], out[count, AMOUNT] = rows[row, layout.ROW_QUEUE], rows[row, layout.ROW_AMOUNT]
            out[count, IS_DEPTH] = kind == layout.DEPTH
            count += 1
    return count


@kernel
def _pick(part: Ints, from_ns: int, until_ns: int, wanted: Bools, depths: bool, out: Ints) -> int:
    """Copies the windows of some ports and times; returns how many there are."""
    count = 0
    for row in range(len(part)):
        if not depths and part[row, IS_DEPTH]:
            continue
        if from_ns <= part[row, END] <= until_ns and wanted[part[row, QUEUE] // PRIORITIES]:
            for column in range(5):
                out[count, column] = part[row, column]
            count += 1
    return count
