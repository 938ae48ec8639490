"""What dashboards of averages say of a fabric, before and since a time: for contrast with what was found.

In: a trace. Out: `Averages`, over all hosts and over all ports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulation.trace_columns import Counters, Trace

Bools = npt.NDArray[np.bool_]


class Average(NamedTuple):
    """One measure: its mean before and since, and its greatest single value since; None where nothing was before."""

    name: str
    unit: str
    before: float | None
    since: float
    most: float


class Averages(NamedTuple):
    """All measures that the trace has; ports that were stopped for more than 1 % of the time, of how many."""

    measures: tuple[Average, ...]
    stopped_ports: int
    ports: int


def fleet_averages(trace: Trace, since_ns: int) -> Averages:
    """Averages over the time before `since_ns` and from there on; `since_ns` 0: over all of it."""
    counters = trace.counters
    if counters is None or not len(counters.end_ns):
        return Averages((), 0, len(trace.ports.device))
    end_ns = int(counters.end_ns.max())
    before = counters.end_ns <= since_ns
    spans = (max(since_ns, 1), max(end_ns - since_ns, 1))
    any_before = bool(before.any())
    is_host = np.array([role == "host" for role in trace.roles])
    measures = []
    if counters.tx_bytes is not None:
        of_hosts = is_host[trace.ports.device[counters.port]]
        sent = counters.tx_bytes * of_hosts
        rates = [
            _by_port(trace, counters, sent, part) * 8_000 / span
            for part, span in zip((before, ~before), spans, strict=True)
        ]
        hosts = np.flatnonzero(is_host[trace.ports.device])
        use = [rate[hosts] / trace.ports.speed_mbps[hosts] * 100 for rate in rates]
        measures.append(
            Average("use of a NIC", "%", use[0].mean() if any_before else None, use[1].mean(), use[1].max())
        )
    stopped = 0
    if counters.rx_paused_ns is not None:
        shares = [
            _by_port(trace, counters, counters.rx_paused_ns, part) * 100 / span
            for part, span in zip((before, ~before), spans, strict=True)
        ]
        measures.append(
            Average(
                "time that a port is stopped",
                "%",
                shares[0].mean() if any_before else None,
                shares[1].mean(),
                shares[1].max(),
            )
        )
        stopped = int((shares[1] > 1).sum())
    if counters.q_max_bytes is not None:
        depth = np.maximum(counters.q_max_bytes, 0)
        deepest = np.zeros(len(trace.ports.device), np.int64)
        np.maximum.at(deepest, counters.port, depth)
        was = depth[before].mean() / 1_000 if any_before else None
        now = depth[~before].mean() / 1_000 if not before.all() else 0.0
        measures.append(Average("peak of a queue", "kB", was, now, deepest.max() / 1_000))
    return Averages(tuple(measures), stopped, len(trace.ports.device))


def _by_port(trace: Trace, counters: Counters, values: npt.NDArray[np.int64], part: Bools) -> npt.NDArray[np.float64]:
    known = np.maximum(values[part], 0).astype(np.float64)
    return np.bincount(counters.port[part], known, minlength=len(trace.ports.device)).astype(np.float64)
