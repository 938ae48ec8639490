"""The probe agent: runs probes beside each other, passes on what they see, follows its configuration, ends in order.

In: settings, and an output. Out: readings for the output, and where each probe stands, until it is told to stop.
"""

from __future__ import annotations

import hashlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from probes.attach import leftovers
from probes.budget import Budget
from probes.opening import Opener, TableOpener, none_runs
from probes.output import Output
from probes.promises import Promises
from probes.runner import STUCK_S, ProbeStatus, Runner, Taken
from probes.schedule import TOGETHER_S, pause_s
from probes.settings import AgentSettings
from probes.table import PROBES, PROGRAMS, ProbeKind
from probes.workers import Workers
from stream.errors import PausetraceError

_log = logging.getLogger(__name__)

MOST_WAITING = 256
"""Readings that wait to be passed on; then the probes wait, and gather on in the kernel."""
START_S = 0.2
TELL_S = 1.0
END_DEADLINE_S = 5.0
"""For all probes to read one last time and to detach."""


class AgentStatus(NamedTuple):
    """Where the agent stands."""

    time_s: float
    probes: Sequence[ProbeStatus]
    counters: Mapping[str, int]
    reloads: int
    failed_reloads: int


class Agent:
    """`run` works in the calling thread; a signal handler may set `reload_asked`."""

    def __init__(
        self,
        settings: AgentSettings,
        output: Output,
        promises: Promises,
        *,
        table: tuple[ProbeKind, ...] = PROBES,
        opener: Opener | None = None,
        reload: Callable[[], AgentSettings] | None = None,
        reload_asked: threading.Event | None = None,
        on_status: Callable[[AgentStatus], None] | None = None,
        give_up: bool = False,
        stuck_s: float = STUCK_S,
        make_budget: Callable[[float, float], Budget] = Budget,
    ) -> None:
        """With `give_up`, `run` raises PausetraceError when no probe at all can be opened."""
        self.reload_asked = reload_asked or threading.Event()
        self._settings = settings
        self._output = output
        self._promises = promises
        self._table = table
        self._reload = reload
        self._on_status = on_status
        self._give_up = give_up
        self._stuck_s = stuck_s
        self._make_budget = make_budget
        self._opener = opener or TableOpener(
            [settings.options(kind) for kind in settings.kinds(table) if kind.module == PROGRAMS]
        )
        self._waiting: queue.Queue[Taken] = queue.Queue(MOST_WAITING)
        self._read = threading.Event()
        """Set when all that was due has been read, and by each read that took longer, if that brought something."""
        self._workers = Workers(self._tell_read)
        self._runners: dict[str, Runner] = {}
        self._ending: list[Runner] = []
        self._stuck: set[str] = set()
        self._reloads = {"done": 0, "failed": 0}
        self._told_s = 0.0
        self._end_s = math.inf
        self._behind_a_read = False
        self._starting = True
        """Whether a probe has not been opened yet, of which people want to hear sooner."""

    @property
    def status(self) -> AgentStatus:
        """Where it stands now."""
        return self._status(self._statuses())

    def _status(self, probes: tuple[ProbeStatus, ...]) -> AgentStatus:
        return AgentStatus(
            time.time(), probes, dict(self._output.counters), self._reloads["done"], self._reloads["failed"]
        )  # fmt: skip

    def _statuses(self) -> tuple[ProbeStatus, ...]:
        return tuple(runner.status for runner in self._runners.values())

    def run(self, stop: threading.Event, duration_s: float | None = None) -> None:
        """Works until `stop` is set, or so long; then everything is detached and told to have ended."""
        self._end_s = math.inf if duration_s is None else time.monotonic() + duration_s
        try:
            self._output.expect(self._settings.kinds(self._table))
            self._clean()
            for kind in self._settings.kinds(self._table):
                self._start(kind)
            while not stop.is_set() and time.monotonic() < self._end_s:
                self._turn()
        except BaseException:
            self._end(in_order=False)
            raise
        self._end(in_order=True)

    def _clean(self) -> None:
        """Takes away what agents that were killed left in the kernel, whatever probes this one runs."""
        if not isinstance(self._opener, TableOpener) or self._settings.root.resolve() != Path("/"):
            return
        try:
            for leftover in leftovers(remove=True):
                _log.warning("removed what an agent left that was killed: %s", leftover)
        except OSError as err:
            _log.info("what killed agents left cannot be removed: %s", err)

    def _turn(self) -> None:
        taken = self._gather(self._pause_s())
        if taken:
            self._output.take(taken)
        self._behind_a_read = bool(taken)
        self._output.turn()
        self._workers.relieve()
        now_s = time.monotonic()
        if now_s - self._told_s >= (START_S if self._starting else TELL_S):
            self._told_s = now_s
            self._tell()
        if self.reload_asked.is_set():
            self.reload_asked.clear()
            self._change()

    def _pause_s(self) -> float:
        """How long there is nothing to do but to wait for what is read next."""
        now_s = time.monotonic()
        next_s = min((runner.next_read_s for runner in self._runners.values()), default=math.inf)
        longest_s = pause_s(next_s - now_s, behind_a_read=self._behind_a_read)
        return min(longest_s, START_S if self._starting else math.inf, max(self._end_s - now_s, 0.0))

    def _tell_read(self) -> None:
        if not self._waiting.empty():
            self._read.set()

    def _gather(self, wait_s: float) -> list[Taken]:
        """What has been read, after waiting for it."""
        self._read.wait(wait_s)
        self._read.clear()
        taken: list[Taken] = []
        try:
            while True:
                taken.append(self._waiting.get_nowait())
        except queue.Empty:
            return taken

    def _tell(self) -> None:
        probes = self._statuses()
        self._starting = any(probe.state == "starting" for probe in probes)
        stuck = {probe.name for probe in probes if probe.state == "stuck"}
        for name in stuck - self._stuck:
            _log.warning("probe %s is stuck: nobody waits for what it reads", name)
            self._promises.forget(name)
        for name in self._stuck - stuck:
            _log.warning("probe %s is not stuck any more", name)
        self._stuck = stuck
        self._output.tell(probes)
        if self._on_status is not None:
            self._on_status(self._status(probes))
        hopeless = all(probe.state in ("unavailable", "failing") and not probe.reads for probe in probes)
        if self._give_up and hopeless:
            raise none_runs([(probe.name, probe.reason) for probe in probes])

    def _start(self, kind: ProbeKind) -> None:
        runner = Runner(
            kind, self._settings.options(kind), self._opener, self._promises, self._waiting.put,
            budget=self._make_budget(self._settings.cpu_share, time.monotonic()),
            phase=_phase(self._settings.device), stuck_s=self._stuck_s,
        )  # fmt: skip
        self._runners[kind.name] = runner
        self._workers.add(runner)

    def _change(self) -> None:
        """Takes the configuration in force; a bad one changes nothing."""
        if self._reload is None:
            return
        try:
            settings = self._reload()
        except PausetraceError as err:
            self._reloads["failed"] += 1
            _log.warning("the configuration is not reloaded, the old one stays in force: %s", err)
            return
        self._reloads["done"] += 1
        before = self._settings
        fixed = [name for name in ("fabric", "device", "root") if getattr(settings, name) != getattr(before, name)]
        if fixed:
            _log.warning("%s: in force after a restart", ", ".join(f"probes.{name}" for name in fixed))
            settings = settings._replace(**{name: getattr(before, name) for name in fixed})
        self._settings = settings
        kinds = {kind.name: kind for kind in settings.kinds(self._table)}
        changed = [
            name for name in self._runners
            if name not in kinds
            or settings.options(kinds[name]) != self._runners[name].options
            or settings.cpu_share != before.cpu_share
        ]  # fmt: skip
        self._stop(self._runners[name] for name in changed)
        self._wait_for([self._runners.pop(name) for name in changed], self._output.take)
        self._output.expect(tuple(kinds.values()))
        new = [kind for name, kind in kinds.items() if name not in self._runners]
        for kind in new:
            self._start(kind)
        names = [kind.name for kind in new], [name for name in changed if name not in kinds]
        _log.warning("configuration reloaded: %s", _told(*names))

    def _stop(self, runners: Iterable[Runner]) -> None:
        for runner in runners:
            runner.stop()
            self._workers.hurry(runner)

    def _wait_for(self, runners: Sequence[Runner], pass_on: Callable[[Sequence[Taken]], None]) -> None:
        """Until they have ended, passing on what they still bring."""
        end_s = time.monotonic() + END_DEADLINE_S
        left = list(runners)
        while left and time.monotonic() < end_s:
            if taken := self._gather(TOGETHER_S):
                pass_on(taken)
            self._workers.relieve()
            left = [runner for runner in left if not runner.join(0)]
        if taken := self._gather(0):
            pass_on(taken)
        for runner in left:
            _log.warning("probe %s does not end: it is left behind", runner.kind.name)
            self._promises.forget(runner.kind.name)

    def _end(self, *, in_order: bool) -> None:
        """Everything is detached; in order, what the probes saw last is published as well."""
        runners = list(self._runners.values())
        self._stop(runners)
        try:
            self._wait_for(runners, self._output.take if in_order else lambda _: None)
            if in_order:
                self._output.tell(self._statuses())
            if self._on_status is not None:
                self._on_status(self.status)
        finally:
            self._workers.close()
            if isinstance(self._opener, TableOpener):
                self._opener.close()
            self._output.close(in_order=in_order)


def _phase(device: str) -> float:
    """Where in its interval a host reads: any part of it, always the same for one host."""
    return int.from_bytes(hashlib.blake2b(device.encode(), digest_size=4).digest(), "big") / (1 << 32)


def _told(begun: Sequence[str], ended: Sequence[str]) -> str:
    parts = [f"{', '.join(begun)} begun" * bool(begun), f"{', '.join(ended)} ended" * bool(ended)]
    return "; ".join(part for part in parts if part) or "nothing is different"
