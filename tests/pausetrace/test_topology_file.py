"""Topologies in files: JSON and CSV say the same, and what is wrong is told with file and line."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from pausetrace.topology_file import Topology, TopologyLink, read_topology
from stream.errors import TopologyError
from stream.facts import Device, FactStream, Link, Peer, Port, PriorityMaps
from stream.inventory import Inventory
from stream.messages import encode

EXAMPLE = Path(__file__).with_name("topology.json")
TABLES = {
    "devices": "device,role,aliases\nhost-7,host,host-7.example.net; gpu-7\nleaf-1,leaf,\n",
    "ports": "device,port,speed_mbps,aliases,ips,lag,rail,peer_device,peer_port\n"
    "host-7,eth0,400000,mlx5_0;0000:41:00.0,10.0.0.7,,0,,\nhost-7,eth1,,,,bond0,,leaf-2,Eth1/1\n",
    "links": "a,a_port,b,b_port,speed_mbps,delay_ns\n"
    "leaf-1,Eth1/1,gpu-7,mlx5_0,,\nleaf-1,Eth1/2,gpu-7,eth1,100000,500\n",
}
LINK = {"a_device": "a", "a_port": "p", "b_device": "b", "b_port": "1"}


def folder(tmp_path: Path, **changed: str) -> Path:
    for name, text in (TABLES | changed).items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_a_json_file_is_read_whole_and_makes_facts_that_can_be_sent() -> None:
    topology = read_topology(EXAMPLE)
    assert topology.fabric == "lab"
    host, leaf, link = topology.facts("lab", 7, FactStream("topology", "e", 0, 7))
    assert isinstance(host, Device)
    assert isinstance(leaf, Device)
    assert [port.port for port in host.ports] == ["eth0", "eth1", "eth2", "bond0"]
    assert host.ports[1].peer == Peer("leaf-2", "Eth1/1")
    assert leaf.priorities is not None
    assert leaf.priorities.priority_to_traffic_class == (0, 0, 0, 3, 4, 0, 6, 0)
    assert isinstance(link, Link)
    assert (link.speed_mbps, link.delay_ns, link.valid_from_ns) == (0, 1000, 7)
    assert [fact.stream.seq for fact in (host, leaf, link)] == [0, 1, 0]
    for fact in (host, leaf, link):
        assert encode(fact).value


def test_a_folder_of_tables_is_read_with_lists_in_cells(tmp_path: Path) -> None:
    topology = read_topology(folder(tmp_path))
    host, leaf = topology.devices
    assert (host.device, host.role, host.aliases) == ("host-7", "host", ("host-7.example.net", "gpu-7"))
    plain = [msgspec.convert(msgspec.to_builtins(port), Port) for port in host.ports]
    assert plain == [
        Port("eth0", 400_000, ("mlx5_0", "0000:41:00.0"), ("10.0.0.7",), "", "0"),
        Port("eth1", 0, (), (), "bond0", "", Peer("leaf-2", "Eth1/1")),
    ]
    assert (leaf.device, leaf.role, leaf.ports) == ("leaf-1", "leaf", ())
    assert topology.links == (
        TopologyLink("leaf-1", "Eth1/1", "gpu-7", "mlx5_0"),
        TopologyLink("leaf-1", "Eth1/2", "gpu-7", "eth1", 100_000, 500),
    )


def test_ports_and_links_may_be_left_out_and_kind_is_as_good_as_role(tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text("device,kind\nh1,host\n")
    topology = read_topology(tmp_path)
    assert topology == Topology((topology.devices[0],))
    assert topology.devices[0].role == "host"


@pytest.mark.parametrize(
    ("table", "text", "complaint"),
    [
        ("devices", "role\nhost\n", "devices.csv:1: column device is missing"),
        ("devices", "device\nhost-7\nhost-7\n", "devices.csv:3: device 'host-7' is there twice"),
        ("devices", 'device\nhost-7\n""\n', "devices.csv:3:"),
        ("ports", "device,port\nnobody,eth0\n", "ports.csv:2: device 'nobody': no such device in devices.csv"),
        ("ports", "device,port,speed_mbps\nhost-7,eth0,fast\n", "ports.csv:2: speed_mbps is 'fast'"),
        ("ports", "device,port,speed_mbps\nhost-7,eth0,99999999999999\n", "ports.csv:2:"),
        ("ports", "device,port,peer_device\nhost-7,eth0,leaf-2\n", "a peer has both"),
        ("ports", "device,port\nhost-7,eth0\nhost-7,eth0\n", "ports.csv:3: device 'host-7' has a port twice: 'eth0'"),
        ("links", "a,a_port,b\nx,y,z\n", "column b_port is missing"),
        ("links", "a,a_port,b,b_port\nx,,z,p\n", "links.csv:2:"),
        ("links", "a,a_port,b,b_port\nx,p,x,p\n", "links.csv:2: a link from x:p to itself"),
        ("links", "a,a_port,b,b_port\nx,p,y,1\nz,1,x,p\n", "links.csv:3: x:p ends two links, also that of "),
        ("links", "a,a_port,b,b_port\nhost-7,eth0,y,1\ngpu-7,mlx5_0,y,2\n", "links.csv:3: gpu-7:mlx5_0 ends two links"),
    ],
)
def test_a_wrong_table_is_told_with_its_line(tmp_path: Path, table: str, text: str, complaint: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_topology(folder(tmp_path, **{table: text}))
    assert complaint in caught.value.message
    assert "trace-format" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"devices": [{"device": "a", "alias": ["b"]}]}, "alias"),
        ({"devices": [{"device": "a", "ports": [{"port": "p", "speed": 1}]}]}, "speed"),
        ({"devices": [{"device": "a", "priorities": {"dscp_to_priority": [0]}}]}, "dscp_to_priority"),
        ({"devices": [{"device": "a", "priorities": {"dscp": [0]}}]}, "dscp"),
        ({"devices": [{"device": ""}]}, "device"),
        ({"links": [{"a_device": "a"}]}, "links"),
        ({"fabric": "a/b"}, "fabric"),
        ({"devices": [{"device": "a"}, {"device": "a"}]}, r"\$\.devices\[1\]: device 'a' is there twice"),
        ({"links": [LINK, LINK | {"b_port": "2"}]}, r"\$\.links\[1\]: a:p ends two links"),
    ],
)
def test_a_wrong_json_file_is_told_by_the_field(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(json.loads(EXAMPLE.read_text()) | change))
    with pytest.raises(TopologyError, match=complaint):
        read_topology(path)


def test_the_example_of_the_page_is_a_topology_whose_link_joins_two_ports(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/topology.md").read_text()
    path = tmp_path / "page.json"
    path.write_text(page.split("```json\n")[1].split("```")[0])
    facts = read_topology(path).facts("dc-1", 0, FactStream("topology", "e", 0, 0))
    (cable,) = Inventory.of(facts).cables()
    assert {cable.a[:2], cable.b[:2]} == {("leaf-1", "Ethernet0"), ("host-7", "eth0")}


def test_what_is_no_file_or_no_json_is_told(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="cannot be read"):
        read_topology(tmp_path / "nothing.json")
    for text, line in (('{\n"devices": [\n}', 3), ('{\n"devices": [', 2)):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(TopologyError, match=rf"broken\.json:{line}: .*; correct it"):
            read_topology(tmp_path / "broken.json")
    (tmp_path / "x.json").write_bytes(b"\xff{")
    with pytest.raises(TopologyError, match=r"x\.json(:1)?: "):
        read_topology(tmp_path / "x.json")
    with pytest.raises(TopologyError, match=r"devices\.csv is missing"):
        read_topology(tmp_path)


def test_maps_of_a_file_are_those_of_facts() -> None:
    maps = read_topology(EXAMPLE).devices[1].priorities
    assert maps is not None
    assert msgspec.structs.asdict(maps).keys() == msgspec.structs.asdict(PriorityMaps()).keys()
