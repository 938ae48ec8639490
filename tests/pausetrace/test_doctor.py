"""`pausetrace doctor`: on recorded hosts, on this one, and with a Kafka that is there or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pausetrace.cli.main import main
from stream.embedded import EmbeddedBroker
from tests.probes.recorded import Recorded


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    status = main(["doctor", "-o", "json", *words])
    findings = json.loads(capsys.readouterr().out)
    checks = [finding["check"] for finding in findings]
    assert len(set(checks)) == len(checks)
    for finding in findings:
        assert finding["state"] in ("ok", "absent", "warning", "missing")
        assert finding["says"]
        assert finding["state"] in ("ok", "absent") or finding["fix"], finding
    assert status == (1 if any(finding["state"] == "missing" for finding in findings) else 0)
    return status, {finding["check"]: finding for finding in findings}


def test_a_narrow_bridge_above_two_nics_is_told_of_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, found = doctor(capsys, "--host-root", str(Recorded("mlx5", tmp_path).root))
    assert status == 0
    for name in ("ens1np0", "ens2np0"):
        link = found[f"PCIe {name}"]
        assert link["state"] == "warning"
        assert "x8 at 32 GT/s below the bridge 0000:17:01.0, 252 Gb/s for a port of 400" in link["says"]
        assert "could be x16 at 32 GT/s" in link["says"]
        assert "reseat" in link["fix"]
        nic = found[f"NIC {name}"]
        assert nic["state"] == "ok"
        assert "mlx5_core, 400 Gb/s, RDMA mlx5_" in nic["says"]
        assert "PFC on for priority 3" in nic["says"]
    assert found["clock"]["says"] == "chrony says -1.2 µs, within 40 µs"
    assert found["kernel"]["says"].startswith("Linux 6.8.0-45-generic")
    assert (found["BTF"]["state"], found["Kafka"]["state"], found["programs"]["state"]) == ("ok", "absent", "absent")
    assert "priorities" not in found


def test_a_kernel_without_btf_is_not_enough(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, found = doctor(capsys, "--host-root", str(Recorded("bnxt", tmp_path).root))
    assert status == 1
    assert (found["BTF"]["state"], found["BTF"]["fix"]) == ("missing", "run a kernel with CONFIG_DEBUG_INFO_BTF=y")
    assert found["PCIe ens3f0np0"]["state"] == "ok"


@pytest.mark.parametrize(("release", "state"), [("5.4.0-1", "missing"), ("5.15.0", "ok"), ("", "warning")])
def test_kernels_of_all_ages(release: str, state: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    host = Recorded("ice", tmp_path)
    host.write("/proc/sys/kernel/osrelease", release)
    _, found = doctor(capsys, "--host-root", str(host.root))
    assert found["kernel"]["state"] == state


def test_a_virtual_machine_is_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, found = doctor(capsys, "--host-root", str(Recorded("virtio", tmp_path).root))
    assert status == 0
    assert [check for check, finding in found.items() if finding["state"] == "warning"] == ["clock"]


def test_a_host_without_nics_and_one_whose_nics_do_not_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    host = Recorded("mlx5", tmp_path)
    status, found = doctor(capsys, "--host-root", str(host.root), "--interface", "ib*")
    assert status == 1
    assert found["NIC"]["says"] == "there is no interface called ib*"
    dcb = json.loads((host.root / "dcb/ens2np0.json").read_text())
    host.write("dcb/ens2np0.json", json.dumps(dcb | {"app": []}))
    host.write("ethtool/ens2np0.json", "{}")
    host.write("clock.json", '{"source": "kernel", "offset_ns": -9000000, "error_ns": 1}')
    status, found = doctor(capsys, "--host-root", str(host.root))
    assert status == 0
    assert found["priorities"]["says"] == "ens1np0, ens2np0 sort packets differently"
    assert found["NIC ens2np0"]["state"] == "warning"
    assert "cannot be read" in found["NIC ens2np0"]["says"]
    assert found["clock"]["state"] == "warning"


def test_kafka_that_does_not_answer_is_missing_and_one_that_does_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = ("--host-root", str(Recorded("virtio", tmp_path).root))
    status, found = doctor(capsys, *root, "--bootstrap-servers", "127.0.0.1:1")
    assert status == 1
    assert found["Kafka"]["state"] == "missing"
    assert "no Kafka broker answers at 127.0.0.1:1" in found["Kafka"]["says"]
    with EmbeddedBroker() as broker:
        servers = broker.settings.bootstrap_servers
        status, found = doctor(capsys, *root, "--bootstrap-servers", servers)
        assert (status, found["Kafka"]["state"]) == (0, "ok")
        status, found = doctor(capsys, *root, "--bootstrap-servers", servers, "--prefix", "other")
        assert (status, found["Kafka"]["state"]) == (1, "missing")


def test_the_table_shows_every_check_with_its_fix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = str(Recorded("mlx5", tmp_path).root)
    assert main(["doctor", "--host-root", root]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    _, found = doctor(capsys, "--host-root", root)
    for check, finding in found.items():
        assert f"{finding['state']} {check} {finding['says'][:40]}" in shown
        if finding["state"] == "warning":
            assert f"-> {finding['fix'][:40]}" in shown


def test_a_root_that_is_no_folder_is_a_wrong_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--host-root", str(tmp_path / "nothing")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_this_host_is_examined_whatever_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = doctor(capsys)
    assert {"kernel", "BTF", "tracefs", "headers", "bcc", "capabilities", "clock", "Kafka"} <= found.keys()
    assert [check for check in found if check.startswith("probe ")]
