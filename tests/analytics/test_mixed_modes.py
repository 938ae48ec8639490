"""Devices that log their pauses and devices that are polled meet in one cascade."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from analytics.offline import final_cascades
from pausetrace.degrade_spec import parse_degradation
from simulation.degrade import degrade
from simulation.judge import score
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import TraceStreams, trace_streams
from simulation.truth import read_truth
from stream.roster import StreamDown

NS3 = Path(__file__).parents[1] / "data" / "ns3"
START_NS = 1_700_000_000_000_000_000


def mixed(trace: str, how: str, logging: str) -> TraceStreams:
    """The trace with devices whose names begin so logging their pauses, and all others polled."""
    read = read_trace(NS3 / trace)
    done = degrade(read, {}, parse_degradation(how), 0, source="trace", epoch="e", start_ns=START_NS)
    assert done is not None
    polled = done.streams
    exact = trace_streams(read, read.name, "trace", "e", START_NS)

    def logs(device: str) -> bool:
        return device.startswith(logging)

    rows = tuple(r for r in exact.rows if logs(r.device)) + tuple(r for r in polled.rows if not logs(r.device))
    facts = tuple(up for up in exact.up.streams if not up.device)
    ups = tuple(up for up in exact.up.streams if up.device and logs(up.device)) + tuple(
        up for up in polled.up.streams if up.device and not logs(up.device)
    )
    downs = tuple(StreamDown(r.topic, r.device, len(r.events) - 1) for r in rows)
    return dataclasses.replace(
        exact,
        rows=rows,
        up=msgspec.structs.replace(exact.up, streams=facts + ups),
        down=msgspec.structs.replace(exact.down, streams=downs, at_ns=max(exact.end_ns, polled.end_ns)),
    )


@pytest.mark.parametrize(("trace", "logging"), [("incast-ls-s1", "spine"), ("slow_receiver_multi-ls-s1", "leaf1")])
def test_exact_and_sampled_devices_share_a_cascade(trace: str, logging: str) -> None:
    found = final_cascades(trace_items(mixed(trace, "period=300us,unaligned", logging)))
    largest = max(found, key=lambda cascade: cascade.pause_ns)
    assert largest.mode == "mixed"
    assert set(largest.modes.values()) == {"exact", "sampled"}
    assert {mode for device, mode in largest.modes.items() if device.startswith(logging)} == {"exact"}
    windows = score(read_truth(NS3 / trace), found, start_ns=START_NS, flows_known=False, suspects=True).windows
    assert windows[0].top1
    assert windows[0].blame_distance is not None
    assert windows[0].blame_distance < 0.1
    # No stop is told twice: the whole is what one kind of device alone tells of it.
    alone = final_cascades(trace_items(trace_streams(read_trace(NS3 / trace), "lab", "trace", "e", START_NS)))
    paused_ns = sum(cascade.pause_ns for cascade in alone)
    assert sum(cascade.pause_ns for cascade in found) == pytest.approx(paused_ns, rel=0.1)


def test_a_fabric_that_logs_is_exact_as_ever() -> None:
    read = read_trace(NS3 / "incast-ls-s1")
    found = final_cascades(trace_items(trace_streams(read, read.name, "trace", "e", START_NS)))
    assert {cascade.mode for cascade in found} == {"exact"}
    assert all(cascade.periods is None and not cascade.modes for cascade in found)
