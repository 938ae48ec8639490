"""How kernels are compiled: kept on disk by the state of this room, and without Numba's counting of references.

A kernel allocates nothing, so there is nothing to count; where each call takes thirty arrays, the counting took three
times as long as the work itself. Numba refuses to compile a function of this kind that allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit

from stream.kernel_folder import folder_by_sources

Function = TypeVar("Function", bound=Callable[..., Any])

index = np.uintp
"""A number that is not below 0, as the place in an array, for the loops that cost the most. Of a signed one Numba asks
at each use whether it counts from the array's end, a tenth of the attribution's time. Not to be calculated with."""

_ROOM = Path(__file__).parent


def keep_by_sources() -> None:
    """Keeps compiled kernels under a digest of all sources of this room, and drops those of its earlier sources."""
    if folder := folder_by_sources(_ROOM, _ROOM.rglob("*.py")):
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # set when numba is imported


keep_by_sources()


def kernel(function: Function) -> Function:
    """The compiled function; NUMBA_DISABLE_JIT=1 leaves it as it is."""
    compiled: Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]  # not in its stubs
    return compiled


def inlined(function: Function) -> Function:
    """A part of a kernel that becomes one with its only caller: handing thirty arrays on costs as much as the work."""
    compiled: Function = njit(cache=True, _nrt=False, inline="always")(function)  # type: ignore[call-overload]  # as above
    return compiled
