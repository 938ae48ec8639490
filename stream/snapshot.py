"""Snapshots of steps: plain structures and NumPy arrays to bytes and back, with the step's name and version checked."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from stream.errors import PausetraceError

_ARRAY = 1


class _Snapshot(msgspec.Struct, frozen=True):
    step: str
    version: int
    state: Any


def _to_ext(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        shape = msgspec.msgpack.encode((value.dtype.str, value.shape))
        return msgspec.msgpack.Ext(_ARRAY, len(shape).to_bytes(2, "big") + shape + value.tobytes())
    if isinstance(value, np.integer):
        return int(value)
    raise TypeError(f"a snapshot cannot hold {type(value).__name__}")


def _from_ext(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"unknown extension {code}")
    length = int.from_bytes(data[:2], "big")
    dtype, shape = msgspec.msgpack.decode(data[2 : 2 + length])
    return np.frombuffer(data[2 + length :], dtype).reshape(shape).copy()


def pack(step: str, version: int, state: Any) -> bytes:
    """The bytes of a state made of dicts, lists, strings, numbers and arrays of plain dtypes."""
    return msgspec.msgpack.encode(_Snapshot(step, version, state), enc_hook=_to_ext)


def unpack(step: str, version: int, data: bytes) -> Any:
    """The state in a snapshot of this step and version; raises PausetraceError for any other bytes."""
    try:
        snapshot = msgspec.msgpack.decode(data, type=_Snapshot, ext_hook=_from_ext)
    except (msgspec.DecodeError, ValueError, TypeError) as err:
        raise PausetraceError(f"not a snapshot of {step}: {err}") from err
    if (snapshot.step, snapshot.version) != (step, version):
        raise PausetraceError(
            f"a snapshot of {snapshot.step} version {snapshot.version}, not of {step} version {version}",
            "start without it: the step reads its input again",
        )
    return snapshot.state
