"""What limits first as load grows is what runs with a known fault have planted, whatever the order of rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analytics.capacity import HEADROOM, LINK, SLOT, Capacity, Limit
from simulation.trace import read_trace
from simulation.trace_items import trace_items
from simulation.trace_rows import trace_streams
from stream import kinds
from stream.batch import Batch, StreamKey
from stream.kinds import BY_NAME
from stream.record import empty_events

DATA = Path(__file__).resolve().parents[1] / "data"
SECOND_NS = 1_000_000_000


def of_trace(path: Path, order: int = 0) -> list[Limit]:
    trace = read_trace(path)
    names = zip(trace.ports.device.tolist(), trace.ports.names, strict=True)
    speeds = dict(
        zip(((trace.devices[device], port) for device, port in names), trace.ports.speed_mbps.tolist(), strict=True)
    )
    capacity = Capacity(speeds)
    for item in trace_items(trace_streams(trace, "f", "s", "e", 0), order=order):
        if isinstance(item, Batch):
            capacity.take(item)
    return capacity.finish()


@pytest.mark.parametrize(
    "name",
    [
        "ns3/slow_receiver-ft4-s1", "ns3/degraded_link-ls-s1", "ns3/incast-ls-s1", "ns3/ring_slow-ls-s1",
        "sim/two_slow-ft8-s36",
    ],
)  # fmt: skip
def test_the_planted_fault_limits_first(name: str) -> None:
    planted = json.loads((DATA / name / "truth.json").read_text())["expected_roots"][0]
    limits = of_trace(DATA / name)
    first = [limit for limit in limits if limit.times == limits[0].times]
    if planted["cls"] == "slow_receiver":
        assert [(limit.resource, limit.device) for limit in first] == [(SLOT, planted["device"])]
        assert first[0].rate_mbps < first[0].nominal_mbps
    else:
        # The slot of a host that an incast goes to carries what its link does.
        assert (LINK, planted["device"], planted["port"]) in {(each.resource, each.device, each.port) for each in first}


def test_the_order_of_rows_does_not_matter() -> None:
    expected = of_trace(DATA / "ns3/degraded_link-ls-s1")
    assert of_trace(DATA / "ns3/degraded_link-ls-s1", order=1) == expected
    assert expected[0].rate_mbps < 0.3 * expected[0].nominal_mbps  # it ran at 20 of 100 Gb/s


def rows(*cells: tuple[int, int, int, int]) -> Batch:
    """Kind, side, value and second measure, of one window of a second."""
    events = empty_events(len(cells))
    events["kind"], events["side"], events["value"], events["extra"] = np.array(cells).T
    events["time_ns"], events["span_ns"] = 2 * SECOND_NS, SECOND_NS
    return Batch(StreamKey("lab", "s", "e", "queue", "h1"), 0, 0, ("eth0",), events)


def test_use_is_bytes_against_the_rate_of_the_busier_direction() -> None:
    capacity = Capacity({("h1", "eth0"): 100_000})
    capacity.take(
        rows((kinds.PORT_BYTES, kinds.SIDE_TX, 1_250_000_000, 0), (kinds.PORT_BYTES, kinds.SIDE_RX, 2_500_000_000, 0))
    )
    width, speed = kinds.PCIE_WIDTH, kinds.PCIE_SPEED
    capacity.take(rows((width, 0, 4, 16), (speed, 0, 16_000, 16_000), (BY_NAME["HEADROOM"].code, 1, 30_000, 40_000)))
    headroom, slot, link = capacity.finish()
    assert (headroom.resource, headroom.use) == (HEADROOM, 0.75)
    assert (slot.resource, slot.rate_mbps, slot.nominal_mbps) == (SLOT, 63_015, 252_062)
    assert slot.use == pytest.approx(20_000 / 63_015)
    assert link.resource == LINK
    assert link.use == pytest.approx(0.1)
    assert link.times == pytest.approx(10)


def test_a_slot_is_as_full_as_since_it_came_to_its_rate() -> None:
    """Polled each second: half of its rate for a second of full, then four fifths of a quarter of it for three."""
    capacity = Capacity({})
    for second, (rate_mbps, sent) in enumerate([(100_000, 6_250_000_000), *[(25_000, 2_500_000_000)] * 3]):
        batch = rows((kinds.PCIE_RATE, 0, rate_mbps, 100_000), (kinds.PORT_BYTES, kinds.SIDE_TX, sent, 0))
        batch.events["time_ns"] = [second * SECOND_NS, (second + 1) * SECOND_NS]
        capacity.take(batch)
    (slot,) = capacity.finish()
    assert (slot.rate_mbps, slot.nominal_mbps) == (25_000, 100_000)
    assert slot.use == pytest.approx(0.8)


def short_windows(*windows: tuple[int, int, int]) -> Batch:
    """Of 100 us each: the window's number, bytes sent, peak of the queue."""
    events = empty_events(2 * len(windows))
    for at, (number, sent, peak) in enumerate(windows):
        some = events[2 * at : 2 * at + 2]
        some["kind"], some["value"] = (kinds.PORT_BYTES, kinds.QUEUE_DEPTH), (sent, peak)
        some["side"], some["span_ns"] = kinds.SIDE_TX, 100_000
        some["time_ns"] = (number + 1) * 100_000
    return Batch(StreamKey("lab", "s", "e", "queue", "leaf"), 0, 0, ("p1",), events)


def test_a_link_that_had_a_queue_has_the_rate_that_it_sent_at_and_the_use_of_that_time() -> None:
    capacity = Capacity({("leaf", "p1"): 100_000})
    fast = [(number, 1_250_000, 0) for number in range(10)]
    slow = [(number, 250_000, 400_000) for number in range(10, 20)]
    capacity.take(short_windows(*fast, *slow, *((number, 1_250_000, 0) for number in range(20, 30))))
    (link,) = capacity.finish()
    assert (link.rate_mbps, link.nominal_mbps) == (20_000, 100_000)
    assert link.use == pytest.approx(1.0)


def test_what_a_queue_sent_before_and_after_silence_is_no_rate() -> None:
    """Bursts whose windows are full but for the last: between them nobody tells of a queue."""
    capacity = Capacity({("leaf", "p1"): 100_000})
    for burst in range(8):
        first = 100 * burst
        capacity.take(short_windows((first, 1_250_000, 1_000_000), (first + 1, 300_000, 1_000_000)))
    (link,) = capacity.finish()
    assert link.rate_mbps == 100_000


def test_a_slot_that_carried_more_than_its_rate_is_full() -> None:
    capacity = Capacity({})
    capacity.take(rows((kinds.PCIE_RATE, 0, 25_000, 100_000), (kinds.PORT_BYTES, kinds.SIDE_TX, 5_000_000_000, 0)))
    (slot,) = capacity.finish()
    assert (slot.use, slot.times) == (1.0, 1.0)


def test_what_is_not_known_limits_nothing() -> None:
    capacity = Capacity({})
    capacity.take(
        rows(
            (kinds.PORT_BYTES, kinds.SIDE_TX, 9, 0),
            (kinds.PCIE_WIDTH, 0, 4, 16),
            (kinds.PCIE_RATE, 0, kinds.UNKNOWN, 5),
        )
    )
    assert capacity.finish() == []
    assert Capacity({}).finish() == []
