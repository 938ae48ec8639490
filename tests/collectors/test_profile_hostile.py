"""Whatever a device sends as value, name, time or path: nothing crashes, and readers take what is published."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors import profiles
from collectors.pattern import split_path
from stream.messages import decode, encode
from tests.collectors.notifications import START_NS, SYNC, Element, Feed, Value, notification

NAMES = st.text(max_size=12) | st.sampled_from(
    ["eth1", "Ethernet0", "Ethernet0:3", "3", "999", "-1", "*", "", "x" * 300, "\u0661", "\x00", "Ethernet0:1:periodic"]
)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.integers(0, 2**64 - 1),
    st.floats(),
    st.text(max_size=8),
    st.booleans(),
    st.binary(max_size=8),
    st.lists(st.integers(0, 2**64 - 1) | st.text(max_size=4), max_size=3),
    st.sampled_from(["operational", "stormed", "12", "-5", "NaN", "1e999", "SPEED_400GB"]),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20).map(lambda number: START_NS + number * 10**8)
PATHS = {
    name: sorted(
        {path for row in profiles.load(name).row for path in row.paths}
        | {path for fact in profiles.load(name).fact for path in fact.paths}
    )
    for name in profiles.names()
}


@st.composite
def elements(draw: st.DrawFn, profile: str) -> list[Element]:
    """A path that a profile knows with hostile names in its places, or any other."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.lists(st.tuples(NAMES, st.just(())), max_size=4))
    told: list[Element] = []
    for part in split_path(draw(st.sampled_from(PATHS[profile]))):
        if part == "...":
            continue
        name, *keys = part.split("[")
        name = re.sub(r"\{\w+\}|\*", lambda _: draw(NAMES), name)
        told.append((name, tuple((key.split("=")[0], draw(NAMES)) for key in keys)))
    return told


@st.composite
def messages(draw: st.DrawFn, profile: str) -> bytes:
    """One notification, or the end of all that the device tells at first."""
    if draw(st.integers(0, 9)) == 0:
        return SYNC
    updates = []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            updates.append((draw(elements(profile)), draw(VALUES), "PROTO"))
        else:
            updates.append((draw(elements(profile))[: draw(st.integers(0, 6))], draw(JSON), "JSON_IETF"))
    deletes = ["/lldp"] * draw(st.integers(0, 1))
    return notification(draw(TIMES), updates, deletes)


@pytest.mark.parametrize("profile", profiles.names())
@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_nothing_that_a_device_sends_crashes_or_makes_what_no_reader_takes(profile: str, data: st.DataObject) -> None:
    feed = Feed(profile, "openconfig")
    for _ in range(data.draw(st.integers(1, 3))):
        batch = data.draw(st.lists(messages(profile), min_size=1, max_size=5))
        targets = data.draw(st.lists(st.integers(0, 2), min_size=len(batch), max_size=len(batch)))
        columns = feed.decoder.decode(batch, targets)
        times = np.array(data.draw(st.lists(TIMES, min_size=len(batch), max_size=len(batch))), np.int64)
        made = feed.rows.take(columns, np.array(targets, np.int32), times, np.zeros(len(batch), np.uint8), times)
        # Feed.text checks each part as the publisher would.
        feed.text(made)
        if data.draw(st.booleans()):
            feed.rows.gap(0)
            feed.flush(data.draw(TIMES))
    feed.flush()
    for fact in feed.facts:
        assert decode(*encode(fact)) == fact
