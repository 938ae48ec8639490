"""What devices say of themselves in their words: names, speeds, LAGs, neighbours and the sorting of packets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from collectors import profiles
from collectors.link_speed import speed_mbps
from stream.facts import DSCPS, Device, Link, Peer, Port, PriorityMaps
from stream.inventory import Inventory
from stream.messages import decode, encode
from tests.collectors.notifications import SECOND_NS, SPELLINGS, START_NS, SYNC, Feed, Value, notification, plain

OPENCONFIG: list[tuple[str, Value]] = [
    ("/interfaces/interface[name=eth1]/ethernet/state/port-speed", "openconfig-if-ethernet:SPEED_400GB"),
    ("/interfaces/interface[name=eth1]/ethernet/state/negotiated-port-speed", "SPEED_UNKNOWN"),
    ("/interfaces/interface[name=eth1]/ethernet/state/mac-address", "00:1c:73:00:00:01"),
    ("/interfaces/interface[name=eth1]/ethernet/state/aggregate-id", "Port-Channel7"),
    ("/interfaces/interface[name=eth1]/state/description", "to spine1"),
    ("/lldp/state/system-name", "leaf0.example.net"),
    ("/lldp/state/chassis-id", "00:1c:73:00:00:00"),
    ("/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id=1]/state/system-name", "spine1"),
    ("/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id=1]/state/chassis-id", "00:1c:73:00:01:00"),
    ("/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id=1]/state/port-id", "Ethernet7"),
]
SONIC: list[tuple[str, Value]] = [
    ("/PORT_TABLE/Ethernet0/speed", 400_000),
    ("/PORT_TABLE/Ethernet0/alias", "etp1"),
    ("/PORT_TABLE/Ethernet0/description", "to spine1"),
    ("/LLDP_ENTRY_TABLE/Ethernet0/lldp_rem_sys_name", "spine1"),
    ("/LLDP_ENTRY_TABLE/Ethernet0/lldp_rem_chassis_id", "00:1c:73:00:01:00"),
    ("/LLDP_ENTRY_TABLE/Ethernet0/lldp_rem_port_id", "Ethernet7"),
    ("/LAG_MEMBER_TABLE/PortChannel7:Ethernet0/status", "enabled"),
]
SRLINUX: list[tuple[str, Value]] = [
    ("/interface[name=ethernet-1/1]/ethernet/port-speed", "400G"),
    ("/interface[name=ethernet-1/1]/ethernet/hw-mac-address", "00:1c:73:00:00:01"),
    ("/interface[name=ethernet-1/1]/ethernet/aggregate-id", "lag7"),
    ("/interface[name=ethernet-1/1]/description", "to spine1"),
    ("/system/lldp/system-name", "leaf0.example.net"),
    ("/system/lldp/chassis-id", "00:1c:73:00:00:00"),
    ("/system/lldp/interface[name=ethernet-1/1]/neighbor[id=1]/system-name", "spine1"),
    ("/system/lldp/interface[name=ethernet-1/1]/neighbor[id=1]/chassis-id", "00:1c:73:00:01:00"),
    ("/system/lldp/interface[name=ethernet-1/1]/neighbor[id=1]/port-id", "Ethernet7"),
]
SPINE = Peer("spine1", "Ethernet7")
TOLD: dict[str, tuple[list[tuple[str, Value]], Port, tuple[str, ...]]] = {
    "openconfig": (
        OPENCONFIG,
        Port("eth1", 400_000, ("00:1c:73:00:00:01", "to spine1"), lag="Port-Channel7", peer=SPINE),
        ("leaf0.example.net", "00:1c:73:00:00:00"),
    ),
    "sonic": (SONIC, Port("Ethernet0", 400_000, ("etp1", "to spine1"), lag="PortChannel7", peer=SPINE), ()),
    "nokia-srlinux": (
        SRLINUX,
        Port("ethernet-1/1", 400_000, ("00:1c:73:00:00:01", "to spine1"), lag="lag7", peer=SPINE),
        ("leaf0.example.net", "00:1c:73:00:00:00"),
    ),
    "juniper-junos": (
        [("/junos/system/linecard/qmon-sw[name=et-0/0/1]/state/parent_ae_name", "ae7")],
        Port("et-0/0/1", lag="ae7"),
        (),
    ),
}


def tell(feed: Feed, *leaves: tuple[str, Value], second: float = 0, deletes: tuple[str, ...] = ()) -> None:
    spelling = SPELLINGS.get(feed.profile.name, plain)
    time_ns = START_NS + round(second * SECOND_NS)
    feed.send(*(notification(time_ns, [spelling(*leaf)]) for leaf in leaves))
    if deletes:
        feed.send(notification(time_ns, [], deletes))


@pytest.mark.parametrize("profile", TOLD)
def test_a_device_tells_its_ports_and_its_neighbours(profile: str) -> None:
    leaves, port, aliases = TOLD[profile]
    feed = Feed(profile)
    tell(feed, *leaves)
    feed.send(SYNC)
    device, *links = feed.facts
    assert isinstance(device, Device)
    assert (device.device, device.role, device.aliases, device.ports) == ("leaf0", "switch", aliases, (port,))
    told = [(link.a_port, link.b_device, link.b_port, link.speed_mbps) for link in links if isinstance(link, Link)]
    assert told == ([] if port.peer is None else [(port.port, "spine1", "Ethernet7", 400_000)])
    assert device.valid_from_ns == START_NS


@pytest.mark.parametrize("profile", profiles.names())
def test_each_fact_of_a_profile_has_its_leaf_in_a_test(profile: str) -> None:
    feed = Feed(profile)
    leaves = TOLD.get(profile, (OPENCONFIG, None, None))[0] + SORTING.get(profile, SORTING["openconfig"])
    if profile == "juniper-junos":
        leaves = leaves + OPENCONFIG
    tell(feed, *leaves)
    met = {id(entry.fact) for entry in feed.rows._fleets[0].paths.slow}
    assert [fact.path for fact in feed.profile.fact if id(fact) not in met] == []


def test_facts_are_told_when_they_change_and_links_with_them() -> None:
    feed = Feed("openconfig")
    tell(feed, *OPENCONFIG)
    feed.send(SYNC)
    first = len(feed.facts)
    tell(feed, *OPENCONFIG, second=1)
    assert len(feed.facts) == first
    tell(feed, ("/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id=1]/state/port-id", "Ethernet9"), second=2)
    device, link = feed.facts[first:]
    assert isinstance(device, Device)
    assert isinstance(link, Link)
    assert (device.ports[0].peer, link.b_port) == (Peer("spine1", "Ethernet9"), "Ethernet9")
    assert device.valid_from_ns == link.valid_from_ns == START_NS + 2 * SECOND_NS


def test_a_neighbour_from_before_the_paths_began_anew_can_be_deleted() -> None:
    feed = Feed("openconfig")
    tell(feed, *OPENCONFIG)
    feed.send(SYNC)
    feed.paths.renew()
    speed = next(leaf for leaf in OPENCONFIG if "speed" in leaf[0])
    tell(feed, speed, second=1)
    known = {entry.fact.says for entry in feed.rows._fleets[0].paths.slow if entry.fact is not None}
    assert known == {"port_speed", "peer_device", "peer_port", "peer_chassis"}
    before = len(feed.facts)
    tell(feed, *OPENCONFIG, second=2)
    assert len(feed.facts) == before
    feed.paths.renew()
    tell(feed, second=3, deletes=("/lldp/interfaces/interface[name=*]/neighbors/neighbor[id=*]",))
    device = feed.facts[-1]
    assert isinstance(device, Device)
    assert device.ports[0].peer is None
    feed.paths.renew()
    tell(feed, speed, second=4)
    assert [entry.fact.says for entry in feed.rows._fleets[0].paths.slow if entry.fact is not None] == ["port_speed"]


@pytest.mark.parametrize("deleted", [
    "/lldp/interfaces/interface[name=eth1]/neighbors/neighbor[id=1]", "/lldp/interfaces/interface[name=*]", "/lldp",
])  # fmt: skip
def test_a_neighbour_that_is_deleted_is_gone(deleted: str) -> None:
    feed = Feed("openconfig")
    tell(feed, *OPENCONFIG)
    feed.send(SYNC)
    tell(feed, second=1, deletes=(deleted,))
    device = feed.facts[-1]
    assert isinstance(device, Device)
    assert device.ports[0].peer is None
    tell(feed, *OPENCONFIG, second=2)
    assert isinstance(feed.facts[-1], Link)


def test_a_device_that_never_says_that_it_has_told_all_has_its_facts_after_two_flushes() -> None:
    feed = Feed("openconfig")
    feed.flush(0)
    feed.flush(0)
    tell(feed, *OPENCONFIG)
    feed.flush(0)
    assert feed.facts == []
    feed.flush(0)
    assert len(feed.facts) == 2


def test_the_neighbours_of_both_ends_make_one_cable() -> None:
    facts: list[Device | Link] = []
    for number, (name, port, peer, peer_port) in enumerate(
        [("leaf0", "eth1", "spine0.example.net", "Ethernet7"), ("spine0", "Ethernet7", "00:1c:73:00:00:00", "to spine")]
    ):
        feed = Feed("openconfig")
        feed.rows.remove_target(0)
        feed.rows.add_target(0, name, feed.profile, SECOND_NS)
        base = f"/lldp/interfaces/interface[name={port}]/neighbors/neighbor[id=1]/state"
        peer_leaf = "chassis-id" if peer.startswith("00") else "system-name"
        tell(feed, ("/lldp/state/chassis-id", f"00:1c:73:00:0{number}:00"), (f"{base}/{peer_leaf}", peer))
        tell(
            feed, (f"{base}/port-id", peer_port), (f"/interfaces/interface[name={port}]/state/description", "to spine")
        )
        tell(feed, (f"/interfaces/interface[name={port}]/ethernet/state/port-speed", "SPEED_100GB"))
        feed.send(SYNC)
        facts += feed.facts
    stream: dict[str, Any] = {"source": "collector", "epoch": "1", "mark_ns": START_NS}
    sent = [
        msgspec.structs.replace(fact, stream=msgspec.structs.replace(fact.stream, seq=seq, **stream))
        for seq, fact in enumerate(facts)
    ]
    # As they are read from Kafka, where every name and number is checked.
    for fact in sent:
        assert decode(*encode(fact)) == fact
    cables = Inventory.of(sent).cables()
    assert [(*cable.a[:2], *cable.b[:2]) for cable in cables] in (
        [("leaf0", "eth1", "spine0", "Ethernet7")], [("spine0", "Ethernet7", "leaf0", "eth1")],
    )  # fmt: skip


CLASSES = tuple(dscp // 8 for dscp in range(DSCPS))
SORTING: dict[str, list[tuple[str, Value]]] = {
    "sonic": [
        *((f"/DSCP_TO_TC_MAP/AZURE/{dscp}", dscp // 8) for dscp in range(DSCPS)),
        *((f"/TC_TO_QUEUE_MAP/AZURE/{number}", number) for number in range(8)),
        *((f"/TC_TO_PRIORITY_GROUP_MAP/AZURE/{number}", 0 if number < 3 else number) for number in range(8)),
        *((f"/MAP_PFC_PRIORITY_TO_QUEUE/AZURE/{number}", number) for number in range(8)),
    ],
    "openconfig": [
        *((f"/qos/classifiers/classifier[name=in]/terms/term[id={number}]/conditions/ipv4/state/dscp-set",
           list(range(8 * number, 8 * number + 8))) for number in range(8)),
        *((f"/qos/classifiers/classifier[name=in]/terms/term[id={number}]/actions/state/target-group", f"fg{number}")
          for number in range(8)),
        *((f"/qos/forwarding-groups/forwarding-group[name=fg{number}]/state/output-queue", f"UC{number}")
          for number in range(8)),
    ],
    "nokia-srlinux": [
        *((f"/qos/classifiers/dscp-policy[name=in]/dscp[value={dscp}]/forwarding-class", f"fc{dscp // 8}")
          for dscp in range(DSCPS)),
        *((f"/qos/forwarding-classes/forwarding-class[name=fc{number}]/output/unicast-queue", f"unicast-{number}")
          for number in range(8)),
    ],
}  # fmt: skip
IDENTITY = tuple(range(8))


@pytest.mark.parametrize(
    ("profile", "maps"),
    [
        ("sonic", PriorityMaps(CLASSES, IDENTITY, IDENTITY, (0, 0, 0, 3, 4, 5, 6, 7))),
        ("openconfig", PriorityMaps(CLASSES, None, IDENTITY, None)),
        ("nokia-srlinux", PriorityMaps(CLASSES, None, IDENTITY, None)),
    ],
)
def test_the_sorting_of_packets_becomes_priority_maps(profile: str, maps: PriorityMaps) -> None:
    feed = Feed(profile)
    tell(feed, *SORTING[profile])
    feed.send(SYNC)
    device = feed.facts[0]
    assert isinstance(device, Device)
    assert device.priorities == maps


def test_a_map_with_a_hole_is_not_told() -> None:
    feed = Feed("sonic")
    tell(feed, *(leaf for leaf in SORTING["sonic"] if leaf[0] != "/TC_TO_QUEUE_MAP/AZURE/5"))
    feed.send(SYNC)
    device = feed.facts[0]
    assert isinstance(device, Device)
    assert device.priorities == PriorityMaps(CLASSES, None, None, (0, 0, 0, 3, 4, 5, 6, 7))


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("100000", 100_000), ("SPEED_400GB", 400_000), ("oc-eth:SPEED_2500MB", 2_500), ("100G", 100_000),
        ("SPEED_10GB", 10_000), ("1.6T", 1_600_000), ("800 Gbps", 800_000), ("400GBASE-DR4", 400_000), ("10M", 10),
        ("SPEED_UNKNOWN", 0), ("auto", 0), ("", 0), ("-1", 0), ("99999999999999999999", 0), ("0", 0), ("1e3", 0),
    ],
)  # fmt: skip
def test_a_speed_is_read_however_it_is_written(text: str, speed: int) -> None:
    assert speed_mbps(text) == speed


@pytest.mark.parametrize(("unit", "speed"), [("Mb/s", 10**7), ("kb/s", 10**4), ("b/s", 10), ("Gb/s", 0)])
def test_a_number_is_in_the_unit_that_the_profile_says(unit: Any, speed: int) -> None:
    assert speed_mbps("10000000", unit) == speed
