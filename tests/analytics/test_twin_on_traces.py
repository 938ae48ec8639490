"""The recorded cases as the slow twins see them, from frames to cascades: the steps say the same."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from analytics.offline import final_cascades
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams
from stream import kinds
from stream.facts import Device, Link
from tests.analytics.long_runs import TRACES, recorded
from tests.analytics.test_blame import cascade_id
from tests.reference.attribution import Attribution, Root, Window
from tests.reference.cascades import Cascade, Cascades
from tests.reference.pauses import Frame, Interval, Told, match, pair
from tests.reference.topology import Fabric


def twin_of(streams: TraceStreams) -> tuple[Cascades, int]:
    """What the twins make of a trace's own rows, and when it ends."""
    fabric = Fabric()
    for fact in streams.facts:
        if isinstance(fact, Device) and fact.role == "host":
            fabric.hosts.add(fact.device)
        elif isinstance(fact, Link):
            fabric.link((fact.a_device, fact.a_port), (fact.b_device, fact.b_port))
    told: list[Told] = []
    windows: list[Window] = []
    for rows in streams.rows:
        frames = []
        for row in rows.events:
            queue = (rows.device, rows.ports[row["port"]], int(row["priority"]))
            time_ns, kind = int(row["time_ns"]), int(row["kind"])
            if kind in (kinds.PFC_XOFF, kinds.PFC_XON) and row["side"] == kinds.SIDE_RX:
                frames.append(Frame(time_ns, queue, kind == kinds.PFC_XOFF))
            elif kind == kinds.QUEUE_DEPTH:
                windows.append(Window(queue, time_ns - int(row["span_ns"]), time_ns, int(row["value"])))
        for episode in pair(frames).episodes:
            assert isinstance(episode.queue, tuple)
            told.append(Told(episode.time_ns, episode.queue, episode.ends, episode.order, episode.span_ns))
    intervals = [ended(interval, streams.end_ns) for interval in match(told).intervals]
    return Cascades(Attribution(fabric, intervals, windows)), streams.end_ns


def ended(interval: Interval, end_ns: int) -> Interval:
    """A pause that is open when its source goes down ends there."""
    if interval.end_ns is not None:
        return interval
    return dataclasses.replace(interval, end_ns=end_ns, paused_ns=end_ns - interval.start_ns)


def shares(twin: Cascades, cascade: Cascade, end_ns: int) -> dict[Root, float]:
    scores = twin.root_ns(cascade, end_ns)
    total = sum(scores.values())
    return {root: 1e6 * ns / total for root, ns in scores.items() if total and root[0] in ("host", "egress", "unknown")}


@pytest.mark.parametrize("trace", TRACES)
def test_the_steps_say_of_a_trace_what_the_twins_say(trace: str) -> None:
    # Of what flows and counters of paused time add there are twins of their own.
    streams = without_paused_time(recorded(trace, frozenset({"flows"})))
    twin, end_ns = twin_of(streams)
    expected = {cascade_id(cascade): cascade for cascade in twin.all()}
    found = {cascade.id: cascade for cascade in final_cascades(trace_items(streams))}
    assert found.keys() == expected.keys()
    for name, cascade in expected.items():
        told = found[name]
        queues = twin.queues(cascade, end_ns)
        assert (told.start_ns, told.end_ns) == (cascade.first()[0], cascade.last_ns)
        assert {(q.device, q.port, q.priority): (q.pauses, q.pause_ns) for q in told.queues} == {
            queue: (tally.pauses, tally.pause_ns) for queue, tally in queues.items()
        }
        whole = shares(twin, cascade, end_ns)
        named = {_root(root.kind, root.device, root.port, root.priority): root.share_ppm for root in told.roots}
        assert named.keys() >= {root for root, ppm in whole.items() if ppm >= 20_002}
        assert named.keys() <= {root for root, ppm in whole.items() if ppm >= 19_998}
        for root, ppm in named.items():
            assert ppm == pytest.approx(whole[root], abs=2)


def without_paused_time(streams: TraceStreams) -> TraceStreams:
    """The streams without rows of PFC_PAUSED."""
    rows = []
    for stream in streams.rows:
        kept = stream.events[stream.events["kind"] != kinds.PFC_PAUSED]
        rows.append(dataclasses.replace(stream, events=kept))
    ends = tuple(
        msgspec.structs.replace(end, last_seq=len(stream.events) - 1)
        for end, stream in zip(streams.down.streams, rows, strict=True)
    )
    return dataclasses.replace(streams, rows=tuple(rows), down=msgspec.structs.replace(streams.down, streams=ends))


def _root(kind: str, device: str, port: str, priority: int) -> Root:
    return ("egress", device, port, priority) if kind == "egress" else (kind, device)
