"""What waits for its time: rows that are taken, in whatever pieces, are those of the twin's lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from analytics import layout
from analytics.flow_places import FlowPlaces
from analytics.layout import Ints
from analytics.row_store import RowStore
from analytics.waiting import Named, Part, Waiting
from stream.record import empty_events, joined
from tests.reference import waiting_rows as twin
from tests.reference.waiting_rows import Row

PORTS = 5


def random_rows(rng: np.random.Generator, count: int) -> Ints:
    """Rows whose columns before the last have few values, so that many tie; the last is a number of its own."""
    rows = rng.integers(0, 4, (count, layout.ROW_COLUMNS))
    rows[:, layout.ROW_TIME] = rng.integers(0, 50, count) * 1_000
    rows[:, layout.ROW_QUEUE] = rng.integers(0, PORTS * 8, count)
    return rows


def as_told(rows: Ints, flows: npt.NDArray[np.uint64]) -> list[Row]:
    """Rows by name."""
    return [Row._make([*row, flow]) for row, flow in zip(rows.tolist(), flows.tolist(), strict=True)]


@pytest.mark.parametrize("seed", range(4))
def test_rows_leave_in_order_and_the_others_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, rank = RowStore(), rng.permutation(PORTS)
    waiting: list[Row] = []
    for _ in range(20):
        new, flows = random_rows(rng, int(rng.integers(0, 40))), rng.integers(0, 3, 60).astype(np.uint64)
        room, room_flows = store.room(len(new) + 7)  # more room than rows
        room[: len(new)], room_flows[: len(new)] = new, flows[: len(new)]
        store.fill(len(new))
        paused = random_rows(rng, 3)
        store.add(paused)
        waiting += as_told(new, flows[: len(new)]) + as_told(paused, np.zeros(3, np.uint64))
        until_ns = int(rng.integers(0, 60)) * 1_000
        copied = store.copy()
        due, left = twin.due(waiting, until_ns, rank.tolist()), twin.left(waiting, until_ns)
        by_mask = store.rows[:, layout.ROW_TIME] < until_ns if rng.random() < 0.5 else None
        assert as_told(*store.take(until_ns, rank, by_mask)) == due
        waiting = left
        rows, of_rows = store.state()
        assert as_told(rows, of_rows) == waiting
        assert len(copied) == len(due) + len(waiting)


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
    places, plain = FlowPlaces(), twin.Places()
    rng = np.random.default_rng(1)
    came = [*ids, *ids, *rng.integers(0, 1 << 63, 500, np.uint64).tolist()]
    for count, flow in enumerate(came, 1):
        assert places.place(flow) == plain.place(flow)
        asked = rng.permutation(np.array([*came[:count], 5, 1 << 40, (1 << 63) + 5], np.uint64))
        assert places.places(asked).tolist() == plain.places(asked.tolist())
    assert len(places) == len(plain)


def all_of(told: tuple[list[Part], Named]) -> list[Named]:
    """Windows and others."""
    return [*(part.rows for part in told[0]), told[1]]


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
        assert sorted(Named.of(all_of(waiting.rows())).events["time_ns"]) == sorted(left[left >= before_ns])
        windows, others = waiting.take(until_ns)
        for part, which in ((Named.of(part.rows for part in windows), 1), (others, 0)):
            times = joined(every[which::2])["time_ns"]
            assert part.events["time_ns"].tolist() == times[(times >= before_ns) & (times < until_ns)].tolist()
            assert part.numbers.tolist() == (part.events["time_ns"] * 2).tolist()
