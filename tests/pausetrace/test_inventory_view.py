"""What `devices` and `links` say of a fabric: other names, half-links, speeds that differ, names without a meaning."""

from __future__ import annotations

import io

import pytest

from pausetrace.inventory_tables import print_devices, print_links, print_names, print_ports
from pausetrace.inventory_view import NOT_TOLD, LinkEntry, NameEntry, View
from pausetrace.known_facts import known_facts
from pausetrace.terminal import make_console
from stream.facts import Device, FactStream, Flow, Link, Peer, Port, PriorityMaps
from stream.messages import Item
from stream.roster import SourceUp, StreamUp

AT_NS = 1_000
MAPS = PriorityMaps(priority_to_traffic_class=(0, 0, 0, 3, 4, 0, 6, 0), traffic_class_to_queue=tuple(range(8)))


def told_by(source: str, seq: int = 0) -> FactStream:
    return FactStream(source, "e1", seq, 0)


def link(a: tuple[str, str], b: tuple[str, str], speed_mbps: int = 400_000) -> Link:
    return Link("lab", *a, *b, speed_mbps, AT_NS, told_by("lldp"))


FACTS: list[Item] = [
    Device(
        "lab", "host-7", "host", AT_NS, told_by("inventory"),
        (Port("eth0", 400_000, ("enp65s0np0",), ("10.0.0.7",), rail="0"), Port("eth1", 100_000, ("up",)),
         Port("eth2", 100_000, ("up",), lag="bond0"), Port("eth3", lag="bond0"), Port("bond0")),
        ("gpu-7",),
    ),
    Device("lab", "host-7.example.net", "host", AT_NS, told_by("probe"), (Port("enp65s0np0", aliases=("mlx5_0",)),)),
    Device("lab", "leaf-1", "leaf", AT_NS, told_by("gnmi"),
           (Port("Ethernet0", 400_000, ("Eth1/1",)), Port("Ethernet4", 400_000, peer=Peer("host-9", "eth0")),
            Port("Ethernet8", 400_000), Port("Ethernet12", 400_000)), priorities=MAPS),
    Device("lab", "spine-1", "spine", AT_NS, told_by("inventory")),
    link(("leaf-1", "Eth1/1"), ("host-7.example.net", "mlx5_0/1")),
    link(("leaf-1", "Ethernet8"), ("host-7", "eth1"), 0),
    link(("leaf-1", "Ethernet12"), ("host-7", "up")),
    link(("leaf-1", "Ethernet16"), ("spine-1", "p1")),
    link(("spine-1", "p2"), ("host-7", "bond0")),
    Flow("lab", "00000000c0ffee00", "gpu-7", "gpu-8", "", "", 17, 1, 2, AT_NS, told_by("flows")),
    SourceUp("lab", "probe 9", "e1", AT_NS, (StreamUp("pfc", "host-9"), StreamUp("device"))),
]  # fmt: skip


def view(at_ns: int = AT_NS) -> View:
    return View("lab", known_facts(FACTS, at_ns)["lab"])


def links() -> dict[tuple[str, str], LinkEntry]:
    return {(entry.a_port, entry.b_port): entry for entry in view().links()}


def test_a_device_has_its_other_names_whoever_told_them() -> None:
    host, leaf, spine = view().devices()
    assert (host.device, host.role, host.ports, host.cabled) == ("host-7", "host", 5, 3)
    assert host.names == ("gpu-7", "host-7.example.net")
    assert host.sources == ("inventory", "probe")
    assert host.notes == ("names in conflict: up",)
    assert leaf.maps == ("priority_to_traffic_class", "traffic_class_to_queue")
    assert leaf.notes == spine.notes == ()


def test_the_ports_of_a_device_are_those_of_facts_and_of_links() -> None:
    ports = {port.port: port for port in view().ports("host-7")}
    assert list(ports) == ["bond0", "eth0", "eth1", "eth2", "eth3"]
    eth0 = ports["eth0"]
    assert (eth0.names, eth0.ips, eth0.rail) == (("enp65s0np0", "mlx5_0"), ("10.0.0.7",), "0")
    assert (eth0.peer, eth0.speed_mbps) == ("leaf-1:Ethernet0", 400_000)
    assert ports["eth2"].lag == "bond0"
    assert ports["eth2"].notes == ("names in conflict: up",)
    leaf = {port.port: port for port in view().ports("leaf-1")}
    assert leaf["Ethernet16"].notes == (NOT_TOLD,)
    assert view().device("GPU-7").device == "host-7"


