"""Ranks that hold up their job by their own compute: every other rank waits for them at the barrier, without any pause.

In: rows STEP_TIME and COMPUTE_TIME in the order of events. Out: `Spell`s: a rank, and steps in a row in which it was
slow. Only the time to the end of a rank's own compute tells the one that is late from those that wait for it: where
few ranks tell that, a spell names the smallest set of ranks that end their steps last together.

A step is judged when a row of a later one comes, so a rank that reports a whole compute time late counts as absent. A
job that goes on from an earlier step, as from a checkpoint, or has been silent for SILENT_NS begins anew.
Bounded: MAX_JOBS jobs (a further one takes the place of that which has been silent for longest) of MAX_RANKS ranks,
PAST steps and SPELL steps of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from analytics.layout import FOREVER
from stream.kinds import STEP_TIME

MAX_JOBS = 256
MAX_RANKS = 65_536
MIN_RANKS = 4
"""Of fewer, the one that is slow is too large a part for a median to tell it from the others."""
FAR_PPM = 5_189_100
"""3.5 times 1.4826, by which the distance from the median must exceed the MAD: a robust z of 3.5, the bound that
Iglewicz and Hoaglin (1993, "How to detect and handle outliers") recommend; 1.4826 makes the MAD of a normal
distribution its standard deviation."""
STEPS_OF_COST = 20
"""What is late by less than a twentieth of the step would be no `warning` as a cascade either."""
STEPS_IN_A_ROW = 3
"""One slow step happens to every rank once (garbage collection, a checkpoint); of 10,000 ranks with normal times one is
beyond 3.5 in three steps in a row by chance in 10^7 steps."""
SPELL = 100
"""A rank that stays slow is told of again after so many steps: minutes, at steps of a second."""
SILENT_NS = 1_800_000_000_000
"""Half an hour: by then the job's own collectives have timed out (in PyTorch after 10 or 30 minutes)."""
PAST = 32
PAST_LEAST = 8
"""A median of fewer steps moves too much to say what is usual of a rank."""

Rank = tuple[str, str]
"""Host and rank."""


class StepRow(NamedTuple):
    """One row, in the order in which rows are taken: when, which job, what, of which host and rank, which step."""

    time_ns: int
    job: int
    kind: int
    device: str
    rank: str
    step: int
    value_ns: int


class Spell(NamedTuple):
    """Steps in a row in which a rank was slow; times are medians over them, `past_ns` is 0 where it is not known.

    `late_ns`: how much later than the median rank it was. `cost_ns`: by how much longer than usual the steps lasted,
    times their ranks. `tied`: ranks that were last with it; `own_compute`: whether the times are of compute alone, or
    of whole steps.
    """

    job: int
    device: str
    rank: str
    first_step: int
    steps: int
    start_ns: int
    end_ns: int
    compute_ns: int
    ranks: int
    median_ns: int
    past_ns: int
    late_ns: int
    step_ns: int
    cost_ns: int = 0
    own_compute: bool = True
    tied: tuple[Rank, ...] = ()


@dataclass(slots=True)
class _Rank:
    past: list[int] = field(default_factory=list)
    """Times of its last steps that were not slow."""
    slow: list[tuple[int, ...]] = field(default_factory=list)
    """Of each slow step not told of yet: step, start, end, cost, time, ranks, median, past, late, length."""
    told: bool = False
    """Whether the slow steps right before these have been told of."""


@dataclass(slots=True)
class _Job:
    step: int
    computes: dict[Rank, int] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0
    step_ns: int = 0
    """The longest that a rank told of the step, 0 if none has."""
    ranks: dict[Rank, _Rank] = field(default_factory=dict)
    last_ns: int = 0
    """When it was last told of."""
    lengths: dict[Rank, int] = field(default_factory=dict)
    usual: list[int] = field(default_factory=list)
    """How long its last steps were in which no rank was slow."""
    own_compute: bool = True
    """Whether the ranks' past is of compute alone."""


