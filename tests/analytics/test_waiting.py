"""Rows that wait: what is due comes out once, whole parts or pieces of them, and nothing else does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.waiting import Named, Waiting
from stream.record import empty_events


@pytest.mark.parametrize("seed", range(20))
def test_all_that_is_due_comes_out_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr("analytics.waiting.SMALL_ROWS", random.choice([0, 3, 1024]))
    waiting, held, number = Waiting(), [], 0
    for until_ns in sorted(random.sample(range(200), 8)):
        for _ in range(random.randrange(5)):
            times = [random.randrange(until_ns, 230) for _ in range(random.randrange(1, 6))]
            events = empty_events(len(times))
            events["time_ns"] = times
            numbers = np.arange(number, number + len(times))
            number += len(times)
            windows_alone = random.random() < 0.5
            bounds = (min(times), max(times)) if random.random() < 0.8 else ()
            waiting.add(Named(events, numbers), windows_alone, *bounds)
            held += [(time_ns, place, windows_alone) for time_ns, place in zip(times, numbers.tolist(), strict=True)]
        windows, others = waiting.take(until_ns)
        taken = Named.of(part.rows for part in windows), others
        due = [entry for entry in held if entry[0] < until_ns]
        held = [entry for entry in held if entry[0] >= until_ns]
        for part, windows_alone in zip(taken, (True, False), strict=True):
            came = sorted(zip(part.events["time_ns"].tolist(), part.numbers.tolist(), strict=True))
            assert came == sorted(entry[:2] for entry in due if entry[2] == windows_alone)
        windows, others = waiting.rows()
        assert sum(len(part.rows.numbers) for part in windows) + len(others.numbers) == len(held)
