"""What verdicts on polls say: classes, deadlocks, silent switches, and counters that began anew."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from analytics.missing import GAPS, SILENT, UNTOLD
from analytics.offline import final_cascades
from pausetrace.degrade_spec import parse_degradation
from pausetrace.explanation import explain
from simulation.degrade import degrade
from simulation.trace import read_trace
from simulation.trace_columns import Counters, Trace
from simulation.trace_items import trace_items
from simulation.trace_rows import StreamRows
from stream import kinds
from stream.cascade import Cascade, Root
from stream.kinds import GAP, RESET, UNKNOWN
from stream.roster import StreamDown

NS3 = Path(__file__).parents[1] / "data/ns3"
START_NS = 1_700_000_000_000_000_000
BIN_NS = 100_000


def cascades(trace: Trace, how: str, spoilt: bool = False, mute: str = "") -> list[Cascade]:
    """The final cascades of a trace that is polled.

    `spoilt`: counters that began anew between its rows; `mute`: a device whose streams are up and have no row.
    """
    done = degrade(trace, {}, parse_degradation(how), 0, source="trace", epoch="e", start_ns=START_NS)
    assert done is not None
    streams = done.streams
    if spoilt:
        draw = Random(trace.name)
        rows = tuple(began_anew(each, draw) if each.topic == "pfc" else each for each in streams.rows)
        streams = dataclasses.replace(streams, rows=rows)
    if mute:
        rows = tuple(dataclasses.replace(each, events=each.events[: len(each.events) * (each.device != mute)])
                     for each in streams.rows)  # fmt: skip
        downs = tuple(StreamDown(each.topic, each.device, len(each.events) - 1) for each in rows)
        down = msgspec.structs.replace(streams.down, streams=downs)
        streams = dataclasses.replace(streams, rows=rows, down=down)
    return list(final_cascades(trace_items(streams)))


def began_anew(rows: StreamRows, draw: Random) -> StreamRows:
    """The rows, where some windows of pauses are of counters that began anew: nobody knows what they counted."""
    events = rows.events.copy()
    counted = np.isin(events["kind"], (kinds.PFC_PAUSED, kinds.PFC_FRAMES))
    for at in np.flatnonzero(counted & (np.array([draw.random() for _ in events]) < 0.2)):
        events[at]["value"] = events[at]["extra"] = UNKNOWN
        events[at]["quality"] |= RESET | GAP
    return dataclasses.replace(rows, events=events)


def first_root(found: list[Cascade]) -> Root:
    return max(found, key=lambda cascade: cascade.pause_ns).roots[0]


def standing(bins: int, sent_bytes: int) -> Trace:
    """The recorded ring of queues that stop each other, standing still for `bins` more bins than were recorded.

    In those each queue sends `sent_bytes`.
    """
    trace = read_trace(NS3 / "deadlock-hk-s4")
    counters = trace.counters
    assert counters is not None
    assert counters.rx_paused_ns is not None
    assert counters.tx_bytes is not None
    stopped = np.flatnonzero((counters.end_ns == 5 * BIN_NS) & (counters.rx_paused_ns == BIN_NS))
    assert len(stopped) == 8  # of switches and of their hosts
    chosen = np.concatenate((np.flatnonzero(counters.end_ns <= 5 * BIN_NS), np.tile(stopped, bins)))
    columns = {field.name: getattr(counters, field.name) for field in dataclasses.fields(Counters)}
    columns = {name: None if values is None else values[chosen] for name, values in columns.items()}
    added = len(stopped) * bins
    columns["end_ns"] = columns["end_ns"].copy()
    columns["end_ns"][-added:] += BIN_NS * np.repeat(np.arange(1, bins + 1), len(stopped))
    columns["tx_bytes"] = columns["tx_bytes"].copy()
    columns["tx_bytes"][-added:] = sent_bytes
    return dataclasses.replace(trace, counters=Counters(**columns))


@pytest.mark.parametrize("how", ["period=100us", "period=500us", "period=500us,unaligned"])
def test_a_ring_that_stands_still_over_many_polls_is_a_deadlock(how: str) -> None:
    found = cascades(standing(100, 0), how)
    assert first_root(found).root_class == "pfc_deadlock"
    assert "sent nothing" in " ".join(first_root(found).evidence)


def test_a_ring_that_sends_now_and_then_is_none() -> None:
    assert first_root(cascades(standing(100, 1_000), "period=500us")).root_class == "cyclic_dependency"


@pytest.mark.parametrize("how", ["period=run", "period=incident/2", "period=1ms", "period=incident/4,unaligned"])
@pytest.mark.parametrize(
    ("trace", "root_class"),
    [
        ("degraded_link-ls-s1", "link_degraded"),
        ("ecmp_collision-ls-s1", "ecmp_collision"),
        ("spine_downlink-ls-s2", "ecmp_collision"),
    ],
)
def test_the_bytes_of_a_poll_tell_a_slow_link_from_a_collision(trace: str, root_class: str, how: str) -> None:
    assert first_root(cascades(read_trace(NS3 / trace), how)).root_class == root_class


def test_where_other_traffic_fills_the_poll_a_link_has_no_class_and_that_counts() -> None:
    found = max(cascades(read_trace(NS3 / "degraded_link-ls-s1"), "period=run,pad=20"), key=lambda one: one.pause_ns)
    assert found.roots[0].root_class == "unclassified"
    assert found.suspect_set
    assert found.confidence_ppm <= 500_000


def test_a_silent_switch_is_named_and_what_it_would_have_told() -> None:
    found = cascades(read_trace(NS3 / "nic_storm-ls-s1"), "period=incident/4,missing=spine0")
    (told,) = [cascade for cascade in found if any(root.device == "h5" for root in cascade.roots)]
    assert told.mode == "sampled"
    assert f"{SILENT} spine0" in told.missing_evidence
    (section,) = [section for section in explain(told).sections if section.name == "missing"]
    assert any(
        "spine0 was silent. It stopped leaf0:p5" in said and "would have told which of its queues" in said
        for said in section.sentences
    )


def shares(found: list[Cascade]) -> dict[tuple[str, str], float]:
    """By root, its part of the pause time of all cascades."""
    total_ns, summed = sum(cascade.pause_ns for cascade in found), dict[tuple[str, str], float]()
    for cascade in found:
        for root in cascade.roots:
            key = root.device, root.port
            summed[key] = summed.get(key, 0.0) + root.share_ppm / 1e6 * cascade.pause_ns / total_ns
    return summed


@pytest.mark.parametrize("switch", ["leaf0", "leaf1", "spine0"])
def test_a_switch_whose_streams_are_up_and_empty_is_silent(switch: str) -> None:
    trace = read_trace(NS3 / "nic_storm-ls-s1")
    mute, missing = cascades(trace, "period=run", mute=switch), cascades(trace, f"period=run,missing={switch}")
    assert shares(mute) == pytest.approx(shares(missing))
    assert shares(mute)["h5", ""] > 0.9
    told = next(cascade for cascade in mute if cascade.roots[0].device == "h5")
    assert f"{UNTOLD} {switch}" in told.missing_evidence


@pytest.mark.parametrize("how", ["period=run", "period=incident/4"])
def test_a_silent_switch_that_was_stopped_itself_is_no_root(how: str) -> None:
    trace = read_trace(NS3 / "nic_storm-ls-s1")
    for switch in ("spine0", "leaf0", "leaf2"):
        told = shares(cascades(trace, f"{how},missing={switch}"))
        assert told["h5", ""] > 0.9, (switch, told)


def test_the_bytes_of_its_neighbours_point_at_the_egress_of_a_silent_root() -> None:
    found = cascades(read_trace(NS3 / "degraded_link-ls-s1"), "period=incident/4,missing=leaf1")
    told = max(found, key=lambda one: one.pause_ns)
    assert (told.roots[0].device, told.roots[0].port) == ("leaf1", "p7")
    assert f"{SILENT} leaf1" in told.missing_evidence


def test_counters_that_began_anew_pause_nobody() -> None:
    assert cascades(read_trace(NS3 / "normal-ls-s1"), "period=1ms") == []
    assert cascades(read_trace(NS3 / "normal-ls-s1"), "period=1ms", spoilt=True) == []


def test_counters_that_began_anew_are_told_and_hide_no_root() -> None:
    trace = read_trace(NS3 / "nic_storm-ls-s1")
    (whole,), (told,) = cascades(trace, "period=300us"), cascades(trace, "period=300us", spoilt=True)
    assert (told.roots[0].device, told.roots[0].root_class) == ("h5", "nic_pfc_storm")
    assert 0.6 * whole.pause_ns < told.pause_ns < whole.pause_ns
    assert any(sentence.startswith(GAPS) for sentence in told.missing_evidence)
