"""A paged table is a plain one that takes less room."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.fleet import Fleet, Series
from collectors.paged_table import PAGE_BITS, PagedTable
from collectors.path_map import PathMap
from collectors.paths import PathTable
from collectors.profiles import load
from stream.counters import Counters

ROWS = 12


@pytest.mark.parametrize("seed", range(5))
def test_it_holds_what_a_plain_table_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    paged, plain = PagedTable(np.int64, -7), np.full((ROWS, 0), -7)
    for _ in range(200):
        if rng.random() < 0.2:
            columns = int(rng.integers(1, 40 << PAGE_BITS))
            paged.reserve(ROWS, columns)
            plain = np.pad(plain, ((0, 0), (0, max(columns - plain.shape[1], 0))), constant_values=-7)
        if not plain.shape[1]:
            continue
        count = int(rng.integers(0, 300))
        rows, at = rng.integers(0, ROWS, count), rng.integers(0, plain.shape[1], count)
        if rng.random() < 0.1:
            cleared = int(rng.integers(0, ROWS))
            paged.clear(cleared)
            plain[cleared] = -7
        elif rng.random() < 0.6:
            # Of a cell that is named twice the last value holds, as NumPy has it.
            values = rng.integers(-7, 100, count)
            paged[rows, at] = values
            plain[rows, at] = values
        else:
            bits = (1 << rng.integers(0, 8, count)).astype(np.uint8)
            paged.add_bits(rows, at, bits)
            np.bitwise_or.at(plain, (rows, at), bits)
        assert (paged[rows, at] == plain[rows, at]).all()
        row = int(rng.integers(0, ROWS))
        held, values = paged.row(row)
        assert held.tolist() == np.flatnonzero(plain[row] != -7).tolist()
        assert values.tolist() == plain[row, held].tolist()
        column = int(rng.integers(0, plain.shape[1]))
        assert int(paged[row, column]) == plain[row, column]


def test_ports_of_one_device_take_no_room_of_the_others() -> None:
    """As many ports as one device may bring, with all leaves of the profile, beside a thousand that have few."""
    ports, leaves_a_port = 4096, 16
    paths = PathMap(load("openconfig"), PathTable())
    fleet = Fleet(paths, Series(Counters()))
    slots = np.array([fleet.add(target, 0) for target in range(1000)])
    number, row = next((n, r) for n, r in enumerate(paths.profile.row) if r.semantics == "counter" and r.port == "")
    for port in range(ports):
        assert paths.port(f"invented-{port}", "one") == port
        for queue in range(leaves_a_port):
            paths._leaf(number, row, {"port": f"invented-{port}", "queue": str(queue)}, (("leaf", ()),), "one")
    paths._refresh()
    leaves = np.arange(ports * leaves_a_port)
    fleet.series_at(np.full(len(leaves), slots[0]), leaves)
    fleet.series_at(np.repeat(slots, 50), np.tile(leaves[:50], len(slots)))
    fleet.know_speed(int(slots[0]), 17, 400_000)
    took = sum(table.nbytes for table in (fleet.series_of, fleet.speed_mbps, fleet.told, fleet.setting, fleet.storm))
    assert took < 32 * len(leaves) + 1000 * 8192
    # Given up, its pages go to others.
    before = fleet.series_of.nbytes
    fleet.remove(int(slots[0]))
    fleet.series_at(np.full(len(leaves), slots[1]), leaves)
    assert fleet.series_of.nbytes == before
