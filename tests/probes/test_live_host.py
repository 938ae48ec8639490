"""Pollers on this host's own kernel: beside ethtool, ip and the C headers, which were written by others."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes import dcb, statistics
from probes.netlink import attribute
from probes.pollers import pressure
from probes.probe import Options
from stream.kinds import PRESSURE_CODES
from tests.c_compiler import c_compiler
from tests.probes.recorded import SECOND_NS, rows

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30
HEADERS = """
#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
    printf("{\\"dcb\\": [%d, %d, %d, %d, %d, %d, %d, %d, %zu, %zu, %zu], \\"ethtool\\": [%d, %d, %d, %d, %d, %d]}",
           RTM_GETDCB, DCB_CMD_IEEE_GET, DCB_ATTR_IFNAME, DCB_ATTR_IEEE, DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_PFC,
           DCB_ATTR_IEEE_APP_TABLE, DCB_ATTR_IEEE_APP, offsetof(struct ieee_ets, prio_tc),
           offsetof(struct ieee_pfc, requests), sizeof(struct ieee_pfc),
           SIOCETHTOOL, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS, ETHTOOL_GSSET_INFO, ETH_SS_STATS, ETH_GSTRING_LEN);
    return 0;
}
"""


def test_numbers_of_the_kernels_interface_are_those_of_its_headers(tmp_path: Path) -> None:
    compiler = c_compiler()
    (tmp_path / "headers.c").write_text(HEADERS)
    subprocess.run([compiler, "-o", tmp_path / "headers", tmp_path / "headers.c"], check=True, timeout=DEADLINE_S)
    told = json.loads(
        subprocess.run([tmp_path / "headers"], capture_output=True, check=True, timeout=DEADLINE_S).stdout
    )
    assert told["dcb"] == [
        dcb.RTM_GETDCB, dcb.DCB_CMD_IEEE_GET, dcb.DCB_ATTR_IFNAME, dcb.DCB_ATTR_IEEE, dcb.DCB_ATTR_IEEE_ETS,
        dcb.DCB_ATTR_IEEE_PFC, dcb.DCB_ATTR_IEEE_APP_TABLE, dcb.DCB_ATTR_IEEE_APP, dcb.PRIO_TC_OFFSET,
        struct.calcsize("=BBBBH2x"), struct.calcsize(dcb.PFC_FORMAT),
    ]  # fmt: skip
    assert told["ethtool"] == [
        statistics.SIOCETHTOOL, statistics.GSTRINGS, statistics.GSTATS, statistics.GSSET_INFO,
        statistics.STATISTICS_SET, statistics.NAME_BYTES,
    ]  # fmt: skip


def test_a_message_of_the_kernels_own_layout_is_read() -> None:
    pfc = struct.pack(dcb.PFC_FORMAT, 8, 0b1001, 0, 0, 0, *range(8), *range(100, 108))
    ets = bytes(27) + bytes((0, 0, 0, 1, 0, 0, 0, 2)) + bytes(24)
    table = attribute(1, struct.pack("=BBH", 5, 3, 26)) + attribute(1, struct.pack("=BBH", 1, 2, 0))
    ieee = attribute(1, ets) + attribute(2, pfc) + attribute(3, table)
    body = bytes(4) + attribute(dcb.DCB_ATTR_IFNAME, b"eth0\0") + attribute(dcb.DCB_ATTR_IEEE | 0x8000, ieee)
    found = dcb.of_message(body)
    assert found == dcb.Dcb(
        dcb.Pfc(0b1001, tuple(range(8)), tuple(range(100, 108))), (0, 0, 0, 1, 0, 0, 0, 2),
        (dcb.App(5, 3, 26), dcb.App(1, 2, 0)),
    )  # fmt: skip


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace with a pair of veths, of which the first has four queues."""
    name = f"ptlive{time.monotonic_ns()}"
    commands = (
        f"ip netns add {name}",
        f"ip -n {name} link add va numrxqueues 4 numtxqueues 4 type veth peer name vb",
        f"ip -n {name} link set va up", f"ip -n {name} link set vb up",
        f"ip -n {name} addr add 192.0.2.1/24 dev va", f"ip -n {name} addr add 2001:db8::1/64 dev va nodad",
    )  # fmt: skip
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, timeout=DEADLINE_S)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, timeout=DEADLINE_S)


def inside(namespace: str, *command: str) -> str:
    """What a command in the namespace prints."""
    whole = ["ip", "netns", "exec", namespace, *command]
    ran = subprocess.run(whole, capture_output=True, text=True, check=True, timeout=DEADLINE_S, cwd=ROOT)
    return ran.stdout


