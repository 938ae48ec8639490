"""Clocks of GPUs held down, ECC errors and XIDs, one GPU a port (`gpu0`).

In: probes/gpus.py. Out: rows GPU_THROTTLE and GPU_ERRORS; a time that had to be estimated is marked so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from probes.counted_rows import VALUE, CountedRows, Place, Series
from probes.drivers.mapped import NS_PER_S
from probes.gpus import NoGpusError, gpus, why_none
from probes.host_root import HostRoot
from probes.poller import Poller
from probes.probe import Options, Probe, Reading, Unavailable
from stream.errors import PausetraceError
from stream.kinds import BY_NAME, ESTIMATED

_THROTTLE = BY_NAME["GPU_THROTTLE"].code
_ERRORS = BY_NAME["GPU_ERRORS"].code
MAX_CODE = 65_535
ERRORS_PER_S = 1_000_000_000


def available(options: Options) -> Unavailable | None:
    """Whether there is a GPU that can be asked."""
    reason = why_none(HostRoot(options.root))
    return Unavailable(reason, "none is needed on a host without NVIDIA GPUs") if reason else None


def make(options: Options) -> Probe:
    """The poller. Raises PausetraceError where no GPU can be asked."""
    return GpuCounters(options)


class _Key(NamedTuple):
    """One counter of a GPU."""

    gpu: int
    pci: str
    kind: int
    code: int
    quality: int

    def series(self) -> Series:
        place = Place(f"gpu{self.gpu}", self.kind, extra=self.code, text=self.pci, quality=self.quality)
        if self.kind == _THROTTLE:
            return Series(place, VALUE, 1, 64, NS_PER_S, NS_PER_S)
        return Series(place, VALUE, 1, 64, ERRORS_PER_S)


class GpuCounters(Poller):
    """Asks all GPUs."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        try:
            self._gpus = gpus(self.host)
        except NoGpusError as err:
            raise PausetraceError(f"no GPU can be asked: {err}") from err
        self._rows = CountedRows(options.interval_ns)
        self._keys: list[_Key] = []
        self._known: set[_Key] = set()
        self._numbers = np.zeros(0, np.int64)
        self._last_ns: int | None = None
        self.counted = self._rows.counted

    def poll(self, now_ns: int) -> Reading:
        """Asks."""
        keys: list[_Key] = []
        counts: list[int] = []
        for gpu in self._gpus.read(now_ns):
            for code, throttled_ns in gpu.throttled_ns.items():
                keys.append(_Key(gpu.number, gpu.pci, _THROTTLE, code, ESTIMATED if code in gpu.sampled else 0))
                counts.append(throttled_ns)
            for code, errors in gpu.errors.items():
                if code <= MAX_CODE:
                    keys.append(_Key(gpu.number, gpu.pci, _ERRORS, code, 0))
                    counts.append(errors)
        if not keys:
            return Reading()
        if keys != self._keys:
            self._numbers = self._rows.add([key.series() for key in keys])
            began = np.array([key.kind == _ERRORS and key not in self._known for key in keys])
            if self._last_ns is not None and began.any():
                # An error that had not come before began to be counted at 0.
                self._rows.take(self._numbers[began], np.zeros(int(began.sum()), np.uint64), self._last_ns)
            self._keys = keys
            self._known.update(keys)
        self._last_ns = now_ns
        return Reading(rows=self._rows.take(self._numbers, np.array(counts, np.uint64), now_ns))

    def close(self) -> None:
        """Ends the session."""
        super().close()
        self._gpus.close()
