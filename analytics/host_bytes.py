"""Steps of the jobs of a fabric that no hook tells of, from what their hosts' ports send and get.

In: batches with FLOW_BYTES or PORT_BYTES of hosts, and flow facts. Out: `StepRow`s by job, with the period of each.
Hosts that exchange flows are one job; where no flow is known, all hosts are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from analytics.inferred_steps import InferredSteps
from analytics.stragglers import MIN_RANKS, Rank, StepRow
from stream import kinds
from stream.batch import Batch
from stream.facts import Flow
from stream.flow_id import job_id

MAX_CELLS = 20_000_000
"""Bins of ranks held at a time; of more nothing is inferred."""


class Inferred(NamedTuple):
    """A job as its bytes show it: its hosts, the period of its steps (0 = none is known), and the steps themselves."""

    job: int
    hosts: tuple[str, ...]
    bin_ns: int
    period_ns: int
    steps: tuple[StepRow, ...]


def inferred_jobs(batches: Sequence[Batch], hosts: Collection[str], flows: Iterable[Flow]) -> list[Inferred]:
    """The jobs whose hosts' bytes are in the batches, in whatever order those are."""
    flows = list(flows)
    cells = _Cells(flows)
    # A port tells what it gets as well; where both kinds are known, one of them is enough.
    kind = kinds.PORT_BYTES if _has(batches, hosts, kinds.PORT_BYTES) else kinds.FLOW_BYTES
    for batch in batches:
        if batch.stream.device in hosts:
            cells.take(batch, kind)
    jobs = _jobs(flows, hosts)
    return [job for members in jobs if (job := _inferred(members, cells)) is not None]


class _Cells:
    """Bytes by rank and window."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        self._dst = {int(flow.flow, 16): flow.dst_device for flow in flows}
        self.sent: defaultdict[Rank, Counter[int]] = defaultdict(Counter)
        self.got: defaultdict[Rank, Counter[int]] = defaultdict(Counter)
        """Of flows by host alone (a port ""), since a flow's fact names no port of it."""
        self.spans: Counter[int] = Counter()
        self.count = 0

    def take(self, batch: Batch, kind: int) -> None:
        """The rows of one kind, by the time at which their windows end."""
        events = batch.events
        events = events[(events["kind"] == kind) & (events["span_ns"] > 0) & (events["value"] > 0)]
        self.count += len(events)
        if self.count > MAX_CELLS:
            return
        columns = (events[name].tolist() for name in ("time_ns", "span_ns", "value", "port", "side", "flow"))
        device = batch.stream.device
        for time_ns, span_ns, value, port, side, flow in zip(*columns, strict=True):
            self.spans[span_ns] += 1
            if side == kinds.SIDE_RX:
                self.got[device, batch.ports[port]][time_ns] += value
                continue
            self.sent[device, batch.ports[port]][time_ns] += value
            if kind == kinds.FLOW_BYTES and flow in self._dst:
                self.got[self._dst[flow], ""][time_ns] += value


def _has(batches: Iterable[Batch], hosts: Collection[str], kind: int) -> bool:
    return any(batch.stream.device in hosts and (batch.events["kind"] == kind).any() for batch in batches)


def _inferred(members: Collection[str], cells: _Cells) -> Inferred | None:
    ranks = [rank for rank in cells.sent if rank[0] in members]
    if len(ranks) < MIN_RANKS or not cells.spans or cells.count > MAX_CELLS:
        return None
    bin_ns = max(cells.spans, key=lambda span: (cells.spans[span], -span))
    job = job_id(" ".join(sorted(members)))
    ticks: defaultdict[int, tuple[dict[Rank, int], dict[Rank, int]]] = defaultdict(lambda: ({}, {}))
    for rank in ranks:
        got = cells.got.get(rank) or cells.got.get((rank[0], "")) or Counter()
        for side, counted in enumerate((cells.sent[rank], got)):
            for time_ns, value in counted.items():
                of = ticks[(time_ns - 1) // bin_ns][side]
                of[rank] = of.get(rank, 0) + value
    steps = InferredSteps(job, bin_ns)
    rows = [row for tick in sorted(ticks) for row in steps.take(tick, *ticks[tick])] + steps.finish()
    return Inferred(job, tuple(sorted(members)), bin_ns, steps.period_ns, tuple(rows))


def _jobs(flows: Iterable[Flow], hosts: Collection[str]) -> list[list[str]]:
    """Hosts that exchange flows, directly or by others; all as one where no flow is known."""
    leader = {host: host for host in hosts}

    def find(host: str) -> str:
        while leader[host] != host:
            leader[host] = host = leader[leader[host]]
        return host

    known = False
    for flow in flows:
        if flow.src_device in leader and flow.dst_device in leader:
            known = True
            leader[find(flow.src_device)] = find(flow.dst_device)
    if not known:
        return [sorted(hosts)] if hosts else []
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for host in sorted(hosts):
        groups[find(host)].append(host)
    return sorted(groups.values())
