"""Without a hook, the bytes of a job tell its period, its steps, and the rank that is late; or say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from analytics.inferred_steps import InferredSteps
from analytics.stalls import Stall, Stalls
from analytics.step_period import (
    AS_HIGH,
    LEAST_CORRELATION,
    LEAST_PERIODS,
    SCALE,
    WINDOW,
    StepPeriod,
    autocorrelation,
    period_bins,
)
from analytics.stragglers import Rank, StepRow
from simulation.training import Training, draw_training
from stream.kinds import COMPUTE_TIME, STEP_TIME

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
MS = 1_000_000
Cell = tuple[int, dict[Rank, int], dict[Rank, int]]
"""A bin, and what each rank sent and received in it."""


def correlation_by_scipy(series: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The slow, obvious twin."""
    scaled = series * SCALE // series.max()
    around = scaled - scaled.mean()
    whole = signal.correlate(around, around, mode="full", method="direct")[len(around) - 1 :]
    return np.asarray(whole / whole[0])[: len(series) // LEAST_PERIODS + 1]


def period_by_scipy(series: Ints) -> float | None:
    correlation = correlation_by_scipy(series)
    peaks, _ = signal.find_peaks(correlation)
    negative = np.flatnonzero(correlation < 0)
    peaks = [lag for lag in peaks if len(negative) and lag > negative[0]]
    if not peaks or max(correlation[peaks]) < LEAST_CORRELATION:
        return None
    heights = {lag: correlation[lag] * len(series) / (len(series) - lag) for lag in peaks}
    lag = next(lag for lag in peaks if heights[lag] >= AS_HIGH * max(heights.values()))
    a, b, c = np.polyfit([-1, 0, 1], correlation[lag - 1 : lag + 2], 2)
    return float(lag - b / (2 * a)) if c else None


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_the_period_is_that_of_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, period = int(random.integers(64, 600)), random.uniform(5, 60)
    phase = (np.arange(count) % period) / period
    series = ((phase < random.uniform(0.1, 0.6)) * 10**9 + random.integers(0, 3 * 10**8, count)).astype(np.int64)
    np.testing.assert_allclose(autocorrelation(series), correlation_by_scipy(series), rtol=0, atol=1e-12)
    found, expected = period_bins(series), period_by_scipy(series)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found == pytest.approx(expected, abs=1e-6)


def test_noise_a_constant_and_too_little_have_no_period() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        assert period_bins(random.integers(0, 10**9, 400)) is None
    assert period_bins(np.full(400, 7)) is None
    assert period_bins(np.tile([0, 9], 10)) is None


def test_the_window_is_bounded_and_follows_what_changes() -> None:
    period = StepPeriod()
    for length in (50, 80):
        for tick in range(2 * WINDOW):
            period.take(10**9 if tick % length < 8 else 0)
        assert len(period) == WINDOW
        assert period.bins() == pytest.approx(length, abs=0.1)
    with pytest.raises(ValueError, match="-1 sent"):
        period.take(-1)


def bytes_of(run: Training, bin_ns: int) -> list[Cell]:
    """What the NICs of a job count bin by bin: each rank sends to the next from the end of its compute on."""
    release_ns, spans = 10**9, []
    for computes, ends in zip(run.compute_ns.tolist(), run.step_ns.tolist(), strict=True):
        for rank, compute_ns in enumerate(computes):
            # It ends when it has sent and when it has got everything: the exchange is what lies behind the later.
            begins = max(compute_ns, computes[rank - 1])
            exchange_ns = ends[rank] - begins
            spans.append((rank, release_ns + compute_ns, release_ns + compute_ns + exchange_ns))
        release_ns += max(ends)
    return _binned(spans, bin_ns, run.compute_ns.shape[1])


def _binned(spans: list[tuple[int, int, int]], bin_ns: int, ranks: int) -> list[Cell]:
    sent: dict[int, dict[Rank, int]] = {}
    received: dict[int, dict[Rank, int]] = {}
    for rank, begin_ns, end_ns in spans:
        for tick in range(begin_ns // bin_ns, -(-end_ns // bin_ns)):
            moved = max(min(end_ns, (tick + 1) * bin_ns) - max(begin_ns, tick * bin_ns), 0) * 12
            for of, who in ((sent, rank), (received, (rank + 1) % ranks)):
                cells = of.setdefault(tick, {})
                cells[f"h{who}", "eth0"] = cells.get((f"h{who}", "eth0"), 0) + moved
    return [(tick, sent[tick], received[tick]) for tick in sorted(sent)]


def inferred(run: Training, bin_ns: int) -> tuple[InferredSteps, list[StepRow]]:
    job = InferredSteps(7, bin_ns)
    rows = [row for cell in bytes_of(run, bin_ns) for row in job.take(*cell)]
    return job, rows + job.finish()


def stalls_of(rows: list[StepRow]) -> list[Stall]:
    found = Stalls()
    found.take(rows)
    return found.finish()


def test_steps_are_those_that_hooks_would_tell_within_a_bin() -> None:
    run, bin_ns = draw_training(3, faulty=False), MS
    job, rows = inferred(run, bin_ns)
    assert job.period_ns == pytest.approx(np.median(run.step_ns.max(axis=1)), rel=0.02)
    by_step: dict[tuple[int, int], dict[str, int]] = {}
    for row in rows:
        by_step.setdefault((row.step, row.kind), {})[row.device] = row.value_ns
    assert len(by_step) == 2 * (len(run.step_ns) - 1)
    for (step, kind), times in by_step.items():
        known = (run.step_ns if kind == STEP_TIME else run.compute_ns)[step + 1]
        assert len(times) == len(known)
        # A bin at the release, and one at the end.
        assert all(abs(times[f"h{rank}"] - ns) <= 2 * bin_ns for rank, ns in enumerate(known.tolist()))


def test_the_rank_that_slows_down_is_named_without_a_hook_and_none_in_healthy_jobs() -> None:
    right, seeds = 0, range(20)
    for seed in seeds:
        run = draw_training(seed, faulty=True)
        bin_ns = int(np.median(run.step_ns)) // 80
        stalls = stalls_of(inferred(run, bin_ns)[1])
        right += any([behind.device for behind in stall.ranks_behind] == [f"h{run.straggler}"] for stall in stalls)
        healthy = draw_training(seed, faulty=False)
        assert not any(stall.ranks_behind for stall in stalls_of(inferred(healthy, bin_ns)[1]))
    assert right >= 0.95 * len(seeds)


def test_a_step_of_several_exchanges_is_one_step() -> None:
    # Three collectives a step of 100 ms, the longest silence in front of the first.
    spans = [
        (rank, (100 * step + begin + rank) * MS, (100 * step + begin + 6 + rank) * MS)
        for step in range(30)
        for begin in (40, 60, 80)
        for rank in range(4)
    ]
    job = InferredSteps(7, MS)
    rows = [row for cell in _binned(spans, MS, 4) for row in job.take(*cell)] + job.finish()
    assert job.period_ns == pytest.approx(100 * MS, rel=0.01)
    lengths = {row.value_ns for row in rows if row.kind == STEP_TIME and row.device == "h0"}
    assert lengths == {100 * MS}
    assert {row.value_ns for row in rows if row.kind == COMPUTE_TIME and row.device == "h3"} == {54 * MS}


def test_bins_come_once_and_in_order() -> None:
    job = InferredSteps(7, MS)
    job.take(5, {}, {})
    with pytest.raises(ValueError, match="bin 5 after bin 5"):
        job.take(5, {}, {})
    with pytest.raises(ValueError, match="lasts some time"):
        InferredSteps(7, 0)


def test_polls_too_long_for_the_steps_tell_no_rank_and_no_false_period() -> None:
    run = draw_training(3, faulty=False)
    step_ns = int(np.median(run.step_ns.max(axis=1)))
    for bins in (0.77, 1.3, 1.9, 5, 20):
        job, rows = inferred(run, int(step_ns / bins))
        assert rows == []
        assert job.period_ns in (0, pytest.approx(step_ns, rel=0.15))
