"""Runs one probe, turn by turn: opens it, reads it on schedule, keeps it in its budget, opens it again.

In: a row of the table and its options. Out: readings, handed to `pass_on`; and where the probe stands, for people.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from probes.budget import SLOWER, Budget, Step
from probes.opening import Opener, UnavailableError
from probes.probe import CountingProbe, Lost, Options, Probe, Reading
from probes.promises import Promises
from probes.schedule import Retry, Schedule
from probes.table import ProbeKind
from probes.workers import QUICK_S
from stream.errors import PausetraceError
from stream.kinds import SOURCE_NOT_READ
from stream.sampled_log import SampledLog
from stream.topics import PACKED

_log = logging.getLogger(__name__)

STUCK_S = 5.0
"""A read that takes longer hangs; others are not to wait for it."""
CPUS = os.cpu_count() or 1
LONGEST_ROUND_S = 1.0
_SLICE_S = 5.0
_COUNTED = ("reads", "rows", "lost_rows", "cpu_ns", "errors", "degradations", "late_reads")


class Taken(NamedTuple):
    """A reading and the time it is of."""

    kind: ProbeKind
    read_ns: int
    reading: Reading


class ProbeStatus(NamedTuple):
    """Where one probe stands. `state` is starting, running, degraded, failing, unavailable, stuck or stopped."""

    name: str
    state: str
    reason: str
    step: Step
    used_share: float
    reads: int
    rows: int
    lost_rows: int
    cpu_ns: int
    errors: int
    degradations: int
    late_reads: int
    last_read_ns: int
    counted: Mapping[str, int]
    """What the probe itself counts."""


class Runner:
    """One probe at work, a task of probes/workers.py. `pass_on` may wait: the probe then gathers on."""

    def __init__(
        self,
        kind: ProbeKind,
        options: Options,
        opener: Opener,
        promises: Promises,
        pass_on: Callable[[Taken], None],
        *,
        budget: Budget,
        phase: float,
        monotonic_s: Callable[[], float] = time.monotonic,
        retry: Retry | None = None,
        stuck_s: float = STUCK_S,
    ) -> None:
        self.kind = kind
        self.options = options
        self._opener = opener
        self._promises = promises
        self._pass_on = pass_on
        self._monotonic_s = monotonic_s
        self._retry = retry or Retry()
        self._stuck_s = stuck_s
        self._phase = phase
        self._budget = budget
        self._stopping = False
        self._ended = threading.Event()
        self._turns = self._run()
        self._opens_next = True
        self.quick = False
        """Whether its next turn will be short: it opens nothing, and the last one was."""
        self.next_read_s = math.inf
        """When it is to be read next; infinity while it is being read, and while it is not open."""
        self._state, self._reason = "starting", ""
        self._step = Step.FULL
        """Of which people were told."""
        self._log = SampledLog(_log)
        self._counts = dict.fromkeys(
            ("reads", "rows", "lost_rows", "cpu_ns", "errors", "degradations", "late_reads"), 0
        )
        self._counted: Mapping[str, int] = {}
        self._counted_before: Counter[str] = Counter()
        """What the probes counted that have been closed."""
        self._last_read_ns = 0
        self._busy_since_s: float | None = None
        self._not_read_since_ns: int | None = None

    @property
    def status(self) -> ProbeStatus:
        """Where it stands now; may be asked by any thread."""
        busy_since_s = self._busy_since_s
        state, reason = self._state, self._reason
        if busy_since_s is not None and state != "starting":
            hangs_s = self._monotonic_s() - busy_since_s
            if hangs_s > self._stuck_s:
                state, reason = "stuck", f"a read has not come back for {hangs_s:.0f} s"
        return ProbeStatus(
            self.kind.name, state, reason, self._budget.step, self._budget.used_share,
            last_read_ns=self._last_read_ns, counted=self._counted, **self._counts,
        )  # fmt: skip

    def turn(self) -> float | None:
        """Does what is due; returns when the next turn is, None after the last one."""
        began_s = self._monotonic_s()
        due_s = next(self._turns, None)
        self.quick = not self._opens_next and self._monotonic_s() - began_s <= QUICK_S
        if due_s is None:
            self._ended.set()
        return due_s

    def stop(self) -> None:
        """Asks it to end in its next turn; `join` waits for that."""
        self._stopping = True
        self.quick = False

    def join(self, deadline_s: float) -> bool:
        """Waits until it has ended and closed its probe; false if it has not by the deadline."""
        return self._ended.wait(deadline_s)

    def _run(self) -> Iterator[float]:
        """All its turns, each with the time of the next one."""
        while not self._stopping:
            self._promises.opens(self.kind)
            self._opens_next = True
            try:
                probe = self._opener.open(self.kind, self.options)
            except UnavailableError as err:
                again_s = self._rest("unavailable", str(err))
            except Exception as err:  # noqa: BLE001 - whatever it is, the other probes go on
                again_s = self._fail("cannot be opened", err)
            else:
                yield from self._use(probe)
                continue
            yield again_s
            if self._state == "unavailable":
                yield from self._wait_until_available()
        self._set_state("stopped")

    def _wait_until_available(self) -> Iterator[float]:
        """Looks now and then, which is quick."""
        self._opens_next = False
        while not self._stopping and (unavailable := self._opener.available(self.kind, self.options)) is not None:
            yield self._rest("unavailable", "; ".join(filter(None, unavailable)))
        self._opens_next = True
        yield self._monotonic_s()

    def _use(self, probe: Probe) -> Iterator[float]:
        """From its first read until it is closed, and then until it may be opened again."""
        self._opens_next = False
        try:
            yield from self._work(probe)
        except Exception as err:  # noqa: BLE001 - as above
            self._close(probe)
            again_s = self._fail("cannot be read", err)
        else:
            self._close(probe)
            self._promises.closes(self.kind)
            yield from self._wait_until_affordable()
            return
        yield again_s

    def _work(self, probe: Probe) -> Iterator[float]:
        """Reads until it is to stop, with one last read then, or until it costs too much even so."""
        step = Step.FULL
        counted = probe.counted if isinstance(probe, CountingProbe) else {}
        self._set_state("degraded" if self._step else "running", self._step.word if self._step else "")
        while (step := self._on_step(probe, step)) != Step.OFF:
            self._read(probe, step, counted)
            self._retry.succeeded()
            if self._stopping:
                return
            self.next_read_s = self._schedule(step).next_s(self._monotonic_s())
            yield self.next_read_s

    def _on_step(self, probe: Probe, step: Step) -> Step:
        """Brings the probe on the step that its budget allows."""
        wanted = self._budget.step
        if wanted != step:
            if step == Step.FULL and not probe.reduce():
                wanted = self._budget.has_no_detail()
            elif wanted == Step.FULL:
                probe.restore()
        if wanted != self._step:
            self._tell_step(wanted)
        return wanted

    def _tell_step(self, step: Step) -> None:
        if step > self._step:
            self._counts["degradations"] += 1
            used, share = self._budget.used_share, self._budget.share
            why = f": it took {used:.2%} of a core where {share:.2%} is allowed"
        else:
            why = ": it costs less again"
        self._step = step
        self._set_state("degraded" if step else "running", f"{step.word}{why}" if step else "")
        _log.warning("probe %s: %s from now on%s", self.kind.name, step.word, why)

    def _read(self, probe: Probe, step: Step, counted: Mapping[str, int]) -> None:
        self.next_read_s = math.inf
        self._busy_since_s = self._monotonic_s()
        began_ns = time.thread_time_ns()
        read_ns = self._promises.reads(self.kind)
        try:
            reading = probe.read(read_ns)
        except Exception:
            self._promises.closes(self.kind, read_ns)
            raise
        own_ns = time.thread_time_ns() - began_ns
        self._busy_since_s = None
        if counted:
            self._counted = self._counted_before + Counter(counted)
        if self._not_read_since_ns is not None:
            reading = reading._replace(lost=(*reading.lost, *self._not_read(self._not_read_since_ns, read_ns)))
            self._not_read_since_ns = None
        if step <= Step.COUNTERS and self._last_read_ns:
            self._counts["late_reads"] += read_ns - self._last_read_ns > 1.5e9 * self._every_s(step)
        self._counts["reads"] += 1
        self._counts["rows"] += sum(len(rows.events) for rows in reading.rows) + len(reading.facts)
        self._counts["lost_rows"] += sum(lost.rows for lost in reading.lost)
        self._counts["cpu_ns"] += own_ns + reading.kernel_ns
        self._last_read_ns = read_ns
        # Programs run wherever something happens: what counts is how much each core loses.
        self._budget.spent(own_ns + reading.kernel_ns // CPUS, self._monotonic_s())
        self._pass_on(Taken(self.kind, read_ns, reading))

    def _every_s(self, step: Step) -> float:
        often_ns = min(self.kind.read_ns or self.kind.interval_ns, self.kind.interval_ns)
        return often_ns * 1e-9 * (SLOWER if step >= Step.SLOW else 1)

    def _schedule(self, step: Step) -> Schedule:
        return Schedule(self._every_s(step), self._phase)

    def _not_read(self, since_ns: int, until_ns: int) -> tuple[Lost, ...]:
        """One row at least of each window in which nobody read, of each topic."""
        windows = max((until_ns - since_ns) // self.kind.interval_ns, 1)
        return tuple(
            Lost(topic, windows, SOURCE_NOT_READ, min(since_ns, until_ns), until_ns)
            for topic in self.kind.topics
            if topic in PACKED
        )

    def _wait_until_affordable(self) -> Iterator[float]:
        if self._budget.step == Step.OFF:
            self._not_read_since_ns = self._last_read_ns
        while self._budget.step == Step.OFF and not self._stopping:
            yield self._monotonic_s() + _SLICE_S
            self._budget.spent(0, self._monotonic_s())

    def _fail(self, what: str, err: Exception) -> float:
        self._counts["errors"] += 1
        self._busy_since_s = None
        if self._last_read_ns and self._not_read_since_ns is None:
            self._not_read_since_ns = self._last_read_ns
        told = str(err) if isinstance(err, PausetraceError | OSError) else _fault(err)
        self._log.warning("probe %s %s: %s", self.kind.name, what, told)
        return self._rest("failing", f"{what}: {told}")

    def _rest(self, state: str, reason: str) -> float:
        """Returns when to try again, which is when others are read."""
        self._promises.closes(self.kind)
        self._set_state(state, reason)
        every_s = min(self._every_s(Step.FULL), LONGEST_ROUND_S)
        return Schedule(every_s, self._phase).next_s(self._monotonic_s() + self._retry.pause_s())

    def _close(self, probe: Probe) -> None:
        self._counted_before = Counter(self._counted)
        try:
            probe.close()
        except Exception as err:  # noqa: BLE001 - what cannot be closed must not keep the probe from being opened again
            self._counts["errors"] += 1
            self._log.warning("probe %s cannot be closed: %s", self.kind.name, err)

    def _set_state(self, state: str, reason: str = "") -> None:
        self._state, self._reason = state, reason


def _fault(err: Exception) -> str:
    """A fault in a probe, with its place, since whoever mends it needs to know."""
    place = traceback.extract_tb(err.__traceback__)[-1]
    return f"{type(err).__name__}: {err} ({Path(place.filename).name}:{place.lineno})"
