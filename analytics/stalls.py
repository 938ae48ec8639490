"""Steps of a job that last longer than usual: who was waited for, what that cost, and what is behind it.

In: rows STEP_TIME and COMPUTE_TIME in the order of events; then the final cascades. Out: `Stall`s. A job waits at its
barrier for the slowest rank, so one bad rank of thousands is all of its step's length and next to nothing of a mean.

A step is long if it exceeds the median of the PAST last ones that were not by a twentieth, and by a robust z of 3.5.
Long steps of a job with no more than APART others between them are one stall, from three on: what comes every second
or with every checkpoint of a neighbour is one thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from analytics.not_the_fabric import CLASS, HARMFUL
from analytics.stragglers import MIN_RANKS, PAST, PAST_LEAST, STEPS_IN_A_ROW, STEPS_OF_COST, StepRow, is_far
from stream.cascade import FINAL, Cascade
from stream.kinds import STEP_TIME

APART = 10
MAX_NAMED = 4
MAX_BEHIND = 3
COMPUTE = "compute"
CASCADE, NOT_THE_FABRIC, UNKNOWN = "cascade", CLASS, "unknown"


class Behind(msgspec.Struct, frozen=True):
    """A rank that was waited for, in how many of the long steps, and how much later than the median rank it was.

    `nic`: the port of its host that it sends by, "" where no fact tells.
    """

    device: str
    rank: str
    steps: int
    late_ns: int
    nic: str = ""


class Stall(msgspec.Struct, frozen=True):
    """Long steps of one job. Times are medians over them.

    `cost_rank_ns`: by how much longer than usual they lasted, times their ranks, summed. `waiting_rank_ns`: what ranks
    waited at the barrier in them, fault or not: the last one's time less the median one's, times ranks.
    `mean_ns`, `mean_usual_ns`: of a rank, over all ranks, in these steps and before. `ranks_behind`: the smallest set
    that was last together, none where no rank stands out. `own_compute`: whether ranks were judged by compute alone.
    `mean_of_compute`: whether the means are of compute alone, or of whole steps. `job_name`: the name of the job, of
    which `job` is the hash in hexadecimal; "" where no fact tells. `inferred`: steps are taken from the bytes of hosts.
    `layer`: where it began, as analytics/layers.py has it: host, compute, pcie, nic, link, queue, storage or
    application; "" where that is not known, or only suspected.
    `cause`: `cascade` (their ids in `cascades`, and where each began in `began`), `not_the_fabric`, or `unknown`.
    """

    job: str
    first_step: int
    last_step: int
    long_steps: int
    start_ns: int
    end_ns: int
    ranks: int
    step_ns: int
    usual_ns: int
    cost_rank_ns: int
    waiting_rank_ns: int
    mean_ns: int
    mean_usual_ns: int
    own_compute: bool
    ranks_behind: tuple[Behind, ...]
    cause: str = UNKNOWN
    cascades: tuple[str, ...] = ()
    began: tuple[str, ...] = ()
    job_name: str = ""
    inferred: bool = False
    mean_of_compute: bool = True
    layer: str = ""


@dataclass(slots=True)
class _Step:
    """One step, complete."""

    number: int
    begin_ns: int
    end_ns: int
    length_ns: int
    ranks: int
    usual_ns: int
    waiting_ns: int
    mean_ns: int
    mean_of_compute: bool
    own_compute: bool
    last: dict[tuple[str, str], int]
    """The ranks that were last together, and by how much."""


@dataclass(slots=True)
class _Job:
    number: int
    lengths: dict[tuple[str, str], int] = field(default_factory=dict)
    computes: dict[tuple[str, str], int] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0
    usual: list[tuple[int, int]] = field(default_factory=list)
    """Length, and mean over the ranks, of its last steps that were not long."""
    since: int = 0
    """Steps since the last long one."""
    long: list[_Step] = field(default_factory=list)


class Stalls:
    """The jobs of one fabric."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Job] = {}
        self._found: list[Stall] = []

    def take(self, rows: Iterable[StepRow]) -> None:
        """Takes rows in, whose times are not before those taken earlier."""
        for row in sorted(rows):
            job = self._jobs.get(row.job)
            begin_ns = row.time_ns - max(row.value_ns, 0)
            if job is None or (row.step < job.number and begin_ns >= job.end_ns > 0):
                self._end(row.job)
                job = self._jobs[row.job] = _Job(row.step)
            if row.step < job.number or row.value_ns <= 0:
                continue
            if row.step > job.number:
                self._judge(row.job, job)
                job.number, job.lengths, job.computes, job.end_ns = row.step, {}, {}, 0
            job.begin_ns = min(job.begin_ns, begin_ns) if job.end_ns else begin_ns
            job.end_ns = max(job.end_ns, row.time_ns)
            times = job.lengths if row.kind == STEP_TIME else job.computes
            name = (row.device, row.rank)
            times[name] = max(times.get(name, 0), row.value_ns)

    def finish(self, cascades: Iterable[Cascade] = ()) -> list[Stall]:
        """All stalls by time, with what is behind them; nothing follows."""
        for number in sorted(self._jobs):
            self._end(number)
        finals = [cascade for cascade in cascades if cascade.revision == FINAL and cascade.merged_into is None]
        return [joined(stall, finals) for stall in sorted(self._found, key=lambda stall: (stall.start_ns, stall.job))]

    def _end(self, number: int) -> None:
        job = self._jobs.pop(number, None)
        if job is not None:
            self._judge(number, job)
            self._close(number, job)

    def _judge(self, number: int, job: _Job) -> None:
        """Takes the job's step, which is complete, for usual or for long."""
        own_compute = len(job.computes) >= MIN_RANKS and 2 * len(job.computes) >= len(job.lengths)
        times = job.computes if own_compute else job.lengths
        if len(times) < MIN_RANKS:
            return
        length_ns = max(job.lengths.values()) if job.lengths else max(job.computes.values())
        mean_ns, mean_of_compute = sum(times.values()) // len(times), own_compute
        lengths = [length for length, _ in job.usual]
        usual_ns = _median(lengths) if len(lengths) >= PAST_LEAST else 0
        is_long = usual_ns and STEPS_OF_COST * (length_ns - usual_ns) >= usual_ns and is_far(length_ns, lengths)
        if not is_long:
            job.usual = [*job.usual, (length_ns, mean_ns)][-PAST:]
            job.since += 1
            if job.since > APART:
                self._close(number, job)
            return
        last = _last(times, length_ns)
        if not last and own_compute and len(job.lengths) >= MIN_RANKS:
            # All computed in time: who was last to have its data?
            own_compute, times = False, job.lengths
            last = _last(times, length_ns)
        median_ns = _median(list(times.values()))
        waiting_ns = (max(times.values()) - median_ns) * len(times)
        job.since = 0
        job.long.append(
            _Step(
                job.number, job.begin_ns, job.end_ns, length_ns, max(len(job.lengths), len(job.computes)), usual_ns,
                waiting_ns, mean_ns, mean_of_compute, own_compute, last,
            )
        )  # fmt: skip

    def _close(self, number: int, job: _Job) -> None:
        """Ends the stall that the job may be in."""
        steps, job.long = job.long, []
        if len(steps) < STEPS_IN_A_ROW:
            return
        # What tells most of these steps tells the stall.
        own_compute = 2 * sum(step.own_compute for step in steps) > len(steps)
        counts = Counter(name for step in steps if step.own_compute == own_compute for name in step.last)
        behind = [
            Behind(*name, count, _median([step.last[name] for step in steps if name in step.last]))
            for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
            if 2 * count > len(steps)
        ]
        self._found.append(
            Stall(
                job=f"{number:x}",
                first_step=steps[0].number,
                last_step=steps[-1].number,
                long_steps=len(steps),
                start_ns=steps[0].begin_ns,
                end_ns=steps[-1].end_ns,
                ranks=_median([step.ranks for step in steps]),
                step_ns=_median([step.length_ns for step in steps]),
                usual_ns=_median([step.usual_ns for step in steps]),
                cost_rank_ns=sum((step.length_ns - step.usual_ns) * step.ranks for step in steps),
                waiting_rank_ns=sum(step.waiting_ns for step in steps),
                mean_ns=_median([step.mean_ns for step in steps]),
                mean_usual_ns=_median([mean for _, mean in job.usual]),
                own_compute=own_compute,
                ranks_behind=tuple(behind),
                mean_of_compute=2 * sum(step.mean_of_compute for step in steps) > len(steps),
            )
        )


