"""Scores of many series are those of NumPy and SciPy on lists, with ties, gaps and infinities, whatever the order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import median_abs_deviation

from analytics.tails import past, peers
from analytics.tails.series import Tails
from tests.reference.tails import Series, against_peers

SAMPLES = st.one_of(
    st.integers(0, 5).map(float),  # ties
    st.floats(-1e12, 1e12),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e300, -1e300, 5e-324]),
)


def table(rows: int, columns: int, seed: int) -> npt.NDArray[np.float64]:
    """Samples by tick and series: some vary, some are whole numbers, some shift, some are not seen."""
    random = np.random.default_rng(seed)
    values = 100 + random.standard_normal((rows, columns))
    values[:, ::3] = np.round(values[:, ::3])
    values[rows // 2 :, 1::4] += random.choice([0.7, 5.0, 50.0])
    values[random.random(values.shape) < 0.1] = np.nan
    return values


@given(
    st.lists(st.lists(SAMPLES, min_size=3, max_size=3), min_size=40, max_size=90),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.01]),
)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_a_series_scores_against_its_own_past_as_numpy_and_scipy_say(
    rows: list[list[float]], least: float, relative: float
) -> None:
    tails = Tails([0, 0, 0], least=least, relative=relative, half_lives=(2.0, 5.0))
    twins = [Series(least, relative, (2.0, 5.0)) for _ in range(3)]
    for tick, samples in enumerate(rows):
        scores = tails.take(tick, np.array(samples)).against_past
        with np.errstate(over="ignore", invalid="ignore"):
            expected = [twin.take(tick, x) for twin, x in zip(twins, samples, strict=True)]
        assert scores.tolist() == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
    assert tails.rising.tolist() == [twin.up for twin in twins]
    assert tails.falling.tolist() == [twin.down for twin in twins]


@pytest.mark.parametrize("seed", range(2))
def test_long_series_keep_to_their_twins(seed: int) -> None:
    values = table(360, 6, seed)
    tails, twins = Tails(np.zeros(6)), [Series(0.0, 0.0, (10.0, 300.0)) for _ in range(6)]
    ticks = np.cumsum(np.random.default_rng(seed).integers(1, 40, len(values)))
    for tick, samples in zip(ticks.tolist(), values, strict=True):
        scores = tails.take(tick, samples).against_past.tolist()
        assert scores == pytest.approx(
            [twin.take(tick, x) for twin, x in zip(twins, samples, strict=True)], rel=0, abs=0, nan_ok=True
        )
    assert tails.rising.tolist() == [twin.up for twin in twins]
    assert tails.medians().tolist() == [twin.median() for twin in twins]
    # The tables of decay are of 1e-16 as exact as the powers; sums of some hundred terms lose four digits at most.
    assert tails.recent().tolist() == pytest.approx([twin.mean(10.0) for twin in twins], rel=1e-12)
    assert tails.usual().tolist() == pytest.approx([twin.mean(300.0) for twin in twins], rel=1e-12)


def test_decayed_means_are_those_of_scipys_filter() -> None:
    values = 100 + np.random.default_rng(3).standard_normal(500)
    tails = Tails([0], half_lives=(7.0, 90.0))
    for tick, x in enumerate(values):
        tails.take(tick, np.array([x]))
    for half_life, mean in ((7.0, tails.recent()), (90.0, tails.usual())):
        kept = 0.5 ** (1 / half_life)
        sums, weights = (lfilter([1.0], [1.0, -kept], each) for each in (values, np.ones(500)))
        assert mean[0] == pytest.approx(sums[-1] / weights[-1], rel=1e-12)


@given(st.lists(st.tuples(SAMPLES, st.integers(0, 2)), min_size=1, max_size=40))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_peers_score_as_numpy_and_scipy_say(samples: list[tuple[float, int]]) -> None:
    values, groups = [x for x, _ in samples], [group for _, group in samples]
    scores = Tails(groups).take(0, np.array(values)).against_peers
    with np.errstate(over="ignore", invalid="ignore"):
        expected = against_peers(values, groups, 0.0, 0.0)
    assert scores.tolist() == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("values", ["normal", "rising", "falling", "organ pipe", "two values", "equal"])
@pytest.mark.parametrize("count", [5, 24, 25, 1000, 4321])
def test_groups_of_any_size_and_order_have_numpys_median(values: str, count: int) -> None:
    rising = np.arange(count, dtype=np.float64)
    samples = {
        "normal": np.random.default_rng(count).standard_normal(count),
        "rising": rising,
        "falling": rising[::-1],
        "organ pipe": np.minimum(rising, rising[::-1]),
        "two values": rising % 2,
        "equal": np.ones(count),
    }[values].copy()
    samples[::7] = np.nan
    tails = Tails(np.zeros(count))
    tails.take(0, samples)
    (row,) = tails.of_groups
    assert row[peers.COUNTED] == np.isfinite(samples).sum()
    assert row[peers.MEDIAN] == np.nanmedian(samples)
    assert row[peers.DEVIATION] == median_abs_deviation(samples, nan_policy="omit")
    assert row[peers.MEAN] == pytest.approx(np.nanmean(samples), rel=1e-12, abs=1e-12)
    assert (row[peers.LEAST_SEEN], row[peers.MOST_SEEN]) == (np.nanmin(samples), np.nanmax(samples))


def test_each_place_that_is_selected_parts_the_smaller_from_the_larger() -> None:
    random = np.random.default_rng(8)
    for k in range(0, 200, 7):
        a = random.integers(0, 40, 200).astype(np.float64)
        before = np.sort(a)
        assert peers.select(a, 0, 200, k) == before[k] == a[k]
        assert (a[:k] <= a[k]).all()
        assert (a[k:] >= a[k]).all()
        assert np.sort(a).tolist() == before.tolist()


WAVE = [100.0, 101.0, 99.0, 102.0, 98.0]
"""Median 100; the MAD of each block of 15 is 1, so that a standard deviation counts as 1.57."""


def after_a_wave(samples: int = 60) -> Tails:
    tails = Tails([0])
    for tick in range(samples):
        tails.take(tick, np.array([WAVE[tick % 5]]))
    return tails


def test_a_small_shift_that_lasts_is_found_by_cusum_where_no_sample_is_far() -> None:
    tails = after_a_wave()
    assert tails.rising[0] < 1
    scores: list[float] = []
    while tails.rising[0] < past.ALARM:
        scores.append(float(tails.take(60 + len(scores), np.array([103.0])).against_past[0]))
    assert len(scores) == 4
    assert max(scores) == pytest.approx(3 / (1.4826 * 15 / 14.2))
    assert max(scores) < past.FAR / 1.5
    ten_later = [tails.take(70 + tick, np.array([100.0])) and float(tails.rising[0]) for tick in range(20)]
    assert ten_later[10] < past.ALARM
    assert ten_later[-1] == 0
    assert tails.falling[0] < 1


def test_one_far_sample_raises_no_alarm_and_two_do() -> None:
    tails = after_a_wave()
    tails.take(60, np.array([1e9]))
    assert tails.rising[0] < past.ALARM
    tails.take(61, np.array([1e9]))
    assert tails.rising[0] >= past.ALARM


def test_what_stays_far_for_a_whole_past_is_usual_from_then_on() -> None:
    tails = after_a_wave()
    scores = [float(tails.take(60 + k, np.array([400 + WAVE[k % 5]])).against_past[0]) for k in range(200)]
    assert min(scores[: past.BLOCK * past.BLOCKS]) >= past.FAR
    assert np.isnan(scores[past.BLOCK * past.BLOCKS])
    assert max(scores[-20:]) < past.FAR
    assert tails.medians()[0] == 500


def test_what_never_varied_is_not_far_for_a_grain_where_a_least_deviation_is_given() -> None:
    grain, dust = Tails([0], least=1.0), Tails([0])
    for tick in range(past.BLOCK * past.LEAST):
        assert np.isnan(grain.take(tick, np.array([7.0])).against_past[0])
        dust.take(tick, np.array([7.0]))
    assert grain.take(99, np.array([8.0])).against_past[0] == 1.0
    assert dust.take(99, np.array([8.0])).against_past[0] == float("inf")


def test_how_often_chance_makes_a_sample_far_or_an_alarm_is_what_the_docs_say() -> None:
    random = np.random.default_rng(1)
    tails, far, alarms, before = Tails(np.zeros(500)), 0, 0, np.zeros(500, np.bool_)
    for tick in range(400):
        scores = tails.take(tick, random.standard_normal(500))
        alarmed = tails.rising >= past.ALARM
        if tick >= 150:
            far += int((np.abs(scores.against_past) >= past.FAR).sum())
            alarms += int((alarmed & ~before).sum())
        before = alarmed
    assert 0.001 < far / (250 * 500) < 0.004
    assert 0.003 < alarms / (250 * 500) < 0.007
    for tick in range(400, 420):
        tails.take(tick, 1 + random.standard_normal(500))
        before |= tails.rising >= past.ALARM
    assert before.mean() > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_scores_do_not_depend_on_how_series_came_or_on_restarts(seed: int) -> None:
    values, random = table(160, 30, seed), np.random.default_rng(seed)
    groups = random.integers(0, 4, 30)
    whole, parts = Tails(groups), Tails(groups[:10])
    parts.grow(groups[10:])
    order = random.permutation(30)
    turned = Tails(groups[order])
    for tick, samples in enumerate(values):
        expected = [score.tobytes() for score in whole.take(tick, samples)]
        assert [score.tobytes() for score in parts.take(tick, samples)] == expected
        back = [np.empty(30), np.empty(30)]
        for score, into in zip(turned.take(tick, samples[order]), back, strict=True):
            into[order] = score
        assert [score.tobytes() for score in back] == expected
        if random.random() < 0.2:
            again = Tails()
            again.load(parts.state())
            assert again.state() == parts.state()
            parts = again
    assert parts.state() == whole.state()


def test_a_million_series_take_what_is_said_of_them() -> None:
    few = Tails(np.zeros(1_000))
    assert past.ROW * 8 == 328
    # Their state, groups, order, two scores and the room to sort in.
    assert few.nbytes <= 1_000 * (328 + 8 + 8 + 16 + 16) + 100


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros(4)])
def test_another_number_of_samples_is_an_error(wrong: npt.NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="samples of 3 series"):
        Tails([0, 0, 0]).take(0, wrong)


def test_groups_below_zero_are_an_error() -> None:
    with pytest.raises(ValueError, match="count from 0"):
        Tails([0, -1])
