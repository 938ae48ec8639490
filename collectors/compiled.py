"""How the decoder's kernels are compiled: kept on disk by their sources, and without Numba's counting of references.

Beside it the loads that they read bytes with. Compiled for use, a load is one instruction and nothing looks where it
reads; NUMBA_BOUNDSCHECK=1 compiles loads that raise IndexError instead, and the tests drive every hostile message
through those. A cache does not know one from the other: NUMBA_BOUNDSCHECK=1 needs a NUMBA_CACHE_DIR of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from stream.kernel_folder import folder_by_sources, kept_in

Function = TypeVar("Function", bound=Callable[..., Any])
Bytes = npt.NDArray[np.uint8]
wide: Callable[[Any], int] = np.int64  # type: ignore[assignment]  # it is none to those who read types
"""An integer as kernels hold it: of 64 bits, be they compiled or not."""

INTERPRETED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # set when numba is imported
CHECKED = INTERPRETED or bool(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined]  # as above
PAD = 0 if CHECKED else 8
"""Bytes that must follow what is read: a load takes eight at once."""

_ROOM = Path(__file__).parent
_SOURCES = (
    "compiled", "gnmi_fields", "json_scalars", "json_tree", "layout", "numerals", "protobuf", "scan", "spellings",
)  # fmt: skip
_FOLDER = folder_by_sources(_ROOM, (_ROOM / f"{name}.py" for name in _SOURCES))


def kernel(function: Function) -> Function:
    """A compiled function that Python calls; NUMBA_DISABLE_JIT=1 leaves it as it is."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """A compiled function that kernels alone call: the ways into it from Python would take as long to compile."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """A small part of a loop, which becomes one with it. Where all were this, compiling took three times as long."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    with kept_in(numba.config, _FOLDER):
        compiled: Function = njit(cache=True, _nrt=False, error_model="numpy", **options)(function)  # type: ignore[call-overload]  # not in its stubs
    return compiled


def _loader(bits: int) -> Any:
    def typed(_context: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = make_array(signature.args[0])(context, builder, arguments[0])  # type: ignore[no-untyped-call]  # not typed
            place = builder.gep(array.data, [arguments[1]])
            loaded = builder.load(builder.bitcast(place, ir.IntType(bits).as_pointer()), align=1)
            word = loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))
            return impl_ret_untracked(context, builder, signature.return_type, word)  # type: ignore[no-untyped-call]  # as above

        return types.int64(data, types.int64), generate

    return intrinsic(typed)


_byte, _word = _loader(8), _loader(64)


def _plain_byte(data: Bytes, at: int) -> int:
    if at < 0 or at >= len(data):
        raise IndexError("a kernel read outside of its bytes")
    return wide(data[at])


def _plain_word(data: Bytes, at: int) -> int:
    word = wide(0)
    for i in range(8):
        word |= byte(data, at + i) << (8 * i)
    return word


def _interpreted_word(data: Bytes, at: int) -> int:
    if at < 0 or at + 8 > len(data):
        raise IndexError("a kernel read outside of its bytes")
    return wide(int.from_bytes(data[at : at + 8].tobytes(), "little", signed=True))


def _plain_part(data: Bytes, at: int, size: int) -> int:
    word = wide(0)
    for i in range(size):
        word |= byte(data, at + i) << (8 * i)
    return word


def _fast_byte(data: Bytes, at: int) -> int:
    return _byte(data, at)


def _fast_word(data: Bytes, at: int) -> int:
    return _word(data, at)


def _fast_part(data: Bytes, at: int, size: int) -> int:
    return _word(data, at) & ((1 << (8 * size)) - 1)


byte = inner(_plain_byte if CHECKED else _fast_byte)
"""The byte at a place."""
word = inner(_interpreted_word if INTERPRETED else _plain_word if CHECKED else _fast_word)
"""The eight bytes from a place on, the first the lowest."""
part = inner(_plain_part if CHECKED else _fast_part)
"""As many bytes from a place on, 0 to 7, the first the lowest."""

_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)


def _plain_mixed(state: int, more: int) -> int:
    product = (int(state) ^ int(more)) * _FACTOR
    product = (product + (1 << 63)) % (1 << 64) - (1 << 63)
    return wide(product ^ (product >> 29))


def _fast_mixed(state: int, more: int) -> int:
    product = (state ^ more) * _FACTOR
    return product ^ (product >> 29)


mixed = inner(_plain_mixed if INTERPRETED else _fast_mixed)
"""A hash with one more word in it."""
