"""PCIe links: which link of the way counts, what it could be at most, and files that say nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host_root import HostRoot
from probes.interfaces import interfaces, pci_path
from probes.pollers.aer import total
from probes.pollers.pcie import Way, links, mts_of, rate_mbps, way
from tests.probes.recorded import NOW_NS, SECOND_NS, Recorded, rows

ROOT_PORT, UPSTREAM = "0000:17:01.0", "0000:18:00.0"
NIC = "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0"
ENDS = {name: NIC[: NIC.index(name) + 12] for name in (ROOT_PORT, UPSTREAM, "0000:19:00.0", "0000:1a:00.0")}


def set_link(host: Recorded, below: str, above: str, lanes: int, most: tuple[int, int], speed: str = "32.0") -> None:
    """Sets the link between two devices; `most` are the widths that the lower and the upper end can do."""
    for name, width in zip((below, above), most, strict=True):
        host.write(f"{ENDS[name]}/current_link_width", f"{lanes}\n")
        host.write(f"{ENDS[name]}/max_link_width", f"{width}\n")
        host.write(f"{ENDS[name]}/current_link_speed", f"{speed} GT/s PCIe\n")


def way_of(host: Recorded, port_mbps: int = 0) -> Way | None:
    return way(HostRoot(host.root), NIC, port_mbps)


def test_the_way_goes_over_all_bridges_up_to_the_root_port(tmp_path: Path) -> None:
    host = HostRoot(Recorded("mlx5", tmp_path).root)
    first = interfaces(host)[0]
    assert (first.name, first.driver, first.pci) == ("ens1np0", "mlx5_core", "0000:1a:00.0")
    assert pci_path(first.device) == [
        ENDS[name] for name in ("0000:1a:00.0", "0000:19:00.0", UPSTREAM, ROOT_PORT)
    ]  # fmt: skip
    assert [(link.below, link.above, link.lanes, link.max_lanes) for link in links(host, first.device)] == [
        ("0000:1a:00.0", "0000:19:00.0", 16, 16), ("0000:19:00.0", UPSTREAM, 16, 16), (UPSTREAM, ROOT_PORT, 8, 16),
    ]  # fmt: skip


def test_a_narrow_link_of_the_nic_itself_needs_no_name(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    set_link(host, UPSTREAM, ROOT_PORT, 16, (16, 16))
    set_link(host, "0000:1a:00.0", "0000:19:00.0", 4, (16, 16), "16.0")
    assert way_of(host) == Way(4, 16, 16_000, 32_000, "", "")


def test_what_one_end_cannot_do_the_link_cannot_do(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    set_link(host, UPSTREAM, ROOT_PORT, 8, (16, 8))
    found = way_of(host)
    assert found is not None
    assert (found.lanes, found.max_lanes) == (8, 8)


@pytest.mark.parametrize("slow_end", [UPSTREAM, ROOT_PORT])
def test_a_link_is_at_most_as_fast_as_its_slower_end(slow_end: str, tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    set_link(host, UPSTREAM, ROOT_PORT, 16, (16, 16), "8.0")
    for name in (UPSTREAM, ROOT_PORT):
        host.write(f"{ENDS[name]}/max_link_speed", f"{'16.0' if name == slow_end else '32.0'} GT/s PCIe\n")
    found = way_of(host)
    assert found is not None
    assert (found.mts, found.max_mts) == (8_000, 16_000)


@pytest.mark.parametrize(("port_mbps", "max_lanes"), [(200_000, 8), (400_000, 16)])
def test_a_slot_that_is_too_small_for_the_port_is_narrow_whatever_it_can_do(
    port_mbps: int, max_lanes: int, tmp_path: Path
) -> None:
    host = Recorded("mlx5", tmp_path)
    set_link(host, UPSTREAM, ROOT_PORT, 8, (8, 8))
    found = way_of(host, port_mbps)
    assert found is not None
    assert rate_mbps(8, 32_000) == 252_061
    assert (found.lanes, found.max_lanes) == (8, max_lanes)


def test_a_link_that_degrades_is_told_at_once_and_one_that_stays_every_ten_seconds(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make("pcie", interfaces=("ens1*",))
    told = []
    for second in range(22):
        if second == 5:
            set_link(host, UPSTREAM, ROOT_PORT, 4, (16, 16))
        told.append([row.value for row in rows(probe.read(NOW_NS + second * SECOND_NS))])
    assert {second: values for second, values in enumerate(told) if values} == {
        0: [8, 32_000], 5: [4, 32_000], 15: [4, 32_000],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "mts"),
    [("2.5 GT/s PCIe", 2_500), ("32.0 GT/s PCIe", 32_000), ("8 GT/s", 8_000), ("64.0 GT/s PCIe", 64_000),
     ("Unknown", 0), ("Unknown speed", 0), ("", 0), (None, 0), ("-1 GT/s", 0), ("1e9 GT/s", 0), ("٣ GT/s", 0)],
)  # fmt: skip
def test_speeds_as_the_kernel_writes_them(text: str | None, mts: int) -> None:
    assert mts_of(text) == mts


@pytest.mark.parametrize("width", ["0", "255", "x", "", "-8", "9" * 30])
def test_a_width_that_is_none_leaves_the_link_out(width: str, tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    for name in (UPSTREAM, ROOT_PORT):
        host.write(f"{ENDS[name]}/current_link_width", width)
    found = way_of(host)
    assert found is not None
    assert found.lanes == 16


@given(st.binary(max_size=200))
def test_the_sum_of_errors_of_any_bytes_is_a_count_or_nothing(data: bytes) -> None:
    found = total(data, "TOTAL_ERR_COR")
    assert found is None or 0 <= found < 1 << 64


@given(st.text(max_size=40))
def test_a_speed_of_any_text_is_a_speed_or_0(text: str) -> None:
    assert 0 <= mts_of(text) < 10_000_000


@pytest.mark.parametrize("last", [b"", b"TOTAL_ERR_COR 7\n"])
def test_errors_are_those_of_the_stated_sum_else_of_the_lines(last: bytes) -> None:
    assert total(b"RxErr 2\nBadTLP 5\n" + last, "TOTAL_ERR_COR") == 7
