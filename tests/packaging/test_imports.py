"""Import rules that import-linter cannot say.

It sees another distribution as one name whatever is taken from it, and knows no list of what is allowed.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The protocol, the record and the counters run on a GPU host, beside a probe that has NumPy and little else.
NUMPY_ALONE = ["stream/record.py", "stream/kinds.py", "stream/step.py"]


def imported_names(source: str) -> Iterator[str]:
    """Every module that a source imports, anywhere in it; `from a import b` counts as a.b, since b may be a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_module(name: str) -> str | None:
    """The file of this project that an imported name lives in, or None where it is another's."""
    parts = name.split(".")
    for depth in range(len(parts), 1, -1):
        path = Path(*parts[:depth]).with_suffix(".py")
        if (ROOT / path).is_file():
            return path.as_posix()
    return None


def foreign_imports(path: str, seen: set[str] | None = None) -> set[str]:
    """What a file of this project imports from elsewhere, itself or through other files of the project."""
    seen = set() if seen is None else seen
    if path in seen:
        return set()
    seen.add(path)
    foreign = set()
    for name in imported_names((ROOT / path).read_text(encoding="utf-8")):
        if own := own_module(name):
            foreign |= foreign_imports(own, seen)
        elif name.partition(".")[0] not in sys.stdlib_module_names:
            foreign.add(name.partition(".")[0])
    return foreign


@pytest.mark.parametrize("path", NUMPY_ALONE)
def test_the_record_and_the_step_import_numpy_alone(path: str) -> None:
    assert foreign_imports(path) <= {"numpy"}


def test_simulation_takes_from_pygnmi_its_protocol_alone() -> None:
    taken = [
        name
        for path in (ROOT / "simulation").rglob("*.py")
        for name in imported_names(path.read_text(encoding="utf-8"))
        if name.partition(".")[0] == "pygnmi"
    ]
    assert [name for name in taken if not f"{name}.".startswith("pygnmi.spec.v080.")] == []


def test_an_import_is_found_wherever_it_stands() -> None:
    source = "import a.b\nfrom c.d import e, f\ndef late():\n    from pygnmi.client import gNMIclient\n"
    assert list(imported_names(source)) == ["a.b", "c.d.e", "c.d.f", "pygnmi.client.gNMIclient"]
