"""The probes of errors of memory and PCIe that the kernel reports as tracepoints (RAS), as they happen.

In: the maps of bpf/memory_errors.bpf.c and bpf/pcie_errors.bpf.c. Out: MEMORY_ERRORS of a controller (port "mc0"),
PCIE_ERRORS of a device (port "0000:3b:00.0").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from probes.attach import Attached
from probes.counting_program import CountingProgram
from probes.maps import Map
from probes.probe import Reading, Rows
from stream import kinds
from stream.record import empty_events

COUNT = np.dtype("<u8")
MEMORY_KEY = np.dtype([("controller", "<u4"), ("type", "<u4")])
PCIE_KEY = np.dtype([("device", "S28"), ("severity", "<u4")])
MEMORY_CODES = {0: 1, 1: 2, 2: 2, 3: 2}
"""Types of enum hw_event_mc_err_type as MEMORY_ERROR_CODES: corrected, uncorrected, deferred, fatal. 4 is no error."""
PCIE_CODES = {0: 2, 1: 3, 2: 1}
"""Severities of include/linux/aer.h as PCIE_ERROR_CODES: nonfatal, fatal, corrected."""


class Reported(NamedTuple):
    """What one program's map says, and in which words of ours."""

    topic: str
    kind: int
    key: np.dtype[Any]
    codes: dict[int, int]


MEMORY = Reported("host", kinds.BY_NAME["MEMORY_ERRORS"].code, MEMORY_KEY, MEMORY_CODES)
PCIE = Reported("pcie", kinds.BY_NAME["PCIE_ERRORS"].code, PCIE_KEY, PCIE_CODES)


class HardwareErrorsProbe(CountingProgram):
    """Errors of one sort by where they happened and how bad they are."""

    def __init__(
        self,
        reported: Reported,
        errors: Map,
        attached: Sequence[Attached],
        *,
        window_ns: int,
        released: Callable[[], None],
    ) -> None:
        super().__init__([errors], attached, window_ns=window_ns, released=released)
        self._reported, self._errors = reported, errors
        self._seen: dict[tuple[str, int], int] = {}

    def window(self, now_ns: int, span_ns: int) -> Reading:
        """The errors in it."""
        now = self._counts()
        grown = [(port, code, count - self._seen.get((port, code), 0)) for (port, code), count in now.items()]
        grown = sorted(each for each in grown if each[2])
        self._seen = now
        if not grown:
            return Reading()
        ports = sorted({port for port, _, _ in grown})
        rows = empty_events(len(grown))
        rows["kind"], rows["quality"], rows["span_ns"] = self._reported.kind, kinds.EXACT, span_ns
        rows["time_ns"] = rows["seen_ns"] = now_ns
        rows["port"] = [ports.index(port) for port, _, _ in grown]
        rows["extra"] = [code for _, code, _ in grown]
        rows["value"] = [count for _, _, count in grown]
        return Reading([Rows(self._reported.topic, rows, ports)])

    def _counts(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        keys, values = self._errors.entries(self._reported.key)
        for (place, what), count in zip(keys.tolist(), values.tolist(), strict=True):
            port = place.decode(errors="replace") if isinstance(place, bytes) else f"mc{place}"
            if what in self._reported.codes:
                key = port, self._reported.codes[what]
                found[key] = found.get(key, 0) + count
        return found
