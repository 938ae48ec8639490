"""The embedded broker: a Kafka for demos, laptops and tests, in a process of its own that dies with its parent.

`EmbeddedBroker` starts and stops it; `python -m stream.embedded` is that process and prints its address as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Self

from stream.errors import EXIT_FAILURE, BrokerError, PausetraceError
from stream.kafka_settings import KafkaSettings
from stream.mock_cluster import MockCluster
from stream.topics import DEFAULT_PREFIX, TOPICS, full_name

LIMITS: tuple[str, ...] = (
    "it keeps everything in memory and forgets it when it stops",
    "a partition holds 5 MB or 100,000 record batches; older ones go, and a reader that comes later is told so",
    "it listens on 127.0.0.1 alone, without authentication",
    "its topics are made when it starts: topics cannot be created, altered or described later",
    "it cannot look up offsets by time, and its transactions mean nothing: exactly-once needs a real Kafka",
)
"""What the embedded broker cannot do; `python -m stream.embedded` and whoever starts one for a user prints them."""

GROUP_REBALANCE_DELAY_MS = 100
START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 5.0


def limits_text() -> str:
    """The limits as one paragraph for stderr."""
    return f"The embedded broker is for demos and tests: {'; '.join(LIMITS)}."


def partition_counts(prefix: str, partitions: int | None) -> dict[str, int]:
    """Topics of the table on Kafka; `partitions` replaces the count of those that have more than one."""
    return {
        full_name(prefix, topic.name): topic.partitions if partitions is None or topic.partitions == 1 else partitions
        for topic in TOPICS
    }


class EmbeddedBroker:
    """`with EmbeddedBroker() as broker: ... broker.settings` runs an embedded broker for as long as the block.

    If this process dies in whatever way, the broker goes as well.
    """

    def __init__(self, prefix: str = DEFAULT_PREFIX, partitions: int | None = None) -> None:
        self._prefix = prefix
        self._partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = ""

    @property
    def settings(self) -> KafkaSettings:
        """Settings that reach this broker."""
        return KafkaSettings(self.bootstrap_servers, self._prefix)

    @property
    def pid(self) -> int:
        """The broker's process; 0 if it does not run."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Starts the process and waits until it listens; raises BrokerError if it does not by the deadline."""
        command = [sys.executable, "-P", "-m", "stream.embedded", "--with-parent", "--prefix", self._prefix]
        if self._partitions is not None:
            command += ["--partitions", str(self._partitions)]
        # The same code as this process's, wherever that was imported from.
        root = str(Path(__file__).resolve().parents[1])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                # Ctrl-C is for the programs in front of it, which still want to say goodbye to a broker.
                start_new_session=True,
            )
            self._process = process
            assert process.stdout is not None
            line = _line_by(process.stdout, time.monotonic() + START_DEADLINE_S)
            if not line:
                self.stop()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
                raise BrokerError(
                    f"the embedded broker did not start within {START_DEADLINE_S:g} s: {' '.join(last) or 'no answer'}",
                    "use a real Kafka instead: docker compose up -d --wait kafka",
                )
        self.bootstrap_servers = json.loads(line)["bootstrap_servers"]

    def stop(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.terminate()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_DEADLINE_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _line_by(stream: IO[bytes], end_s: float) -> bytes:
    """The first line of a pipe, or nothing if it does not come in time or the pipe ends."""
    line = b""
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([stream], [], [], max(end_s - time.monotonic(), 0))
        part = os.read(stream.fileno(), 4096) if readable else b""
        if not part:
            return b""
        line += part
    return line


def main(arguments: list[str] | None = None) -> int:
    """The process: starts the cluster, prints its address and waits to be stopped."""
    parser = argparse.ArgumentParser(prog="python -m stream.embedded", description=__doc__)
    parser.add_argument("--prefix", default=DEFAULT_PREFIX, help="prefix of the topics (default: %(default)s)")
    parser.add_argument("--partitions", type=int, help="partitions of the topics that have more than one")
    parser.add_argument("--with-parent", action="store_true", help="stop when stdin closes or the parent dies")
    options = parser.parse_args(arguments)
    if options.partitions is not None and options.partitions < 1:
        parser.error("--partitions takes a number from 1")
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _end_at_once)
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        cluster = MockCluster(partition_counts(options.prefix, options.partitions), GROUP_REBALANCE_DELAY_MS)
    except PausetraceError as err:
        print(err, file=sys.stderr)
        return EXIT_FAILURE
    print(json.dumps({"bootstrap_servers": cluster.bootstrap_servers}), flush=True)
    if not options.with_parent:
        print(limits_text(), file=sys.stderr)
        while True:
            signal.pause()
    # PR_SET_PDEATHSIG would follow the thread that started us instead of its process.
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable and not os.read(sys.stdin.fileno(), 4096):
            break
    return 0


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    # Nothing here outlives the process, so there is nothing to bring to an end.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
