"""Whatever the sources of a fabric call its devices and ports, the same cascades come out, by canonical names."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from simulation.trace_items import trace_items
from stream.cascade import Cascade
from stream.file_runner import run_steps
from stream.messages import Item, encode
from tests.analytics.long_runs import TRACES, recorded
from tests.analytics.many_names import many_names
from tests.analytics.restarting import Restarting


def cascades(items: list[Item], batch_size: int = 1000, restart_seed: int = 0) -> tuple[list[bytes], Counter[str]]:
    """The final cascades as they are published, and what correlate counted since its last restart."""
    random, chance = Random(restart_seed), 0.1 if restart_seed else 0.0
    second = Restarting(Correlate, random, chance)
    made = run_steps(items, [Detect(), Detect()], second, batch_size)
    return sorted(encode(item).value for item in made if isinstance(item, Cascade)), second.step.counters


@pytest.mark.parametrize("trace", TRACES)
def test_other_names_give_the_same_bytes(trace: str) -> None:
    streams = recorded(trace)
    expected, plain = cascades(trace_items(streams))
    random = Random(trace)
    for batch_size in (13, 1000):
        items = many_names(streams, random.randrange(1000), random.choice((1024, 50)), random.choice((None, 7)))
        found, counted = cascades(items, batch_size, random.choice((0, 5)))
        assert found == expected
        assert {"names_unknown", "names_conflicting"}.isdisjoint(counted.keys() | plain.keys())


def test_the_names_are_others() -> None:
    streams = recorded("incast-ls-s1")
    plain = {name for rows in streams.rows for name in (rows.device, *rows.ports)}
    for seed in range(3):
        said = b"".join(encode(item).value for item in many_names(streams, seed))
        for spelling in (b"mlx5_0/1", b"41:00.0", b".dc1.example.net", b"Eth1/1", b"node-", b"9803.9b"):
            assert spelling in said
    assert plain.isdisjoint({"mlx5_0", "Eth1/1"})
