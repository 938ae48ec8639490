"""Windows of polled counters against the slow twin, on random rows in any order."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics import layout, poll_windows
from analytics.poll_windows import (
    CODES,
    COUNT_COLUMNS,
    END,
    KEY,
    MARKED,
    PAUSE_COLUMNS,
    RECEIVED,
    SENT,
    TABLES,
    Windows,
    by_queue,
    count_up,
    sort_out,
)
from stream import kinds
from stream.record import Events, empty_events, picked, words
from tests.reference import poll_windows as twin

PORTS, DEVICES = 6, 3
PEERS = [1, 0, 3, 2, -1, -1]
KINDS = (kinds.PFC_PAUSED, kinds.PFC_FRAMES, kinds.QUEUE_DEPTH, kinds.PORT_BYTES, kinds.ECN_MARKED, kinds.LINK_ERRORS)
MOST_NS = 5_000


def rows(random: Random, count: int) -> tuple[Events, np.ndarray]:
    events = empty_events(count)
    for row in events:
        row["kind"], row["side"] = random.choice(KINDS), random.randrange(3)
        row["priority"] = random.choice((0, 3, kinds.NO_PRIORITY))
        row["time_ns"] = random.randrange(10_000, 20_000)
        row["span_ns"] = random.choice((0, 500, 1_000, 1_000, 9_000))
        row["value"] = random.choice((0, 1, random.randrange(100_000), kinds.UNKNOWN))
        row["extra"] = random.choice((0, 7, kinds.UNKNOWN))
    return events, np.array([random.randrange(PORTS) for _ in range(count)], np.int64)


def taken(events: Events, ports: np.ndarray, parts: int) -> tuple[Windows, Windows, Windows, np.ndarray]:
    """The tables as they take the rows in, and since when each device tells."""
    tables = Windows(PAUSE_COLUMNS), Windows(PAUSE_COLUMNS), Windows(COUNT_COLUMNS)
    since = np.full((DEVICES, TABLES), layout.FOREVER)
    for part in np.array_split(np.arange(len(events)), parts):
        own, other, counted = (table.room(len(part)) for table in tables)
        of_device = np.arange(PORTS) // 2
        counts = sort_out(
            words(picked(events, part)),
            ports[part],
            11_000,
            MOST_NS,
            np.array(PEERS),
            of_device,
            own,
            other,
            counted,
            since,
        )
        for table, count in zip(tables, counts, strict=True):
            table.fill(count)
    return *tables, since


@pytest.mark.parametrize("seed", range(30))
def test_windows_of_a_period_are_those_of_the_twin(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_windows, "CHUNK_ROWS", 64)
    random = Random(seed)
    events, ports = rows(random, 300)
    expected = twin.sorted_out(events, ports.tolist(), 11_000, MOST_NS, PEERS)
    own, other, counts, since = taken(events, ports, random.randrange(1, 9))
    begin_ns = random.randrange(11_000, 19_000)
    end_ns, known_ns = begin_ns + 1_000, random.choice((begin_ns + 1_500, 30_000))
    for table, name in ((own, "own"), (other, "other")):
        near = [w for w in expected[name] if begin_ns < w.end_ns <= known_ns]
        near = [w._replace(start_ns=max(w.start_ns, w.end_ns - 800)) for w in near]
        made = by_queue(table, begin_ns, end_ns, known_ns, 800, PORTS)
        listed = [
            twin.Window(*divmod(key, CODES), *window)
            for key, first, last in zip(made.keys.tolist(), made.start.tolist(), made.start[1:].tolist(), strict=False)
            for window in made.windows[first:last].tolist()
        ]
        assert listed == twin.apart([w for w in near if w.start_ns < end_ns])
    found = count_up(counts, begin_ns, end_ns, known_ns, [0, 3], np.arange(PORTS) // 2, DEVICES)
    known = {name: [w for w in windows if w.end_ns <= known_ns] for name, windows in expected.items()}
    for place, priority in enumerate((0, 3, 8)):
        for table_number, name in ((SENT, "sent"), (RECEIVED, "received"), (MARKED, "marked")):
            sums = twin.summed(known[name], priority, begin_ns, end_ns)
            assert found.sums[table_number][place].tolist() == [sums.get(port, 0.0) for port in range(PORTS)]
        for peak, since_ns, until_ns in ((found.peak, begin_ns, end_ns), (found.before, begin_ns - 1_000, begin_ns)):
            peaks = twin.highest(known["depth"], priority, since_ns, until_ns)
            assert peak[place].tolist() == [peaks.get(port, 0.0) for port in range(PORTS)]
    told = {
        window.port // 2
        for name in ("depth", "sent", "received", "marked")
        for window in known[name]
        if window.start_ns < end_ns and window.end_ns > begin_ns
    }
    assert set(np.flatnonzero(found.seen).tolist()) == told
    firsts = [min((w.end_ns for w in expected["own"] if w.port // 2 == d), default=layout.FOREVER) for d in range(3)]
    assert since[:, 0].tolist() == firsts


def test_what_is_over_goes_and_a_copy_goes_its_own_way() -> None:
    table = Windows(PAUSE_COLUMNS)
    for end_ns in (1_000, 2_000):
        table.room(poll_windows.CHUNK_ROWS)[:] = (7, end_ns - 10, end_ns, 1, 1)
        table.fill(poll_windows.CHUNK_ROWS)
    twin_table = table.copy()
    twin_table.room(1)[:] = (9, 2_990, 3_000, 1, 1)
    twin_table.fill(1)
    table.forget(1_000)
    assert len(table) == poll_windows.CHUNK_ROWS
    assert len(twin_table) == 2 * poll_windows.CHUNK_ROWS + 1
    assert set(table.between(0, 5_000)[:, END].tolist()) == {2_000}
    again = Windows.of_state(twin_table.state())
    assert again.between(2_000, 3_000)[:, KEY].tolist() == [9]
