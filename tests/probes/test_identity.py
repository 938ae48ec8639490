"""The identity of a host: names that resolve to its ports, bonds, maps, and when it is told again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from probes.dcb import App, Dcb, Pfc
from stream.facts import Device, FactStream, Port
from stream.identity import Resolver, Standing
from stream.messages import decode, encode
from tests.probes.recorded import NOW_NS, SECOND_NS, Recorded

STREAM = FactStream("probe-h1", "boot-1", 0, NOW_NS)


def told(host: Recorded, **fields: object) -> Device:
    (fact,) = host.make("identity", **fields).read(NOW_NS).facts
    assert isinstance(fact, Device)
    published = msgspec.structs.replace(fact, stream=STREAM)
    assert decode(*encode(published)) == published
    return published


def resolver(fact: Device) -> Resolver:
    found = Resolver()
    found.add(fact)
    return found


@pytest.mark.parametrize(
    ("host", "name", "port"),
    [
        ("mlx5", "ens1np0", "ens1np0"), ("mlx5", "mlx5_0", "ens1np0"), ("mlx5", "mlx5_1/1", "ens2np0"),
        ("mlx5", "0000:1a:00.0", "ens1np0"), ("mlx5", "1b:00.0", "ens2np0"), ("mlx5", "rail1", "ens2np0"),
        ("mlx5", "B83F.D211.220A", "ens1np0"), ("bnxt", "bnxt_re_bond0", "bond0"), ("bnxt", "bond0", "bond0"),
        ("bnxt", "5c:6f:69:00:b0:01", "ens3f1np1"), ("bnxt", "c1:00.1", "ens3f1np1"),
        ("ice", "rocep81s0f0", "ens5f0"), ("ice", "0000:51:00.0", "ens5f0"), ("virtio", "02:fc:00:00:00:05", "eth0"),
    ],
)  # fmt: skip
def test_every_name_of_a_port_means_it(host: str, name: str, port: str, tmp_path: Path) -> None:
    place = resolver(told(Recorded(host, tmp_path))).resolve("h1", name)
    assert (place.device, place.port, place.standing) == ("h1", port, Standing.TOLD)


@pytest.mark.parametrize("host", ["mlx5", "bnxt", "ice", "virtio"])
def test_no_name_is_in_conflict_and_the_kernels_host_name_means_the_host(host: str, tmp_path: Path) -> None:
    fact = told(Recorded(host, tmp_path))
    assert fact.role == "host"
    found = resolver(fact)
    assert found.conflicts() == []
    assert [found.device(alias) for alias in fact.aliases] == ["h1"]


def test_ports_tell_speed_addresses_rail_and_bond(tmp_path: Path) -> None:
    ports = {port.port: port for port in told(Recorded("mlx5", tmp_path), rails={"ens2np0": "rail-1"}).ports}
    assert (ports["ens1np0"].speed_mbps, ports["ens1np0"].ips, ports["ens1np0"].rail) == (400_000, ("10.10.0.17",), "")
    # The second address is that of a VLAN on it.
    assert (ports["ens2np0"].rail, ports["ens2np0"].ips) == ("rail-1", ("10.10.1.17", "10.11.1.17"))
    assert ports.keys() == {"ens1np0", "ens2np0"}
    bonded = told(Recorded("bnxt", tmp_path))
    assert [(port.port, port.lag, port.speed_mbps) for port in bonded.ports] == [
        ("bond0", "", 400_000), ("ens3f0np0", "bond0", 200_000), ("ens3f1np1", "bond0", 200_000),
    ]  # fmt: skip
    assert resolver(bonded).lag_members("h1", "bond0") == ["ens3f0np0", "ens3f1np1"]


def test_a_vlan_that_is_named_is_a_port_without_the_address_of_its_card(tmp_path: Path) -> None:
    fact = told(Recorded("mlx5", tmp_path), interfaces=("ens2np0", "ens2np0.100"))
    assert [port.port for port in fact.ports] == ["ens2np0", "ens2np0.100"]
    assert fact.ports[1].ips == ("10.11.1.17",)
    assert resolver(fact).conflicts() == []


def test_a_port_that_is_down_has_no_speed_and_a_driver_may_have_no_dcb(tmp_path: Path) -> None:
    fact = told(Recorded("virtio", tmp_path))
    assert fact.ports == (Port("eth0", aliases=("02:fc:00:00:00:05",), ips=("192.0.2.5",)),)
    assert fact.priorities is None


def test_maps_are_those_of_the_app_and_ets_tables(tmp_path: Path) -> None:
    maps = told(Recorded("bnxt", tmp_path)).priorities
    assert maps is not None
    assert maps.dscp_to_priority is not None
    assert {dscp: priority for dscp, priority in enumerate(maps.dscp_to_priority) if priority} == {26: 3, 48: 7}
    assert maps.priority_to_traffic_class == (0, 0, 0, 1, 0, 0, 0, 2)


def test_maps_that_nics_do_not_agree_on_are_not_told_and_counted(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    dcb = json.loads((host.root / "dcb/ens2np0.json").read_text())
    host.write("dcb/ens2np0.json", json.dumps(dcb | {"app": [[5, 4, 26]]}))
    probe = host.make("identity")
    (fact,) = probe.read(NOW_NS).facts
    assert isinstance(fact, Device)
    assert fact.priorities is not None
    assert fact.priorities.dscp_to_priority is None
    assert fact.priorities.priority_to_traffic_class == tuple(range(8))
    assert probe.counted["nics_sort_differently"] == 1  # type: ignore[attr-defined]


def test_a_dscp_without_an_entry_has_the_default_priority() -> None:
    apps = (App(5, 3, 26), App(1, 2, 0), App(1, 6, 0x8906))
    found = Dcb(Pfc(8, (0,) * 8, (0,) * 8), None, apps).dscp_to_priority
    assert found is not None
    assert [found[0], found[26], found[63]] == [2, 3, 2]
    assert Dcb(None, None, apps[1:]).dscp_to_priority is None


def test_it_is_told_again_when_it_changed_and_only_then(tmp_path: Path) -> None:
    host = Recorded("mlx5", tmp_path)
    probe = host.make("identity")
    assert len(probe.read(NOW_NS).facts) == 1
    assert probe.read(NOW_NS + SECOND_NS).facts == ()
    host.write("addresses.json", json.dumps({"ens1np0": ["10.10.0.99", "fe80::1", "127.0.0.1", "no address"]}))
    (again,) = probe.read(NOW_NS + 2 * SECOND_NS).facts
    assert isinstance(again, Device)
    assert again.valid_from_ns == NOW_NS + 2 * SECOND_NS
    assert [port.ips for port in again.ports] == [("10.10.0.99",), ()]
    assert probe.read(NOW_NS + 3 * SECOND_NS).facts == ()
    probe.close()
