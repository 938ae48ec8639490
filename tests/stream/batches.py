"""Hypothesis strategies for batches of every packed topic, within the ranges of the table of kinds."""

from __future__ import annotations

from hypothesis import strategies as st

from stream.batch import MARK_END, Batch, StreamKey
from stream.kinds import INT64_MAX, KINDS, NO_PRIORITY, UNKNOWN, Measure
from stream.record import MAX_TIME_NS, empty_events
from stream.topics import PACKED

NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
SEQ = st.integers(0, INT64_MAX - 1024)
MARK_NS = st.integers(0, MAX_TIME_NS) | st.just(MARK_END)


def _measure(measure: Measure) -> st.SearchStrategy[int]:
    return st.integers(measure.low, measure.high) | st.just(UNKNOWN)


@st.composite
def batches(draw: st.DrawFn, most_rows: int = 8) -> Batch:
    """A batch that a source may send."""
    topic = draw(st.sampled_from(PACKED))
    kinds = [kind for kind in KINDS if topic == "episode" or kind.topic in ("", topic)]
    ports = tuple(draw(st.lists(NAME, min_size=1, max_size=5)))
    events = empty_events(draw(st.integers(0, most_rows)))
    for i in range(len(events)):
        kind = draw(st.sampled_from(kinds))
        time_ns = draw(st.integers(0, MAX_TIME_NS))
        row = {
            "time_ns": time_ns,
            "seen_ns": draw(st.integers(0, MAX_TIME_NS)),
            "span_ns": draw(st.integers(0, time_ns)),
            "value": draw(_measure(kind.value)),
            "extra": draw(_measure(kind.extra)),
            "flow": draw(st.integers(0, 2**64 - 1)),
            "port": draw(st.integers(0, len(ports) - 1)),
            "kind": kind.code,
            "priority": draw(st.integers(0, 7) | st.just(NO_PRIORITY)),
            "side": draw(st.integers(0, 2)),
            "quality": draw(st.integers(0, 127)),
        }
        for name, number in row.items():
            events[name][i] = number
    texts = tuple((row, draw(NAME)) for row in range(len(events)) if draw(st.booleans()))
    key = StreamKey(draw(NAME.filter(lambda name: "/" not in name)), draw(NAME), draw(NAME), topic, draw(NAME))
    return Batch(key, draw(SEQ), draw(MARK_NS), ports, events, draw(st.integers(0, INT64_MAX)), texts)
