"""Probes of latencies in the kernel: a histogram a window, and single outliers with the process that they hit.

In: histograms and outliers of the programs runqueue, softirq, hardirq, napi and block. Out: `Reading`s of the topic
kernel: bucket rows (port "", or one a CPU), outliers on the CPU's port, and polls that used their budget up.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probes.attach import Attached
from probes.histogram import UPPER_NS, Histogram
from probes.maps import Map
from probes.probe import Lost, Reading, Rows
from probes.ring import Drained, Ring
from stream import kinds
from stream.record import EVENT, Events, empty_events, joined, picked

NEVER_NS = (1 << 64) - 1
"""A threshold that nothing reaches."""
RING_FULL = 3
"""Code of LOSS_REASONS."""
TOPIC = "kernel"
_COMM = slice(8, 24)
"""Bytes of a row in which an outlier brings the command's name: seen_ns and span_ns."""
NAPI_STATE = np.dtype([("begun_ns", "<u8"), ("polls", "<u8"), ("exhausted", "<u8")])


class Slot(NamedTuple):
    """One source of latencies: its slot in histograms and settings, and the names of its kinds without the end."""

    slot: int
    kind: str
    histogram: Histogram

    @property
    def outlier(self) -> int:
        """Code of its outliers' kind."""
        return kinds.BY_NAME[f"{self.kind}_OUTLIER"].code

    @property
    def bucket(self) -> int:
        """Code of its buckets' kind."""
        return kinds.BY_NAME[f"{self.kind}_BUCKET"].code


