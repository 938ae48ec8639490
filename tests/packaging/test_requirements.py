"""The pinned requirements: every pin has hashes, none names an index, and the files agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)==[^\s;]+$")


def pins_of(path: Path) -> dict[str, str]:
    """Each requirement of a file, `name==version ; marker`, with its name; raises where one lacks a pin or a hash."""
    pins = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        requirement, *hashes = re.split(r"\s+(?=--hash=)", line.strip())
        pin = requirement.partition(";")[0].strip()
        match = PIN.match(pin)
        assert match, f"{path.name}: {pin} is not pinned to one version"
        assert hashes, f"{path.name}: {pin} has no hash"
        assert all(HASH.fullmatch(h) for h in hashes), f"{path.name}: {pin} has something else than hashes"
        pins[requirement] = match["name"]
    return pins


def declared(*groups: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for group in groups for requirement in group}


def test_the_files_are_there() -> None:
    assert [path.name for path in FILES] == ["build.txt", "dev.txt", "probes.txt", "run.txt"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_requirement_is_pinned_and_has_hashes(path: Path) -> None:
    assert pins_of(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_an_index_or_a_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert set(re.findall(r"(?:^|\s)(-[-\w]+)", text)) == {"--hash"}
    assert not re.search(r"(^|\s)/\w", text), "a path of the machine that made it"


@pytest.mark.parametrize("name", ["run.txt", "probes.txt", "build.txt"])
def test_dev_holds_the_same_pins_and_more(name: str) -> None:
    dev = pins_of(ROOT / "requirements" / "dev.txt")
    assert pins_of(ROOT / "requirements" / name).keys() < dev.keys()


def test_the_pins_cover_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base, extras = project["dependencies"], project["optional-dependencies"]
    run = set(pins_of(ROOT / "requirements" / "run.txt").values())
    dev = set(pins_of(ROOT / "requirements" / "dev.txt").values())
    assert declared(base, extras["analytics"]) <= run
    assert declared(base, extras["probes"]) <= set(pins_of(ROOT / "requirements" / "probes.txt").values())
    assert declared(base, *extras.values()) - {"pausetrace"} <= dev


def test_a_requirement_without_a_hash_or_version_is_noticed(tmp_path: Path) -> None:
    for text, complaint in (("numpy==2.4.6\n", "has no hash"), ("numpy>=2\n", "is not pinned")):
        path = tmp_path / "bad.txt"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError, match=complaint):
            pins_of(path)
