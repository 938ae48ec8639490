"""Pollers on hosts whose files say nonsense: no crash, no absurd row, and what could not be read is counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pausetrace.doctor import Asked, examine
from pausetrace.probe_config import ProbesConfig, agent_settings
from probes.dcb import of_message
from probes.host_root import HostRoot, KeptFiles, number_of
from probes.netlink import attributes
from probes.pollers.pressure import total_us
from stream.kinds import BY_NAME, UNKNOWN
from tests.probes.recorded import HOSTS, NOW_NS, SECOND_NS, Recorded, rows

POLLERS = ("ethtool", "dcb", "rdma", "pcie", "aer", "edac", "cpu_throttle", "pressure", "clock", "identity", "gpu")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda each: st.lists(each, max_size=9) | st.dictionaries(st.text(max_size=20), each, max_size=5),
    max_leaves=30,
)
BYTES = (
    st.binary(max_size=100)
    | st.integers(-(2**70), 2**70).map(lambda number: str(number).encode())
    | st.sampled_from([b"", b"\n", b"a\0b\n", b"some total=\n", b"total=18446744073709551616", b"\xff" * 5000])
)
FILES = sorted(
    str(path.relative_to(HOSTS / "mlx5/t0"))
    for path in (HOSTS / "mlx5/t0").rglob("*")
    if path.is_file() and not any(parent.is_symlink() for parent in path.parents)
)
ANSWERS = [path for path in FILES if path.endswith(".json")]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded("mlx5", tmp_path_factory.mktemp("garbage"))


def read_all(host: Recorded) -> None:
    """Reads every poller twice and holds what it says to the ranges of its kinds."""
    for name in POLLERS:
        host.available(name)
        if name == "gpu" and host.available(name) is not None:
            continue
        probe = host.make(name)
        for second in range(2):
            for row in rows(probe.read(NOW_NS + second * SECOND_NS)):
                kind = BY_NAME[row.kind]
                assert row.value is None or kind.value.low <= row.value <= kind.value.high
                assert row.extra is None or kind.extra.low <= row.extra <= kind.extra.high
        probe.close()


def restore(host: Recorded, paths: set[str]) -> None:
    for path in paths:
        shutil.copy(HOSTS / "mlx5/t0" / path, host.root / path)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changed=st.dictionaries(st.sampled_from(FILES), BYTES, min_size=1, max_size=60))
def test_files_of_any_bytes(host: Recorded, changed: dict[str, bytes]) -> None:
    for path, data in changed.items():
        host.write(path, data)
    try:
        read_all(host)
    finally:
        restore(host, set(changed))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changed=st.dictionaries(st.sampled_from(ANSWERS), JSON, min_size=1, max_size=6))
def test_recorded_answers_of_any_json(host: Recorded, changed: dict[str, Any]) -> None:
    for path, answer in changed.items():
        host.write(path, json.dumps(answer))
    try:
        read_all(host)
    finally:
        restore(host, set(changed))


def test_what_cannot_be_read_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make("edac")
    probe.read(NOW_NS)
    host.write("/sys/devices/system/edac/mc/mc0/ce_count", "many\n")
    host.write("/sys/devices/system/edac/mc/mc0/ue_count", "1\n")
    assert [(row.value, row.extra) for row in rows(probe.read(NOW_NS + SECOND_NS))] == [(1, 2)]
    assert probe.counted["garbage"] == 1  # type: ignore[attr-defined]
    shutil.rmtree(host.root / "sys/devices/system/edac")
    probe.close()
    assert rows(probe.read(NOW_NS + 2 * SECOND_NS)) == []
    assert probe.counted["unreadable"] == 2  # type: ignore[attr-defined]
    assert rows(probe.read(NOW_NS + 60 * SECOND_NS)) == []
    assert probe.counted["unreadable"] == 2, "it is not looked for again"  # type: ignore[attr-defined]


def test_a_share_above_the_whole_is_counted_and_left_out(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make("ethtool")
    probe.read(NOW_NS)
    path = host.root / "ethtool/ens1np0.json"
    told = json.loads(path.read_text())
    told["statistics"]["outbound_pci_stalled_wr"] = 101
    path.write_text(json.dumps(told))
    stalls = [row.value for row in rows(probe.read(NOW_NS + SECOND_NS)) if row.kind == "PCIE_STALL"]
    assert set(stalls) == {0}
    assert probe.counted["absurd_shares"] == 1  # type: ignore[attr-defined]


def test_a_link_that_leads_out_of_the_tree_leads_nowhere(tmp_path: Path) -> None:
    host = Recorded("virtio", tmp_path)
    (host.root / "sys/class/net/eth9").symlink_to("/sys/class/net")
    assert HostRoot(host.root).target("/sys/class/net/eth9") is None
    assert HostRoot(host.root).read("/sys") is None
    assert HostRoot(host.root).names("/nothing") == ()


def test_a_name_that_no_file_can_have_leads_nowhere(tmp_path: Path) -> None:
    host = HostRoot(tmp_path)
    name = "/a\0b"
    assert (host.read(name), host.text(name), host.number(name), host.target(name)) == (None, None, None, None)
    assert (host.names(name), host.exists(name), KeptFiles(host).read(name)) == ((), False, None)


@pytest.mark.parametrize("path", FILES)
def test_a_file_with_a_nul_is_as_one_that_says_nothing(path: str, host: Recorded) -> None:
    host.write(path, b"a\0b\n")
    try:
        read_all(host)
        examine(Asked(agent_settings(ProbesConfig(host_root=str(host.root))), None))
    finally:
        restore(host, {path})


def test_kept_files_see_a_device_that_came_back_and_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.host_root.MAX_KEPT", 2)
    files = KeptFiles(HostRoot(tmp_path))
    for name in "abc":
        (tmp_path / name).write_text(f"{ord(name)}\n")
    assert [files.number(f"/{name}") for name in "abcabc"] == [97, 98, 99] * 2
    assert len(files._fds) == 2
    (tmp_path / "a").write_text("1\n")
    assert files.number("/a") == 1
    files.close()
    (tmp_path / "a").unlink()
    assert files.number("/a") is None
    files.close()


@given(st.binary(max_size=300))
def test_messages_of_any_bytes(data: bytes) -> None:
    attributes(data)
    found = of_message(data)
    assert found is None or found.pfc is None or len(found.pfc.requests) == 8


@given(st.binary(max_size=60))
def test_numbers_of_any_bytes(data: bytes) -> None:
    number = number_of(data)
    assert number is None or -(1 << 63) <= number < 1 << 64
    total = total_us(data)
    assert total is None or total < 1 << 64


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"12\n", 12), (b"-1\n", -1), (b"18446744073709551615", 2**64 - 1), (b"18446744073709551616", None), (b"", None),
     (b"1 2", None), (b"0x10", None), (b"+1", None), (b"--1", None), ("٣".encode(), None), (b"1_0", None)],
)  # fmt: skip
def test_numbers_as_files_hold_them(text: bytes, number: int | None) -> None:
    assert number_of(text) == number
    assert (number or 0) > UNKNOWN
