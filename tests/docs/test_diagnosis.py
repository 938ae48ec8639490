"""The page about diagnosis has every class and constant, with the values that the code has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from analytics import classes, layout
from analytics.classes import RULES
from pausetrace.class_names import CLASSES
from pausetrace.cli.main import build_parser

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "diagnosis.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##)", PAGE, flags=re.MULTILINE | re.DOTALL))
CONSTANTS = {name: value for name, value in vars(classes).items() if name.isupper() and isinstance(value, int | float)}


def test_every_class_has_its_section() -> None:
    assert SECTIONS.keys() == CLASSES.keys()
    assert {name for name, _ in RULES} <= SECTIONS.keys()


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"unclassified"}))
def test_a_section_says_the_rule_what_it_needs_and_how_it_can_be_wrong(name: str) -> None:
    for part in ("**Rule.**", "**Needs**", "**Can be wrong**"):
        assert part in SECTIONS[name]


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_every_constant_of_the_classes_is_named_with_its_value(name: str) -> None:
    value = CONSTANTS[name]
    shown = {f"{value:g}", f"{value:g}".replace("0.", "."), f"{value // 1000} µs"}
    found = re.findall(rf"`{name}` \(([^)]+)\)", PAGE)
    assert found, f"{name} has no value in docs/diagnosis.md"
    assert set(found) <= shown


def test_the_memory_of_a_stop_is_what_the_page_says() -> None:
    assert f"`MEMORY_NS` ({layout.MEMORY_NS // 1000} µs" in PAGE


def test_every_command_of_the_page_parses() -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    parts = [part for line in block.splitlines() for part in line.partition("#")[0].split("|")]
    ours = [shlex.split(part)[1:] for part in parts if part.split()[0] == "pausetrace"]
    assert len(ours) == 5
    for words in ours:
        build_parser().parse_args(words)


def test_places_for_tables_are_marked() -> None:
    for name in ("reliability", "sensitivity"):
        assert PAGE.count(f"<!-- {name}: begin -->") == PAGE.count(f"<!-- {name}: end -->") == 1
