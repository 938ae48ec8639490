"""`devices`, `links` and `import topology` as a user types them: from files, captures and Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pausetrace.capture_import import capture_trace
from pausetrace.cli.main import main
from pausetrace.reader import Reader
from simulation.trace import read_trace
from stream.embedded import EmbeddedBroker
from stream.facts import Device, Link
from stream.messages import Item
from stream.roster import SourceDown, SourceUp
from tests.pausetrace.test_inventory_view import FACTS

TOPOLOGY = Path(__file__).with_name("topology.json")
TRACE = Path(__file__).resolve().parents[1] / "data/ns3/incast-ls-s1"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What a verb prints as JSON lines."""
    assert main([*arguments, "-o", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_devices_and_links_of_a_topology_file(capsys: pytest.CaptureFixture[str]) -> None:
    devices = said(capsys, "devices", "--in", str(TOPOLOGY))
    assert [(entry["is"], entry["device"]) for entry in devices] == [
        ("device", "host-7"), ("device", "leaf-1"),
    ]  # fmt: skip
    (joined, peer) = said(capsys, "links", "--in", str(TOPOLOGY), "HOST-7.example.net")
    assert (joined["a_port"], joined["b_device"], joined["b_port"]) == ("eth0", "leaf-1", "Ethernet0")
    assert (peer["told_by"], peer["half"], peer["b_device"]) == ("peer of a port", True, "leaf-2")
    ports = said(capsys, "devices", "leaf-1", "--in", str(TOPOLOGY))
    assert [(entry["is"], entry["port"], entry["peer"]) for entry in ports] == [("port", "Ethernet0", "host-7:eth0")]


def test_a_trace_and_the_capture_of_it_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture_trace(read_trace(TRACE), tmp_path / "capture", TRACE.name, 10**18)
    for verb in ("devices", "links"):
        of_trace = said(capsys, verb, "--in", str(TRACE))
        of_capture = said(capsys, verb, "--in", str(tmp_path / "capture"))
        assert of_trace == of_capture
        assert len(of_trace) > 20
        assert all(entry["notes"] == [] for entry in of_trace)
    assert said(capsys, "links", "--in", str(tmp_path / "capture"), "--at", "2001-09-09T00:00:00Z") == []
    assert said(capsys, "links", "--in", str(tmp_path / "capture"), "--fabric", "another") == []


def test_json_is_one_list_and_a_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("devices", "links"):
        assert main([verb, "--in", str(TRACE), "-o", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) > 20
        assert main([verb, "--in", str(TRACE)]) == 0
        assert "leaf0" in capsys.readouterr().out
    assert main(["devices", "h1", "--in", str(TRACE)]) == 0
    assert "leaf0:p2" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["devices", "links"])
def test_a_fabric_that_is_not_known_is_told_with_those_that_are(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--in", str(TRACE), "--fabric", "nosuch"]) == 0
    assert capsys.readouterr().err == f"pausetrace: note: no fabric 'nosuch' is known; known: {TRACE.name}\n"


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_stdout_of_ascii_gets_escapes_for_other_letters(output: str, tmp_path: Path) -> None:
    devices = [{"device": "l\xe9af-\U0001f600", "ports": [{"port": "p1"}]}]
    (tmp_path / "t.json").write_text(json.dumps({"fabric": "lab", "devices": devices}))
    done = subprocess.run(
        [sys.executable, "-m", "pausetrace.cli.main", "devices", "--in", str(tmp_path / "t.json"), "-o", output],
        env=os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert rb"l\u00e9af-\ud83d\ude00" in done.stdout
    if output == "json":
        assert json.loads(done.stdout)[0]["device"] == devices[0]["device"]


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["devices", "nobody", "--in", str(TRACE)], 2, "no device 'nobody': no fact tells of it"),
        (["links", "nobody", "--in", str(TRACE)], 2, "no device 'nobody'"),
        (["links", "--at", "yesterday", "--in", str(TRACE)], 2, "--at yesterday"),
        (["devices", "--in", "/nowhere"], 1, "cannot be read"),
        (["import", "topology", str(TOPOLOGY), "--time", "soon"], 2, "--time soon"),
    ],
)
def test_what_cannot_be_done_is_told(
    arguments: list[str], status: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    err = capsys.readouterr().err
    assert complaint in err
    assert len(err.splitlines()) == 1


def on_kafka(broker: EmbeddedBroker, topics: tuple[str, ...]) -> list[Item]:
    found: list[Item] = []
    with Reader(broker.settings, topics, "earliest") as reader:
        end = reader.end()
        while not reader.has_reached(end):
            found += [read.item for read in reader.read() if read.item is not None]
    return found


def test_an_imported_topology_is_a_source_of_facts_and_is_listed_from_kafka(
    embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = ("--bootstrap-servers", embedded_broker.bootstrap_servers)
    assert main(["import", "topology", str(TOPOLOGY), "--time", "2026-11-30T22:10:00Z", *kafka]) == 0
    err = capsys.readouterr().err
    assert "published 2 devices and 1 links of fabric lab, source topology" in err
    up, down = on_kafka(embedded_broker, ("control",))
    facts = on_kafka(embedded_broker, ("device", "link"))
    assert isinstance(up, SourceUp)
    assert isinstance(down, SourceDown)
    assert {(stream.topic, stream.last_seq) for stream in down.streams} == {("device", 1), ("link", 0)}
    valid_from_ns = up.from_ns
    for fact in facts:
        assert isinstance(fact, Device | Link)
        assert fact.valid_from_ns == fact.stream.mark_ns == valid_from_ns
    for verb in ("devices", "links"):
        from_file, from_kafka = said(capsys, verb, "--in", str(TOPOLOGY)), said(capsys, verb, *kafka)
        assert len(from_file) == len(from_kafka) >= 2
        keys = ("device", "ports", "cabled", "a_port", "b_port", "half", "notes", "names")
        for one, other in zip(from_file, from_kafka, strict=True):
            assert [one.get(key) for key in keys] == [other.get(key) for key in keys]
    assert said(capsys, "devices", "--at", "2026-11-30T22:09:59Z", *kafka) == []


def test_what_does_not_resolve_in_an_imported_file_is_told_at_once(
    tmp_path: Path, embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "devices.csv").write_text("device,role,aliases\na,host,x\nb,host,x\n")
    (tmp_path / "links.csv").write_text("a,a_port,b,b_port\na,p,x,q\n")
    arguments = ["import", "topology", str(tmp_path), "--fabric", "lab", "--source", "cmdb"]
    assert main([*arguments, "--bootstrap-servers", embedded_broker.bootstrap_servers]) == 0
    err = capsys.readouterr().err
    assert "source cmdb" in err
    assert "1 names in it do not resolve, such as x (claimed by a, b)" in err


def test_the_view_of_kafka_shows_conflicts_and_unknown_names(
    embedded_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka import Producer

    from stream.messages import encode
    from stream.topics import full_name

    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for item in FACTS:
        topic, key, value = encode(item)
        producer.produce(full_name(embedded_broker.settings.prefix, topic), value, key)
    assert producer.flush(30) == 0
    kafka = ("--bootstrap-servers", embedded_broker.bootstrap_servers)
    entries = said(capsys, "devices", *kafka)
    assert [(entry["device"], entry["port"], entry["standing"]) for entry in entries if entry["is"] == "name"] == [
        ("gpu-8", "", "unknown"), ("host-7", "up", "conflicting"), ("host-9", "", "unknown"),
        ("leaf-1", "Ethernet16", "unknown"),
    ]  # fmt: skip
    links = said(capsys, "links", *kafka)
    assert sum(entry["half"] for entry in links) == 2
    assert sum(not entry["joined"] for entry in links) == 1