def joined(stall: Stall, finals: Sequence[Cascade]) -> Stall:
    """The stall with its cause.

    A rank whose own compute is late is not the fabric's, unless a cascade that does harm has its host as a root or
    stopped it; any other stall is behind all such cascades of its time.
    """
    hosts = {behind.device for behind in stall.ranks_behind}
    near, at_hosts, own = [], [], []
    for cascade in finals:
        if _tells_of_rank(cascade, stall, hosts):
            own.append(cascade)
        if cascade.severity not in HARMFUL or not cascade.pauses:
            continue
        if cascade.start_ns > stall.end_ns or cascade.end_ns < stall.start_ns:
            continue
        near.append(cascade)
        if hosts & ({root.device for root in cascade.roots} | {queue.device for queue in cascade.queues}):
            at_hosts.append(cascade)
    behind = at_hosts if stall.own_compute and hosts else (at_hosts or near)
    if behind:
        worst = sorted(behind, key=lambda cascade: (-cascade.pause_ns, cascade.start_ns, cascade.id))
        told = worst[:MAX_BEHIND]
        ids, began = tuple(cascade.id for cascade in told), tuple(map(_began, told))
        return msgspec.structs.replace(stall, cause=CASCADE, cascades=ids, began=began, layer=_layer(worst[0]))
    if stall.own_compute and hosts:
        # What the host reported of itself decides; else it is its compute, which is all that is known to be late.
        layer = next((root.layer for each in own for root in each.roots if root.device in hosts and root.layer), "")
        return msgspec.structs.replace(stall, cause=NOT_THE_FABRIC, layer=layer or COMPUTE)
    return stall


