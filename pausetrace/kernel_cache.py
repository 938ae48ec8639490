"""Where compiled kernels are kept when neither the package's folder nor the home can be written, as in a container.

In: the environment. Out: NUMBA_CACHE_DIR in it, for this process and its children, before numba is first imported.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
SHARED_MEMORY = Path("/dev/shm")


def choose_kernel_cache(environ: MutableMapping[str, str]) -> None:
    """Sets the variable to a temporary directory of this user's where numba would find no place of its own.

    Where that directory is not to be trusted, it is a new one for as long as this process lives.
    """
    if environ.get(VARIABLE) or any(map(_is_writable, _places_of_numba(environ))):
        return
    parent = _temporary()
    if parent is None:
        return  # numba cannot be imported then; not every verb needs it
    folder = parent / f"pausetrace-kernels-{os.geteuid()}"
    if not _is_own(folder):
        folder = Path(tempfile.mkdtemp(prefix="pausetrace-kernels-", dir=parent))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environ[VARIABLE] = str(folder)


def _temporary() -> Path | None:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        # What a container with a read-only root still has.
        return SHARED_MEMORY if _is_writable(SHARED_MEMORY) else None


def _places_of_numba(environ: MutableMapping[str, str]) -> list[Path]:
    """Where numba looks for itself: beside the source, then in the user's cache."""
    found = importlib.util.find_spec("analytics")
    beside = [Path(folder, "__pycache__") for folder in (found and found.submodule_search_locations) or ()]
    cache = environ.get("XDG_CACHE_HOME") or str(Path(os.path.expanduser("~"), ".cache"))  # noqa: PTH111 - never raises
    return [*beside, Path(cache, "numba")]


def _is_writable(folder: Path) -> bool:
    """Whether files can be made there, if need be after the folder itself."""
    whole = folder.absolute()
    # Unlike Path.exists, it does not raise where this user may not look.
    nearest = next(path for path in (whole, *whole.parents) if os.path.exists(path))  # noqa: PTH110
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK, effective_ids=True)


def _is_own(folder: Path) -> bool:
    """Makes the folder; false if another user could have put code there, which would be run."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
