"""Spoilt traces: what is lost, moved and silenced, and that everything else stays as it was."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulation.degrade import Degradation, Degraded, degrade
from simulation.trace import read_trace
from simulation.trace_columns import Trace
from simulation.trace_rows import StreamRows, TraceStreams, trace_streams
from simulation.truth import RootKey, read_truth
from stream import kinds
from stream.errors import TraceError
from stream.facts import Device, Flow, Link
from tests.simulation.perfect_answer import perfect_cascade
from tests.simulation.small_trace import write_trace

NS3 = Path(__file__).parents[1] / "data" / "ns3"
INCAST = NS3 / "incast-ls-s1"
START_NS = 1_700_000_000_000_000_000
EVENTS = (kinds.PFC_XOFF, kinds.PFC_XON)


@pytest.fixture(name="incast", scope="module")
def incast_trace() -> Trace:
    return read_trace(INCAST)


def spoilt(trace: Trace, seed: int = 0, roots: dict[RootKey, float] | None = None, **how: Any) -> Degraded:
    found = degrade(trace, roots or {}, Degradation("test", **how), seed, source="trace", epoch="e1", start_ns=START_NS)
    assert found is not None
    return found


def whole(trace: Trace) -> TraceStreams:
    return trace_streams(trace, trace.name, "trace", "e1", START_NS)


def events_of(streams: TraceStreams) -> list[tuple[str, StreamRows, Any]]:
    """Device, stream and row of every pause event."""
    return [
        (rows.device, rows, row)
        for rows in streams.rows
        if rows.topic == "pfc"
        for row in rows.events[np.isin(rows.events["kind"], EVENTS)]
    ]


def counter_rows(streams: TraceStreams) -> list[tuple[str, str, bytes]]:
    """All rows but those of pause events."""
    return [
        (rows.topic, rows.device, rows.events[~np.isin(rows.events["kind"], EVENTS)].tobytes()) for rows in streams.rows
    ]


def ends_of_events(trace: Trace, streams: TraceStreams) -> Counter[tuple[int, int, int]]:
    """How many rows tell of each event, known by its kind, the port that was told and when it was."""
    found: Counter[tuple[int, int, int]] = Counter()
    for device, rows, row in events_of(streams):
        port = trace.ports.index[device, rows.ports[row["port"]]]
        sent = row["side"] == kinds.SIDE_TX
        told = int(trace.ports.peer[port]) if sent else port
        time_ns = int(row["time_ns"]) + (int(trace.ports.delay_ns[told]) if sent else 0)
        found[int(row["kind"]), told, time_ns] += 1
    return found


def test_skew_moves_all_rows_of_a_device_by_one_offset_of_its_own(incast: Trace) -> None:
    before, after = whole(incast), spoilt(incast, skew_ns=1_000_000).streams
    offsets: dict[str, set[int]] = {}
    for old, new in zip(before.rows, after.rows, strict=True):
        assert (old.topic, old.device) == (new.topic, new.device)
        offsets.setdefault(new.device, set()).update((new.events["time_ns"] - old.events["time_ns"]).tolist())
        rest = [name for name in old.events.dtype.names or () if name != "time_ns"]
        assert all((old.events[name] == new.events[name]).all() for name in rest)
    moved = [offset for of_device in offsets.values() for offset in of_device]
    assert len(moved) == len(set(moved)) == sum(map(bool, offsets.values())) > 10


def test_offsets_are_normal_with_the_deviation_asked_for(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path))
    at_ns = [
        int(rows.events["time_ns"][0])
        for seed in range(400)
        for rows in spoilt(trace, seed, skew_ns=1_000_000).streams.rows
        if rows.topic == "pcie"
    ]
    offsets = np.array(at_ns) - START_NS
    # 800 draws: the mean is within 4 and the deviation within 4 of its own standard errors.
    assert abs(offsets.mean()) < 4 * 1_000_000 / 800**0.5
    assert abs(offsets.std() / 1_000_000 - 1) < 4 / (2 * 800) ** 0.5
    assert (np.abs(offsets) < 1_000_000).mean() == pytest.approx(0.683, abs=4 * (0.683 * 0.317 / 800) ** 0.5)


def test_no_row_comes_before_its_source_and_no_stream_ends_before_its_last_row(incast: Trace) -> None:
    before, after = whole(incast), spoilt(incast, skew_ns=1_000_000).streams
    ends = {told.device: down.at_ns for down in (*after.downs_before, after.down) for told in down.streams}
    lasts = {}
    for old, new in zip(before.rows, after.rows, strict=True):
        if len(new.events):
            assert new.events["time_ns"][0] >= after.up.from_ns
            assert ends[new.device] >= new.events["time_ns"][-1]
            lasts[new.device] = ends[new.device] - int(new.events["time_ns"][-1] - old.events["time_ns"][-1])
    # By its own clock, each device ends when the trace does.
    assert set(lasts.values()) == {before.end_ns}
    told = [told for down in (*after.downs_before, after.down) for told in down.streams]
    assert sorted(told, key=lambda one: (one.topic, one.device)) == sorted(
        before.down.streams, key=lambda one: (one.topic, one.device)
    )
    assert after.down.at_ns == after.end_ns == max(ends.values())


def test_the_inventory_is_known_before_the_first_clock_and_flows_open_by_the_clock_of_their_host(
    incast: Trace,
) -> None:
    before, after = whole(incast), spoilt(incast, skew_ns=1_000_000).streams
    offset = {
        old.device: int(new.events["time_ns"][0] - old.events["time_ns"][0])
        for old, new in zip(before.rows, after.rows, strict=True)
        if len(old.events)
    }
    flows = 0
    for old, new in zip(before.facts, after.facts, strict=True):
        if isinstance(old, Flow):
            assert new.valid_from_ns - old.valid_from_ns == offset[old.src_device]
            flows += 1
        else:
            assert isinstance(new, (Device, Link))
            assert new.valid_from_ns == new.stream.mark_ns == after.from_ns
    assert flows


@pytest.mark.parametrize("probability", [0.1, 0.3])
def test_a_lost_event_is_lost_at_both_ends_and_the_counters_go_on(incast: Trace, probability: float) -> None:
    before, after = whole(incast), spoilt(incast, loss=probability).streams
    was, left = ends_of_events(incast, before), ends_of_events(incast, after)
    assert set(was.values()) == set(left.values()) == {2}
    assert left.keys() < was.keys()
    share = 1 - len(left) / len(was)
    assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / len(was)) ** 0.5)
    assert counter_rows(after) == counter_rows(before)


def test_rows_lost_each_by_itself_leave_events_that_one_end_tells_of(incast: Trace) -> None:
    before, after = whole(incast), spoilt(incast, loss_each=0.3).streams
    was, left = ends_of_events(incast, before), ends_of_events(incast, after)
    told = Counter(left.values())
    total = len(was)
    assert told[2] / total == pytest.approx(0.49, abs=4 * (0.49 * 0.51 / total) ** 0.5)
    assert told[1] / total == pytest.approx(0.42, abs=4 * (0.42 * 0.58 / total) ** 0.5)
    assert counter_rows(after) == counter_rows(before)


@pytest.mark.parametrize("how", [{"loss": 0.5}, {"loss_each": 0.5}])
def test_a_loss_leaves_no_hole_in_the_numbers_and_the_end_where_it_was(incast: Trace, how: dict[str, Any]) -> None:
    before, after = whole(incast), spoilt(incast, **how).streams
    assert sum(len(rows.events) for rows in after.rows) < sum(len(rows.events) for rows in before.rows)
    lasts = {(told.topic, told.device): told.last_seq for told in after.down.streams}
    assert lasts == {(rows.topic, rows.device): len(rows.events) - 1 for rows in after.rows}
    assert (after.down.at_ns, after.end_ns, after.up) == (before.down.at_ns, before.end_ns, before.up)
    for rows in after.rows:
        assert (np.diff(rows.events["time_ns"]) >= 0).all()


def test_a_silent_device_tells_nothing_and_its_neighbours_and_the_facts_stay(incast: Trace) -> None:
    before, after = whole(incast), spoilt(incast, missing="leaf2").streams
    assert any(rows.device == "leaf2" for rows in before.rows)
    kept = [(rows.topic, rows.device, rows.events.tobytes()) for rows in before.rows if rows.device != "leaf2"]
    assert [(rows.topic, rows.device, rows.events.tobytes()) for rows in after.rows] == kept
    assert "leaf2" not in {told.device for told in after.up.streams}
    assert "leaf2" not in {told.device for told in after.down.streams}
    assert after.facts == before.facts


def test_a_random_silent_device_is_any_switch_but_a_true_root() -> None:
    folder = NS3 / "two_roots-ls-s1"
    trace, roots = read_trace(folder), read_truth(folder).roots
    silent = {spoilt(trace, seed, roots, missing="random").silent for seed in range(60)}
    guilty = {root.device for root in perfect_cascade(folder).roots}
    switches = {name for name, role in zip(trace.devices, trace.roles, strict=True) if role == "switch"}
    assert {"leaf3", "leaf0"} <= guilty
    assert silent == switches - guilty


@pytest.mark.parametrize("case", ["incast-ft4-s1", "nic_storm-ls-s1", "slow_receiver-ft4-s1"])
def test_the_roots_switch_is_the_root_itself_or_the_one_that_the_host_is_linked_to(case: str) -> None:
    folder = NS3 / case
    device = perfect_cascade(folder).roots[0].device
    with (folder / "links.csv").open(newline="") as file:
        joined = {row["a"]: row["b"] for row in csv.DictReader(file) if row["a"].startswith("h")}
    assert spoilt(read_trace(folder), 0, read_truth(folder).roots, missing="root").silent == joined.get(device, device)


@pytest.mark.parametrize(("missing", "roots"), [("random", {("s0", "p2"): 1.0}), ("root", {})])
def test_where_no_device_can_be_missing_as_asked_there_is_no_run(
    tmp_path: Path, missing: str, roots: dict[RootKey, float]
) -> None:
    trace = read_trace(write_trace(tmp_path))
    how = Degradation("test", missing=missing)
    assert degrade(trace, roots, how, 0, source="trace", epoch="e1", start_ns=START_NS) is None


def test_a_missing_device_that_does_not_exist_is_an_error(incast: Trace) -> None:
    with pytest.raises(TraceError, match="incast-ls-s1 has no device 'leaf99' to be missing; name one"):
        spoilt(incast, missing="leaf99")


def test_a_seed_gives_the_same_run_and_another_seed_another(incast: Trace) -> None:
    def rows(seed: int) -> list[bytes]:
        return [rows.events.tobytes() for rows in spoilt(incast, seed, loss_each=0.3, skew_ns=1000).streams.rows]

    assert rows(1) == rows(1)
    assert rows(1) != rows(2)


def test_disturbances_do_together_what_each_does_alone(incast: Trace) -> None:
    both = spoilt(incast, skew_ns=1_000_000, loss=0.3, loss_each=0.3, missing="leaf2").streams
    skewed, lost = spoilt(incast, skew_ns=1_000_000).streams, spoilt(incast, loss=0.3).streams
    first = {rows.device: int(rows.events["time_ns"][0]) for rows in skewed.rows if rows.topic == "pcie"}
    assert first
    for rows in both.rows:
        if rows.topic == "pcie":
            assert int(rows.events["time_ns"][0]) == first[rows.device]
    left = {(device, int(row["time_ns"])) for device, _, row in events_of(lost)}
    offset = {device: at_ns - START_NS for device, at_ns in first.items()}
    seen = {(device, int(row["time_ns"]) - offset[device]) for device, _, row in events_of(both) if device in offset}
    assert seen
    assert seen < left


def test_a_trace_without_randomness_says_so() -> None:
    assert not Degradation("test", missing="root", drop=frozenset({"paths"}), shifted_ns=1, scaled=2.0).is_random
    for how in ({"skew_ns": 1}, {"loss": 0.1}, {"loss_each": 0.1}, {"missing": "random"}, {"renamed": True}):
        assert Degradation("test", **how).is_random


def test_a_shift_moves_everything_and_nothing_else(incast: Trace) -> None:
    after = spoilt(incast, shifted_ns=3600 * 10**9)
    later = trace_streams(incast, incast.name, "trace", "e1", START_NS + 3600 * 10**9)
    assert after.start_ns == later.from_ns == after.streams.from_ns
    assert after.streams.facts == later.facts
    assert [rows.events.tobytes() for rows in after.streams.rows] == [rows.events.tobytes() for rows in later.rows]


def test_counters_that_begin_anew_tell_no_value_and_say_so(incast: Trace) -> None:
    before, after = whole(incast), spoilt(incast, resets=0.2).streams
    counted = (kinds.PFC_PAUSED, kinds.PFC_FRAMES, kinds.ECN_MARKED, kinds.PORT_BYTES)
    hit: dict[tuple[str, int], set[bool]] = {}
    for one, other in zip(before.rows, after.rows, strict=True):
        is_counter = np.isin(one.events["kind"], counted)
        assert one.events[~is_counter].tobytes() == other.events[~is_counter].tobytes()
        own, lost = other.events[is_counter], other.events["quality"][is_counter] & kinds.RESET != 0
        assert (own["value"][lost] == kinds.UNKNOWN).all()
        assert own[~lost].tobytes() == one.events[is_counter][~lost].tobytes()
        for end, is_lost in zip(own["time_ns"].tolist(), lost.tolist(), strict=True):
            hit.setdefault((one.device, end), set()).add(is_lost)
    # All counters of a device begin anew at once.
    assert all(len(said) == 1 for said in hit.values())
    assert 0.15 < sum(said == {True} for said in hit.values()) / len(hit) < 0.25
    other_seed = spoilt(incast, 1, resets=0.2).streams
    assert [rows.events.tobytes() for rows in other_seed.rows] != [rows.events.tobytes() for rows in after.rows]