def _tells_of_rank(cascade: Cascade, stall: Stall, hosts: set[str]) -> bool:
    """Whether it says of a rank of the stall that the fabric does not hold it up."""
    in_time = cascade.start_ns <= stall.end_ns and cascade.end_ns >= stall.start_ns
    return in_time and any(root.root_class == CLASS and root.device in hosts for root in cascade.roots)


def _layer(cascade: Cascade) -> str:
    """That of its largest root; "" of a suspect set, which says that the root is not certain."""
    root = max(cascade.roots, key=lambda root: (root.share_ppm, root.device, root.port), default=None)
    return "" if root is None or cascade.suspect_set else root.layer


def _began(cascade: Cascade) -> str:
    """Its largest root and the class of that, "" where none is known."""
    root = max(cascade.roots, key=lambda root: (root.share_ppm, root.device, root.port), default=None)
    if root is None:
        return ""
    place = f"{root.device}:{root.port}" if root.port else root.device
    return f"{place}, {root.root_class}{', suspected' if cascade.suspect_set else ''}"


def _last(times: dict[tuple[str, str], int], length_ns: int) -> dict[tuple[str, str], int]:
    """The ranks that were last together, if they stand out: far behind the median, by a twentieth of the step."""
    everyone = list(times.values())
    median_ns, most = _median(everyone), max(everyone)
    if STEPS_OF_COST * (most - median_ns) < length_ns or not is_far(most, everyone):
        return {}
    last = {
        name: own_ns - median_ns
        for name, own_ns in sorted(times.items())
        if STEPS_OF_COST * (most - own_ns) < length_ns and is_far(own_ns, everyone)
    }
    return last if 2 * len(last) < len(times) else {}


def _median(values: Sequence[int]) -> int:
    """The median, of an even number the mean of the two in the middle, rounded down."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
