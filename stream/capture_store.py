"""The folder of a capture on its way: files that appear whole or not at all, a journal of them, and the manifest.

In: parts' files as bytes. Out: a folder that a killed process can go on with; what no journal names is thrown away.
A finished capture is opened like one on its way, so that parts of it whose files are damaged can be written again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from stream.capture_manifest import JOURNAL, MANIFEST, FileEntry, Manifest, Part, Plan, encode_manifest, load_manifest
from stream.capture_part import BuiltFile
from stream.capture_reader import prove
from stream.capture_schema import EVENTS, MESSAGES
from stream.errors import CaptureError

PARTIAL = "_partial"
"""Folder of the file that is being written."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class CaptureStore:
    """The folder while a capture is made; `parts` are in it. Only one process may have it open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: Plan | None = None
        self.parts: list[Part] = []
        self.finished = False
        """Whether it was when it was opened: then nothing is written unless parts are dropped."""
        self._journal: IO[bytes] | None = None
        self._changed: set[Path] = set()
        """Folders whose entries may not be on disk yet."""
        known = (folder / MANIFEST).exists() or (folder / JOURNAL).exists()
        if folder.is_dir() and not known and any(folder.iterdir()):
            raise CaptureError(f"{folder} is not empty and holds no capture", "choose a folder that does not exist yet")
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder, os.O_RDONLY)
        except OSError as err:
            raise self._cannot_write(folder, err) from err
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            os.close(self._lock)
            raise CaptureError(f"another process writes the capture {folder}", "wait until it ends") from err
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if (self.folder / MANIFEST).exists():
            manifest = load_manifest(self.folder)
            self.plan, self.parts, self.finished = manifest.plan, list(manifest.parts), True
            return
        try:
            self._journal = (self.folder / JOURNAL).open("a+b", buffering=0)
        except OSError as err:
            raise self._cannot_write(self.folder / JOURNAL, err) from err
        self._read_journal(self._journal)
        self._remove_strangers()

    def begin(self, plan: Plan) -> None:
        """Writes down what is captured; the first line of the journal."""
        self.plan = plan
        self._append(plan)

    def damaged(self) -> list[tuple[Part, str]]:
        """The parts of which a file is not as it was written, and what is wrong with it; reads every file."""
        return [(part, wrong) for part in self.parts if (wrong := self._wrong_with(part))]

    def drop(self, parts: Iterable[Part]) -> None:
        """Forgets parts and removes their files, so that they can be written again; the capture is then unfinished."""
        dropped = set(parts)
        self.parts = [part for part in self.parts if part not in dropped]
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in (self.plan, *self.parts))
        self._write_whole(self.folder / JOURNAL, lines)
        self._sync_folders()
        try:
            (self.folder / MANIFEST).unlink(missing_ok=True)
            _sync_folder(self.folder)
            if self._journal is not None:
                self._journal.close()
            self._journal = (self.folder / JOURNAL).open("ab", buffering=0)
        except OSError as err:
            raise self._cannot_write(self.folder / JOURNAL, err) from err
        self.finished = False
        self._remove_strangers()

    def _wrong_with(self, part: Part) -> str:
        for entry in part.files:
            try:
                prove(self.folder / entry.path, entry)
            except CaptureError as err:
                return err.message
        return ""

    def write_part(self, part: Part, files: Iterable[BuiltFile]) -> Part:
        """Puts a part's files on disk, and the part into the journal."""
        entries = tuple(self._write_file(part, built) for built in files)
        self._sync_folders()
        done = msgspec.structs.replace(part, files=entries)
        self._append(done)
        self.parts.append(done)
        return done

    def finish(self, finished_ns: int) -> Manifest:
        """Writes the manifest: from now on the capture is whole, and the journal is gone."""
        if self.plan is None:
            raise CaptureError(f"the capture {self.folder} has not begun", "begin it first")
        manifest = Manifest.of(self.plan, self.parts, finished_ns)
        self._write_whole(self.folder / MANIFEST, encode_manifest(manifest))
        self._sync_folders()
        (self.folder / JOURNAL).unlink()
        shutil.rmtree(self.folder / PARTIAL, ignore_errors=True)
        _sync_folder(self.folder)
        return manifest

    def close(self) -> None:
        """Lets another process have the folder; of a capture that was refused before it began, nothing stays."""
        if self._journal is not None:
            self._journal.close()
            if self.plan is None:
                with contextlib.suppress(OSError):
                    (self.folder / JOURNAL).unlink()
                    for made in self._made:
                        made.rmdir()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_journal(self, journal: IO[bytes]) -> None:
        journal.seek(0)
        data = journal.read()
        # What follows the last whole line was being written when the process ended.
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            journal.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                told: Plan | Part = msgspec.json.decode(line, type=Plan | Part)
            except msgspec.DecodeError as err:
                raise CaptureError(
                    f"{self.folder / JOURNAL}:{number} is damaged: {err}", "remove the folder and capture again"
                ) from err
            if isinstance(told, Plan):
                self.plan = told
            else:
                self.parts.append(told)

    def _remove_strangers(self) -> None:
        """Removes what a killed process left: the file that it wrote, and files whose part is not in the journal."""
        shutil.rmtree(self.folder / PARTIAL, ignore_errors=True)
        known = {self.folder / file.path for part in self.parts for file in part.files}
        for table in (EVENTS, MESSAGES):
            for path in sorted((self.folder / table).rglob("*")):
                if path.is_file() and path not in known:
                    path.unlink()

    def _append(self, line: Plan | Part) -> None:
        assert self._journal is not None
        try:
            _write_all(self._journal.fileno(), msgspec.json.encode(line) + b"\n")
            os.fsync(self._journal.fileno())
        except OSError as err:
            raise self._cannot_write(self.folder / JOURNAL, err) from err

    def _write_file(self, part: Part, built: BuiltFile) -> FileEntry:
        name = f"p{part.partition}-{part.number:06d}.parquet"
        path = f"{built.table}/topic={part.topic}/hour={built.hour}/{name}"
        self._write_whole(self.folder / path, built.data)
        return FileEntry(
            path, "events" if built.table == EVENTS else "messages", built.rows, len(built.data),
            hashlib.sha256(built.data).hexdigest(), built.first_ns, built.last_ns,
        )  # fmt: skip

    def _write_whole(self, path: Path, data: Any) -> None:
        """Writes a file so that it is there whole, whatever happens meanwhile, or not at all."""
        partial = self.folder / PARTIAL / path.name
        try:
            partial.parent.mkdir(exist_ok=True)
            self._make_folder(path.parent)
            with partial.open("wb", buffering=0) as file:
                _write_all(file.fileno(), data)
                os.fsync(file.fileno())
            partial.replace(path)
            self._changed.add(path.parent)
        except OSError as err:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise self._cannot_write(path, err, len(data)) from err

    def _sync_folders(self) -> None:
        try:
            for folder in sorted(self._changed):
                _sync_folder(folder)
        except OSError as err:
            raise self._cannot_write(self.folder, err) from err
        self._changed.clear()

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self._changed.add(folder.parent)

    def _cannot_write(self, path: Path, err: OSError, count: int = 0) -> CaptureError:
        if err.errno in _FULL:
            needs = f"for {count:,} bytes more " if count else ""
            return CaptureError(
                f"no space left {needs}at {path}: {err.strerror}",
                "make room, then run the same command again: it goes on where it stopped",
            )
        rights = err.errno in (errno.EACCES, errno.EPERM)
        return CaptureError(
            f"cannot write {path}: {err.strerror}",
            "check the folder's rights" if rights else "choose a folder where files can be written",
        )


def _write_all(descriptor: int, data: Any) -> None:
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
