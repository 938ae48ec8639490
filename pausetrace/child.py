"""A verb of our own as a child process: started quietly, watched, and ended on every way out.

If this process dies in whatever way, the child's stdin ends and it stops as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pausetrace.plain_text import printable
from stream.errors import PausetraceError

STOP_DEADLINE_S = 5.0
_SLICE_S = 0.05


def own_command(arguments: Sequence[str]) -> list[str]:
    """The command line that runs a verb with this Python."""
    return [sys.executable, "-P", "-m", "pausetrace.cli.main", *arguments]


def own_environment() -> dict[str, str]:
    """The environment of a child: the same code as this process's, and no settings but those that it is given."""
    root = str(Path(__file__).resolve().parents[1])
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PAUSETRACE_KAFKA_") and name != "PAUSETRACE_CONFIG"
    }
    return kept | {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


class ChildError(PausetraceError):
    """A child process ended by itself, or did not get ready."""


class Child:
    """`with Child(["detect", ...]) as child:` runs a verb for as long as the block, with these variables besides."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, files: Sequence[int] = ()
    ) -> None:
        """`files` are open files that the child gets under the same numbers."""
        self.verb = arguments[0]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            own_command([*arguments, "--with-parent"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=own_environment() | dict(environment or {}),
            pass_fds=files,
            # Ctrl-C is for this process, which then ends the child.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_until_said(self, text: str, deadline_s: float) -> None:
        """Waits until the child has said this on stderr; raises ChildError at the deadline or if it ends before."""
        end_s = time.monotonic() + deadline_s
        while text not in self.said():
            self.check()
            if time.monotonic() >= end_s:
                raise ChildError(f"{self.verb} was not ready within {deadline_s:g} s: {self._last_line()}", "try again")
            time.sleep(_SLICE_S)

    def check(self) -> None:
        """Raises ChildError if the child has ended."""
        status = self._process.poll()
        if status is not None:
            raise ChildError(f"{self.verb} ended with exit status {status}: {self._last_line()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_DEADLINE_S)
        self._said.close()

    def said(self) -> str:
        """What it has said on stderr so far."""
        size = os.fstat(self._said.fileno()).st_size
        return os.pread(self._said.fileno(), size, 0).decode(errors="replace")

    def _last_line(self) -> str:
        lines = [line for line in self.said().splitlines() if line.strip()]
        return printable(lines[-1].removeprefix("pausetrace: error: ")) if lines else "it said nothing"
