"""What waits for its time: rows that are taken, in whatever pieces, are those of NumPy's own sort and masks."""

from __future__ import annotations

import numpy as np
import pytest

from analytics import layout
from analytics.flow_places import FlowPlaces
from analytics.layout import Ints
from analytics.row_store import RowStore
from analytics.waiting import Named, Waiting
from stream.record import empty_events, joined

PORTS = 5


def random_rows(rng: np.random.Generator, count: int) -> Ints:
    """Rows whose columns before the last have few values, so that many tie; the last is a number of its own."""
    rows = rng.integers(0, 4, (count, layout.ROW_COLUMNS))
    rows[:, layout.ROW_TIME] = rng.integers(0, 50, count) * 1_000
    rows[:, layout.ROW_QUEUE] = rng.integers(0, PORTS * 8, count)
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_rows_leave_in_order_and_the_others_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, rank = RowStore(), rng.permutation(PORTS)
    waiting: list[list[int]] = []
    for _ in range(20):
        new, flows = random_rows(rng, int(rng.integers(0, 40))), rng.integers(0, 3, 60).astype(np.uint64)
        room, room_flows = store.room(len(new) + 7)  # more room than rows
        room[: len(new)], room_flows[: len(new)] = new, flows[: len(new)]
        store.fill(len(new))
        paused = random_rows(rng, 3)
        store.add(paused)
        waiting += [[*row, int(flow)] for row, flow in zip(new.tolist(), flows, strict=False)]
        waiting += [[*row, 0] for row in paused.tolist()]
        until_ns = int(rng.integers(0, 60)) * 1_000
        twin = store.copy()
        taken, of_flows = store.take(store.rows[:, layout.ROW_TIME] < until_ns, rank)

        def place(row: list[int]) -> tuple[int, ...]:
            queue = row[layout.ROW_QUEUE]
            named = int(rank[queue // 8]) * 8 + queue % 8
            return (row[layout.ROW_TIME], row[layout.ROW_TYPE], named, row[layout.ROW_START], row[layout.ROW_ORDER],
                    row[layout.ROW_AMOUNT], row[-1])  # fmt: skip

        due = sorted((row for row in waiting if row[layout.ROW_TIME] < until_ns), key=place)
        waiting = [row for row in waiting if row[layout.ROW_TIME] >= until_ns]
        told = [[*row, flow] for row, flow in zip(taken.tolist(), of_flows.tolist(), strict=True)]
        assert list(map(place, told)) == list(map(place, due))
        assert sorted(told) == sorted(due)
        left, left_flows = store.state()
        assert [[*row, flow] for row, flow in zip(left.tolist(), left_flows.tolist(), strict=True)] == waiting
        assert len(twin) == len(due) + len(waiting)


def test_a_store_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(9)
    store, restored = RowStore(), RowStore()
    store.add(random_rows(rng, 30))
    restored.load(store.state())
    more = random_rows(rng, 30)
    store.add(more)
    restored.add(more)
    assert store.rows.tolist() == restored.rows.tolist()


@pytest.mark.parametrize("ids", [[0, 1, 2], [3 << 62, 1 << 63, (1 << 64) - 1, 0], list(range(0, 1 << 44, 1 << 34))])
def test_flows_have_the_rows_in_which_they_came(ids: list[int]) -> None:
    places = FlowPlaces()
    rng = np.random.default_rng(1)
    known: dict[int, int] = {}
    for flow in [*ids, *ids, *rng.integers(0, 1 << 63, 500, np.uint64).tolist()]:
        assert places.place(flow) == known.setdefault(flow, len(known))
        asked = rng.permutation(np.array([*known, 5, 1 << 40, (1 << 63) + 5], np.uint64))
        assert places.places(asked).tolist() == [known.get(each, -1) for each in asked.tolist()]
    assert len(places) == len(known)


@pytest.mark.parametrize("seed", range(3))
def test_rows_wait_until_their_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waiting, every = Waiting(), []
    for number in range(30):
        events = empty_events(int(rng.integers(0, 6)))
        events["time_ns"] = rng.integers(0, 100, len(events))
        every.append(events)
        waiting.add(Named(events, events["time_ns"] * 2), bool(number % 2))
    until_ns = 0
    while until_ns < 100:
        before_ns, until_ns = until_ns, until_ns + int(rng.integers(1, 40))
        left = joined(every)["time_ns"]
        assert sorted(Named.of(waiting.rows()).events["time_ns"]) == sorted(left[left >= before_ns])
        for part, which in zip(waiting.take(until_ns), (1, 0), strict=True):
            times = joined(every[which::2])["time_ns"]
            assert part.events["time_ns"].tolist() == times[(times >= before_ns) & (times < until_ns)].tolist()
            assert part.numbers.tolist() == (part.events["time_ns"] * 2).tolist()
