"""The probe of TCP retransmits: segments sent again in a window, by flow.

In: the map of bpf/tcp_retransmits.bpf.c. Out: TCP_RETRANSMIT rows and facts about their flows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from probes.attach import Attached
from probes.counting_program import CountingProgram
from probes.flows import TUPLE, Opened
from probes.grown import Grown
from probes.maps import Map
from probes.packets import IDLE_NS
from probes.probe import Reading, Rows
from stream import kinds
from stream.record import empty_events


class TcpRetransmitsProbe(CountingProgram):
    """Retransmits of all sockets of the host, whatever their namespace."""

    def __init__(
        self,
        retransmits: Map,
        segments: Map,
        attached: Sequence[Attached],
        opened: Opened,
        *,
        window_ns: int,
        hit_ns: int,
        released: Callable[[], None],
    ) -> None:
        super().__init__([retransmits, segments], attached, window_ns=window_ns, released=released)
        self._retransmits, self._segments = retransmits, segments.reader(0)
        self._opened, self._hit_ns = opened, hit_ns
        self._grown, self._told, self._told_unlisted = Grown(1), 0, 0
        self._looked_ns = 0

    def window(self, now_ns: int, span_ns: int) -> Reading:
        """The segments that were sent again in it; those of flows that found no room as flow 0."""
        segments, unlisted = self._segments.read().item()
        time_ns = time.monotonic_ns()
        if segments == self._told and time_ns - self._looked_ns < IDLE_NS:
            return Reading()  # to look through all flows costs more than all else
        self._told, self._looked_ns = segments, time_ns
        keys, values = self._retransmits.entries(TUPLE)
        bound_ns = time_ns - IDLE_NS
        for row in np.flatnonzero(values["last_ns"].view(np.int64) < bound_ns).tolist():
            values[row] = self._retransmits.lookup(keys[row].tobytes(), delete=True)
            self._opened.forget(int(values["id"][row]))
        growth = self._grown.since(values["id"], values["segments"].reshape(-1, 1))[:, 0]
        grown = np.flatnonzero(growth)
        more_unlisted, self._told_unlisted = unlisted - self._told_unlisted, unlisted
        if not len(grown) and not more_unlisted:
            return Reading()
        rows = empty_events(len(grown) + (more_unlisted > 0))
        rows["kind"], rows["side"], rows["quality"] = kinds.BY_NAME["TCP_RETRANSMIT"].code, kinds.SIDE_TX, kinds.EXACT
        rows["time_ns"] = rows["seen_ns"] = now_ns
        rows["span_ns"] = span_ns
        rows["value"][: len(grown)], rows["flow"][: len(grown)] = growth[grown], values["id"][grown]
        rows["value"][len(grown) :] = more_unlisted
        told = (
            self._opened.fact(int(values["id"][row]), keys[row].tobytes(), now_ns - span_ns) for row in grown.tolist()
        )
        facts = [fact for fact in told if fact is not None]
        return Reading([Rows("host", rows, [""])], (), facts, len(grown) * self._hit_ns)
