"""Among many ports the one that stands out is told, with what the mean of all said; whatever the order of rows."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from analytics.tails import fleet
from analytics.tails.fleet import Fleet, Tail, TooManyRowsError
from stream.batch import Batch, StreamKey
from stream.kinds import BY_NAME, LINK_ERRORS, PFC_PAUSED, QUEUE_DEPTH, SIDE_RX, SIDE_TX, UNKNOWN
from stream.record import empty_events

S = 1_000_000_000
MS = 1_000_000
PORTS = tuple(f"p{port}" for port in range(16))


def paused(tick: int, device: str, paused_ms: list[float], ports: tuple[str, ...] = PORTS) -> Batch:
    """Polls of a second: how long the queue of each port was stopped."""
    events = empty_events(len(paused_ms))
    events["kind"], events["side"], events["priority"] = PFC_PAUSED, SIDE_RX, 3
    events["time_ns"], events["span_ns"] = (tick + 1) * S, S
    events["value"] = [UNKNOWN if np.isnan(ms) else int(ms * MS) for ms in paused_ms]
    events["port"] = range(len(paused_ms))
    return Batch(StreamKey("lab", "gnmi", "e", "pfc", device), 0, 0, ports, events)


def polls(bad_from: int = 60, until: int = 90) -> list[Batch]:
    """64 ports that are stopped for about 20 ms of each second; from some tick on one of them for 400."""
    random = np.random.default_rng(4)
    batches = []
    for tick in range(until):
        for leaf in range(4):
            stopped = 20 + 2 * random.standard_normal(16)
            if leaf == 2 and tick >= bad_from:
                stopped[5] = 400
            batches.append(paused(tick, f"leaf{leaf}", stopped.tolist()))
    return batches


def tails_of(batches: list[Batch], period_ns: int = S) -> list[Tail]:
    found = Fleet(period_ns, lambda device, _: device.rstrip("0123456789"))
    for batch in batches:
        found.take(batch)
    return found.finish()


def test_the_port_that_stands_out_is_told_beside_the_mean_that_hardly_moves() -> None:
    (tail,) = tails_of(polls())
    assert (tail.measure, tail.device, tail.port, tail.priority) == ("stopped", "leaf2", "p5", 3)
    assert (tail.role, tail.peers) == ("leaf, priority 3", 64)
    assert (tail.since_ns, tail.until_ns, tail.ticks) == (60 * S, 90 * S, 30)
    assert tail.value == pytest.approx(40.0)
    assert tail.peer_median == pytest.approx(2.0, abs=0.2)
    # One of 64 ports: the mean rises from 2 % to 2.6 % of the time while that port loses 40 %.
    assert tail.peer_mean == pytest.approx(2 + 38 / 64, abs=0.1)
    assert tail.mean_before is not None
    assert tail.mean_before < 2.3
    assert tail.against_peers > 30
    assert tail.against_past is not None
    assert tail.against_past > 30


def test_what_is_as_it_ever_was_stands_out_from_no_past() -> None:
    assert tails_of(polls(bad_from=0)) != []  # nobody knows it otherwise
    batches = polls(bad_from=0)
    late = [tail for tail in tails_of(batches) if tail.against_past is not None]
    assert late == []


def test_two_ticks_are_too_few() -> None:
    assert tails_of(polls(bad_from=60, until=62)) == []
    assert len(tails_of(polls(bad_from=60, until=63))) == 1


def test_healthy_ports_do_not_stand_out() -> None:
    assert tails_of(polls(bad_from=1_000)) == []


def test_unknown_values_and_windows_without_length_are_passed_over() -> None:
    batches = polls()
    batches[300] = paused(75, "leaf2", [float("nan")] * 16)
    instants = paused(80, "leaf2", [900.0] * 16)
    instants.events["span_ns"] = 0
    (tail,) = tails_of([*batches, instants])
    assert tail.port == "p5"


@pytest.mark.parametrize("seed", range(4))
def test_tails_do_not_depend_on_the_order_of_rows_or_on_batches(seed: int) -> None:
    batches, random = polls(), np.random.default_rng(seed)
    expected = msgspec.json.encode(tails_of(batches))
    parts = []
    for batch in batches:
        cut = int(random.integers(0, 17))
        parts += [
            msgspec.structs.replace(batch, events=part[random.permutation(len(part))])
            for part in (batch.events[:cut], batch.events[cut:])
        ]
    assert msgspec.json.encode(tails_of([parts[i] for i in random.permutation(len(parts))])) == expected


def test_rows_of_one_tick_are_added_up_or_the_largest_counts() -> None:
    ports = tuple(f"p{port}" for port in range(8))
    batches = []
    for tick in range(10):
        for kind, side, values in ((QUEUE_DEPTH, SIDE_TX, [10_000, 900_000]), (LINK_ERRORS, SIDE_RX, [40, 60])):
            for part, value in enumerate(values):
                events = empty_events(8)
                events["kind"], events["side"] = kind, side
                events["time_ns"], events["span_ns"] = tick * S + (part + 1) * S // 2, S // 2
                events["port"] = range(8)
                events["value"][3] = value
                batches.append(Batch(StreamKey("lab", "g", "e", "queue", "leaf0"), 0, 0, ports, events))
    depth, errors = sorted(tails_of(batches), key=lambda tail: tail.value, reverse=True)
    assert (depth.measure, depth.port, depth.value) == ("queue peak", "p3", 900_000)
    assert (errors.measure, errors.port, errors.value) == ("link errors", "p3", 100.0)


def test_too_many_rows_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MAX_ROWS", 20)
    with pytest.raises(TooManyRowsError, match="--from"):
        tails_of(polls())


def test_every_measure_reads_a_kind_that_has_its_unit() -> None:
    for measure in fleet.MEASURES:
        assert any(kind.code == measure.kind for kind in BY_NAME.values())
    assert len({(m.kind, m.side) for m in fleet.MEASURES}) == len(fleet.MEASURES)
