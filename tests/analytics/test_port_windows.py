"""The windows of ports that are kept: those that a cascade may ask for, in bounded room, however they came."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from analytics import layout, port_windows
from analytics.layout import GAP_NS, MAX_POLL_NS, Ints
from analytics.port_windows import END, IS_DEPTH, PortWindows

WIDTH_NS = 100_000


def rows_of(spans: list[tuple[int, int, int, int, int]]) -> Ints:
    """Kernel rows of (type, queue, start, end, amount)."""
    rows = np.zeros((len(spans), layout.ROW_COLUMNS), np.int64)
    for row, (kind, queue, start_ns, end_ns, amount) in zip(rows, spans, strict=True):
        row[layout.ROW_TYPE], row[layout.ROW_QUEUE], row[layout.ROW_AMOUNT] = kind, queue, amount
        row[layout.ROW_TIME], row[layout.ROW_START], row[layout.ROW_END] = end_ns, start_ns, end_ns
    return rows


def test_only_windows_that_tell_when_bytes_flowed_are_kept() -> None:
    windows = PortWindows()
    windows.take(
        rows_of([
            (layout.BYTES, 3, 0, MAX_POLL_NS, 5), (layout.DEPTH, 3, 0, WIDTH_NS, 7), (layout.FLOW, 3, 0, WIDTH_NS, 1),
            (layout.BYTES, 3, 0, MAX_POLL_NS + 1, 5), (layout.BYTES, 3, 0, WIDTH_NS, 0), (layout.BYTES, 3, 9, 9, 4),
        ])
    )  # fmt: skip
    assert windows.near(0, 0, np.ones(1, np.bool_)).tolist() == [[MAX_POLL_NS, 0, 3, 5, 0], [WIDTH_NS, 0, 3, 7, 1]]
    assert len(windows.near(0, 0, np.zeros(1, np.bool_))) == 0
    windows.take(rows_of([]))
    assert len(windows.state()) == 2
    assert PortWindows().near(0, 0, np.ones(1, np.bool_)).shape == (0, 5)


@pytest.mark.parametrize("seed", range(20))
def test_a_cascade_sees_the_newest_windows_however_they_came(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(port_windows, "MAX_WINDOWS", 40)
    kinds = (layout.BYTES, layout.DEPTH)
    spans = [
        (random.choice(kinds), queue, at * WIDTH_NS, (at + 1) * WIDTH_NS, random.randrange(1, 9))
        for at in range(300) for queue in range(random.choice((0, 1, 3)))
    ]  # fmt: skip
    every = np.array([(end, start, queue, amount, kind == layout.DEPTH) for kind, queue, start, end, amount in spans])
    windows, dropped, at = PortWindows(), 0, 0
    lasted_ns = random.choice((0, 2_000_000))
    while at < len(spans):
        some = spans[at : at + random.choice((1, 5, 50, 500))]
        at += len(some)
        windows.take(rows_of(random.sample(some, len(some))))
        # A cascade is told of when all up to GAP_NS after its end has come: of the last instant more may.
        end_ns = some[-1][3] - 1 - GAP_NS
        start_ns = end_ns - lasted_ns
        wanted = np.array([random.random() < 0.7])
        seen = windows.near(start_ns, end_ns, wanted)
        due = every[every[:, END] <= end_ns + GAP_NS]
        oldest = np.sort(due[:, END])[-40] if len(due) > 40 else layout.NEVER
        due = due[(due[:, END] >= max(oldest, start_ns - GAP_NS)) & wanted[0]]
        assert sorted(seen.tolist()) == sorted(due.tolist())
        twin = PortWindows()
        twin.load(windows.state())
        assert np.array_equal(twin.state(), windows.copy().state())
        dropped += windows.forget(start_ns - GAP_NS, end_ns)
        assert set(windows.state()[:, IS_DEPTH].tolist()) <= {0, 1}
    assert dropped > 0


def test_windows_that_no_cascade_can_ask_for_are_no_loss() -> None:
    windows = PortWindows()
    windows.take(rows_of([(layout.BYTES, 3, 0, WIDTH_NS, 5)]))
    assert windows.forget(WIDTH_NS, 0) == 0
    assert len(windows.state()) == 1
    assert windows.forget(WIDTH_NS + 1, 0) == 0
    assert len(windows.state()) == 0
