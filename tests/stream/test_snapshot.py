"""Snapshots: what goes in comes out, of the same types, and anything else is refused with a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream.errors import PausetraceError
from stream.record import EVENT, empty_events
from stream.snapshot import pack, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@settings(derandomize=True, deadline=None)
@given(state=PLAIN)
def test_plain_structures_come_back_as_they_were(state: Any) -> None:
    assert unpack("step", 3, pack("step", 3, state)) == state


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.array([0.5, -1e300, np.inf]),
        np.array([2**64 - 1], np.uint64),
        np.zeros((0, 8), np.int64),
        np.array([[True], [False]]),
        np.arange(12, dtype=np.int64).reshape(3, 4)[:, ::2],
    ],
)
def test_arrays_come_back_with_type_shape_and_values_and_can_be_written_to(array: np.ndarray[Any, Any]) -> None:
    (back,) = unpack("step", 1, pack("step", 1, [array]))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    back[...] = 0


def test_records_travel_as_bytes() -> None:
    events = empty_events(3)
    events["time_ns"] = 1, 2, 3
    back = unpack("step", 1, pack("step", 1, {"rows": events.view(np.uint8)}))["rows"].view(EVENT)
    np.testing.assert_array_equal(back, events)


def test_numbers_of_numpy_become_plain_ones() -> None:
    assert unpack("step", 1, pack("step", 1, [np.int64(5), np.uint8(7)])) == [5, 7]


def test_what_a_snapshot_cannot_hold_is_an_error_of_the_step() -> None:
    with pytest.raises(TypeError, match="a snapshot cannot hold object"):
        pack("step", 1, [object()])


@pytest.mark.parametrize("wrong", [b"", b"\xc1", b"not a snapshot", b"\x80", pack("step", 1, [1])[:-1]])
def test_bytes_that_are_no_snapshot_are_refused(wrong: bytes) -> None:
    with pytest.raises(PausetraceError, match="not a snapshot of step"):
        unpack("step", 1, wrong)


def test_a_snapshot_of_another_step_or_version_is_refused_with_the_next_step() -> None:
    for step, version in (("other", 1), ("step", 2)):
        with pytest.raises(
            PausetraceError, match=f"a snapshot of {step} version {version}, not of step version 1"
        ) as error:
            unpack("step", 1, pack(step, version, None))
        assert error.value.next_step


def test_arrays_with_nonsense_in_their_shape_are_refused() -> None:
    good = pack("step", 1, [np.arange(4, dtype=np.int64)])
    at = good.index(b"<i8")
    for wrong in (b"<i9", b"<x8", b"|O8", b"|O\x08"):
        with pytest.raises(PausetraceError):
            unpack("step", 1, good[:at] + wrong + good[at + 3 :])
