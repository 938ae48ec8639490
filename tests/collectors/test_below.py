"""What is at or below a deleted path: the index finds what a look at every path finds, and looks at few."""

from __future__ import annotations

from random import Random

import pytest

from collectors import below
from collectors.below import Below, is_below
from collectors.pattern import Element

Path = tuple[Element, ...]


def some_path(random: Random, values: str) -> Path:
    """Of few names and values, so that many are below each other."""
    elements: list[Element] = []
    for _ in range(random.randint(0, 4)):
        keys = tuple((key, random.choice(values)) for key in "kl" if random.random() < 0.5)
        elements.append((random.choice("ab"), keys))
    return tuple(elements)


@pytest.mark.parametrize("seed", range(5))
def test_the_index_finds_what_a_look_at_every_path_finds(seed: int) -> None:
    random = Random(seed)
    index, paths, found = Below(), [], 0
    for _ in range(200):
        paths.append(some_path(random, "xyz"))
        index.add(paths[-1])
        for _ in range(5):
            prefix = some_path(random, "xyz*")
            wanted = [number for number, path in enumerate(paths) if is_below(path, prefix)]
            assert index.find(prefix) == wanted
            assert index.find(prefix) == wanted
            found += len(wanted)
    assert found > 1000


def test_a_delete_looks_at_no_other_ports_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def counting(elements: Path, prefix: Path) -> bool:
        nonlocal looked
        looked += 1
        return is_below(elements, prefix)

    monkeypatch.setattr(below, "is_below", counting)
    index = Below()
    for port in range(2000):
        index.add((("interface", (("name", f"E{port}"),)), ("state", ()), ("out-octets", ())))
    for port in range(2000):
        assert index.find((("interface", (("name", f"E{port}"),)),)) == [port]
        assert index.find((("interface", (("name", f"y{port}"),)), ("state", ()))) == []
        # Paths that mean the same are looked up once, and what has no such name not at all.
        assert len(index.find((("interface", ((f"key{port}", "*"),)),))) == 2000
        assert index.find((("interface", ()), (f"state{port}", ()))) == []
    assert looked <= 4000
