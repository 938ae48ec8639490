"""How kernels are compiled: kept on disk by the state of this room, and without Numba's counting of references.

A kernel allocates nothing, so there is nothing to count; where each call takes thirty arrays, the counting took three
times as long as the work itself. Numba refuses to compile a function of this kind that allocates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_ROOM = Path(__file__).parent


def keep_by_sources() -> None:
    """Keeps compiled kernels under a digest of all sources of this room, and drops those of its earlier sources.

    Numba looks at the time of a function's own file alone: a kernel that calls one of another file would go on with
    the old one after an upgrade.
    """
    digest = hashlib.sha256()
    for source in sorted(_ROOM.glob("*.py")):
        digest.update(source.read_bytes())
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    above = Path(elsewhere) if elsewhere else _ROOM / "__pycache__"
    folder = above / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # Numba finds a place of its own, or says that there is none
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # set when numba is imported
    # A folder of the user's choice may serve other installations too.
    for stale in () if elsewhere else above.glob("kernels-*"):
        if stale != folder:
            shutil.rmtree(stale, ignore_errors=True)


keep_by_sources()


def kernel(function: Function) -> Function:
    """The compiled function; NUMBA_DISABLE_JIT=1 leaves it as it is."""
    compiled: Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]  # not in its stubs
    return compiled


def inlined(function: Function) -> Function:
    """A part of a kernel that becomes one with its only caller: handing thirty arrays on costs as much as the work."""
    compiled: Function = njit(cache=True, _nrt=False, inline="always")(function)  # type: ignore[call-overload]  # as above
    return compiled
