"""The inventory: what it means, and that each mistake is told with its file, line and key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors import profiles
from collectors.capabilities import Capabilities
from collectors.examine import examine, snapshot
from collectors.failures import Failure
from collectors.inventory import Inventory, load
from collectors.plan import make_plan
from collectors.profile_choice import choice_of
from collectors.profile_file import read_profile
from collectors.profile_intervals import with_intervals
from collectors.target import Target
from collectors.target_settings import seconds_of
from collectors.transport import Endpoint, Tls
from stream.errors import ConfigError

HEAD = '[collect]\nfabric = "dc-1"\n'


def read(tmp_path: Path, text: str, **environ: str) -> Inventory:
    """The inventory of this text."""
    file = tmp_path / "fabric.toml"
    file.write_text(HEAD + text)
    return load(file, environ)


def test_a_target_has_its_group_s_settings_and_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    inventory = read(
        tmp_path,
        """
[defaults]
username = "reader"
password_file = "password"
interval = "1s"
[groups.leaf]
port = 57400
profile = "nokia-srlinux"
interval = "500ms"
[targets.leaf1]
group = "leaf"
address = "10.0.0.1"
[targets.spine1]
address = "[2001:db8::1]:9339"
device = "sp-1"
interval = "10s"
""",
    )
    leaf, spine = inventory.targets
    assert (leaf.device, leaf.endpoint.address, leaf.profile) == ("leaf1", "10.0.0.1:57400", "nokia-srlinux")
    assert (leaf.interval_ms, spine.interval_ms) == (500, 10_000)
    assert (spine.device, spine.endpoint.address, spine.profile) == ("sp-1", "[2001:db8::1]:9339", "auto")
    assert leaf.endpoint.metadata == (("username", "reader"), ("password", "secret"))
    # Nothing said of TLS is TLS that verifies.
    assert leaf.endpoint.tls == Tls()
    assert "secret" not in repr(leaf)
    assert inventory.target("sp-1") is spine
    assert set(inventory.files) == {tmp_path / "fabric.toml", tmp_path / "password"}


def test_intervals_of_metrics_take_the_place_of_the_profile_s(tmp_path: Path) -> None:
    inventory = read(
        tmp_path,
        """
