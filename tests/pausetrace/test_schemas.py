"""What is published about the formats is what the code does."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from pausetrace.cli.main import main
from pausetrace.cli.schema import SCHEMA_NAMES
from pausetrace.record_page import record_page
from pausetrace.schemas import TYPES, schema, schema_text
from probes.budget import Step
from probes.health import report
from probes.runner import ProbeStatus
from stream import kinds, topics
from stream.facts import Device, FactStream, Flow, Hop, Idle, Link, Port
from stream.messages import Item, encode
from stream.record import FIELDS
from stream.roster import SourceDown, SourceUp, StreamDown, StreamUp
from stream.source_health import Coverage, SourceHealth, fabric_health
from tests.pausetrace.sample_cascades import SLOW_RECEIVER, SUSPECTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
STREAM = FactStream("lldp", "boot1", 0, 5)
TOPOLOGY = (Path(__file__).parent / "topology.json").read_bytes()
ITEMS: dict[str, Item] = {
    "cascade": SLOW_RECEIVER,
    "device": Device("lab", "h9", "host", 5, STREAM, (Port("eth0", 100_000, ("mlx5_0",)),)),
    "link": Link("lab", "h9", "eth0", "tor4", "p2", 100_000, 5, STREAM),
    "flow": Flow(
        "lab", "00000000c0ffee00", "h6", "h9", "fd00::7", "fd00::a", 17, 10_000, 100, 5, STREAM,
        path=(Hop("h6", "", "eth0"), Hop("h9", "eth0")),
    ),
    "idle": Idle("lab", "link", STREAM),
    "roster": SourceUp("lab", "lldp", "boot1", 5, (StreamUp("pfc", "h9"), StreamUp("link"))),
}  # fmt: skip

PROBE = ProbeStatus("mlx5", "failing", "no such file", Step.FULL, 0.01, 3, 2, 1, 5, 1, 0, 0, 9, {})
HEALTH = [
    msgspec.json.encode(SourceHealth("lab", "gnmi", "detect", 9, "silent", 2, 9, 1, 900_000, 8, 1, (), ("leaf1",))),
    msgspec.json.encode(
        fabric_health("lab", Coverage(frozenset({"leaf1"}), frozenset(), {"depth": 1}, 4, 1), "correlate", 9)
    ),
    report("lab", "h1", [PROBE], 9),
]
"""One value of each kind on the health topic, made as their tellers make them."""


def test_the_page_of_the_record_is_current() -> None:
    assert (DOCS / "record.md").read_text() == record_page(), "renew it: pausetrace schema docs > docs/record.md"


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_the_published_schema_is_current(name: str) -> None:
    file = DOCS / "schemas" / f"{name}.json"
    assert file.read_text() == schema_text(name), f"renew it: pausetrace schema json {name} > {file}"


def test_every_schema_can_be_asked_for() -> None:
    assert set(SCHEMA_NAMES) == set(TYPES)


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_what_is_published_fits_its_schema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(schema(name))
    validator.check_schema(schema(name))
    values = HEALTH if name == "health" else [TOPOLOGY if name == "topology" else encode(ITEMS[name]).value]
    for value in values:
        validator.validate(json.loads(value))


def test_what_is_no_health_does_not_fit() -> None:
    for value in HEALTH:
        told = json.loads(value)
        for wrong in (told | {"what": "weather"}, told | {"time_ns": "now"}, {"what": told["what"]}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema("health"))


def test_further_values_fit_their_schemas() -> None:
    jsonschema.validate(json.loads(encode(SUSPECTS).value), schema("cascade"))
    down = SourceDown("lab", "lldp", "boot1", 9, (StreamDown("pfc", "h9", 41),))
    jsonschema.validate(json.loads(encode(down).value), schema("roster"))


@pytest.mark.parametrize("change", [{"revision": "last"}, {"start_ns": "soon"}, {"roots": None}])
def test_what_is_no_cascade_does_not_fit(change: dict[str, object]) -> None:
    wrong = json.loads(encode(SLOW_RECEIVER).value) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema("cascade"))


def test_the_page_names_every_field_kind_and_topic() -> None:
    page = record_page()
    names = (
        [field[0] for field in FIELDS] + [kind.name for kind in kinds.KINDS] + [topic.name for topic in topics.TOPICS]
    )
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_verbs_print_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "docs"]) == 0
    assert capsys.readouterr().out == record_page()
    assert main(["schema", "c-header"]) == 0
    assert "struct pausetrace_event {" in capsys.readouterr().out
    assert main(["schema", "json", "cascade"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "cascade"