class Outliers:
    """The ring that all latency programs of one module share: what one probe finds of another's kinds waits here."""

    MAX_WAITING = 1 << 20
    """Rows of a kind kept for a probe that does not come for them; more are lost, and counted."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        self._waiting: dict[int, Events] = {}
        """By kind."""

    def take(self, wanted: Sequence[int]) -> Drained:
        """Rows of these kinds; losses go to whoever asks first, since nobody knows of which kinds they were."""
        with self._lock:
            events, lost = self._ring.drain()
            if len(events):
                for kind in set(events["kind"].tolist()):
                    rows = joined([*self._kept(kind), picked(events, events["kind"] == kind)])
                    more = 0 if kind in wanted else max(len(rows) - self.MAX_WAITING, 0)
                    self._waiting[kind] = rows[more:]
                    lost += more
            return Drained(joined([rows for kind in wanted for rows in self._kept(kind)]), lost)

    def _kept(self, kind: int) -> list[Events]:
        return [self._waiting.pop(kind)] if kind in self._waiting else []

    def close(self) -> None:
        """Closes the ring; may be called twice."""
        self._ring.close()


class LatencyProbe:
    """One latency program. `window_ns`: histograms are told at the first read after 3/4 of it.

    `check` is called once a window, and raises OSError where the program does not see everything any more.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        outliers: Outliers,
        settings: Map,
        attached: Sequence[Attached],
        *,
        threshold_ns: int,
        window_ns: int,
        per_cpu: bool,
        hit_ns: int,
        napi_state: Map | None = None,
        released: Callable[[], None],
        check: Callable[[], None] | None = None,
    ) -> None:
        self._check = check
        self.slots, self._outliers, self._settings, self._attached = slots, outliers, settings, list(attached)
        self._threshold_ns, self._window_ns, self._per_cpu, self._hit_ns = threshold_ns, window_ns, per_cpu, hit_ns
        self._napi_state, self._released = napi_state, released
        self._buckets = np.array([slot.bucket for slot in slots], np.uint8)
        self._wanted = [slot.outlier for slot in slots]
        self._polls = np.zeros(2, np.int64) if napi_state is None else self._count_polls(napi_state)
        self._window_from_ns = 0
        self._read_ns = 0
        self._closed = False
        self.restore()

    def read(self, now_ns: int) -> Reading:
        """Outliers since the last read and, once a window, the histogram of the window."""
        before_ns, self._read_ns = self._read_ns or now_ns, now_ns
        events, lost = self._outliers.take(self._wanted)
        rows = [_outlier_rows(events, now_ns)] if len(events) else []
        kernel_ns = 0
        if not self._window_from_ns:
            self._window_from_ns = now_ns
            for slot in self.slots:
                slot.histogram.since()
        elif now_ns - self._window_from_ns >= self._window_ns * 3 // 4:
            windows, hits = self._windows(now_ns, now_ns - self._window_from_ns)
            rows += [windows] if len(windows.events) else []
            kernel_ns = hits * self._hit_ns
            self._window_from_ns = now_ns
            if self._check is not None:
                self._check()
        losses = [Lost(TOPIC, lost, RING_FULL, before_ns, now_ns)] if lost else []
        return Reading(rows, losses, kernel_ns=kernel_ns)

    def _windows(self, now_ns: int, span_ns: int) -> tuple[Rows, int]:
        counts = np.stack([slot.histogram.since() for slot in self.slots])
        hits, cpus = int(counts.sum()), counts.shape[1]
        if not self._per_cpu:
            counts = counts.sum(axis=1, keepdims=True)
        slot, cpu, bucket = counts.nonzero()
        events = _window_rows(len(cpu), now_ns, span_ns)
        events["kind"], events["port"] = self._buckets[slot], cpu
        events["value"], events["extra"] = UPPER_NS[bucket], counts[slot, cpu, bucket]
        ports = [f"cpu{number}" for number in range(cpus)] if self._per_cpu else [""]
        if self._napi_state is not None:
            polls = self._count_polls(self._napi_state)
            since, self._polls = polls - self._polls, polls
            if since[0]:
                row = _window_rows(1, now_ns, span_ns)
                row["kind"] = kinds.BY_NAME["NAPI_BUDGET"].code
                row["extra"], row["value"] = since
                if self._per_cpu:
                    row["port"] = len(ports)
                    ports.append("")
                events = joined([events, row])
        return Rows(TOPIC, events, ports), hits

    @staticmethod
    def _count_polls(napi_state: Map) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        state = napi_state.at(0)
        return np.array([state["polls"].sum(), state["exhausted"].sum()], np.int64)

    def reduce(self) -> bool:
        """No outliers any more: the histograms go on."""
        self._set_threshold(NEVER_NS)
        return True

    def restore(self) -> None:
        """Outliers again, from the threshold on."""
        self._set_threshold(self._threshold_ns)

    def _set_threshold(self, threshold_ns: int) -> None:
        for slot in self.slots:
            self._settings.update(struct.pack("=I", slot.slot), struct.pack("=Q", threshold_ns))

    def detach(self) -> None:
        """Counts nothing from now on; what was counted can still be read."""
        for each in self._attached:
            each.close()

    def close(self) -> None:
        """Detaches; may be called twice."""
        self.detach()
        if not self._closed:
            self._closed = True
            if self._napi_state is not None:
                self._napi_state.close()
            self._released()


def _window_rows(count: int, now_ns: int, span_ns: int) -> Events:
    rows = empty_events(count)
    rows["quality"] = kinds.EXACT
    rows["time_ns"] = rows["seen_ns"] = now_ns
    rows["span_ns"] = span_ns
    return rows


def _outlier_rows(events: Events, now_ns: int) -> Rows:
    """Rows of the ring as rows of the topic: in order of time, commands' names as texts, CPUs as ports."""
    events = picked(events, np.argsort(events["time_ns"], kind="stable"))
    raw = np.ascontiguousarray(events).view(np.uint8).reshape(-1, EVENT.itemsize)
    comms = np.ascontiguousarray(raw[:, _COMM]).view("S16").ravel().tolist()
    texts = [(row, comm.split(b"\0")[0].decode(errors="replace")) for row, comm in enumerate(comms) if comm]
    events["seen_ns"], events["span_ns"] = np.maximum(now_ns, events["time_ns"]), 0
    cpus, events["port"] = np.unique(events["port"], return_inverse=True)
    return Rows(TOPIC, events, [f"cpu{cpu}" for cpu in cpus.tolist()], texts)