def by_ethtool(namespace: str) -> dict[str, int]:
    shown = re.findall(r"^ +(\S+): (\d+)$", inside(namespace, "ethtool", "-S", "va"), re.MULTILINE)
    return {name: int(number) for name, number in shown}


STATISTICS = """
import json, subprocess
from probes.host_root import HostRoot
from probes.statistics import statistics
shown = statistics(HostRoot(), "va")
def read():
    numbers = shown.read()
    return None if numbers is None else dict(zip(shown.names, numbers.tolist(), strict=True))
found = [read(), read()]
subprocess.run(["ethtool", "-L", "va", "rx", "4"], check=True)
found += [read(), read()]
subprocess.run(["ip", "link", "del", "va"], check=True)
found.append(read())
shown.close()
found.append(read())
print(json.dumps(found))
"""


@pytest.mark.ebpf
def test_statistics_are_those_that_ethtool_shows_and_may_grow(namespace: str) -> None:
    inside(namespace, "ethtool", "-L", "va", "rx", "1")
    before = by_ethtool(namespace)
    found = json.loads(inside(namespace, sys.executable, "-c", STATISTICS))
    assert found[0] == found[1] == before
    assert before["peer_ifindex"] > 0
    assert found[2] == found[3]
    assert set(found[2]) - set(before) == {
        name.replace("_0_", f"_{queue}_") for name in before if name.startswith("rx_queue") for queue in (1, 2, 3)
    }
    assert found[4:] == [None, None]


ASKED = """
import json
from probes.addresses import addresses
from probes.dcb import DcbReader
from probes.host_root import HostRoot
reader = DcbReader(HostRoot())
print(json.dumps([addresses(HostRoot()), reader.read("va"), reader.read("nothing")]))
"""


@pytest.mark.ebpf
def test_addresses_are_those_that_ip_shows_and_a_veth_has_no_dcb(namespace: str) -> None:
    found, of_veth, of_nothing = json.loads(inside(namespace, sys.executable, "-c", ASKED))
    shown = json.loads(inside(namespace, "ip", "-j", "addr", "show"))
    expected = {
        link["ifname"]: sorted(each["local"] for each in link["addr_info"] if each["scope"] == "global")
        for link in shown
    }
    assert {name: each for name, each in found.items() if each} == {"va": expected["va"]}
    assert expected["va"] == ["192.0.2.1", "2001:db8::1"]
    assert (of_veth, of_nothing) == (None, None)


POLLED = """
import json
from probes.probe import Options
from probes.pollers import dcb, ethtool, identity
for module in (ethtool, dcb, identity):
    options = Options(module.__name__, "h1", "lab", 10**9, interfaces=("v?",))
    print(module.available(options))
    probe = module.make(options)
    first = probe.read(10**18)
    second = probe.read(10**18 + 10**9)
    print(len(first.rows), len(second.rows), [port.port for fact in first.facts for port in fact.ports])
    probe.close()
"""


@pytest.mark.ebpf
def test_a_veth_that_is_asked_for_is_a_port_and_has_no_pfc(namespace: str) -> None:
    lines = inside(namespace, sys.executable, "-c", POLLED).splitlines()
    assert "no NIC has a driver whose statistics are known" in lines[0]
    assert "no PFC counters by DCB of va, vb" in lines[2]
    assert lines[1] == lines[3] == "0 0 []"
    assert lines[4:] == ["None", "0 0 ['va', 'vb']"]


def test_pressure_is_what_the_kernel_added_up_meanwhile() -> None:
    options = Options("pressure", "h1", "lab", SECOND_NS)
    if reason := pressure.available(options):
        assert not Path("/proc/pressure/cpu").exists(), reason
        return
    probe = pressure.make(options)

    def totals() -> dict[int, int]:
        return {
            code: int(path.read_text().split("\n")[0].rpartition("total=")[2])
            for code, name in PRESSURE_CODES.items()
            if (path := Path("/proc/pressure") / name).exists()
        }

    before = totals()
    probe.read(time.time_ns())
    after_first = totals()
    time.sleep(0.2)
    before_second = totals()
    found = {row.extra: row.value for row in rows(probe.read(time.time_ns()))}
    after = totals()
    assert found.keys() == before.keys()
    for code, stalled_ns in found.items():
        assert code is not None
        assert stalled_ns is not None
        least, most = before_second[code] - after_first[code], after[code] - before[code]
        assert least * 1_000 <= stalled_ns <= most * 1_000
    probe.close()