[groups.sonic]
profile = "sonic"
interval = "2s"
intervals = { queue = "1s", depth = "3s" }
[targets.leaf1]
group = "sonic"
[targets.leaf2]
group = "sonic"
intervals = {}
""",
    )
    asked = []
    for target in inventory.targets:
        profile = with_intervals(profiles.load(target.profile), target.intervals)
        (rpc, *_) = make_plan(target, Capabilities(), profile).rpcs
        asked.append({each.path: each.interval_ms for each in rpc.asked})
    queues, watermarks = "/COUNTERS/Ethernet*/Queues", "/PERIODIC_WATERMARKS/Ethernet*/Queues"
    assert [(each[queues], each.get(watermarks), each["/COUNTERS/Ethernet*"]) for each in asked] == [
        (1000, None, 2000), (10_000, 60_000, 2000),
    ]  # fmt: skip


def test_files_are_included(tmp_path: Path) -> None:
    folder = tmp_path / "targets.d"
    folder.mkdir()
    (folder / "a.toml").write_text('[targets.a]\naddress = "10.0.0.1"\n')
    (folder / "b.toml").write_text('[groups.g]\nport = 1\n[targets.b]\ngroup = "g"\n')
    file = tmp_path / "fabric.toml"
    file.write_text('[collect]\nfabric = "dc-1"\ninclude = ["targets.d/*.toml"]\n')
    inventory = load(file, {})
    assert [(target.name, target.endpoint.address) for target in inventory.targets] == [
        ("a", "10.0.0.1:9339"), ("b", "b:1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[targets.a]\nadress = "x"\n', 4, "targets.a.adress: there is no such setting; did you mean 'address'?"),
        ('[targets.a]\nport = "x"\n', 4, "targets.a.port: Expected `int`, got `str`"),
        ("[targets.a]\nport = 70000\n", 4, "targets.a.port: Expected `int` <= 65535"),
        ('[targets.a]\ngroup = "leafs"\n[groups.leaf]\n', 4, "there is no group 'leafs'; did you mean 'leaf'?"),
        ('[targets.a]\npassword = "x"\n', 4, "a secret has no place in an inventory; set password_file"),
        ('[targets.a]\nusername = "x"\n', 3, "a username and a password go together; set password_file"),
        ('[targets.a]\npassword_env = "NOPE"\nusername = "x"\n', 4, "the variable NOPE is not set"),
        ('[targets.a]\nca = "none.pem"\n', 4, "none.pem: no such file"),
        ('[targets.a]\ncertificate = "fabric.toml"\n', 4, "certificate and key go together"),
        ("[targets.a]\nplaintext = true\ninsecure_skip_verify = true\n", 5, "is of no use with plaintext = true"),
        ('[targets.a]\ninterval = "fast"\n', 4, "'fast' is no time from 0 s"),
        ('[targets.a]\nencodings = ["XML"]\n', 4, "'XML' is none; known are PROTO"),
        ('[targets.a]\ndevice = "d"\n[targets.b]\ndevice = "d"\n', 6, "'d' is the device of a too"),
        ("[target.a]\n", 3, "there is no such section; sections are collect, defaults, groups, targets"),
        ("[targets.a\n", 3, "not TOML"),
        ('[targets.a]\ngroup = ["x"]\n', 4, "targets.a.group: Expected `str`, got `array`"),
        (f'[targets.a]\nca = "{"x" * 300}"\n', 4, "no such file"),
        ('[targets.a]\nca = "x\\u0000"\n', 4, "no such file"),
        ('[targets.a]\nprofile = "arista"\n', 4, "targets.a.profile: profile 'arista' is not there"),
        ('[groups.g]\nprofile = "none.toml"\n[targets.a]\ngroup = "g"\n', 4, "none.toml' is not there"),
        ('profiles = "none"\n', 3, "collect.profiles: "),
        ('[targets.a]\nrole = "router"\n', 4, "targets.a.role: Invalid enum value 'router'"),
        ('[targets.a]\nsubscriptions = [{ path = "/a[b" }]\n', 4, "has a key that is not [name=value]"),
        ('[targets.a]\nsubscriptions = [{ path = "/a", interval = "99999999999h" }]\n', 4, "is no time up to"),
        ('[targets.a]\nca = "fabric.toml"\n', 4, "fabric.toml is no PEM file"),
        ('[targets.a]\nintervals = { queue = "soon" }\n', 4, "targets.a.intervals: queue = 'soon' is no time"),
        ('[targets.a]\nintervals = { queue = "0s" }\n', 4, "targets.a.intervals: queue = '0s' is no time"),
        ('[targets.a]\nintervals = { queues = "1s" }\n', 4, "did you mean 'queue'?"),
        (
            '[groups.g]\nprofile = "sonic"\nintervals = { depth = "500ms" }\n[targets.a]\ngroup = "g"\n',
            5,
            "groups.g.intervals: depth: sonic takes 1000 ms at least",
        ),
        *(
            (f'[targets.a]\naddress = "{address}"\n', 4, "is no address")
            for address in (
                "a:b:c",
                "[::1",
                "[zz]:1",
                "h:abc",
                "https://h:1",
                "h h:1",
                "h:0",
                "h:65536",
                "h:99999999",
                ":1",
                "-h:1",
            )
        ),
        ('[targets.a]\naddress = "h\\n:1"\n', 4, "targets.a.address: "),
        ('[targets.""]\n', 3, "is no name of a target"),
        (f"[targets.{'x' * 5000}]\n", 3, "is no name of a target"),
        ('[groups.g]\ndevice = "d"\n', 4, "groups.g.device: is each target's own"),
        ('[groups.g]\naddress = "d"\n', 4, "groups.g.address: is each target's own"),
        ('[groups.g]\ngroup = "h"\n', 4, "groups.g.group: is each target's own"),
        ('[defaults]\naddress = "d"\n', 4, "defaults.address: is each target's own"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'fabric.toml'}:{line}")
    assert says in str(raised.value)


def test_times_are_written_with_a_unit() -> None:
    assert [seconds_of(text) for text in ("500ms", "10s", "1.5s", "2m", "1h", "10", "s")] == [
        0.5, 10.0, 1.5, 120.0, 3600.0, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["targets.d**.toml", "/", "..**"])
def test_an_include_that_is_no_pattern_is_told_with_its_place(tmp_path: Path, pattern: str) -> None:
    file = tmp_path / "fabric.toml"
    file.write_text(f'{HEAD}include = ["{pattern}"]\n')
    with pytest.raises(ConfigError, match=r"fabric\.toml:3: collect\.include: "):
        load(file, {})


def test_a_file_nested_too_deep_is_told(tmp_path: Path) -> None:
    deep = f"x = {'[' * 3000}{']' * 3000}\n"
    with pytest.raises(ConfigError, match="too deep"):
        read(tmp_path, deep)
    with pytest.raises(ConfigError, match="too deep"):
        read_profile(deep.encode(), "deep.toml")


@pytest.mark.parametrize("fabric", ["a\\nb", "a\\u0000", "a\\n", "a/b", ""])
def test_the_fabric_s_name_has_no_slash_and_no_control_character(tmp_path: Path, fabric: str) -> None:
    file = tmp_path / "fabric.toml"
    file.write_text(f'[collect]\nfabric = "{fabric}"\n')
    with pytest.raises(ConfigError, match=r"fabric\.toml:2: collect\.fabric: "):
        load(file, {})


@pytest.mark.parametrize(
    ("address", "read_as"),
    [
        ("::1", "[::1]:9339"), ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
        ("leaf_1.dc.example.", "leaf_1.dc.example.:9339"),
        ("10.0.0.1:1", "10.0.0.1:1"), ("h", "h:9339"),
    ],
)  # fmt: skip
def test_addresses_are_taken_as_people_write_them(tmp_path: Path, address: str, read_as: str) -> None:
    assert read(tmp_path, f'[targets.a]\naddress = "{address}"\n').targets[0].endpoint.address == read_as


@pytest.mark.parametrize("secret", ["sëcret", "se\0cret", "se\tcret"])
def test_a_secret_that_grpc_does_not_send_is_refused_and_not_shown(tmp_path: Path, secret: str) -> None:
    (tmp_path / "secret").write_text(f"{secret}\n")
    for line in ('username = "u"\npassword_file = "secret"', 'token_file = "secret"'):
        with pytest.raises(ConfigError, match="character that gRPC does not send") as raised:
            read(tmp_path, f"[targets.a]\n{line}\n")
        assert str(raised.value).startswith(f"{tmp_path / 'fabric.toml'}:{4 + line.count(chr(10))}: targets.a.")
        assert "cret has" not in str(raised.value).replace("/secret has", "")
    with pytest.raises(ConfigError, match=r":5: targets\.a\.password_env: the variable P has a character"):
        read(tmp_path, '[targets.a]\nusername = "u"\npassword_env = "P"\n', P=secret)
    with pytest.raises(ConfigError, match=r":4: targets\.a\.username: it has a character"):
        read(tmp_path, '[targets.a]\nusername = "sëcret"\n')


def test_a_look_at_a_target_tells_what_grpc_does_not_take() -> None:
    target = Target("a", "a", Endpoint("127.0.0.1:1", metadata=(("password", "s\0"),)), profile="openconfig")
    found = asyncio.run(examine(target, choice_of()))
    assert found.failure is not None
    with pytest.raises(Failure):
        asyncio.run(snapshot(target, choice_of()))


def test_a_target_may_say_a_secret_in_another_way_than_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("filed\n")
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    inventory = read(
        tmp_path,
        """
