"""Rows of episodes, as compiled code reads them: what they say, what counts and what the kernel gets are the twin's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from analytics import layout
from analytics.first_look import any_flaw
from analytics.flows import KnownFlows
from analytics.row_store import RowStore
from analytics.rows import add_window_rows, glance, with_effect
from analytics.topology import Topology
from stream import kinds, wire
from stream.record import Events, empty_events, words
from tests.reference import episode_rows as twin
from tests.reference.waiting_rows import Row

PORTS = 4
CODES = [*kinds.BY_CODE]
OF_WINDOWS = [kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.FLOW_BYTES, kinds.ECN_MARKED]


def random_events(rng: np.random.Generator, count: int) -> Events:
    """Rows of few times and ports, half of them of windows, so that most things happen to some."""
    events = empty_events(count)
    events["kind"] = np.where(rng.random(count) < 0.5, rng.choice(OF_WINDOWS, count), rng.choice(CODES, count))
    events["time_ns"] = rng.integers(0, 20, count)
    events["span_ns"] = rng.integers(0, 1 + events["time_ns"])
    events["value"] = rng.choice([kinds.UNKNOWN, 0, 1, 5, kinds.INT64_MAX], count, p=[0.1, 0.1, 0.4, 0.3, 0.1])
    events["flow"] = rng.integers(0, 3, count).astype(np.uint64) << np.uint64(62)
    events["port"] = rng.integers(0, PORTS, count)
    events["priority"] = rng.choice([0, 3, 7, kinds.NO_PRIORITY], count)
    events["side"] = rng.choice([kinds.SIDE_NONE, kinds.SIDE_RX, kinds.SIDE_TX], count, p=[0.1, 0.4, 0.5])
    events["quality"] = rng.integers(0, 1 << len(kinds.QUALITY_BITS), count)
    return events


@pytest.mark.parametrize("seed", range(40))
def test_a_glance_counts_what_the_twin_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = random_events(rng, int(rng.integers(0, 60)))
    due_ns = int(rng.integers(-1, 22))
    assert glance(words(events), due_ns) == twin.glance(twin.by_name(events), due_ns)


@pytest.mark.parametrize("seed", range(40))
def test_rows_without_effect_are_the_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events = random_events(rng, int(rng.integers(0, 12)))
    keep = np.empty(len(events), bool)
    count = with_effect(words(events), keep, np.zeros(PORTS, bool))
    assert (count, keep.tolist()) == (sum(keep), twin.with_effect(twin.by_name(events)))


@pytest.mark.parametrize("seed", range(40))
def test_windows_become_the_rows_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events, counters = random_events(rng, int(rng.integers(0, 60))), Counter[str]()
    ports, horizon_ns, cursor_ns = rng.integers(0, 9, len(events)), int(rng.integers(0, 20)), int(rng.integers(0, 20))
    store = RowStore()
    cuts = np.sort(rng.integers(0, len(events) + 1, 2))
    parts = zip(np.split(events, cuts), np.split(ports, cuts), strict=True)
    newest_ns = add_window_rows(store, parts, horizon_ns, cursor_ns, KnownFlows(), Topology(), counters)
    rows, flows = store.state()
    told = [Row._make([*row, flow]) for row, flow in zip(rows.tolist(), flows.tolist(), strict=True)]
    expected = twin.window_rows(twin.by_name(events), ports.tolist(), horizon_ns, cursor_ns)
    assert (told, counters["windows_longer_than_announced"], newest_ns) == expected


@pytest.mark.parametrize("topic", ["pfc", "queue", "host", "episode"])
def test_a_flaw_is_one_of_the_twin(topic: str) -> None:
    rng = np.random.default_rng(11)
    odd = {
        "time_ns": [-1, 0, layout.FOREVER, layout.FOREVER + 1, kinds.UNKNOWN, kinds.INT64_MAX],
        "seen_ns": [-1, 0, layout.FOREVER, layout.FOREVER + 1, kinds.UNKNOWN, kinds.INT64_MAX],
        "span_ns": [-1, 0, 1, 1_000, 1_001, layout.FOREVER, kinds.UNKNOWN],
        "value": [-1, 0, 1, 65_535, 65_536, kinds.UNKNOWN, kinds.UNKNOWN + 1, kinds.INT64_MAX],
        "extra": [-1, 0, 1, 65_535, 65_536, kinds.UNKNOWN, kinds.UNKNOWN + 1, kinds.INT64_MAX],
        "device": [0, 1, 65_535],
        "port": [0, PORTS - 1, PORTS, 65_535],
        "kind": [*CODES, 0, 254, 255],
        "priority": [0, 7, 8, 254, kinds.NO_PRIORITY],
        "side": [*range(len(kinds.SIDES)), len(kinds.SIDES), 255],
        "quality": [0, 127, 255],
    }
    tables, outcomes = wire.tables(topic), Counter[bool]()
    fitting = [kind.code for kind in kinds.KINDS if not kind.topic or topic in ("episode", kind.topic)]
    for _ in range(4_000):
        events = empty_events(3)
        events["time_ns"] = events["seen_ns"] = 1_000
        events["kind"] = rng.choice(fitting)
        for _ in range(int(rng.integers(0, 3))):
            name = str(rng.choice([*odd]))
            events[name][rng.integers(0, 3)] = rng.choice(np.array(odd[name], events.dtype[name]))
        flawed = any(twin.flawed(event, topic, PORTS) for event in twin.by_name(events))
        assert any_flaw(words(events), PORTS, *tables) == flawed
        outcomes[flawed] += 1
    assert min(outcomes[True], outcomes[False]) > 1_000
