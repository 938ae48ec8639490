"""Profile files: what is wrong in one is told with file, row, key and what is allowed; and how one is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors import profiles
from collectors.capabilities import Capabilities, Model
from collectors.pattern import Pattern
from collectors.plan import make_plan
from collectors.request import longest_ms
from collectors.target import Target
from collectors.transport import Endpoint
from stream.errors import ConfigError
from tests.collectors.notifications import START_NS, Feed, elements_of, notification

HEAD = 'name = "own"\ntitle = "Ours"\n'
ROW = """
[[row]]
name = "frames"
metric = "pfc"
path = "/ports/port[name={port}]/priority[index={priority}]/frames"
into = ["PFC_FRAMES.frames"]
unit = "frames"
semantics = "counter"
side = "rx"
status = "verified"
"""
SUBSCRIBE = '\n[[subscribe]]\npath = "/ports"\n'


def load(folder: Path, text: str) -> str:
    """What the profile's error says, "" where there is none."""
    (folder / "own.toml").write_text(text)
    try:
        profiles.load("own", folder)
    except ConfigError as err:
        return str(err)
    return ""


def test_a_profile_of_ours_is_data(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD + SUBSCRIBE + ROW) == ""
    feed = Feed(profiles.load(str(tmp_path / "own.toml")))
    path = "/ports/port[name=p7]/priority[index=5]/frames"
    rows = [feed.read((path, count), after_s=count / 10) for count in (10, 20)]
    assert rows == [[], ["PFC_FRAMES p7/5 rx 10 null 1s"]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("name = ", "nam = "), ("there is no key 'nam'", "name, title")),
        (('semantics = "counter"', 'semantics = "rate"'), ("[[row]] 1 (frames)", "semantics", "counter, gauge")),
        (('semantics = "counter"', 'semantics = "gauge"'), ("[[row]] 1 (frames)", "semantics", "one of counter")),
        (('unit = "frames"', 'unit = "furlongs"'), ("[[row]] 1 (frames)", "unit", "packets, bytes")),
        (('unit = "frames"', 'unit = "bytes"'), ("[[row]] 1 (frames)", "unit", "takes frames, packets")),
        (('unit = "frames"', 'unit = "frames"\nspeed = 3'), ("[[row]] 1 (frames)", "'speed'", "keys are name, metric")),
        (('unit = "frames"', 'unit = "frames"\nbits = 65'), ("[[row]] 1 (frames)", "bits", "64")),
        (('unit = "frames"', 'unit = "frames"\nwindow_ms = 1'), ("[[row]] 1 (frames)", "window_ms")),
        (('unit = "frames"', 'unit = "frames"\ncode = "CRC"'), ("[[row]] 1 (frames)", "code", "LINK_ERRORS")),
        (("PFC_FRAMES.frames", "PFC_FRAMES.bytes"), ("[[row]] 1 (frames)", "into", "frames, transitions")),
        (("PFC_FRAMES.frames", "PCIE_RATE.rate_mbps"), ("[[row]] 1 (frames)", "into", "PFC_XOFF, PFC_XON, PFC_PAUSED")),
        (("{port}", "{prot}"), ("[[row]] 1 (frames)", "path", "{prot} is none of {port}")),
        (("{port}", "*"), ("[[row]] 1 (frames)", "path", "no {port}")),
        (("[name={port}]", "[name={port}"), ("[[row]] 1 (frames)", "path", "]")),
        (("/ports/port", "ports/port"), ("[[row]] 1 (frames)", "path", "begins with /")),
        (("index={priority}", "index={priority}][queue={queue}"), ("path", "priority and queue")),
        (('side = "rx"', 'side = "left"'), ("[[row]] 1 (frames)", "side", "none, rx, tx")),
        (("[[row]]", "[row]"), ("row is no list of tables", "[[row]]")),
        ((ROW, ROW + ROW), ("[[row]] 'frames' is there twice",)),
        ((SUBSCRIBE, SUBSCRIBE + 'mode = "OFTEN"\n'), ("[[subscribe]] 1 (/ports)", "mode", "SAMPLE, ON_CHANGE")),
        ((SUBSCRIBE, '\n[queue_names]\npatterns = ["q[0-9]+"]\n'), ("[queue_names]", "patterns", "one: the number")),
        ((SUBSCRIBE, '\n[queue_names]\npatterns = ["q("]\n'), ("[queue_names]", "patterns")),
        ((SUBSCRIBE, '\n[[fact]]\npath = "/a/b"\nsays = "port_mac"\nstatus = "doc"\n'), ("[[fact]] 1", "{port}")),
        ((SUBSCRIBE, '\n[[fact]]\npath = "/a/b"\nsays = "weather"\nstatus = "doc"\n'), ("[[fact]] 1", "port_alias")),
        (('title = "Ours"', "title = "), ("own.toml", "TOML")),
        (('name = "own"', 'name = "other"'), ("name: 'other' is not the file's", "own")),
        (('name = "own"', 'name = "own"\nextends = "own"'), ("extends 'own'", "does not extend itself")),
        (('name = "own"', 'name = "own"\nextends = "nobody"'), ("'nobody'", "openconfig, own, sonic")),
    ],
)
def test_an_error_says_where_it_is_and_what_is_allowed(
    tmp_path: Path, change: tuple[str, str], told: tuple[str, ...]
) -> None:
    text = HEAD + SUBSCRIBE + ROW
    assert change[0] in text
    message = load(tmp_path, text.replace(*change, 1))
    assert "own.toml" in message
    for part in told:
        assert part in message


