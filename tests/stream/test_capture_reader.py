"""Numbers of a part come out of Arrow as Arrow itself would give them, without what it would load for that."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from stream.capture_reader import _filled, _valid

ARRAYS = [
    pa.array([1, None, 3], pa.int64()),
    pa.array([None, None], pa.int64()),
    pa.nulls(3, pa.uint8()),
    pa.array([], pa.uint64()),
    pa.array([1, 2, None, 4, 5], pa.int32()).slice(1, 3),
    pa.array(range(40), pa.int32()).slice(9),
    pa.array([(1 << 64) - 1, None], pa.uint64()),
    pa.array([None if n % 7 == 0 else n for n in range(100)], pa.uint16()).slice(13, 70),
]


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_nulls_are_filled_as_arrow_fills_them(array: pa.Array) -> None:
    expected = array.fill_null(7).to_numpy(zero_copy_only=False)
    filled = _filled(array, 7)
    assert filled.dtype == expected.dtype
    assert filled.tolist() == expected.tolist()
    assert _valid(array).tolist() == [entry.is_valid for entry in array]
    assert _valid(array).dtype == np.bool_


def test_pandas_is_not_loaded_to_take_numbers_out_of_arrow() -> None:
    code = """
import sys
import pyarrow as pa
from stream.capture_reader import _filled
_filled(pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\\1"), pa.py_buffer(bytes(16))]), 7)
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
