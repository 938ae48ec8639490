"""How kernels are compiled: kept on disk, and without Numba's counting of who refers to an array.

A kernel allocates nothing, so there is nothing to count; where each call takes thirty arrays, the counting took three
times as long as the work itself. Numba refuses to compile a function of this kind that allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """The compiled function; NUMBA_DISABLE_JIT=1 leaves it as it is."""
    compiled: Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]  # not in its stubs
    return compiled
