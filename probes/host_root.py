"""The host as pollers see it: files below a root, which is `/` or the recorded tree of another host.

In: paths as the host itself calls them. Out: what is there, or None. What else a live kernel would be asked (ethtool,
DCB, addresses, clocks, GPUs) lies in a recorded tree as JSON files; the module of each says in which form.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

MAX_BYTES = 65_536
"""No file that is read here is longer; what is cut off is not missed."""
MAX_JSON_BYTES = 1 << 20
MAX_NAMES = 4096
MAX_KEPT = 512
"""Files that are kept open; a process may open 1,024 where nobody has allowed it more."""


class HostRoot:
    """Reads files of a host. Nothing that is missing, unreadable or no text raises: it is None."""

    def __init__(self, root: Path | str = "/") -> None:
        real = os.path.realpath(root)
        self._prefix = "" if real == "/" else real
        self.live = not self._prefix
        """Whether it is this host, so that its kernel can be asked."""

    def path(self, path: str) -> str:
        """Where a path of the host lies."""
        return self._prefix + path

    def read(self, path: str, limit: int = MAX_BYTES) -> bytes | None:
        """The bytes of a file, `limit` at most."""
        try:
            fd = os.open(self._prefix + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            return None
        try:
            return os.read(fd, limit)
        except OSError:
            return None
        finally:
            os.close(fd)

    def text(self, path: str, limit: int = MAX_BYTES) -> str | None:
        """The text of a file without the white space around it."""
        found = self.read(path, limit)
        return None if found is None else found.decode("utf-8", "replace").strip()

    def number(self, path: str) -> int | None:
        """The whole number that a file holds."""
        found = self.read(path, 64)
        return None if found is None else number_of(found)

    def names(self, folder: str) -> tuple[str, ...]:
        """What is in a folder, in order; nothing if there is no such folder."""
        try:
            with os.scandir(self._prefix + folder) as entries:
                return tuple(sorted(entry.name for entry in entries)[:MAX_NAMES])
        except (OSError, ValueError):
            return ()

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return os.access(self._prefix + path, os.F_OK)
        except ValueError:
            return False

    def target(self, path: str) -> str | None:
        """What a path means once every link on it is followed, as the host calls it; None if it leads to nothing."""
        try:
            fd = os.open(self._prefix + path, os.O_PATH | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            # The kernel has followed all links already: to ask for each part of the path would cost ten times as much.
            real = str(Path(f"/proc/self/fd/{fd}").readlink())
        except OSError:
            return None
        finally:
            os.close(fd)
        if self.live:
            return real
        return real.removeprefix(self._prefix) if real.startswith(f"{self._prefix}/") else None

    def recorded(self, path: str) -> Any:
        """What a JSON file of a recorded tree says; None where there is none, it is no JSON, or the host is live."""
        found = None if self.live else self.read(path, MAX_JSON_BYTES)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


class KeptFiles:
    """Small files that are read again and again: kept open, so that each costs one system call.

    Files of sysfs and procfs make their text anew when they are read from the start.
    """

    def __init__(self, host: HostRoot) -> None:
        self._host = host
        self._fds: dict[str, int] = {}

    def read(self, path: str, limit: int = 4096) -> bytes | None:
        """The bytes of a file; None if it is missing or cannot be read now."""
        fd = self._fds.get(path)
        if fd is not None:
            try:
                return os.pread(fd, limit, 0)
            except OSError:
                # The device may have come back under the same name.
                os.close(self._fds.pop(path))
        if len(self._fds) >= MAX_KEPT:
            return self._host.read(path, limit)
        try:
            fd = os.open(self._host.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            return None
        try:
            found = os.pread(fd, limit, 0)
        except OSError:
            os.close(fd)
            return None
        self._fds[path] = fd
        return found

    def number(self, path: str) -> int | None:
        """The whole number that a file holds."""
        found = self.read(path, 64)
        return None if found is None else number_of(found)

    def keep(self, paths: set[str]) -> None:
        """Closes all others."""
        for path in self._fds.keys() - paths:
            os.close(self._fds.pop(path))

    def close(self) -> None:
        """Closes all."""
        self.keep(set())


def number_of(text: bytes) -> int | None:
    """The whole number, of 64 bits at most, that a text is; None for any other text."""
    text = text.strip()
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 20:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 64 else None
