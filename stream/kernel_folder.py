"""Where the compiled kernels of a room are kept: a folder named after the sources that they were made from.

Numba looks at the time of a function's own file alone: a kernel that calls one of another file would go on with the old
one after an upgrade.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def folder_by_sources(room: Path, sources: Iterable[Path]) -> Path | None:
    """The folder, which exists; those of earlier sources are gone. None where none can be made: Numba finds one."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.read_bytes())
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    above = Path(elsewhere) if elsewhere else room / "__pycache__"
    folder = above / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    # A folder of the user's choice may serve other installations too.
    for stale in () if elsewhere else above.glob("kernels-*"):
        if stale != folder:
            shutil.rmtree(stale, ignore_errors=True)
    return folder


@contextmanager
def kept_in(config: Any, folder: Path | None) -> Iterator[None]:
    """What is declared as compiled meanwhile is kept in a folder; None: where Numba finds one.

    `config` is `numba.config`: this room does without Numba.
    """
    others = config.CACHE_DIR  # set when numba is imported
    if folder is not None:
        config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = others