class Stragglers:
    """The jobs of one fabric."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._jobs: dict[int, _Job] = {}

    def take(self, rows: Iterable[StepRow]) -> list[tuple[int, Spell]]:
        """Takes rows in, whose times are not before those taken earlier; spells, each with the time that told of it."""
        found: list[tuple[int, Spell]] = []
        for row in sorted(rows):
            job = self._jobs.get(row.job)
            if job is not None and row.time_ns - job.last_ns > SILENT_NS:
                found += self._silenced(row.job)
                job = None
            elif job is not None and row.step < job.step and row.time_ns - max(row.value_ns, 0) >= job.end_ns > 0:
                found += [(row.time_ns, spell) for spell in self._end(row.job)]
                self.counters["jobs_begun_anew"] += 1
                job = None
            if job is None:
                if len(self._jobs) >= MAX_JOBS:
                    found += [(row.time_ns, spell) for spell in self._end(self._longest_silent())]
                    self.counters["jobs_forgotten"] += 1
                job = self._jobs[row.job] = _Job(row.step)
            if row.step < job.step:
                self.counters["steps_told_late"] += 1
                continue
            if row.step > job.step:
                found += [(row.time_ns, spell) for spell in self._judged(row.job, job)]
                job.step, job.begin_ns, job.end_ns, job.step_ns = row.step, 0, 0, 0
                job.computes, job.lengths = {}, {}
            job.last_ns = row.time_ns
            self._note(job, row)
        return found

    def finish(self) -> list[Spell]:
        """Judges the last step of every job, and tells of all that is slow still: nothing follows."""
        return [spell for number in sorted(self._jobs) for spell in self._end(number)]

    def silent(self, until_ns: int) -> list[tuple[int, Spell]]:
        """Ends the jobs that have been silent for SILENT_NS at a time; spells, each with the time that told of it."""
        gone = sorted(number for number, job in self._jobs.items() if until_ns - job.last_ns > SILENT_NS)
        return [told for number in gone for told in self._silenced(number)]

    def asks_since_ns(self) -> int:
        """The beginning of the oldest step of which may still be told; FOREVER if there is none."""
        steps = [job.begin_ns if job.end_ns else job.last_ns for job in self._jobs.values()]
        slow = [rank.slow[0][1] for job in self._jobs.values() for rank in job.ranks.values() if rank.slow]
        return min([*steps, *slow], default=FOREVER)

    def _silenced(self, number: int) -> list[tuple[int, Spell]]:
        told_ns = self._jobs[number].last_ns + SILENT_NS
        return [(told_ns, spell) for spell in self._end(number)]

    def _end(self, number: int) -> list[Spell]:
        """Forgets a job; what is slow of it up to now."""
        job = self._jobs.pop(number)
        found = self._judged(number, job)
        for name, rank in sorted(job.ranks.items()):
            if rank.told:
                found += _told(number, name, rank)
        return found if job.own_compute else _tied(found)

    def _longest_silent(self) -> int:
        """The job that was last told of before all others."""
        return min(self._jobs, key=lambda number: (self._jobs[number].last_ns, number))

    def _note(self, job: _Job, row: StepRow) -> None:
        name = (row.device, row.rank)
        if row.value_ns <= 0:
            return
        times = job.lengths if row.kind == STEP_TIME else job.computes
        if name not in times and len(times) >= MAX_RANKS:
            self.counters["ranks_not_followed"] += 1
            return
        begin_ns = row.time_ns - row.value_ns
        job.begin_ns = min(job.begin_ns, begin_ns) if job.end_ns else begin_ns
        job.end_ns = max(job.end_ns, row.time_ns)
        times[name] = max(times.get(name, 0), row.value_ns)
        if row.kind == STEP_TIME:
            job.step_ns = max(job.step_ns, row.value_ns)

    def _judged(self, number: int, job: _Job) -> list[Spell]:
        """The spells that the job's step, which is complete, brings to light."""
        own_compute = len(job.computes) >= MIN_RANKS and 2 * len(job.computes) >= len(job.lengths)
        times = job.computes if own_compute else job.lengths
        if len(times) < MIN_RANKS:
            return []
        if own_compute != job.own_compute:
            job.own_compute, job.ranks = own_compute, {}
        everyone = list(times.values())
        twice_median = _twice_median(everyone)
        length_ns = job.step_ns or max(everyone)
        ranks = max(len(job.computes), len(job.lengths))
        usual_step_ns = _twice_median(job.usual) // 2 if len(job.usual) >= PAST_LEAST else 0
        found: list[Spell] = []
        any_slow = False
        for name, own_ns in sorted(times.items()):
            rank = job.ranks.get(name)
            if rank is None:
                if len(job.ranks) >= MAX_RANKS:
                    self.counters["ranks_not_followed"] += 1
                    continue
                rank = job.ranks[name] = _Rank()
            past = rank.past if len(rank.past) >= PAST_LEAST else []
            usual_ns = _twice_median(past) // 2 if past else 0
            slow = STEPS_OF_COST * (2 * own_ns - twice_median) >= 2 * length_ns and is_far(own_ns, everyone)
            if slow and past:
                slow = STEPS_OF_COST * (own_ns - usual_ns) >= length_ns and is_far(own_ns, past)
            if not slow:
                if rank.told and rank.slow:
                    found += _told(number, name, rank)
                rank.slow, rank.told = [], False
                rank.past = [*rank.past, own_ns][-PAST:]
                continue
            any_slow = True
            late_ns = own_ns - twice_median // 2
            cost_ns = max(0, length_ns - usual_step_ns if usual_step_ns else late_ns) * ranks
            rank.slow.append(
                (job.step, job.begin_ns, job.end_ns, cost_ns, own_ns, ranks, twice_median // 2, usual_ns, late_ns,
                 length_ns)
            )  # fmt: skip
            if len(rank.slow) >= (SPELL if rank.told else STEPS_IN_A_ROW):
                found += _told(number, name, rank)
        if not any_slow:
            job.usual = [*job.usual, length_ns][-PAST:]
        return found if own_compute else _tied(found)

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        return [
            [number, job.step, [[*name, ns] for name, ns in job.computes.items()], job.begin_ns, job.end_ns,
             job.step_ns, [[*name, *astuple(rank)] for name, rank in job.ranks.items()], job.last_ns,
             [[*name, ns] for name, ns in job.lengths.items()], job.usual, job.own_compute]
            for number, job in self._jobs.items()
        ]  # fmt: skip

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        self._jobs = {
            number: _Job(
                step, {(device, rank): ns for device, rank, ns in computes}, begin_ns, end_ns, step_ns,
                {(device, rank): _Rank(past, [tuple(each) for each in slow], told)
                 for device, rank, past, slow, told in ranks},
                last_ns, {(device, rank): ns for device, rank, ns in lengths}, usual, own_compute,
            )
            for number, step, computes, begin_ns, end_ns, step_ns, ranks, last_ns, lengths, usual, own_compute in state
        }  # fmt: skip


