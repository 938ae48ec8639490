"""For each row of the built-in profiles a notification in the vendor's words, and the record rows that it has to make.

In: profile_examples/VENDOR.txt, entries of four lines: the row's name; the path of its leaf; its two readings, one
second apart, and after each `;` another leaf of the same container; the rows of the second reading. A profile that
extends OpenConfig is held to its examples too.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "profile_examples"


class Example(NamedTuple):
    """Leaves with their two readings, and the rows of the second."""

    leaves: list[tuple[str, tuple[str, str]]]
    rows: list[str]


def _read(vendor: str) -> dict[str, Example]:
    found = {}
    for entry in (_FOLDER / f"{vendor}.txt").read_text().split("\n\n"):
        name, path, readings, rows = (line.strip() for line in entry.strip().splitlines())
        container = path[: path.rindex("/") + 1]
        first, *others = readings.split("; ")
        before, now = first.split()
        leaves = [(path, (before, now))]
        for other in others:
            leaf, before, now = other.split()
            leaves.append((container + leaf, (before, now)))
        found[name] = Example(leaves, rows.split("; "))
    return found


OWN: dict[str, dict[str, Example]] = {path.stem: _read(path.stem) for path in sorted(_FOLDER.glob("*.txt"))}
"""By profile, the examples that are its own."""


def example(profile: str, row: str) -> Example:
    """The profile's own example of a row, else OpenConfig's."""
    own = OWN[profile]
    return own[row] if row in own else OWN["openconfig"][row]
