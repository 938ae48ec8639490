"""A process that captures listed messages, slowly if asked to, for tests that kill it or let the disk run full.

`python -m tests.stream.capture_child FOLDER BATCHES SLEEP_S FILE_LIMIT_BYTES`; exit status 1 with an error of ours.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stream.capture import capture
from stream.capture_manifest import PartitionPlan, Range
from stream.capture_message import Captured
from stream.errors import PausetraceError
from stream.offset_gaps import PartitionId
from tests.stream.capture_samples import fabric_messages
from tests.stream.listed_source import ALL_TOPICS, ListedSource

BUFFER_BYTES = 24_000


class SlowSource(ListedSource):
    """Waits before each group of messages."""

    sleep_s = 0.0

    def read(self, partitions: Sequence[PartitionPlan]) -> Iterator[list[Captured | PartitionId]]:
        for told in super().read(partitions):
            time.sleep(self.sleep_s)
            yield told


def main(folder: str, batches: str, sleep_s: str, limit_bytes: str) -> int:
    """Captures."""
    if limit_bytes != "0":
        # To the writer a file that may not grow is a disk that is full; without a handler the signal would kill.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))
    source = SlowSource(fabric_messages(int(batches), 5))
    source.sleep_s = float(sleep_s)
    try:
        capture(source, Path(folder), ALL_TOPICS, "fabric", Range(), buffer_bytes=BUFFER_BYTES)
    except PausetraceError as err:
        print(err, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
