"""Turns the fine counters of a trace into what polls of its devices would have shown, as most of the field sees them.

In: a `Trace` and how it is polled. Out: the `Trace` with counters per poll and without what polls do not tell: pause
events, and bytes of single flows.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from simulation.trace_columns import Counters, Trace
from simulation.trace_table import Ints
from stream.errors import TraceError

RUN, INCIDENT = "run", "incident"
"""Periods that a trace decides: one poll of totals, and the time from its first pause to its last."""
BACKGROUND_LOAD = (0.2, 0.6)
"""Range of the mean loads of links in the time that is padded, .4 on average."""
BACKGROUND_PACKETS = 8
"""Depth of queues in that time, at most."""
PACKET_BYTES = 1_048


@dataclasses.dataclass(frozen=True, slots=True)
class Polling:
    """How often devices are polled: every `period_ns`, or `RUN` or `INCIDENT` by `parts`; and what polls lack."""

    period_ns: int = 0
    by: str = ""
    parts: int = 1
    unaligned: bool = False
    """Each device is polled at times of its own."""
    loss: float = 0.0
    """Probability that a poll of a device is lost: the next one counts for both."""
    frames_only: bool = False
    """Nobody tells how long a port was stopped, but how many pause frames it got."""
    rx_only: bool = False
    """Nobody counts the pause frames that he sends."""
    pad: int = 1
    """So many times longer than the trace: what is added is traffic that nothing holds up."""

    @property
    def is_random(self) -> bool:
        """Whether another seed gives other polls."""
        return self.unaligned or self.loss > 0 or self.pad > 1


def polled(trace: Trace, polling: Polling, draw: np.random.Generator) -> Trace:
    """The trace as polls show it; raises TraceError where polls are to be finer than its counters."""
    counters = trace.counters
    if counters is None or not len(counters.port):
        raise TraceError(f"{trace.name} has no counters that could be polled", "leave period= out for it")
    length_ns = int(counters.end_ns.max())
    period_ns = _period_ns(trace, counters, polling, length_ns)
    phases = np.zeros(len(trace.devices), np.int64)
    if polling.unaligned:
        phases = np.rint(draw.uniform(0, period_ns, len(trace.devices))).astype(np.int64)
    if polling.pad > 1:
        counters = _padded(trace, counters, polling.pad, length_ns, period_ns, draw)
        length_ns *= polling.pad
    if polling.frames_only:
        counters = dataclasses.replace(counters, rx_paused_ns=None)
    if polling.rx_only:
        counters = dataclasses.replace(counters, tx_pause_frames=None)
    polls = -(-length_ns // period_ns) + 1
    times = phases[:, None] + np.arange(polls) * period_ns
    lost = draw.random(times.shape) < polling.loss
    # The last one shows what there is in the end.
    lost[:, -1] = False
    return dataclasses.replace(
        trace,
        period_ns=period_ns,
        pauses=None,
        flow_bytes=None,
        counters=_by_poll(trace, counters, period_ns, times, lost),
    )


def _period_ns(trace: Trace, counters: Counters, polling: Polling, length_ns: int) -> int:
    period_ns = polling.period_ns
    if polling.by == RUN:
        period_ns = length_ns * polling.pad
    elif polling.by == INCIDENT:
        paused = np.zeros(len(counters.port), np.bool_)
        for column in (counters.rx_paused_ns, counters.rx_pause_frames):
            paused |= False if column is None else column > 0
        if not paused.any():
            return length_ns
        incident_ns = int(counters.end_ns[paused].max() - (counters.end_ns - counters.span_ns)[paused].min())
        bins = -(-incident_ns // (polling.parts * trace.period_ns))
        period_ns = bins * trace.period_ns
    if period_ns < trace.period_ns:
        raise TraceError(
            f"{trace.name} has counters of {trace.period_ns} ns, of which polls of {period_ns} ns cannot be made",
            f"give period={trace.period_ns}ns or more",
        )
    return period_ns


def _padded(
    trace: Trace, counters: Counters, pad: int, length_ns: int, period_ns: int, draw: np.random.Generator
) -> Counters:
    """The counters, and behind them those of links that carry BACKGROUND_LOAD with next to no queue."""
    ports = trace.ports
    count = len(ports.device)
    bin_ns = min(period_ns, length_ns)
    bins = -(-length_ns * (pad - 1) // bin_ns)
    load = draw.uniform(*BACKGROUND_LOAD, count)
    sent = np.rint(load * ports.speed_mbps * bin_ns / 8_000).astype(np.int64)
    depth = draw.integers(1, BACKGROUND_PACKETS + 1, count) * PACKET_BYTES
    is_switch = np.array([role == "switch" for role in trace.roles])[ports.device]
    columns: dict[str, Ints | None] = {
        "end_ns": np.repeat(length_ns + bin_ns * np.arange(1, bins + 1), count),
        "span_ns": np.full(bins * count, bin_ns),
        "port": np.tile(np.arange(count), bins),
        "priority": np.full(bins * count, int(counters.priority[0])),
        "tx_bytes": np.tile(sent, bins),
        "rx_bytes": np.tile(sent[ports.peer], bins),
        "q_max_bytes": np.tile(np.where(is_switch, depth, 0), bins),
    }

    def joined(name: str) -> Ints | None:
        before = getattr(counters, name)
        if before is None:
            return None
        added = columns.get(name)
        return np.concatenate((before, np.zeros(bins * count, np.int64) if added is None else added))

    return Counters(**{field.name: joined(field.name) for field in dataclasses.fields(Counters)})  # type: ignore[arg-type]  # by name


def _by_poll(trace: Trace, counters: Counters, period_ns: int, times: Ints, lost: np.ndarray) -> Counters:
    """Sums by port, priority and poll; a bin that a poll cuts is split as if its counts were spread evenly."""
    begin_ns = counters.end_ns - counters.span_ns
    device = trace.ports.device[counters.port]
    first = -(-(begin_ns + 1 - times[device, 0]) // period_ns)
    cut_ns = times[device, 0] + first * period_ns
    share = np.clip((cut_ns - begin_ns) / counters.span_ns, 0.0, 1.0)
    # A bin is no longer than a period, so that one poll at most lies inside.
    goes_on = cut_ns < counters.end_ns
    rows = np.concatenate((np.arange(len(first)), np.flatnonzero(goes_on)))
    poll = np.concatenate((first, first[goes_on] + 1))
    # A lost poll leaves its counts to the next one; polls before the first that is asked for are not lost.
    polls = times.shape[1]
    following = np.where(lost, polls, np.arange(polls))
    following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    before = np.where(lost, -1, np.arange(polls))
    before = np.maximum.accumulate(before, axis=1)
    seen = following[device[rows], np.minimum(poll, polls - 1)]
    key = np.stack((counters.port[rows], counters.priority[rows], seen))
    order = np.lexsort(key[::-1])
    new = np.append(True, (np.diff(key[:, order], axis=1) != 0).any(axis=0))
    start = np.flatnonzero(new)
    port, priority, number = key[:, order[start]]
    of = trace.ports.device[port]
    previous = np.where(number > 0, before[of, np.maximum(number - 1, 0)], -1)
    end_ns = times[of, number]
    since_ns = np.where(previous >= 0, times[of, np.maximum(previous, 0)], times[of, 0] - period_ns)

    def total(values: Ints) -> Ints:
        head = np.where(goes_on, np.floor(values * share).astype(np.int64), values)
        parts = np.concatenate((head, (values - head)[goes_on]))
        return np.add.reduceat(parts[order], start)

    def summed(values: Ints | None) -> Ints | None:
        return None if values is None else total(values)

    depths = counters.q_max_bytes

    return Counters(
        end_ns=end_ns,
        span_ns=end_ns - since_ns,
        port=port,
        priority=priority,
        rx_paused_ns=summed(counters.rx_paused_ns),
        rx_pause_frames=total(counters.rx_pause_frames),
        tx_pause_frames=summed(counters.tx_pause_frames),
        q_max_bytes=None if depths is None else np.maximum.reduceat(depths[rows][order], start),
        tx_bytes=summed(counters.tx_bytes),
        rx_bytes=summed(counters.rx_bytes),
        tx_ce_packets=summed(counters.tx_ce_packets),
        rx_ce_packets=summed(counters.rx_ce_packets),
    )
