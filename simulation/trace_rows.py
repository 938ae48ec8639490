"""Turns a trace into streams of records: what probes and collectors of that fabric would have published.

In: a `Trace`. Out: `TraceStreams`: the roster changes, facts and rows of one source; every stream sorted by time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulation.trace_columns import Counters, FlowBytes, Flows, HostPcie, PauseEvents, Ports, Trace
from simulation.trace_facts import trace_facts, trace_flow_ids
from simulation.trace_steps import step_rows
from simulation.trace_table import Ints
from stream import kinds
from stream.batch import StreamKey
from stream.errors import ConfigError
from stream.facts import TOPIC_OF_FACT, Fact
from stream.kinds import SIDE_RX, SIDE_TX, UNKNOWN
from stream.record import MAX_TIME_NS, Events, empty_events
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.topics import FACTS


@dataclass(frozen=True, slots=True, eq=False)
class StreamRows:
    """All rows of one stream, sorted by time; `ports` names what the rows' port indices mean."""

    topic: str
    device: str
    ports: tuple[str, ...]
    events: Events


@dataclass(frozen=True, slots=True, eq=False)
class TraceStreams:
    """A trace as one source publishes it. `down` ends the streams of `rows`; `facts_down` ends those of `facts`.

    Where clocks differ, streams end one device after the other: `downs_before` ends those that `down` does not.
    """

    up: SourceUp
    facts: tuple[Fact, ...]
    facts_down: SourceDown
    rows: tuple[StreamRows, ...]
    down: SourceDown
    from_ns: int
    end_ns: int
    downs_before: tuple[SourceDown, ...] = ()

    def key(self, rows: StreamRows) -> StreamKey:
        """Identity of a stream of this source."""
        return StreamKey(self.up.fabric, self.up.source, self.up.epoch, rows.topic, rows.device)


def trace_streams(trace: Trace, fabric: str, source: str, epoch: str, start_ns: int) -> TraceStreams:
    """The trace as one source's streams, begun at start_ns (ns since the Unix epoch)."""
    if not 0 <= start_ns < MAX_TIME_NS:
        raise ConfigError(f"a trace cannot begin at {start_ns} ns", "give a time from 1970 to 2116")
    columns = _Columns(trace.ports)
    watched: dict[str, Ints] = {"pfc": np.arange(len(trace.devices), dtype=np.int64)}
    if trace.pauses is not None:
        _add_pauses(columns, trace.pauses)
    if trace.counters is not None:
        _add_counters(columns, trace.counters)
        devices = np.unique(trace.ports.device[trace.counters.port])
        # A row of zeros is left out by the layout, so that a device with any row was watched all the time.
        if trace.counters.q_max_bytes is not None or trace.counters.tx_bytes is not None:
            watched["queue"] = devices
        if trace.counters.tx_ce_packets is not None or trace.counters.rx_ce_packets is not None:
            watched["ecn"] = devices
    if trace.flow_bytes is not None and trace.flows is not None:
        _add_flow_bytes(columns, trace.flow_bytes, trace.flows)
        watched["flowbytes"] = np.unique(trace.ports.device[trace.flow_bytes.port])
    if trace.pcie is not None:
        _add_pcie(columns, trace.pcie)
        watched["pcie"] = np.unique(trace.ports.device[trace.pcie.port])

    port_names = _port_names(trace)
    rows: list[StreamRows] = []
    for topic, devices in watched.items():
        for device, events in columns.streams(topic, devices, start_ns):
            rows.append(StreamRows(topic, trace.devices[device], port_names[device], events))
    for host, rank, events in step_rows(trace.steps) if trace.steps is not None else ():
        events["time_ns"] += start_ns
        rows.append(StreamRows("host", trace.devices[host], (rank,), events))
    end_ns = max((int(stream.events["time_ns"][-1]) for stream in rows if len(stream.events)), default=start_ns)
    if end_ns > MAX_TIME_NS:
        raise ConfigError("the trace would end after 2116", "give a time that is earlier by its length")
    facts = trace_facts(trace, fabric, source, epoch, start_ns)
    fact_counts = dict.fromkeys(FACTS, 0) | _counts(facts)
    periods = _periods(trace)
    up = SourceUp(
        fabric,
        source,
        epoch,
        start_ns,
        (
            *(StreamUp(topic) for topic in FACTS),
            *(StreamUp(stream.topic, stream.device, periods.get(stream.topic, 0)) for stream in rows),
        ),
    )
    facts_down = SourceDown(
        fabric, source, epoch, start_ns, tuple(StreamDown(topic, "", fact_counts[topic] - 1) for topic in FACTS)
    )
    down = SourceDown(
        fabric, source, epoch, end_ns,
        tuple(StreamDown(stream.topic, stream.device, len(stream.events) - 1) for stream in rows),
    )  # fmt: skip
    return TraceStreams(up, facts, facts_down, tuple(rows), down, start_ns, end_ns)


