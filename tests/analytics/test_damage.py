"""What a stop cost a flow: rates against NumPy and SciPy, and where a past is told at all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import median_abs_deviation

from analytics.damage import MAX_DEVIATION_MILLI, MIN_PAST, damages
from analytics.topology import PRIORITIES
from analytics.victims import FlowRows
from tests.analytics.engine_by_names import topology_of
from tests.analytics.random_runs import leaf_spine
from tests.analytics.test_victims import Window, sent

WINDOW_NS = 100_000


FABRIC = topology_of(leaf_spine(2, 1, 2))
OF_HOST = [port * PRIORITIES for port, device in enumerate(FABRIC.port_device.tolist()) if FABRIC.is_host[device]]
OF_SWITCH = [port * PRIORITIES for port, device in enumerate(FABRIC.port_device.tolist()) if not FABRIC.is_host[device]]


def windows(flow: int, queue: int, amounts: list[int], begin_ns: int = 0) -> list[Window]:
    """A tenth of a millisecond each."""
    return [
        (flow, queue, begin_ns + i * WINDOW_NS, begin_ns + (i + 1) * WINDOW_NS, amount)
        for i, amount in enumerate(amounts)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_rates_and_deviations_are_those_of_numpy_and_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    past = draw.integers(1, 1_250_000, draw.integers(MIN_PAST, 40)).tolist()
    during = draw.integers(0, 1_250_000, 3).tolist()
    start = len(past) * WINDOW_NS
    rows = sent(windows(7, OF_HOST[0], past) + windows(7, OF_HOST[0], during, start))
    found = damages(rows, {7: (start + 1, start + 3 * WINDOW_NS - 1)}, start, FABRIC)[7]
    rates = [amount * 8 // 100 for amount in past]
    assert found.usual_mbps == int(np.median(rates))
    assert found.mbps == sum(during) * 8 // 300
    spread = median_abs_deviation(np.array(rates) - found.usual_mbps, center=lambda x, axis: 0, scale="normal")
    assert found.deviation_milli is not None
    expected = np.clip((found.usual_mbps - found.mbps) / spread * 1000, -MAX_DEVIATION_MILLI, MAX_DEVIATION_MILLI)
    assert found.deviation_milli == pytest.approx(expected, rel=0.02, abs=2)


def test_what_is_not_sent_while_it_is_held_up_counts_as_nothing() -> None:
    past = windows(7, OF_HOST[0], [100_000] * 4)
    held = [(7, OF_HOST[0], 4 * WINDOW_NS, 5 * WINDOW_NS, 100_000)]
    found = damages(sent(past + held), {7: (4 * WINDOW_NS, 8 * WINDOW_NS)}, 4 * WINDOW_NS, FABRIC)[7]
    assert (found.usual_mbps, found.mbps, found.deviation_milli) == (8_000, 2_000, None)


def test_a_flow_that_sent_nothing_any_more_has_no_rate() -> None:
    found = damages(
        sent(windows(7, OF_HOST[0], [1_000, 2_000, 4_000])), {7: (3 * WINDOW_NS, 9 * WINDOW_NS)}, 3 * WINDOW_NS, FABRIC
    )[7]
    assert found.mbps == 0


def test_its_own_host_is_asked_before_any_switch() -> None:
    at_host = windows(7, OF_HOST[1], [100_000] * 3)
    at_switch = windows(7, OF_SWITCH[0], [50_000] * 9)
    held = {7: (3 * WINDOW_NS, 4 * WINDOW_NS)}
    assert damages(sent(at_switch + at_host), held, 9 * WINDOW_NS, FABRIC)[7].usual_mbps == 8_000
    assert damages(sent(at_switch), held, 9 * WINDOW_NS, FABRIC)[7].usual_mbps == 4_000


@pytest.mark.parametrize("past", [[], [1], [1, 1], [0] * 10, [1, 1, 0, 0]])
def test_too_short_a_past_tells_nothing(past: list[int]) -> None:
    rows: FlowRows = sent(windows(7, OF_HOST[0], past))
    assert damages(rows, {7: (0, WINDOW_NS)}, 10 * WINDOW_NS, FABRIC) == {}


def test_the_past_is_as_long_as_windows_are_certain_to_be_kept() -> None:
    rows = sent(windows(7, OF_HOST[0], [1_000_000] * 500) + windows(7, OF_HOST[0], [100_000] * 101, 500 * WINDOW_NS))
    assert damages(rows, {7: (601 * WINDOW_NS, 602 * WINDOW_NS)}, 601 * WINDOW_NS, FABRIC)[7].deviation_milli is None


def test_other_flows_and_later_windows_are_not_its_past() -> None:
    rows = sent(
        windows(6, OF_HOST[0], [9_000_000] * 9)
        + windows(7, OF_HOST[0], [100_000] * 3)
        + windows(7, OF_HOST[0], [9_000_000] * 9, 3 * WINDOW_NS)
    )
    assert damages(rows, {7: (4 * WINDOW_NS, 5 * WINDOW_NS)}, 3 * WINDOW_NS, FABRIC)[7].usual_mbps == 8_000