def test_a_profile_that_extends_another_replaces_its_rows_by_name(tmp_path: Path) -> None:
    own = 'name = "own"\ntitle = "Ours"\nextends = "sonic"\nwithout = ["queue *", "/PORT_TABLE"]\n'
    assert load(tmp_path, own + ROW.replace("frames", "PFC frames received", 1)) == ""
    mine, base = profiles.load("own", tmp_path), profiles.load("sonic")
    assert [row.path for row in mine.row if row.name == "PFC frames received"] == [
        "/ports/port[name={port}]/priority[index={priority}]/frames"
    ]
    gone = {row.name for row in base.row} - {row.name for row in mine.row}
    assert gone == {row.name for row in base.row if row.name.startswith("queue ")}
    assert {each.path for each in base.subscriptions} - {each.path for each in mine.subscriptions} == {"/PORT_TABLE"}


def test_a_folder_of_ours_goes_before_the_built_in_profiles(tmp_path: Path) -> None:
    (tmp_path / "sonic.toml").write_text('name = "sonic"\ntitle = "Ours"\nextends = "sonic"\n')
    mine = profiles.load("sonic", tmp_path)
    assert (mine.title, len(mine.row)) == ("Ours", len(profiles.load("sonic").row))
    assert profiles.names(tmp_path) == profiles.names()


@pytest.mark.parametrize(
    ("models", "profile"),
    [
        ([("sonic-db", "SONiC")], "sonic"),
        ([("openconfig-interfaces", "OpenConfig working group"), ("arista-intf-augments", "Arista")], "arista-eos"),
        ([("Cisco-NX-OS-device", "Cisco Systems, Inc."), ("openconfig-interfaces", "OpenConfig")], "cisco-nxos"),
        ([("junos-rpc-interfaces", "Juniper Networks, Inc.")], "juniper-junos"),
        ([("urn:srl_nokia/interfaces:srl_nokia-interfaces", "Nokia")], "nokia-srlinux"),
        ([("openconfig-interfaces", "OpenConfig"), ("nvidia-if-ethernet-counters-ext", "NVIDIA")], "nvidia-cumulus"),
        ([("openconfig-interfaces", "OpenConfig working group")], "openconfig"),
        ([("ietf-interfaces", "IETF")], None),
        ([], None),
    ],
)
def test_a_device_is_known_by_its_models(models: list[tuple[str, str]], profile: str | None) -> None:
    assert profiles.detect(Capabilities("0.8.0", (), tuple(Model(*model) for model in models))) == profile


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("/a/b[k={port}]/c", "/a/b[k=eth1/1]/c", {"port": "eth1/1"}),
        ("/a/b[k={port}]/c", "/a/b[j=3][k=x]/c", {"port": "x"}),
        ("/a/b[k={port}]/c", "/a/b/c", None),
        ("/a/b[k={port}]/c", "/a/b[k=x]/c/d", None),
        ("/a/.../{port}:{queue}/x", "/a/b/c/Ethernet0:1:3/x", {"port": "Ethernet0:1", "queue": "3"}),
        ("/a/.../{port}:{queue}/x", "/a/b/Ethernet0:3:periodic/x", None),
        ("/a/.../x/P_{priority}_Q", "/a/x/P_7_Q", {"priority": "7"}),
        ("/a/.../x/P_{priority}_Q", "/a/x/P_8_Q", None),
        ("/a/l[s={port}]/f[n={port}]/x", "/a/l[s=1]/f[n=0]/x", {"port": "1/0"}),
        ("/a/b[k={queue}]/c[k={queue}]/x", "/a/b[k=1]/c[k=2]/x", None),
    ],
)
def test_a_pattern_captures_what_it_names(pattern: str, path: str, found: dict[str, str] | None) -> None:
    assert Pattern(pattern).match(elements_of(path)) == found


def test_modules_in_front_of_names_say_nothing() -> None:
    feed = Feed("openconfig")
    path = "/openconfig-interfaces:interfaces/oc-if:interface[oc-if:name=eth1]/oc-eth:ethernet/state/counters/{}"
    rows = []
    for count in (0, 1):
        leaf = path.format("in-mac-pause-frames"), 10 * count
        update = (elements_of(leaf[0]), leaf[1], "PROTO")
        rows = feed.send(notification(START_NS + count * 10**9, [update]))
    assert rows == ["PFC_FRAMES eth1/- rx 10 null 1s"]


@pytest.mark.parametrize("name", ["openconfig", "arista-eos"])
def test_a_profile_is_one_however_often_it_is_asked_for(name: str) -> None:
    """Targets of one profile share their tables by it, and a session asks again after each refusal."""
    assert profiles.load(name) is profiles.load(name)


def test_what_comes_seldom_does_not_make_the_rest_wait() -> None:
    profile = profiles.load("sonic")
    plan = make_plan(Target("leaf1", "leaf1", Endpoint("-")), Capabilities(encodings=("JSON_IETF",)), profile)
    # Ports come every second, queues every ten, their watermarks once a minute.
    assert {topic: longest_ms(plan.rpcs, topic) for topic in ("pfc", "ecn", "queue")} == {
        "pfc": 1_000, "ecn": 10_000, "queue": 60_000,
    }  # fmt: skip
    assert longest_ms(plan.rpcs) == 1_000


def test_a_topic_that_no_rows_go_on_is_refused(tmp_path: Path) -> None:
    told = load(tmp_path, HEAD + SUBSCRIBE + 'topics = ["pauses"]\n' + ROW)
    assert "no rows go on pauses" in told
    assert "pfc" in told
