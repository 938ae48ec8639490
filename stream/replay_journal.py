"""How far a replay has come: what Kafka has confirmed of each partition of the capture, in a file beside it.

In: confirmations. Out: a JSON file that a replay which was killed goes on from, and that is checked at the end.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import xxhash

from stream.errors import CaptureError

VERSION = 1


class Confirmed(msgspec.Struct):
    """Of one partition of the capture: everything up to `offset` is on Kafka, `count` messages.

    `digest` is the sum of their hashes, which is the same in any order.
    """

    offset: int = -1
    count: int = 0
    digest: int = 0

    def add(self, offset: int, digest: int) -> None:
        """One more message is there, and all before it."""
        self.offset = max(self.offset, offset)
        self.count += 1
        self.digest = (self.digest + digest) % (1 << 64)


class Replay(msgspec.Struct, frozen=True):
    """What is replayed and where to; a journal of another replay is never gone on with."""

    capture_sha256: str
    cluster_id: str
    prefix: str
    topics: tuple[str, ...]
    by_key: bool
    wanted: str
    shift: str

    @property
    def digest(self) -> str:
        """Names what is replayed, the same in every process: the runs of it are this and a number."""
        return xxhash.xxh3_64(msgspec.json.encode(self)).hexdigest()


class Journal(msgspec.Struct):
    """`run` marks the messages of this replay in their header; places are topic/partition.

    `shift_ns` is what the shift came to when the replay began; `first` and `reached` are offsets of the target's
    partitions: where they ended then, and up to where they are known to hold what is confirmed.
    """

    version: int
    replay: Replay
    run: str
    shift_ns: int
    begun_ns: int
    first: dict[str, int]
    reached: dict[str, int]
    confirmed: dict[str, Confirmed]
    finished: bool = False

    @staticmethod
    def begin(replay: Replay, number: int, shift_ns: int, begun_ns: int, first: dict[str, int]) -> Journal:
        """Of a run of which nothing is booked yet."""
        return Journal(
            VERSION, replay, f"{replay.digest}.{number:x}", shift_ns, begun_ns, first, dict(first), {}
        )  # fmt: skip

    def of(self, place: str) -> Confirmed:
        """What is confirmed of a partition of the capture."""
        return self.confirmed.setdefault(place, Confirmed())

    @property
    def count(self) -> int:
        """Messages confirmed."""
        return sum(each.count for each in self.confirmed.values())


def journal_path(capture: Path, prefix: str) -> Path:
    """Beside the capture, so that nothing in it changes."""
    folder = capture.resolve()
    return folder.with_name(f"{folder.name}.replay-{prefix}.json")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from the same replay, which would send everything twice; raises CaptureError for one."""
    lock = path.with_name(path.name + ".lock")
    try:
        file = lock.open("ab")
    except OSError as err:
        raise _cannot_write(path, err) from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another one may have taken it away in the meantime.
            if os.fstat(file.fileno()).st_ino != lock.stat().st_ino:
                raise BlockingIOError
        except OSError as err:
            raise CaptureError(f"another process is at this replay ({path})", "wait until it ends") from err
        try:
            yield
        finally:
            if not path.exists():
                # Refused before anything was sent: nothing of it stays.
                lock.unlink(missing_ok=True)


def save(journal: Journal, path: Path) -> None:
    """Writes the journal so that it is there whole whatever happens."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(msgspec.json.encode(journal))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as err:
        raise _cannot_write(path, err) from err


def load(path: Path, replay: Replay) -> Journal | None:
    """The journal of the same replay, or None: of another one, Kafka tells what there is of this one."""
    try:
        journal = msgspec.json.decode(path.read_bytes(), type=Journal)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as err:
        raise CaptureError(
            f"the replay's journal {path} cannot be read: {err}", "delete it: Kafka tells what has been sent"
        ) from err
    return journal if journal.version == VERSION and journal.replay == replay else None


def _cannot_write(path: Path, err: OSError) -> CaptureError:
    return CaptureError(f"cannot write the replay's journal {path}: {err.strerror}", "give --journal FILE")
