"""Plays a plot: the job's steps one after the other, each with its compute, its exchange and the barrier at its end.

In: a `Plot`. Out: `Performance`: when each rank and flow was done, what ports counted, and the logs of pauses.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from simulation.fabric import layout as at
from simulation.fabric.bins import Bins, PortCounters
from simulation.fabric.compiled import Ints
from simulation.fabric.express import Bools, bytes_by_bin, express, passed
from simulation.fabric.fabric import Fabric, FlowTable
from simulation.fabric.plot import Fault, Plot

BARRIER_NS = 5_000
"""From the last rank's end of a step to the release of the next one."""
QUIET_NS = 200_000
"""After the last step, until the story ends."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Performance:
    """What happened. Times in ns from the start; `steps` by step and rank; a step that never ended has no row.

    `took_ns` is the time of each flow by step, -1 where it did not run or did not end; a flow that no step starts has
    its time in the step in which it ended. `pauses` are rows of time, queue, 1 at the begin; `contents` rows of time,
    queue that was stopped, egress queue, bytes.
    """

    plot: Plot
    released_ns: Ints
    computed_ns: Ints
    ended_ns: Ints
    took_ns: Ints
    counters: PortCounters
    pauses: Ints
    contents: Ints
    edges: Ints
    end_ns: int
    is_locked: bool
    fault_ns: tuple[tuple[int, int], ...]
    """Begin and end of each fault of the plot."""
    fabric: Fabric


class _Player:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        flows = plot.flows
        wires = plot.wires
        table = FlowTable(flows.paths, _wire_bytes(plot), flows.priority)
        self.fabric = Fabric(wires, table, plot.settings)
        self.paths = flows.paths.copy()
        self.bins = Bins(self.fabric, plot.bin_ns)
        self.tick_ns = plot.settings.tick_ns
        self.training = np.flatnonzero(flows.is_training)
        rank = np.full(len(wires.topology.devices), -1)
        rank[plot.ranks] = np.arange(len(plot.ranks))
        self.sender, self.receiver = rank[flows.src], rank[flows.dst]
        self.rates = wires.speed_mbps.copy()
        """The least rate of each link in this step."""
        self.compute = _compute_ns(plot)
        self.took = np.full((plot.steps, len(flows.src)), -1, np.int64)
        self.begun: dict[int, int] = {}
        self.over: dict[int, int] = {}
        fixed = np.flatnonzero(flows.start_ns >= 0)
        in_bursts = [burst.rows for burst in plot.bursts]
        self.fixed = np.setdiff1d(fixed, np.concatenate(in_bursts)) if in_bursts else fixed
        if len(self.fixed):
            self.fabric.start(self.fixed, flows.start_ns[self.fixed] // self.tick_ns, waited=False)
        self.taken = np.zeros(len(wires.source), np.bool_)
        others = self.paths[self.fixed]
        self.taken[others[others >= 0]] = True

    def play(self) -> Performance:
        plot = self.plot
        ranks = len(plot.ranks)
        released, computed, ended = (np.zeros((plot.steps, ranks), np.int64) for _ in range(3))
        release = 0
        count = plot.steps
        for step in range(plot.steps):
            self._change_faults(step)
            begin = release + -(-self.compute[step] // self.tick_ns)
            ends = self._exchange(step, begin)
            if ends is None:
                count = step
                break
            released[step], computed[step], ended[step] = release, begin, np.maximum(ends, begin)
            release = int(ended[step].max()) + BARRIER_NS // self.tick_ns
        for number, fault in enumerate(plot.faults):
            if fault.from_step < plot.steps:
                self.over.setdefault(number, self.fabric.now)
        end = max(self.fabric.now, release) + (QUIET_NS // self.tick_ns if count == plot.steps else 0)
        while self.fabric.now < end:
            self.bins.run(end)
        counters = self.bins.finish()
        pauses, contents = self.fabric.pause_log().copy(), self.fabric.contents_log().copy()
        pauses[:, 0] *= self.tick_ns
        contents[:, 0] *= self.tick_ns
        self._note_fixed(released[:count, 0])
        spans = [(self.begun.get(n, end), self.over.get(n, end)) for n in range(len(plot.faults))]
        return Performance(
            plot=plot,
            released_ns=released[:count] * self.tick_ns,
            computed_ns=computed[:count] * self.tick_ns,
            ended_ns=ended[:count] * self.tick_ns,
            took_ns=self.took[: max(count, 1)],
            counters=counters,
            pauses=pauses,
            contents=contents,
            edges=self.fabric.edges.copy(),
            end_ns=self.fabric.now * self.tick_ns,
            is_locked=count < plot.steps,
            fault_ns=tuple((a * self.tick_ns, b * self.tick_ns) for a, b in spans),
            fabric=self.fabric,
        )

    def _change_faults(self, step: int) -> None:
        self.rates = self.plot.wires.speed_mbps.copy()
        for number, fault in enumerate(self.plot.faults):
            if step == fault.from_step:
                self.begun[number] = self.fabric.now
                self._set(fault, active=True)
            elif step == fault.to_step:
                self.over[number] = self.fabric.now
                self._set(fault, active=False)
            if fault.from_step <= step < fault.to_step and fault.mbps:
                for link in fault.links:
                    self.rates[link] = min(self.rates[link], fault.mbps)

    def _set(self, fault: Fault, *, active: bool) -> None:
        if fault.mbps and not fault.pulse_ns:
            self._set_rates(fault, active=active)
        if fault.loss_ratio:
            for link in fault.links:
                self.fabric.set_errors(link, fault.loss_ratio if active else 0.0)
        if fault.rows is not None and fault.paths is not None:
            paths = fault.paths if active else self.plot.flows.paths[fault.rows]
            width = max(self.paths.shape[1], paths.shape[1])
            self.paths = np.pad(self.paths, ((0, 0), (0, width - self.paths.shape[1])), constant_values=-1)
            self.paths[fault.rows] = np.pad(paths, ((0, 0), (0, width - paths.shape[1])), constant_values=-1)
            self.fabric.set_paths(fault.rows, paths)

    def _set_rates(self, fault: Fault, *, active: bool) -> None:
        for link in fault.links:
            self.fabric.set_rate(link, fault.mbps if active else int(self.plot.wires.speed_mbps[link]))

    def _exchange(self, step: int, begin: Ints) -> Ints | None:
        """Plays one exchange; `begin` and the result are ticks by rank. None if it never ends."""
        plot, fabric = self.plot, self.fabric
        first = int(begin.min())
        for fault in plot.faults:
            if fault.pulse_ns and fault.from_step <= step < fault.to_step:
                self.bins.at(first, functools.partial(self._set_rates, fault, active=True))
                stop = first + fault.pulse_ns // self.tick_ns
                self.bins.at(stop, functools.partial(self._set_rates, fault, active=False))
        for burst in plot.bursts:
            if burst.from_step <= step < burst.to_step and (step - burst.from_step) % burst.every == 0:
                idle = burst.rows[fabric.flow[burst.rows, at.FLOW_LEFT] == 0]
                fabric.start(idle, np.full(len(idle), first), waited=burst.is_waited)
        rows = self.training
        starts = begin[self.sender[rows]]
        is_express = self._express(rows)
        slabs = rows[~is_express]
        if len(slabs):
            fabric.start(slabs, starts[~is_express])
        ends = self._run_express(step, rows[is_express], starts[is_express], begin)
        limit = first + plot.limit_ns // self.tick_ns
        while fabric.waiting and fabric.now < limit:
            self.bins.run(limit)
        if fabric.waiting:
            return None
        done = fabric.flow[slabs, at.FLOW_DONE]
        self.took[step, slabs] = (done - starts[~is_express]) * self.tick_ns
        self._latest(ends, slabs, done)
        for burst in plot.bursts:
            waited = burst.rows[fabric.flow[burst.rows, at.FLOW_DONE] >= 0]
            since = fabric.flow[waited, at.FLOW_START]
            new = waited[since >= first]
            if len(new):
                self.took[step, new] = (fabric.flow[new, at.FLOW_DONE] - since[since >= first]) * self.tick_ns
                if burst.is_waited:
                    self._latest(ends, new, fabric.flow[new, at.FLOW_DONE])
        last = int(ends.max())
        while fabric.now < last + BARRIER_NS // self.tick_ns:
            self.bins.run(last + BARRIER_NS // self.tick_ns)
        return ends

    def _latest(self, ends: Ints, rows: Ints, done: Ints) -> None:
        """Moves the ends of the flows' ranks to when their last flow was done."""
        for rank in (self.sender[rows], self.receiver[rows]):
            known = rank >= 0
            np.maximum.at(ends, rank[known], done[known])

    def _express(self, rows: Ints) -> Bools:
        plot, fabric = self.plot, self.fabric
        if not plot.use_express:
            return np.zeros(len(rows), np.bool_)
        under_way = [burst.rows[fabric.flow[burst.rows, at.FLOW_LEFT] > 0] for burst in plot.bursts]
        others = np.concatenate([np.zeros(0, np.int64), *under_way])
        every = np.concatenate((rows, others))
        barred = fabric.pace[every, at.PACE_RATE] < fabric.state[at.LINE_RATE]
        barred[len(rows) :] = True
        taken = self.taken.copy()
        # What is still under way from before, and links that lose packets.
        in_use = (fabric.out[:, [at.OUT_BYTES, at.OUT_PAUSED, at.OUT_FLOWS]] > 0).any(axis=1)
        taken |= in_use.reshape(-1, fabric.priorities).any(axis=1)
        taken |= (fabric.into[:, at.IN_ERROR_PPM] > 0).reshape(-1, fabric.priorities).any(axis=1)
        return express(self.paths[every], fabric.flow[every, at.FLOW_TOTAL], self.rates, taken, barred)[: len(rows)]

    def _run_express(self, step: int, rows: Ints, starts: Ints, begin: Ints) -> Ints:
        """Books what express flows do; gives ticks by rank at which the last of them is done."""
        fabric = self.fabric
        ends = begin.copy()
        if not len(rows):
            return ends
        paths = self.paths[rows]
        size = fabric.flow[rows, at.FLOW_TOTAL]
        rate = self.rates[paths[:, 0]] * self.tick_ns / 8000
        delays = np.where(paths >= 0, fabric.delay[paths], 0).sum(axis=1)
        done, sending = passed(paths[:, 0], size, starts, rate, delays)
        counts = bytes_by_bin(paths, size, starts, sending, fabric.delay, self.bins.ticks, len(self.rates))
        self.bins.add_express(counts)
        self.took[step, rows] = (done - starts) * self.tick_ns
        self._latest(ends, rows, done)
        return ends

    def _note_fixed(self, released: Ints) -> None:
        done = self.fabric.flow[self.fixed, at.FLOW_DONE]
        ended = self.fixed[done >= 0]
        step = np.searchsorted(released, done[done >= 0], side="right") - 1
        took = done[done >= 0] - self.fabric.flow[ended, at.FLOW_START]
        self.took[np.clip(step, 0, None), ended] = took * self.tick_ns


def perform(plot: Plot) -> Performance:
    """Plays the plot from its begin to its end."""
    return _Player(plot).play()


def _wire_bytes(plot: Plot) -> Ints:
    sizes, inverse = np.unique(plot.flows.size_bytes, return_inverse=True)
    return np.array([plot.settings.wire_bytes(int(size)) for size in sizes], np.int64)[inverse]


def _compute_ns(plot: Plot) -> Ints:
    """Each rank's own compute by step, with jitter; a slow rank takes longer in the steps of its fault."""
    draw = np.random.default_rng([plot.seed, 3])
    noise = np.exp(draw.normal(0, plot.jitter_ratio, (plot.steps, len(plot.ranks))))
    compute = plot.compute_ns * noise
    for fault in plot.faults:
        if fault.slow_rank >= 0:
            compute[fault.from_step : fault.to_step, fault.slow_rank] *= fault.factor
    return compute.astype(np.int64)
