"""Steps of a job that has no hook, from the bytes that its ranks send: what STEP_TIME and COMPUTE_TIME would have told.

In: bytes sent and received by rank and bin, bin after bin. Out: `StepRow`s as hooks publish them, for the same
analytics. A rank here is the port of a host. It computes until it sends its first byte of a step, and ends with the
last that it sends or gets; the job's next step begins when the last rank has ended.

A step is a burst, or as many bursts as come in one period (analytics/step_period.py), the longest silence between
steps. A burst of ranks that have not sent since the one before belongs to that: they are late. Bins must be short:
where a silence is not two bins long, bursts of several steps may be in one bin, and nothing is told; steps shorter than
RESOLUTION bins have a period but no rows, since a bin more or less would make a rank late.
Bounded: WINDOW bins of the job, HELD bursts, MAX_RANKS ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from analytics.step_period import WINDOW, StepPeriod
from analytics.stragglers import MAX_RANKS, STEPS_OF_COST, Rank, StepRow
from stream.kinds import COMPUTE_TIME, STEP_TIME

QUIET_PART = 20
"""A bin below a twentieth of a rank's greatest is silence: background traffic, acknowledgements."""
SILENT_BINS = 2
RESOLUTION = 2 * STEPS_OF_COST
"""Bins of a step at least: what makes a rank late, a twentieth of the step, is then two bins."""
BURSTS_LEAST = 8
"""As many as a median of steps needs."""
HELD = 64


class _Burst(NamedTuple):
    """Ticks in which the job sent, the last one too; by rank the first in which it sent, the last in which it did
    anything.
    """

    first: int
    last: int
    began: dict[Rank, int]
    ended: dict[Rank, int]


class InferredSteps:
    """The steps of one job."""

    def __init__(self, job: int, bin_ns: int) -> None:
        if bin_ns <= 0:
            raise ValueError("a bin lasts some time")
        self._job = job
        self._bin_ns = bin_ns
        self._period = StepPeriod()
        self._tick: int | None = None
        self._first = self._last = -1
        self._began: dict[Rank, int] = {}
        self._ended: dict[Rank, int] = {}
        self._most: dict[Rank, int] = {}
        self._bursts: list[_Burst] = []
        self._per_step = 0
        """Bursts of a step, 0 as long as that is not known."""
        self._release: int | None = None
        self._step = self._seen = 0
        self.ranks_not_followed = 0

    @property
    def period_ns(self) -> int:
        """The period of the steps; 0 where none is known, or bins are too long to hold no more than one burst."""
        bins = self._period.bins() if self._seen >= BURSTS_LEAST else None
        return 0 if bins is None else round(bins * self._bin_ns)

    def take(self, tick: int, sent: Mapping[Rank, int], received: Mapping[Rank, int]) -> list[StepRow]:
        """Bytes that ranks sent and received in a bin, later than those before; returns rows of steps that ended.

        Bins that are left out are silent. Raises ValueError for one that comes again.
        """
        if self._tick is not None and tick <= self._tick:
            raise ValueError(f"bin {tick} after bin {self._tick}")
        rows: list[StepRow] = []
        if self._tick is not None:
            # Of a silence, more than a window of it tells no more.
            for between in range(max(self._tick + 1, tick - WINDOW), tick):
                rows += self._bin(between, {}, {})
        self._tick = tick
        return rows + self._bin(tick, sent, received)

    def finish(self) -> list[StepRow]:
        """Nothing follows."""
        rows = self._close() if self._first >= 0 else []
        if self._per_step and len(self._bursts) >= self._per_step:
            rows += self._rows(self._bursts[: self._per_step])
        return rows

    def _bin(self, tick: int, sent: Mapping[Rank, int], received: Mapping[Rank, int]) -> list[StepRow]:
        began, active = self._active(sent), self._active(received)
        self._period.take(len(began))
        rows: list[StepRow] = []
        if began or active:
            if self._first < 0:
                self._first = tick
            self._last = tick
            for rank in began:
                self._began.setdefault(rank, tick)
            self._ended |= dict.fromkeys((*began, *active), tick)
        elif self._first >= 0 and tick - self._last >= SILENT_BINS:
            rows = self._close()
        return rows

    def _active(self, moved: Mapping[Rank, int]) -> list[Rank]:
        """The ranks that move more than what is silence to them."""
        found = []
        for rank, moved_bytes in moved.items():
            if rank not in self._most and len(self._most) >= MAX_RANKS:
                self.ranks_not_followed += 1
                continue
            most = self._most[rank] = max(self._most.get(rank, 0), moved_bytes)
            if moved_bytes and moved_bytes * QUIET_PART >= most:
                found.append(rank)
        return found

    def _close(self) -> list[StepRow]:
        """A burst is over."""
        burst = _Burst(self._first, self._last, self._began, self._ended)
        self._first, self._began, self._ended = -1, {}, {}
        before = self._bursts[-1] if self._bursts else None
        if before is not None and 2 * len(before.began.keys() & burst.began.keys()) < len(burst.began):
            self._bursts[-1] = _Burst(
                before.first, burst.last, {**burst.began, **before.began}, {**before.ended, **burst.ended}
            )  # fmt: skip
        else:
            self._bursts.append(burst)
            self._seen += 1
        if not self._per_step:
            self._learn()
        rows: list[StepRow] = []
        # Of the last burst, ranks may be late.
        while self._per_step and len(self._bursts) > self._per_step:
            step, self._bursts = self._bursts[: self._per_step], self._bursts[self._per_step :]
            rows += self._rows(step)
        self._bursts = self._bursts[-HELD:]
        return rows

    def _learn(self) -> None:
        """How many bursts make a step, once enough have been seen; those before the first whole step are dropped."""
        if len(self._bursts) < BURSTS_LEAST:
            return
        bins = self._period.bins()
        begins = [burst.first for burst in self._bursts]
        apart = sorted(after - before for before, after in pairwise(begins))
        spacing = sum(apart) / len(apart)
        if bins is None:
            return
        count = max(round(bins / spacing), 1)
        if bins < RESOLUTION or len(self._bursts) < BURSTS_LEAST * count:
            return
        silences: list[list[int]] = [[] for _ in range(count)]
        for number, (before, after) in enumerate(pairwise(self._bursts), 1):
            silences[number % count].append(after.first - before.last)
        longest = max(range(count), key=lambda phase: (sorted(silences[phase])[len(silences[phase]) // 2], -phase))
        self._per_step = count
        self._bursts = self._bursts[longest if count > 1 else 0 :]

    def _rows(self, step: list[_Burst]) -> list[StepRow]:
        release, self._release = self._release, max(burst.last for burst in step) + 1
        if release is None:
            return []
        began: dict[Rank, int] = {}
        ended: dict[Rank, int] = {}
        for burst in step:
            began = {**burst.began, **began}
            ended |= {rank: last + 1 for rank, last in burst.ended.items()}
        rows = [
            StepRow(tick * self._bin_ns, self._job, kind, *rank, self._step, (tick - release) * self._bin_ns)
            for kind, ticks in ((COMPUTE_TIME, began), (STEP_TIME, ended))
            for rank, tick in ticks.items()
        ]
        self._step += 1
        return sorted(rows)
