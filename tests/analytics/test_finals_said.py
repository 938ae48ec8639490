"""Which finals are remembered does not depend on the order in which they came."""

from __future__ import annotations

from random import Random

import pytest

from analytics import finals_said
from analytics.finals_said import FinalsSaid


def test_the_youngest_are_remembered_in_whatever_order_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finals_said, "MOST", 5)
    entries = [(number % 7, f"c{number}") for number in range(20)]
    for seed in range(10):
        Random(seed).shuffle(entries)
        said = FinalsSaid()
        for start_ns, name in entries[:11]:
            said.add(name, start_ns)
        said = FinalsSaid(said.state())
        for start_ns, name in entries[11:]:
            said.add(name, start_ns)
        assert said.state() == sorted(entries)[-5:]
        assert [name in said for _, name in sorted(entries)] == [False] * 15 + [True] * 5
