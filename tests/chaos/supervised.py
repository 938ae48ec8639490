"""A step as a process that is killed and started again, as a supervisor on a host would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from stream.kafka_settings import KafkaSettings

ROOT = Path(__file__).resolve().parents[2]
STOP_DEADLINE_S = 60.0
AT_WORK = "exactly once:"
"""What a step says when it begins to work."""
STANDS_BY = "stands by"


class Supervised:
    """`pausetrace detect` or `correlate`, with an --instance if one is given; what it says goes to a log file."""

    def __init__(self, settings: KafkaSettings, folder: Path, verb: str, name: str, instance: str = "") -> None:
        kafka = ("--bootstrap-servers", settings.bootstrap_servers, "--prefix", settings.prefix)
        options = ("--instance", instance) if instance else ()
        self._command = [sys.executable, "-m", "pausetrace.cli.main", verb, *kafka, *options]
        self._log = folder / f"{name}.log"
        self._said_before = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.verb = verb
        self.name = name

    @property
    def said(self) -> str:
        """All that it has written on stderr so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def at_work(self) -> bool:
        """Whether the process that runs now has begun to work."""
        return AT_WORK in self.said[self._said_before :]

    @property
    def ready(self) -> bool:
        """Whether the process that runs now works, or stands by."""
        return self.at_work or STANDS_BY in self.said[self._said_before :]

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Of a process that has ended by itself; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Starts it."""
        self._said_before = len(self.said)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
