"""Whose pauses count where several sources tell of one port: against a plain twin, in any cuts and orders."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics.layout import GAP_NS
from analytics.tellers import Tellers
from stream import kinds
from stream.record import empty_events, joined, picked

Row = tuple[int, str, bool, bool, int]
"""Time, source, whether it opens a pause, whether it is exact, port."""


def plain(rows: list[Row], ends_ns: dict[str, int]) -> list[bool]:
    """Whether each row counts; the rows are in the order (time, inexact, source, end), and sources end at some time."""
    telling: dict[int, tuple[str, int, bool]] = {}
    counts = []
    for time_ns, source, opens, exact, port in rows:
        teller, last_ns, was_exact = telling.get(port, (source, time_ns, exact))
        ended = time_ns > ends_ns[teller]
        takes_over = opens and (time_ns - last_ns > GAP_NS or (exact and not was_exact) or ended)
        counts.append(teller == source or takes_over)
        if teller == source:
            telling[port] = source, time_ns, exact or was_exact
        elif takes_over:
            telling[port] = source, time_ns, exact
    return counts


@pytest.mark.parametrize("seed", range(40))
def test_rows_count_as_the_twin_says_in_any_cuts_and_orders(seed: int) -> None:
    random = Random(seed)
    now_ns, rows = 0, []
    for _ in range(60):
        now_ns += random.choice((0, 1, 1_000, GAP_NS, GAP_NS + 1))
        rows.append((now_ns, random.choice("cab"), random.random() < 0.6, random.random() < 0.4, random.randrange(3)))
    rows.sort(key=lambda row: (row[0], not row[3], row[1], not row[2]))
    ends_ns = {source: random.randrange(now_ns * 2) for source in "abc"}
    expected = [place for place, counts in enumerate(plain(rows, ends_ns)) if counts]
    names = random.sample("abc", 3)
    events = empty_events(len(rows))
    events["time_ns"] = [row[0] for row in rows]
    events["kind"] = [kinds.PAUSE_OPEN if row[2] else kinds.PAUSE_INTERVAL for row in rows]
    events["quality"] = [kinds.EXACT if row[3] else 0 for row in rows]
    events["value"] = range(len(rows))
    ports = np.array([row[4] for row in rows], np.int64)
    sources = np.array([names.index(row[1]) for row in rows], np.int64)
    tellers, kept, left_out = Tellers(), [], 0

    def has_ended(port: int, source: str, time_ns: int) -> bool:
        return time_ns > ends_ns[source]

    cuts = sorted({0, len(rows), *(random.choice([row[0] for row in rows]) for _ in range(3))})
    for begin_ns, end_ns in zip([-1, *cuts], [*cuts, 1 << 62], strict=True):
        # A cut never parts rows of one instant, and within it rows come in any order.
        inside = np.flatnonzero((events["time_ns"] >= begin_ns) & (events["time_ns"] < end_ns))
        inside = inside[np.random.default_rng(seed).permutation(len(inside))]
        if random.random() < 0.5:
            tellers = Tellers.of_state(tellers.state())
        rows_then = picked(events, inside), ports[inside], sources[inside], names, has_ended
        made, made_ports, gone = tellers.copy().chosen(*rows_then)
        tellers.chosen(*rows_then)
        assert (ports[made["value"]] == made_ports).all()
        kept.append(made)
        left_out += gone
    assert sorted(joined(kept)["value"].tolist()) == expected
    assert left_out == len(rows) - len(expected)


def test_rows_that_are_no_pauses_all_count() -> None:
    events = empty_events(2)
    events["kind"] = kinds.QUEUE_DEPTH
    made, _, left_out = Tellers().chosen(events, np.zeros(2, np.int64), np.arange(2), ["a", "b"], lambda *_: False)
    assert len(made) == 2
    assert left_out == 0
