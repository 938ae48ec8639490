"""Polls of a trace: nothing is lost or made by them, and what they lack is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulation.polling import Polling, polled
from simulation.trace import read_trace
from simulation.trace_columns import Trace
from stream.errors import TraceError

NS3 = Path(__file__).parents[1] / "data" / "ns3"
COLUMNS = ("rx_paused_ns", "rx_pause_frames", "tx_pause_frames", "tx_bytes", "rx_bytes", "tx_ce_packets")


@pytest.fixture(name="trace", scope="module")
def incast_trace() -> Trace:
    return read_trace(NS3 / "incast-ls-s1")


@pytest.mark.parametrize(
    "polling",
    [
        Polling(by="run"), Polling(by="incident", parts=4), Polling(1_000_000, unaligned=True),
        Polling(250_000, unaligned=True, loss=0.3), Polling(100_000),
    ],
)  # fmt: skip
def test_polls_count_what_the_bins_did(trace: Trace, polling: Polling) -> None:
    done = polled(trace, polling, np.random.default_rng(1))
    before, after = trace.counters, done.counters
    assert before is not None
    assert after is not None
    count = len(trace.ports.device)
    for column in COLUMNS:
        values = [np.bincount(c.port, getattr(c, column), minlength=count) for c in (before, after)]
        assert values[0].tolist() == values[1].tolist(), column
    assert before.q_max_bytes is not None
    assert after.q_max_bytes is not None
    peaks = [np.zeros(count, np.int64) for _ in range(2)]
    np.maximum.at(peaks[0], before.port, before.q_max_bytes)
    np.maximum.at(peaks[1], after.port, after.q_max_bytes)
    assert peaks[0].tolist() == peaks[1].tolist()
    assert done.pauses is None
    assert done.flow_bytes is None
    # Polls of one port follow each other without a gap, but for those that counted nothing.
    whole = after.span_ns % done.period_ns == 0
    assert whole.all()
    assert (after.span_ns > done.period_ns).any() == (polling.loss > 0)


def test_each_device_is_polled_at_times_of_its_own(trace: Trace) -> None:
    done = polled(trace, Polling(1_000_000, unaligned=True), np.random.default_rng(1))
    assert done.counters is not None
    device = trace.ports.device[done.counters.port]
    phases = {(int(d), int(end) % 1_000_000) for d, end in zip(device, done.counters.end_ns, strict=True)}
    assert len(phases) == len({d for d, _ in phases})
    assert len({phase for _, phase in phases}) > 10


def test_what_is_padded_pauses_nobody(trace: Trace) -> None:
    done = polled(trace, Polling(by="run", pad=20), np.random.default_rng(1))
    before, after = trace.counters, done.counters
    assert before is not None
    assert after is not None
    assert done.period_ns == 20 * before.end_ns.max()
    assert after.rx_paused_ns is not None
    assert before.rx_paused_ns is not None
    assert after.rx_paused_ns.sum() == before.rx_paused_ns.sum()
    assert after.tx_bytes is not None
    load = after.tx_bytes.sum() * 8_000 / (trace.ports.speed_mbps * done.period_ns).sum()
    assert 0.3 < load < 0.5


def test_polls_finer_than_the_counters_are_an_error(trace: Trace) -> None:
    with pytest.raises(TraceError, match="polls of 50000 ns cannot be made"):
        polled(trace, Polling(50_000), np.random.default_rng(1))


def test_what_polls_lack_is_not_told(trace: Trace) -> None:
    done = polled(trace, Polling(1_000_000, frames_only=True, rx_only=True), np.random.default_rng(1))
    assert done.counters is not None
    assert done.counters.rx_paused_ns is None
    assert done.counters.tx_pause_frames is None
    assert done.counters.rx_pause_frames.any()
