"""How the fabric's kernels are compiled: kept on disk by their sources, and without Numba's counting of references.

A kernel allocates nothing, so there is nothing to count; where each call takes twenty arrays, the counting took most of
the time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import njit

from stream.kernel_folder import folder_by_sources, kept_in

Ints = npt.NDArray[np.int64]
Smalls = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

_ROOM = Path(__file__).parent
_SOURCES = ("arrivals", "buffers", "compiled", "departures", "kernel", "layout", "pacing")
_FOLDER = folder_by_sources(_ROOM, (_ROOM / f"{name}.py" for name in _SOURCES))


def kernel(function: Function) -> Function:
    """A compiled function that Python calls; NUMBA_DISABLE_JIT=1 leaves it as it is."""
    return _compiled(function)


def inner(function: Function) -> Function:
    """A compiled function that kernels alone call: the ways into it from Python would take as long to compile."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: Function, **options: Any) -> Function:
    with kept_in(numba.config, _FOLDER):
        compiled: Function = njit(cache=True, _nrt=False, **options)(function)  # type: ignore[call-overload]  # not in its stubs
    return compiled
