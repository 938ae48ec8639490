"""Clocks of GPUs held down, ECC errors and XIDs, one GPU a port (`gpu0`).

In: probes/gpus.py. Out: rows GPU_THROTTLE and GPU_ERRORS; a time that had to be estimated is marked so.
"""

from __future__ import annotations

import numpy as np

from probes.counted_rows import VALUE, CountedRows, Place, Series
from probes.drivers.mapped import NS_PER_S
from probes.gpus import NoGpusError, gpus
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
    try:
        gpus(HostRoot(options.root)).close()
    except NoGpusError as err:
        return Unavailable(str(err), "none is needed on a host without NVIDIA GPUs")
    return None


def make(options: Options) -> Probe:
    """The poller. Raises PausetraceError where no GPU can be asked."""
    return GpuCounters(options)


class GpuCounters(Poller):
    """Asks all GPUs."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        try:
            self._gpus = gpus(self.host)
        except NoGpusError as err:
            raise PausetraceError(f"no GPU can be asked: {err}") from err
        self._rows = CountedRows(options.interval_ns)
        self._known: set[Series] = set()
        self._last_ns: int | None = None
        self.counted = self._rows.counted

    def poll(self, now_ns: int) -> Reading:
        """Asks."""
        series: list[Series] = []
        counts: list[int] = []
        began: list[Series] = []
        for gpu in self._gpus.read(now_ns):
            port = f"gpu{gpu.number}"
            for code, throttled_ns in gpu.throttled_ns.items():
                quality = ESTIMATED if code in gpu.sampled else 0
                place = Place(port, _THROTTLE, extra=code, text=gpu.pci, quality=quality)
                series.append(Series(place, VALUE, 1, 64, NS_PER_S, NS_PER_S))
                counts.append(throttled_ns)
            for code, errors in gpu.errors.items():
                if code <= MAX_CODE:
                    place = Place(port, _ERRORS, extra=code, text=gpu.pci)
                    series.append(Series(place, VALUE, 1, 64, ERRORS_PER_S))
                    counts.append(errors)
                    if series[-1] not in self._known:
                        began.append(series[-1])
        if not series:
            return Reading()
        if began and self._last_ns is not None:
            # An error that had not come before began to be counted at 0.
            self._rows.take(self._rows.add(began), np.zeros(len(began), np.uint64), self._last_ns)
        self._known.update(series)
        self._last_ns = now_ns
        return Reading(rows=self._rows.take(self._rows.add(series), np.array(counts, np.uint64), now_ns))

    def close(self) -> None:
        """Ends the session."""
        super().close()
        self._gpus.close()
