"""Counters that are files, one number each or one of many on a line: read, and made rows.

In: paths and the series of each. Out: rows. What is missing or makes no sense is counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probes.counted_rows import CountedRows, Series
from probes.host_root import number_of
from probes.poller import Poller
from probes.probe import Options, Reading


class CounterFile(NamedTuple):
    """A file and the series that its number belongs to; `parse` finds the number in its bytes."""

    path: str
    series: Series
    parse: Callable[[bytes], int | None] = number_of


class CounterFiles(Poller):
    """A poller of counters in files."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._rows = CountedRows(options.interval_ns)
        self._found: Sequence[CounterFile] = ()
        self._numbers = np.zeros(0, np.int64)
        self._parsed: dict[str, tuple[bytes, int | None]] = {}
        """By path, the last bytes and what they meant."""
        self.counted = self._rows.counted

    def find(self) -> Sequence[CounterFile]:
        """The files that there are now."""
        raise NotImplementedError

    def look(self) -> None:
        """Finds the files."""
        found = self.find()
        if found != self._found:
            self._found = found
            self._numbers = self._rows.add([each.series for each in found])
            self.files.keep({each.path for each in found})
            self._parsed.clear()

    def poll(self, now_ns: int) -> Reading:
        """Reads them."""
        counts = np.zeros(len(self._found), np.uint64)
        good = np.zeros(len(self._found), np.bool_)
        for at, each in enumerate(self._found):
            found = self.files.read(each.path)
            if found is None:
                self.counted["unreadable"] += 1
                continue
            before = self._parsed.get(each.path)
            if before is None or before[0] != found:
                before = self._parsed[each.path] = found, each.parse(found)
            number = before[1]
            if number is None or number < 0:
                self.counted["garbage"] += 1
                continue
            counts[at], good[at] = number, True
        if not good.any():
            return Reading()
        return Reading(rows=self._rows.take(self._numbers[good], counts[good], now_ns))