def test_a_link_says_what_is_wrong_with_it() -> None:
    found = links()
    whole = found["eth0", "Ethernet0"]
    assert (whole.half, whole.joined, whole.notes, whole.told_by) == (False, True, (), "lldp")
    slower = found["eth1", "Ethernet8"]
    assert slower.notes == ("speeds differ: host-7 says 100000 Mb/s, leaf-1 says 400000 Mb/s",)
    half = found["eth0", "Ethernet4"]
    assert (half.a_device, half.half, half.told_by) == ("host-9", True, "peer of a port")
    assert half.notes == (f"host-9:eth0: {NOT_TOLD}",)
    other_half = found["Ethernet16", "p1"]
    assert (other_half.half, other_half.notes) == (True, (f"leaf-1:Ethernet16: {NOT_TOLD}",))
    disputed = found["up", "Ethernet12"]
    assert (disputed.joined, disputed.notes) == (False, ("host-7:up is claimed by eth1, eth2",))
    assert found["bond0", "p2"].notes == ("host-7:bond0 is a LAG of 2: give the links of its members",)


def test_names_in_use_that_nobody_explains_are_listed_with_who_uses_them() -> None:
    assert view().names() == [
        NameEntry("lab", "gpu-8", "", "unknown", NOT_TOLD, "flow 00000000c0ffee00"),
        NameEntry("lab", "host-7", "up", "conflicting", "claimed by eth1, eth2", "link of lldp"),
        NameEntry("lab", "host-9", "", "unknown", NOT_TOLD, "source probe 9"),
        NameEntry("lab", "leaf-1", "Ethernet16", "unknown", NOT_TOLD, "link of lldp"),
    ]


def test_what_holds_later_is_not_known_before() -> None:
    assert known_facts(FACTS, AT_NS - 1) == {}
    moved = [*FACTS, Link("lab", "leaf-1", "Ethernet0", "host-7", "eth3", 0, AT_NS + 5, told_by("lldp", 9))]
    before, after = (View("lab", known_facts(moved, AT_NS + at_ns)["lab"]) for at_ns in (4, 5))
    assert {(entry.a_port, entry.b_port) for entry in before.links()} == set(links())
    assert ("eth3", "Ethernet0") in {(entry.a_port, entry.b_port) for entry in after.links()}
    assert ("eth0", "Ethernet0") not in {(entry.a_port, entry.b_port) for entry in after.links()}


@pytest.mark.parametrize("fabrics", [1, 2])
def test_tables_show_all_of_it_and_are_harmless_to_a_terminal(fabrics: int) -> None:
    hostile = Device("lab", "evil\x1b[2J", "host", AT_NS, told_by("x"), (Port("eth0", aliases=("\x07",)),))
    known = known_facts([*FACTS, hostile])["lab"]
    views = [View(f"lab{number}", known) for number in range(fabrics)]
    out = io.StringIO()
    console = make_console(out, 200)
    print_devices([entry for each in views for entry in each.devices()], console)
    print_ports([entry for each in views for entry in each.ports("evil\x1b[2J")], console)
    print_links([entry for each in views for entry in each.links()], console)
    print_names([entry for each in views for entry in each.names()], console)
    text = out.getvalue()
    for said in (
        "half-link", "joins nothing", "speeds differ", "2 of 4", "assumed", "names do not resolve", "400G",
        r"evil\x1b[2J", "inventory, probe",
    ):  # fmt: skip
        assert said in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert ("lab1" in text) == (fabrics == 2)


def test_of_very_many_names_some_are_shown() -> None:
    entries = [NameEntry("lab", f"h{number}", "", "unknown", NOT_TOLD, "flow") for number in range(50)]
    out = io.StringIO()
    print_names(entries, make_console(out))
    assert "50 names do not resolve" in out.getvalue()
    assert "and 30 more" in out.getvalue()
    print_names([], make_console(out))
