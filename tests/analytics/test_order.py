"""The order of rows is that of NumPy's lexsort over all columns that count, however many rows are of one time."""

from __future__ import annotations

import numpy as np
import pytest

from analytics import layout
from analytics.order import choose, pick_in_order
from analytics.topology import PRIORITIES

PORTS = 5


@pytest.mark.parametrize("seed", range(40))
def test_rows_come_in_the_order_of_a_sort_by_every_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, kinds = int(rng.integers(0, 400)), int(rng.integers(1, 4))
    rows = rng.integers(-1, kinds, (count, layout.ROW_COLUMNS))
    rows[:, layout.ROW_TYPE] = rng.integers(0, 5, count)
    rows[:, layout.ROW_QUEUE] = rng.integers(0, PORTS * PRIORITIES, count)
    flows = rng.integers(0, kinds, count).astype(np.uint64) << np.uint64(62)
    port_rank = rng.permutation(PORTS)
    due = rng.random(count) < 0.8
    chosen = np.flatnonzero(due)
    rank = port_rank[rows[:, layout.ROW_QUEUE] // PRIORITIES] * PRIORITIES + rows[:, layout.ROW_QUEUE] % PRIORITIES
    columns = [rows[:, layout.ROW_AMOUNT], rows[:, layout.ROW_ORDER], rows[:, layout.ROW_START], rank,
               rows[:, layout.ROW_TYPE], rows[:, layout.ROW_TIME]]  # fmt: skip
    expected = chosen[np.lexsort([column[chosen] for column in (flows, *columns)])]
    picked, of_flows = np.empty_like(rows[chosen]), np.empty_like(flows[chosen])
    pick_in_order(rows, flows, port_rank, choose(rows, 0, due), picked, of_flows)
    assert picked.tolist() == rows[expected].tolist()
    assert of_flows.tolist() == flows[expected].tolist()


@pytest.mark.parametrize("span", [0, 1, 1 << 11, 1 << 40, layout.FOREVER - layout.NEVER])
def test_times_however_far_apart_come_in_order(span: int) -> None:
    rng = np.random.default_rng(7)
    rows = np.zeros((1_000, layout.ROW_COLUMNS), np.int64)
    rows[:, layout.ROW_TIME] = layout.NEVER + (rng.random(1_000) * span).astype(np.uint64).view(np.int64)
    rows[:, layout.ROW_ID] = np.arange(1_000)
    picked, flows = np.empty_like(rows), np.zeros(1_000, np.uint64)
    pick_in_order(rows, flows, np.zeros(PORTS, np.int64), choose(rows, layout.NEVER + span + 1), picked, flows.copy())
    assert picked[:, layout.ROW_ID].tolist() == np.argsort(rows[:, layout.ROW_TIME], kind="stable").tolist()
