"""Rows of windows alone are not looked at by what reads other rows: the same cascades and counts come of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import numpy as np
import pytest

from analytics.correlate import Correlate
from analytics.detect import Detect
from analytics.waiting import Named, Waiting
from simulation.trace_items import trace_items
from stream import kinds
from stream.batch import Batch
from stream.cascade import Cascade
from stream.file_runner import run_steps
from stream.messages import Item, encode
from tests.analytics.long_runs import TRACES, recorded


def spoilt(item: Item, random: Random) -> Item:
    """Some ports under names that nobody knows, and some rows with a gap."""
    if not isinstance(item, Batch) or random.random() < 0.7:
        return item
    events = item.events.copy()
    gaps = np.array([random.random() < 0.02 for _ in range(len(events))], bool)
    events["quality"][gaps] |= kinds.GAP
    ports = tuple(f"{port}?" if random.random() < 0.2 else port for port in item.ports)
    return msgspec.structs.replace(item, events=events, ports=ports)


def told(items: list[Item]) -> tuple[list[bytes], Counter[str]]:
    """The cascades as they are published, and what correlate counted."""
    correlate = Correlate()
    made = run_steps(items, [Detect()], correlate, 50)
    return sorted(encode(item).value for item in made if isinstance(item, Cascade)), correlate.counters


@pytest.mark.parametrize("trace", [trace for trace in TRACES if "none" not in trace][:4])
def test_windows_apart_make_no_difference(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(trace)
    items = [spoilt(item, random) for item in trace_items(recorded(trace))]
    add, apart = Waiting.add, Counter[bool]()

    def with_all_others(
        waiting: Waiting, rows: Named, windows_alone: bool = False, oldest_ns: int = 0, newest_ns: int = 0
    ) -> None:
        apart[windows_alone] += 1
        add(waiting, rows)

    expected = told(items)
    with monkeypatch.context() as patch:
        patch.setattr(Waiting, "add", with_all_others)
        assert told(items) == expected
    assert expected[0]
    assert apart[True]
    assert apart[False]
    assert expected[1]["names_unknown"]