def _counts(facts: tuple[Fact, ...]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for fact in facts:
        counts[TOPIC_OF_FACT[type(fact)]] += 1
    return counts


def _periods(trace: Trace) -> dict[str, int]:
    """Window of each topic's counters; with exact events pfc is a topic of instants, to which its counters only add."""
    periods = {"queue": trace.period_ns, "ecn": trace.period_ns, "flowbytes": trace.period_ns}
    if trace.pauses is None and trace.counters is not None:
        periods["pfc"] = trace.period_ns
    return periods


def _port_names(trace: Trace) -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = [()] * len(trace.devices)
    for device, name in zip(trace.ports.device.tolist(), trace.ports.names, strict=True):
        names[device] += (name,)
    return names


class _Columns:
    """Rows of all devices by topic, collected array by array and then cut into streams."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._parts: defaultdict[str, list[tuple[Ints, Events]]] = defaultdict(list)

    def add(self, topic: str, port: Ints, **fields: npt.ArrayLike) -> None:
        """Rows at these ports with these fields of the record; times are those of the trace."""
        events = empty_events(len(port))
        events["port"] = self.ports.local[port]
        for field, values in fields.items():
            events[field] = values
        self._parts[topic].append((self.ports.device[port], events))

    def streams(self, topic: str, devices: Ints, start_ns: int) -> list[tuple[int, Events]]:
        """The topic's rows of each device, sorted by time; rows of equal time stay in the order of the files."""
        parts = self._parts[topic]
        owner = np.concatenate([part[0] for part in parts] or [np.zeros(0, np.int64)])
        events = np.concatenate([part[1] for part in parts] or [empty_events(0)])
        order = np.lexsort((events["time_ns"], owner))
        owner, events = owner[order], events[order]
        events["time_ns"] += start_ns
        first, last = np.searchsorted(owner, devices, "left"), np.searchsorted(owner, devices, "right")
        return [
            (device, events[begin:end])
            for device, begin, end in zip(devices.tolist(), first.tolist(), last.tolist(), strict=True)
        ]


def _add_pauses(columns: _Columns, pauses: PauseEvents) -> None:
    """Each event twice: where it was received, and at the sender one link delay earlier."""
    ports = columns.ports
    sent_ns = np.maximum(pauses.time_ns - ports.delay_ns[pauses.port], 0)
    for side, time_ns, port in ((SIDE_RX, pauses.time_ns, pauses.port), (SIDE_TX, sent_ns, ports.peer[pauses.port])):
        columns.add(
            "pfc",
            port,
            kind=np.where(pauses.xoff, kinds.PFC_XOFF, kinds.PFC_XON),
            side=side,
            time_ns=time_ns,
            value=np.where(pauses.xoff, UNKNOWN, 0),
            priority=pauses.priority,
            quality=kinds.EXACT,
        )


def _add_counters(columns: _Columns, counters: Counters) -> None:
    """One row a measure and side; where a measure is 0 there is no row, as in the trace itself."""

    def add(topic: str, kind: int, side: int, value: Ints | None, extra: Ints | None = None) -> None:
        if value is None:
            return
        seen = value > 0 if extra is None else (value > 0) | (extra > 0)
        columns.add(
            topic,
            counters.port[seen],
            kind=kind,
            side=side,
            time_ns=counters.end_ns[seen],
            span_ns=counters.span_ns[seen],
            value=value[seen],
            extra=UNKNOWN if extra is None else extra[seen],
            priority=counters.priority[seen],
        )

    if counters.rx_paused_ns is None:
        add("pfc", kinds.PFC_FRAMES, SIDE_RX, counters.rx_pause_frames)
    else:
        add("pfc", kinds.PFC_PAUSED, SIDE_RX, counters.rx_paused_ns, counters.rx_pause_frames)
    # The side that sends pause counts frames; how long the peer then stood still only the peer knows.
    add("pfc", kinds.PFC_FRAMES, SIDE_TX, counters.tx_pause_frames)
    add("queue", kinds.QUEUE_DEPTH, SIDE_TX, counters.q_max_bytes)
    add("queue", kinds.PORT_BYTES, SIDE_TX, counters.tx_bytes)
    add("queue", kinds.PORT_BYTES, SIDE_RX, counters.rx_bytes)
    add("ecn", kinds.ECN_MARKED, SIDE_TX, counters.tx_ce_packets)
    add("ecn", kinds.ECN_MARKED, SIDE_RX, counters.rx_ce_packets)


def _add_flow_bytes(columns: _Columns, flow_bytes: FlowBytes, flows: Flows) -> None:
    seen = flow_bytes.tx_bytes > 0
    row = flow_bytes.flow[seen]
    columns.add(
        "flowbytes",
        flow_bytes.port[seen],
        kind=kinds.FLOW_BYTES,
        side=SIDE_TX,
        time_ns=flow_bytes.end_ns[seen],
        span_ns=flow_bytes.span_ns[seen],
        value=flow_bytes.tx_bytes[seen],
        extra=UNKNOWN,
        flow=np.array(trace_flow_ids(flows), np.uint64)[row],
        priority=flows.priority[row],
    )


def _add_pcie(columns: _Columns, pcie: HostPcie) -> None:
    columns.add("pcie", pcie.port, kind=kinds.PCIE_RATE, value=pcie.now_mbps, extra=pcie.max_mbps)
