"""What the README and the pages say is what the program does."""

import html
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from analytics.classes import RULES
from pausetrace.class_names import CLASSES
from pausetrace.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CONCEPTS = (ROOT / "docs/concepts.md").read_text()
RENEW = "renew it: python docs/make_picture.py"


@pytest.fixture(scope="module")
def picture() -> dict[str, Any]:
    """The names of docs/make_picture.py."""
    return runpy.run_path(str(ROOT / "docs/make_picture.py"))


def test_the_readme_has_the_picture_that_the_demo_ends_with(picture: dict[str, Any]) -> None:
    text = picture["picture_text"](picture["demo_cascade"]())
    assert f"```text\n{text}```" in README, RENEW
    assert "31500 of 100000 Mb/s" in text


def words(svg: str) -> list[str]:
    """What a drawing says."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", svg, flags=re.DOTALL)).split()


def test_the_pictures_of_the_diagnosis_show_what_is_found_today(picture: dict[str, Any]) -> None:
    for name, trace in picture["PICTURES"].items():
        drawn = (ROOT / f"docs/pictures/{name}.svg").read_text()
        assert words(drawn) == words(
            picture["picture_svg"](picture["trace_cascade"](trace), f"pausetrace analyze {trace}")
        ), RENEW
        assert re.findall(r"https?://[^\"' ]*", drawn) == ["http://www.w3.org/2000/svg"]


def test_the_drawing_shows_the_same(picture: dict[str, Any]) -> None:
    drawn = (ROOT / "docs/demo.svg").read_text()
    assert words(drawn) == words(picture["picture_svg"](picture["demo_cascade"]())), RENEW
    assert re.findall(r"https?://[^\"' ]*", drawn) == ["http://www.w3.org/2000/svg"]


def test_links_in_the_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page} links to {target}"


def test_every_command_of_the_readme_parses() -> None:
    parser = build_parser()
    pages = README + (ROOT / "docs/identity.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", pages, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("pausetrace ")]
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line, comments=True)
        end = next((index for index, word in enumerate(words) if word in ("|", "&")), len(words))
        parser.parse_args(words[1:end])


def test_every_class_has_a_name_and_stands_in_the_concepts() -> None:
    assert {name for name, _ in RULES} <= CLASSES.keys()
    assert [name for name in CLASSES if f"`{name}`" not in CONCEPTS] == []


def test_the_readme_names_the_two_commands_and_what_is_not_built() -> None:
    for said in (
        "make demo",
        "make test",
        "The web page and Grafana boards are not built yet",
        "at least once instead of exactly",
        "embedded broker",
    ):
        assert said in README
