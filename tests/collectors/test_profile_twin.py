"""The rows of arrays of readings are those of the slow twin, in any cuts and beside any other target."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collectors.notifications import START_NS, Feed, elements_of, notification
from tests.reference.profile_rows import PlainLeaf, PlainRows

PORT = "/interfaces/interface[name=eth{}]/state/counters/{}"
QUEUE = "/qos/interfaces/interface[interface-id=eth{}]/output/queues/queue[name=3]/state/{}"
ESTIMATED = frozenset({"ESTIMATED"})


def meanings() -> dict[str, PlainLeaf]:
    """The leaves of two ports."""
    found: dict[str, PlainLeaf] = {}
    for port in (1, 2):
        mine, queue = f"eth{port}/- rx", f"eth{port}/3 tx"
        found |= {
            PORT.format(port, "in-octets"): PlainLeaf("PORT_BYTES", mine, 0, "counter", True),
            PORT.format(port, "in-pkts"): PlainLeaf("PORT_BYTES", mine, 1, "counter", False),
            PORT.format(port, "in-discards"): PlainLeaf("QUEUE_DROPS", mine, 0, "counter", True),
            QUEUE.format(port, "max-queue-len"): PlainLeaf("QUEUE_DEPTH", queue, 0, "peak", True, ESTIMATED),
            QUEUE.format(port, "avg-queue-len"): PlainLeaf("QUEUE_DEPTH", queue, 1, "gauge", True, ESTIMATED),
            QUEUE.format(port, "dropped-octets"): PlainLeaf("QUEUE_DROPS", queue, 1, "counter", True, ESTIMATED),
        }
    return found


LEAVES = sorted(meanings())
TELLING = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 1_000_000_000, 1_600_000_000]),
        st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(0, 1000)), max_size=8),
        st.integers(0, 1),
    ),
    max_size=15,
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(told=TELLING, size=st.sampled_from([1, 2, 15]))
def test_the_rows_are_those_of_the_twin(told: list[tuple[int, list[tuple[str, int]], int]], size: int) -> None:
    feed = Feed("openconfig", "openconfig")
    twins = [PlainRows(meanings(), 1_000_000_000) for _ in range(2)]
    now_ns, messages = START_NS, []
    for step_ns, leaves, target in told:
        now_ns += step_ns
        for path, value in leaves:
            twins[target].read(path, now_ns, value)
        updates = [(elements_of(path), value, "PROTO") for path, value in leaves]
        messages.append((target, notification(now_ns, updates)))
    made: list[list[str]] = [[], []]
    places = [*range(0, len(messages), size), len(messages)]
    for begin, end in pairwise(places):
        part = messages[begin:end]
        columns = feed.decoder.decode([message for _, message in part], [target for target, _ in part])
        targets = np.array([target for target, _ in part], np.int32)
        times = np.asarray(columns.time_ns)
        rows = feed.rows.take(columns, targets, times, np.zeros(len(part), np.uint8), times)
        for each in (rows, *([feed.rows.flush(1 << 62)] if end == len(messages) else [])):
            lines = feed.text(each)
            for piece in each.parts:
                made[piece.target] += lines[piece.first : piece.end]
    assert [sorted(rows) for rows in made] == [twin.rows() for twin in twins]
