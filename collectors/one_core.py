"""Keeps the thread that takes messages on one core with gRPC's thread that waits for them.

Each message goes from one to the other and back. Where they have a core each, it wakes up an idle core every time,
which costs as much as all else that is done with a small message. In: nothing. Out: which cores threads may run on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_log = logging.getLogger(__name__)

TASKS = Path("/proc/self/task")
LOOK_S = 0.9
REST_S = 60.0
TAKEN_SHARE = 0.2
"""Of the time: so long others run on the core, and ours wait for it. Then ours may run anywhere for a while."""
FULL_SHARE = 0.9
"""Of the time: so long ours run on the core. Then it is too small for them, and busy threads wake up no idle core."""
RETURN_SHARE = 0.5
"""Of a core: what ours may use where they run anywhere, to share one again. There small messages cost up to twice."""


class Used(NamedTuple):
    """In seconds: in which our threads and others ran on the core, and in which ours could have run and had to wait."""

    ours_s: float
    others_s: float
    waited_s: float


def crowded(spent: Used, passed_s: float) -> str:
    """Why threads that spent this of `passed_s` seconds should share a core no longer; "" if they may."""
    if min(spent.others_s, spent.waited_s) > TAKEN_SHARE * passed_s:
        return "others want it too"
    if spent.ours_s > FULL_SHARE * passed_s:
        return "it is too small for messages alone"
    return ""


class OneCore:
    """`with OneCore() as core:` holds for the thread that says so and those that it starts inside; `look` now and then.

    A core that is crowded is left for `rest_s` seconds. Where there is a single core, or a kernel that does not tell
    who waits for one, nothing happens.
    """

    def __init__(self, rest_s: float = REST_S) -> None:
        self.core: int | None = None
        """The core that is shared; None: any."""
        self._allowed: frozenset[int] = frozenset()
        self._ours: list[int] = []
        """While the core is left: the threads that shared it."""
        self._before: tuple[float, Used] | None = None
        self._rest_s = rest_s
        self._rest_until_s = 0.0

    def __enter__(self) -> Self:
        self._share([0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._ours = []

    def look(self) -> None:
        """Lets the threads go where their core is crowded, and brings them together again later."""
        if self.core is None and not self._ours:
            return
        try:
            now_s, used = time.monotonic(), self._used()
        except (OSError, ValueError, StopIteration):
            self._leave()
            self._ours = []
            return
        if self._before is None:
            self._before = now_s, used
            return
        before_s, before = self._before
        passed_s = now_s - before_s
        if passed_s < LOOK_S:
            return
        self._before = now_s, used
        spent = Used(*(after - earlier for after, earlier in zip(used, before, strict=True)))
        if self.core is None:
            if now_s >= self._rest_until_s and spent.ours_s < RETURN_SHARE * passed_s:
                self._share(self._ours)
        elif why := crowded(spent, passed_s):
            _log.info("core %d: %s: messages are taken on any core for %g s", self.core, why, self._rest_s)
            self._leave()
            self._rest_until_s = now_s + self._rest_s

    def _share(self, threads: list[int]) -> None:
        """Holds these threads, of which 0 is this one, on the core where this one ran last."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stat = Path("/proc/thread-self/stat").read_text().rpartition(")")[2].split()
            core = int(stat[36])
            allowed = frozenset(os.sched_getaffinity(0))
            # A kernel that does not count who waits says 0 of everything, one of a thread that has just begun too.
            counts = int(Path("/proc/self/schedstat").read_text().split()[0]) > 0
            if not counts or len(allowed) < 2 or core not in allowed:
                return
            for thread in threads:
                with contextlib.suppress(OSError):
                    if os.sched_getaffinity(thread) == allowed:
                        os.sched_setaffinity(thread, {core})
            self._allowed, self.core, self._before = allowed, core, None

    def _threads(self) -> list[int]:
        found = []
        for task in TASKS.iterdir():
            with contextlib.suppress(OSError):
                if os.sched_getaffinity(int(task.name)) == {self.core}:
                    found.append(int(task.name))
        return found

    def _used(self) -> Used:
        ours_s = waited_s = busy_s = 0.0
        for thread in self._ours if self.core is None else self._threads():
            with contextlib.suppress(OSError):
                ran, waited, _ = (TASKS / str(thread) / "schedstat").read_text().split()
                ours_s, waited_s = ours_s + int(ran) * 1e-9, waited_s + int(waited) * 1e-9
        if self.core is not None:
            lines = Path("/proc/stat").read_text().splitlines()
            user, nice, system = next(line.split()[1:4] for line in lines if line.startswith(f"cpu{self.core} "))
            busy_s = (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
        return Used(ours_s, busy_s - ours_s, waited_s)

    def _leave(self) -> None:
        if self.core is None:
            return
        self._ours = self._threads()
        for thread in self._ours:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, self._allowed)
        self.core = self._before = None