[defaults]
username_env = "U"
password_env = "P"
token_file = "secret"
ca = "ca.pem"
server_name = "name"
[targets.a]
username = "u2"
password_file = "secret"
token_env = "P"
[targets.b]
plaintext = true
""",
        U="u1",
        P="set",
    )
    a, b = (target.endpoint for target in inventory.targets)
    assert a.metadata == (("username", "u2"), ("password", "filed"), ("authorization", "Bearer set"))
    assert b.metadata == (("username", "u1"), ("password", "set"), ("authorization", "Bearer filed"))
    assert (a.tls is not None, b.tls) == (True, None)
    with pytest.raises(ConfigError, match=r":6: targets\.a\.password_env: password_file is set too"):
        read(
            tmp_path,
            '[targets.a]\nusername = "u"\npassword_file = "secret"\npassword_env = "P"\n',
            P="set",
        )
    with pytest.raises(ConfigError, match=r":6: targets\.a\.ca: is of no use with plaintext"):
        read(tmp_path, '[defaults]\nplaintext = true\n[targets.a]\nca = "ca.pem"\n')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[subscribe]]\npath = "/a[b"\n', "[[subscribe]] 1 (/a[b): path: path '/a[b' has a key that is not"),
        ('[[subscribe]]\npath = "a/b"\n', "path: 'a/b' does not begin with a slash"),
        ('[[subscribe]]\npath = "/a"\nalternatives = ["/a[b"]\n', "alternatives: path '/a[b' has a key"),
        ('encodings = []\n[[subscribe]]\npath = "/a"\n', "`$.encodings`"),
        ("", "there is no [[subscribe]]"),
    ],
)
def test_a_profile_that_asks_for_nothing_or_for_what_is_no_path_is_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "own.toml").write_text(f'name = "own"\ntitle = "Own"\n{text}')
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, '[targets.a]\nprofile = "own.toml"\n')
    assert str(raised.value).startswith(f"{tmp_path / 'fabric.toml'}:4: targets.a.profile: ")
    assert says in str(raised.value)
