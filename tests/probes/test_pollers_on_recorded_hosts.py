"""Every poller on every recorded host: what it says of the second between the two times, by numbers in the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probes.probe import Reading
from stream.batch import Batch, StreamKey
from stream.kinds import ESTIMATED, GAP, RESET, WRAP
from stream.messages import decode, encode
from tests.probes.recorded import NOW_NS, SECOND_NS, Recorded, Row, active, rows

MS = 1_000_000
HOSTS = ("mlx5", "bnxt", "ice", "virtio")
POLLERS = (
    "ethtool", "dcb", "rdma", "pcie", "aer", "edac", "cpu_throttle", "pressure", "clock", "gpu", "identity",
)  # fmt: skip

SAID: dict[tuple[str, str], list[Row]] = {
    ("mlx5", "ethtool"): [
        Row("ens1np0", "PFC_PAUSED", 420 * MS, 310, 3, "tx"),
        Row("ens1np0", "PORT_BYTES", 18_900_000_000, 4_614_257, None, "rx"),
        Row("ens1np0", "PORT_BYTES", 9_450_000_000, 3_780_000, None, "tx"),
        Row("ens1np0", "PORT_BYTES", 18_900_000_000, 4_614_257, 3, "rx"),
        Row("ens1np0", "PORT_BYTES", 9_450_000_000, 3_780_000, 3, "tx"),
        Row("ens1np0", "LINK_ERRORS", 2, 2, None, "rx"),
        Row("ens1np0", "PCIE_STALL", 620 * MS, None, None, "rx", ESTIMATED),
        Row("ens2np0", "PORT_BYTES", 22_100_000_000, 5_395_507, None, "rx"),
        Row("ens2np0", "PORT_BYTES", 11_050_000_000, 4_420_000, None, "tx"),
        Row("ens2np0", "PORT_BYTES", 22_100_000_000, 5_395_507, 3, "rx"),
        Row("ens2np0", "PORT_BYTES", 11_050_000_000, 4_420_000, 3, "tx"),
        Row("ens2np0", "LINK_ERRORS", 2, 2, None, "rx"),
    ],
    ("mlx5", "rdma"): [
        Row("ens1np0", "ECN_MARKED", 1_500, None, None, "rx"),
        Row("ens1np0", "CNP", 1_300, 0, None, "tx"),
        Row("ens1np0", "CNP", 3, 0, None, "rx"),
        Row("ens1np0", "RDMA_ERRORS", 2, 1),
        Row("ens1np0", "RDMA_ERRORS", 10, 3, quality=WRAP),
    ],
    ("mlx5", "aer"): [Row("ens1np0", "PCIE_ERRORS", 7, 1, text="0000:18:00.0")],
    ("mlx5", "edac"): [Row("mc0", "MEMORY_ERRORS", 2, 1)],
    ("mlx5", "cpu_throttle"): [Row("package0", "CPU_THROTTLE", 2, 40 * MS)],
    ("mlx5", "pressure"): [
        Row("-", "PRESSURE", 150 * MS, 1), Row("-", "PRESSURE", 100_000, 3), Row("-", "PRESSURE", 1 * MS, 4),
    ],
    ("mlx5", "gpu"): [
        Row("gpu0", "GPU_THROTTLE", 180 * MS, 1, text="0000:2a:00.0"),
        Row("gpu0", "GPU_ERRORS", 1, 1001, text="0000:2a:00.0"),
        Row("gpu0", "GPU_ERRORS", 1, 79, text="0000:2a:00.0"),
    ],
    ("bnxt", "ethtool"): [
        Row("ens3f0np0", "PFC_PAUSED", 1_450_000, 18, 3, "rx"),
        Row("ens3f0np0", "PORT_BYTES", 9_800_000_000, 2_400_000, None, "rx"),
        Row("ens3f0np0", "PORT_BYTES", 8_100_000_000, 2_000_000, None, "tx"),
        Row("ens3f0np0", "PORT_BYTES", 9_700_000_000, 2_370_000, 3, "rx"),
        Row("ens3f0np0", "PORT_BYTES", 8_000_000_000, 1_950_000, 3, "tx"),
        Row("ens3f0np0", "LINK_ERRORS", None, 1, None, "rx", RESET | GAP),
        Row("ens3f0np0", "LINK_ERRORS", 210, 2, None, "rx"),
    ],
    ("bnxt", "rdma"): [Row("bond0", "RDMA_ERRORS", 3, 2), Row("bond0", "RDMA_ERRORS", 1, 4)],
    ("bnxt", "aer"): [],
    ("bnxt", "pressure"): [Row("-", "PRESSURE", 2 * MS, 1)],
    ("ice", "ethtool"): [
        Row("ens5f0", "PFC_FRAMES", 17 + 14, None, 3, "rx"),
        Row("ens5f0", "PORT_BYTES", 4_100_000_000, 1_000_102, None, "rx"),
        Row("ens5f0", "PORT_BYTES", 3_900_000_000, 951_000, None, "tx"),
        Row("ens5f0", "QUEUE_DROPS", 4, None, None, "rx"),
    ],
    ("ice", "rdma"): [
        Row("ens5f0", "ECN_MARKED", 200, None, None, "rx"),
        Row("ens5f0", "CNP", 190, 0, None, "tx"),
        Row("ens5f0", "CNP", 2, 0, None, "rx"),
        Row("ens5f0", "RDMA_ERRORS", 3, 8),
    ],
    ("ice", "aer"): [
        Row("ens5f0", "PCIE_ERRORS", 2, 1, text="0000:51:00.0"),
        Row("ens5f0", "PCIE_ERRORS", 1, 2, text="0000:51:00.0"),
    ],
    ("ice", "pressure"): [Row("-", "PRESSURE", 60 * MS, 3)],
}  # fmt: skip
STATES = {
    ("mlx5", "pcie"): [
        Row("ens1np0", "PCIE_WIDTH", 8, 16, span_ns=0, text="0000:17:01.0"),
        Row("ens1np0", "PCIE_SPEED", 32_000, 32_000, span_ns=0),
        Row("ens2np0", "PCIE_WIDTH", 8, 16, span_ns=0, text="0000:17:01.0"),
        Row("ens2np0", "PCIE_SPEED", 32_000, 32_000, span_ns=0),
    ],
    ("bnxt", "pcie"): [
        Row("ens3f0np0", "PCIE_WIDTH", 16, 16, span_ns=0), Row("ens3f0np0", "PCIE_SPEED", 32_000, 32_000, span_ns=0),
        Row("ens3f1np1", "PCIE_WIDTH", 16, 16, span_ns=0), Row("ens3f1np1", "PCIE_SPEED", 32_000, 32_000, span_ns=0),
    ],
    ("ice", "pcie"): [
        Row("ens5f0", "PCIE_WIDTH", 16, 16, span_ns=0), Row("ens5f0", "PCIE_SPEED", 16_000, 16_000, span_ns=0),
    ],
    ("mlx5", "clock"): [Row("-", "CLOCK_OFFSET", -1_210, 40_500, span_ns=0, text="chrony")],
    ("bnxt", "clock"): [Row("-", "CLOCK_OFFSET", 38, None, span_ns=0, text="ptp4l")],
}  # fmt: skip
FACTS = {(host, "identity") for host in HOSTS}


@pytest.mark.parametrize(("host", "poller"), SAID, ids="-".join)
def test_a_second_of_counters(host: str, poller: str, tmp_path: Path) -> None:
    found = Recorded(host, tmp_path).second(poller)
    assert sorted(active(found), key=repr) == sorted(SAID[host, poller], key=repr)
    assert found, "an idle counter is told once, so that it is known to be watched"


@pytest.mark.parametrize(("host", "poller"), sorted(SAID.keys() | STATES.keys()), ids="-".join)
def test_rows_go_over_the_wire_as_they_are(host: str, poller: str, tmp_path: Path) -> None:
    recorded = Recorded(host, tmp_path)
    probe = recorded.make(poller)
    readings = [probe.read(NOW_NS)]
    recorded.advance()
    readings.append(probe.read(NOW_NS + SECOND_NS))
    for seq, told in enumerate(rows_of for reading in readings for rows_of in reading.rows):
        stream = StreamKey("lab", "probe-h1", "boot-1", told.topic, "h1")
        batch = Batch(stream, seq, NOW_NS, tuple(told.ports), told.events, texts=tuple(told.texts))
        back = decode(*encode(batch))
        assert isinstance(back, Batch)
        assert back.events.tobytes() == told.events.tobytes()
        assert (back.ports, back.texts, back.skipped) == (batch.ports, batch.texts, 0)


@pytest.mark.parametrize(("host", "poller"), STATES, ids="-".join)
def test_a_state_is_told_at_once(host: str, poller: str, tmp_path: Path) -> None:
    assert rows(Recorded(host, tmp_path).make(poller).read(NOW_NS)) == STATES[host, poller]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("poller", POLLERS)
def test_what_a_host_has_is_available_and_what_it_lacks_says_why_and_what_to_do(
    host: str, poller: str, tmp_path: Path
) -> None:
    missing = Recorded(host, tmp_path).available(poller)
    if (host, poller) in SAID.keys() | STATES.keys() | FACTS:
        assert missing is None
    else:
        assert missing is not None
        assert missing.reason
        assert missing.fix or poller == "dcb"


@pytest.mark.parametrize("poller", [name for name in POLLERS if name not in ("identity", "gpu")])
def test_a_host_that_has_nothing_of_it_gives_no_rows_and_no_error(poller: str, tmp_path: Path) -> None:
    host = Recorded("virtio", tmp_path)
    probe = host.make(poller)
    for second in range(3):
        assert probe.read(NOW_NS + second * SECOND_NS) == Reading()
    assert not probe.reduce()
    probe.restore()
    probe.close()


@pytest.mark.parametrize("poller", ["ethtool", "rdma", "aer", "pcie", "identity"])
def test_patterns_choose_the_interfaces(poller: str, tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make(poller, interfaces=("ens2*", "nothing"))
    readings = [probe.read(NOW_NS + second * SECOND_NS) for second in range(2)]
    named = {row.port for reading in readings for row in rows(reading)}
    named |= {port.port for reading in readings for fact in reading.facts for port in fact.ports}  # type: ignore[union-attr]
    assert named == {"ens2np0"}
    missing = host.available(poller, interfaces=("nothing",))
    assert missing is not None
    assert "nothing" in missing.reason


def test_a_nic_that_goes_and_comes_back_begins_anew(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probes = [host.make(name) for name in ("ethtool", "rdma")]
    link = host.root / "sys/class/net/ens1np0"
    rdma = host.root / "sys/class/infiniband/mlx5_0"
    ends = {path: path.readlink() for path in (link, rdma)}

    def told(second: int) -> list[Row]:
        return [row for probe in probes for row in rows(probe.read(NOW_NS + second * SECOND_NS))]

    told(0)
    assert {row.port for row in told(1)} == {"ens1np0", "ens2np0"}
    for path in ends:
        path.unlink()
    assert {row.port for row in told(11)} == {"ens2np0"}
    for path, end in ends.items():
        path.symlink_to(end)
    counters = json.loads((host.root / "ethtool/ens1np0.json").read_text())
    host.write("ethtool/ens1np0.json", json.dumps({"statistics": dict.fromkeys(counters["statistics"], 0)}))
    back = [row for row in told(22) if row.port == "ens1np0" and row.kind == "PFC_PAUSED" and row.side == "tx"]
    assert [(row.value, row.quality, row.span_ns) for row in back if row.priority == 3] == [
        (None, RESET | GAP, 21 * SECOND_NS)
    ]
    assert all(probe.counted["unreadable"] == 0 for probe in probes)  # type: ignore[attr-defined]


def test_idle_counters_are_told_once_then_every_ten_seconds(tmp_path: Path) -> None:
    probe = Recorded("mlx5", tmp_path).make("rdma")
    told = [len(rows(probe.read(NOW_NS + second * SECOND_NS))) for second in range(25)]
    assert told[0] == 0
    assert told[1] > 20
    assert [second for second, count in enumerate(told) if count] == [1, 11, 21]


def test_a_counter_that_stops_is_told_once_more(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make("edac")
    counts = []
    for second, errors in enumerate((3, 3, 5, 5, 5)):
        host.write("/sys/devices/system/edac/mc/mc0/ce_count", f"{errors}\n")
        counts.append([row.value for row in rows(probe.read(NOW_NS + second * SECOND_NS)) if row.extra == 1])
    assert counts == [[], [0], [2], [0], []]
