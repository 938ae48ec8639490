"""The tables of drivers: each row fits its kind, each measure comes once, and directions are not mixed up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from probes.drivers import DRIVERS
from probes.drivers.mapped import Mapped, checked, expanded, find
from stream.kinds import BY_CODE, BY_NAME, CODES, LINK_ERRORS, PFC_PAUSED, SIDE_RX, SIDE_TX
from tests.probes.recorded import HOSTS, Recorded

TABLES = [(f"{name}-{what}", table) for name, driver in DRIVERS.items()
          for what, table in (("statistics", driver.statistics), ("hw_counters", driver.hw_counters))]  # fmt: skip


@pytest.mark.parametrize("table", [table for _, table in TABLES], ids=[name for name, _ in TABLES])
def test_a_table_names_no_counter_twice_and_codes_have_names(table: tuple[Mapped, ...]) -> None:
    assert checked(table) == table
    assert [name for name, count in Counter(mapped.name for mapped in table).items() if count > 1] == []
    for mapped in table:
        kind = BY_CODE[mapped.kind]
        if mapped.code is not None:
            assert mapped.code in CODES[kind.name]
        # What is received is told as received: who paused whom hangs on it.
        for word, side in (("rx", SIDE_RX), ("tx", SIDE_TX)):
            if mapped.name.startswith(word) or f"_{word}_" in mapped.name or f"-{word}-" in mapped.name:
                assert mapped.side in (side, 0 if kind.name == "RDMA_ERRORS" else side), mapped.name


@pytest.mark.parametrize(
    "wrong",
    [Mapped("x", PFC_PAUSED, "bytes"), Mapped("x", LINK_ERRORS, "errors"),
     Mapped("x", BY_NAME["CNP"].code, "packets", code=1)],
)  # fmt: skip
def test_a_row_that_does_not_fit_its_kind_is_refused(wrong: Mapped) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        checked((wrong,))


def test_a_name_with_a_priority_stands_for_eight() -> None:
    rows = expanded([Mapped("rx_prio{p}_pause_duration", PFC_PAUSED, "us", SIDE_RX)])
    assert list(rows) == [f"rx_prio{priority}_pause_duration" for priority in range(8)]
    assert [priority for each in rows.values() for _, priority in each] == list(range(8))


def test_names_that_nobody_knows_are_left_out() -> None:
    found = find(DRIVERS["mlx5_core"].statistics, ["rx_packets", "rx_prio3_pause", "", "\udcff"], "eth0", 0)
    assert found.places == (1,)


@pytest.mark.parametrize("name", sorted(path.name for path in HOSTS.iterdir() if path.is_dir()))
def test_a_recorded_host_is_whole(name: str, tmp_path: Path) -> None:
    host = Recorded(name, tmp_path)
    assert (host.root / "sys/class/net").is_dir()
    assert [path for path in host.root.rglob("*") if path.is_symlink() and not path.exists()] == []
