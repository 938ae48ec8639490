"""Every name by which a field device goes means the same place; a name that may mean two means none."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stream.facts import Device, FactStream, Link, Peer, Port
from stream.identity import Conflict, Resolver, Standing

MAC = "98:03:9b:00:00:01"


def device(name: str, *ports: Port, source: str = "inventory", aliases: tuple[str, ...] = (), at: int = 0) -> Device:
    return Device("lab", name, "switch", at, FactStream(source, "e1", at, 0), ports, aliases)


def link(a: tuple[str, str], b: tuple[str, str], at: int = 0) -> Link:
    return Link("lab", *a, *b, 100_000, at, FactStream("lldp", "e1", at, 0))


def resolver(*facts: Device | Link) -> Resolver:
    made = Resolver()
    for fact in facts:
        made.add(fact)
    return made


HOST = device(
    "host-7", Port("eth0", aliases=("enp65s0f0np0", "rail 0 to leaf-1", MAC, "mlx5_0", "0000:41:00.0")),
    Port("eth1", aliases=("mlx5_1", "0000:c1:00.0"), lag="bond0"),
    Port("eth2", aliases=("mlx5_2",), lag="bond0"), Port("bond0", aliases=("storage",)),
    aliases=("host-7.example.net", "gpu-node-7", "b8:ce:f6:00:00:07"),
)  # fmt: skip
LEAF = device("leaf-1", Port("Ethernet0", aliases=("Eth1/1", "etp1")), Port("Ethernet4", aliases=("Eth1/2", "etp2")))


def means(names: Resolver, asked: tuple[str, str]) -> tuple[str, str] | Standing:
    place = names.resolve(*asked)
    assert place.known or (place.why and place[1] == asked[1])
    return (place.device, place.port) if place.known else place.standing


def test_a_host_goes_by_its_name_an_alias_its_domain_name_a_short_name_and_its_address() -> None:
    names = resolver(HOST, LEAF)
    for name in ("host-7", "HOST-7", "host-7.example.net", "Host-7.Example.Net.", "gpu-node-7", "b8-ce-f6-00-00-07"):
        assert means(names, (name, "eth0")) == ("host-7", "eth0"), name
    # LLDP gives the MAC address of any port as the chassis where nobody says otherwise.
    assert means(names, ("9803.9b00.0001", "eth1")) == ("host-7", "eth1")
    assert means(names, ("leaf-1.example.net", "Ethernet0")) == ("leaf-1", "Ethernet0")
    assert means(resolver(device("leaf-1.example.net", Port("p"))), ("leaf-1", "p")) == ("leaf-1.example.net", "p")


def test_a_port_goes_by_ifname_ifalias_mac_rdma_device_pci_address_and_sonic_alias() -> None:
    names = resolver(HOST, LEAF)
    for port in (
        "eth0", "ETH0", "enp65s0f0np0", "rail 0 to leaf-1", "9803.9B00.0001", "98039b000001", "mlx5_0", "mlx5_0/1",
        "0000:41:00.0", "41:00.0",
    ):  # fmt: skip
        assert means(names, ("host-7", port)) == ("host-7", "eth0"), port
    for port in ("Ethernet0", "Eth1/1", "eth1/1", "etp1"):
        assert means(names, ("leaf-1", port)) == ("leaf-1", "Ethernet0"), port


def test_members_of_a_lag_stay_themselves_and_the_lag_is_a_port_of_its_own() -> None:
    names = resolver(HOST)
    assert means(names, ("host-7", "mlx5_1")) == ("host-7", "eth1")
    assert means(names, ("host-7", "storage")) == ("host-7", "bond0")
    assert names.lag_members("host-7", "bond0") == ["eth1", "eth2"]
    assert names.cable_end("host-7", "storage").port == "bond0"


def test_a_cable_at_a_lag_with_one_member_ends_at_the_member() -> None:
    names = resolver(device("leaf-1", Port("Ethernet8", lag="PortChannel1"), Port("PortChannel1", aliases=("Po1",))))
    assert names.resolve("leaf-1", "Po1").port == "PortChannel1"
    assert names.cable_end("leaf-1", "Po1").port == "Ethernet8"


def test_the_address_that_a_lag_shares_with_a_member_means_the_member() -> None:
    bonded = Port("eth1", aliases=(MAC,), lag="bond0"), Port("eth2", lag="bond0"), Port("bond0", aliases=(MAC,))
    assert means(resolver(device("host-7", *bonded)), ("host-7", MAC)) == ("host-7", "eth1")
    both = (bonded[0], Port("eth2", aliases=(MAC,), lag="bond0"), bonded[2])
    assert means(resolver(device("host-7", *both)), ("host-7", MAC)) == Standing.CONFLICTING


def test_an_alias_that_two_ports_claim_means_neither_in_any_spelling() -> None:
    names = resolver(device("leaf-1", Port("Ethernet0", aliases=(MAC,)), Port("Ethernet4", aliases=(MAC.upper(),))))
    for asked in (MAC, MAC.upper(), "9803.9b00.0001"):
        place = names.resolve("leaf-1", asked)
        assert place == ("leaf-1", asked, Standing.CONFLICTING, "claimed by Ethernet0, Ethernet4")
    assert Conflict("leaf-1", MAC, ("Ethernet0", "Ethernet4")) in names.conflicts()


def test_an_alias_that_two_devices_claim_means_neither() -> None:
    names = resolver(device("a", Port("p"), aliases=("core",)), device("b", Port("p"), aliases=("Core",)))
    assert names.resolve("core", "p") == ("core", "p", Standing.CONFLICTING, "claimed by a, b")
    assert means(names, ("a", "p")) == ("a", "p")
    assert Conflict("", "core", ("a", "b")) in names.conflicts()


def test_an_own_name_means_that_thing_whoever_claims_it() -> None:
    # SONiC counts its aliases in another way than its names.
    names = resolver(device("leaf-1", Port("Ethernet4"), Port("Ethernet12", aliases=("Ethernet4",))))
    assert means(names, ("leaf-1", "Ethernet4")) == ("leaf-1", "Ethernet4")
    assert names.conflicts() == [Conflict("leaf-1", "Ethernet4", ("Ethernet12", "Ethernet4"))]


def test_a_function_without_a_domain_means_one_only_where_there_is_one() -> None:
    names = resolver(device("h", Port("a", aliases=("0000:41:00.0",)), Port("b", aliases=("0001:41:00.0",))))
    assert means(names, ("h", "41:00.0")) == Standing.CONFLICTING
    assert means(names, ("h", "0001:41:00.0")) == ("h", "b")
    assert names.conflicts() == []


def test_a_host_of_another_domain_is_another_host() -> None:
    names = resolver(device("host-7.a.net", Port("p")), device("host-7.b.net", Port("p")))
    assert means(names, ("host-7", "p")) == Standing.CONFLICTING
    assert means(names, ("host-7.c.net", "p")) == Standing.UNKNOWN
    assert means(resolver(HOST), ("host-7.b.net", "eth0")) == Standing.UNKNOWN


def test_an_ip_address_is_no_domain_name() -> None:
    names = resolver(device("10.0.0.7", Port("p")))
    assert means(names, ("10", "p")) == Standing.UNKNOWN
    assert means(names, ("10.0.0.7", "p")) == ("10.0.0.7", "p")


def test_what_two_sources_tell_of_one_host_is_one_host() -> None:
    probe = device("host-7.example.net", Port("enp65s0f0np0", aliases=("mlx5_0", MAC)), Port("mlx5_9"), source="probe")
    lldp = device("HOST-7", Port(MAC.upper()), source="lldp")
    inventory = device("host-7", Port("rail0", aliases=("enp65s0f0np0",)), Port("mgmt"))
    for order in itertools.permutations((probe, lldp, inventory)):
        names = resolver(*order)
        assert names.devices() == ["HOST-7"]
        assert names.ports("HOST-7") == ["mgmt", "mlx5_9", "rail0"]
        for asked in ((probe.device, "mlx5_0/1"), ("host-7", MAC), ("Host-7", "enp65s0f0np0")):
            assert means(names, asked) == ("HOST-7", "rail0")
        assert names.conflicts() == []


def test_a_source_that_tells_both_tells_them_apart() -> None:
    both = device("leaf-1", aliases=("leaf-2",)), device("leaf-2")
    names = resolver(*both, device("leaf-2", Port("p"), source="gnmi"))
    assert names.devices() == ["leaf-1", "leaf-2"]
    assert Conflict("", "leaf-2", ("leaf-1", "leaf-2")) in names.conflicts()
    cased = resolver(device("h", Port("Eth0"), Port("eth0")))
    assert cased.ports("h") == ["Eth0", "eth0"]
    assert means(cased, ("h", "eth0")) == ("h", "eth0")
    assert means(cased, ("h", "ETH0")) == Standing.CONFLICTING


def test_names_that_would_join_what_a_source_tells_apart_join_nothing() -> None:
    names = resolver(
        device("a", aliases=("x",)), device("b"), device("x", source="s2", aliases=("b",)), device("y", source="s2")
    )
    assert names.devices() == ["a", "b", "x", "y"]


def test_links_make_names_known_that_no_device_tells() -> None:
    names = resolver(device("host-7"), link(("host-7.example.net", "eth0"), ("tor4.example.net", "Ethernet0")))
    assert names.resolve("host-7", "ETH0") == ("host-7", "eth0", Standing.LINKED, "")
    assert names.resolve("TOR4", "ethernet0") == ("tor4.example.net", "Ethernet0", Standing.LINKED, "")
    assert names.resolve("tor4", "Ethernet9").standing == Standing.UNKNOWN
    assert names.devices() == ["host-7"]


def test_a_peer_makes_names_known_as_a_link_does() -> None:
    names = resolver(device("host-7", Port("eth0", peer=Peer("tor4", "Ethernet0"))))
    assert names.resolve("tor4", "Ethernet0").standing == Standing.LINKED


def test_a_links_name_that_two_ports_claim_is_in_conflict() -> None:
    names = resolver(device("h", Port("a", aliases=(MAC,)), Port("b", aliases=(MAC,))), link(("h", MAC), ("s", "p")))
    assert means(names, ("h", MAC)) == Standing.CONFLICTING


def test_a_later_version_takes_the_place_of_the_sources_earlier_one_alone() -> None:
    first = device("h", Port("eth0", aliases=("mlx5_0",)), at=5)
    second = device("h", Port("eth0", aliases=("mlx5_1",)), at=9)
    other = device("h", Port("eth0", aliases=("0000:41:00.0",)), source="probe", at=1)
    for order in itertools.permutations((first, second, other)):
        names = resolver(*order)
        assert means(names, ("h", "mlx5_0")) == Standing.UNKNOWN
        assert means(names, ("h", "mlx5_1")) == means(names, ("h", "41:00.0")) == ("h", "eth0")


def test_a_copy_learns_alone() -> None:
    names = resolver(LEAF)
    twin = names.copy()
    assert twin.generation == names.generation
    twin.add(HOST)
    assert means(twin, ("host-7", "mlx5_0")) == ("host-7", "eth0")
    assert means(names, ("host-7", "mlx5_0")) == Standing.UNKNOWN
    assert twin.generation != names.generation


NAMES = ("a", "A", "b", "a.x", "a.y", "b.x", "c", MAC, "98039b000001", "41:00.0", "0000:41:00.0", "mlx5_0", "mlx5_0/1")
_ALIASES = st.lists(st.sampled_from(NAMES), max_size=2).map(tuple)
_PORTS = st.lists(
    st.builds(lambda name, aliases, lag: Port(name, 0, aliases, lag=lag), st.sampled_from(NAMES), _ALIASES,
              st.sampled_from(("", "", "a", "b"))),
    max_size=4,
)  # fmt: skip
_DEVICES = st.builds(
    lambda name, ports, aliases, source, at: device(name, *ports, source=source, aliases=aliases, at=at),
    st.sampled_from(NAMES), _PORTS, _ALIASES, st.sampled_from("123"), st.integers(0, 5),
)  # fmt: skip
_LINKS = st.builds(link, *[st.tuples(*[st.sampled_from(NAMES)] * 2)] * 2, st.integers(0, 5))
FACTS = st.lists(st.one_of(_DEVICES, _DEVICES, _LINKS), max_size=8)


def everything(names: Resolver) -> list[object]:
    asked = [names.resolve(one, other) for one in (*NAMES, "d") for other in (*NAMES, "")]
    lags = [names.lag_members(one, other) for one in names.devices() for other in names.ports(one)]
    return [asked, lags, names.devices(), [names.ports(one) for one in names.devices()], names.conflicts()]


@settings(derandomize=True, deadline=None, max_examples=120)
@given(facts=FACTS, seed=st.integers(0, 1000))
def test_the_order_in_which_facts_come_and_questions_in_between_change_nothing(
    facts: list[Device | Link], seed: int
) -> None:
    # Of one source no two versions have one time, else their order would be none.
    facts = [fact for at, fact in enumerate(facts) if _version(fact) not in map(_version, facts[:at])]
    expected = everything(resolver(*facts))
    shuffled, random = list(facts), Random(seed)
    random.shuffle(shuffled)
    names = Resolver()
    for fact in shuffled:
        names.add(fact)
        if random.random() < 0.3:
            everything(names)
        if random.random() < 0.2:
            names = names.copy()
    assert everything(names) == expected


@settings(derandomize=True, deadline=None, max_examples=30)
@given(facts=FACTS, seed=st.integers(0, 1000))
def test_what_a_copy_was_asked_that_ran_ahead_changes_nothing(facts: list[Device | Link], seed: int) -> None:
    facts = [fact for at, fact in enumerate(facts) if _version(fact) not in map(_version, facts[:at])]
    random, names = Random(seed), Resolver()
    for at, fact in enumerate(facts):
        ahead = names.copy()
        for later in random.sample(facts[at:], random.randint(0, len(facts) - at)):
            ahead.add(later)
            everything(ahead)
        names.add(fact)
        assert everything(names) == everything(resolver(*facts[: at + 1]))


def _version(fact: Device | Link) -> tuple[object, ...]:
    return (fact.stream, fact.device) if isinstance(fact, Device) else (fact,)


@settings(derandomize=True, deadline=None, max_examples=120)
@given(facts=FACTS)
def test_what_a_name_means_is_a_name_that_means_itself(facts: list[Device | Link]) -> None:
    names = resolver(*facts)
    for asked in itertools.product((*NAMES, "d"), (*NAMES, "")):
        place = names.resolve(*asked)
        assert names.resolve(*asked) == place
        if place.known:
            assert names.resolve(place.device, place.port) == place
            assert names.lag_members(place.device, place.port) == names.lag_members(*place[:2])
        else:
            assert place.port == asked[1]
            assert place.why


@settings(derandomize=True, deadline=None, max_examples=120)
@given(facts=FACTS)
def test_an_own_name_always_means_a_thing_that_its_source_tells(facts: list[Device | Link]) -> None:
    names = resolver(*facts)
    for fact in names.facts():
        for port in fact.ports:
            place = names.resolve(fact.device, port.port)
            assert place.standing == Standing.TOLD
            assert fact.device in names.own_names(place.device)
    for source in "123":
        told = [fact.device for fact in names.facts() if fact.stream.source == source]
        assert len({names.device(name) for name in told}) == len(set(told)), "a source tells its names apart"