def is_far(value: int, others: Sequence[int]) -> bool:
    """Whether a value lies above others by a robust z of 3.5 or more, in whole numbers so that it is exact."""
    twice_median = _twice_median(others)
    above = 2 * value - twice_median
    four_mads = _twice_median([abs(2 * other - twice_median) for other in others])
    return above > 0 and 2 * above * 1_000_000 >= FAR_PPM * four_mads


def _told(number: int, name: Rank, rank: _Rank) -> list[Spell]:
    """The spell of a rank's slow steps, which are told of by that; too few of them are none."""
    slow, rank.slow, rank.told = rank.slow, [], True
    if len(slow) < STEPS_IN_A_ROW:
        return []
    steps, starts, ends, costs, *measures = zip(*slow, strict=True)
    own_ns, ranks, median_ns, past_ns, late_ns, step_ns = (sorted(column)[len(slow) // 2] for column in measures)
    return [
        Spell(number, *name, steps[0], len(slow), starts[0], max(ends), own_ns, ranks, median_ns, past_ns, late_ns,
              step_ns, sum(costs))
    ]  # fmt: skip


def _tied(found: list[Spell]) -> list[Spell]:
    """Of spells of whole steps, those of the ranks that were last, as one for each run of steps.

    Who is less late by more than what costs nothing has waited for one of them.
    """
    runs: dict[tuple[int, int], list[Spell]] = {}
    for spell in found:
        runs.setdefault((spell.first_step, spell.steps), []).append(spell)
    together = []
    for of_run in runs.values():
        most = max(spell.late_ns for spell in of_run)
        last = [spell for spell in of_run if STEPS_OF_COST * (most - spell.late_ns) < spell.step_ns]
        tied = tuple((spell.device, spell.rank) for spell in last[1:])
        together.append(last[0]._replace(own_compute=False, tied=tied))
    return together


def _twice_median(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
