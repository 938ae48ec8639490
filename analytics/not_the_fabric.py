"""The verdict that a slow job is not the network's doing: a rank's own compute is long, and no cascade explains that.

In: settled rows of steps, what was noted of hosts, the final cascades. Out: cascades of class `not_the_fabric` without
a pause, whose root is the host of the rank that the others wait for, or the hosts of those that are last together.

A spell waits until every cascade that touches its time has closed, for a minute at most. It is explained, and not told,
by one of severity `warning` or worse that has the host as a root or stopped it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xxhash

from analytics import host_evidence
from analytics.bounds import CRITICAL_SHARE, PPM, VERDICT_PPM
from analytics.confidence import EVIDENCE_KINDS
from analytics.layout import FOREVER, Ints
from analytics.noted import NOTED_NS, Noted
from analytics.stragglers import Spell, StepRow, Stragglers
from analytics.topology import Topology
from stream import kinds
from stream.cascade import FINAL, Cascade, Root
from stream.identity import some
from stream.record import Events

CLASS = "not_the_fabric"
HARMFUL = ("warning", "critical")
_SECOND_NS = 1_000_000_000


class _Waiting(NamedTuple):
    """A spell, and what each of its hosts reported of itself in its time: the layer, and findings in sentences."""

    spell: Spell
    inside: tuple[tuple[str, tuple[str, ...]], ...]


ANYWHERE = ""
"""Stands for all hosts where it is kept which of them cascades harmed; no host has this name."""


class NotTheFabric:
    """The slow ranks of one fabric."""

    def __init__(self) -> None:
        self.stragglers = Stragglers()
        self._waiting: list[_Waiting] = []
        self._harmed: dict[str, list[tuple[int, int]]] = {}
        """By host, when cascades of severity `warning` or worse held it up or began there."""
        self._forgotten_ns = 0

    def take(self, events: Events, ports: Ints, topology: Topology, noted: Noted) -> None:
        """Takes settled rows in, after `noted` has."""
        steps = np.isin(events["kind"], (kinds.STEP_TIME, kinds.COMPUTE_TIME))
        if not steps.any():
            return
        rows = []
        for row, port in zip(events[steps], ports[steps].tolist(), strict=True):
            device, rank = topology.ports[port]
            rows.append(
                StepRow(int(row["time_ns"]), int(row["flow"]), int(row["kind"]), topology.devices[device], rank,
                        int(row["extra"]), int(row["value"]))
            )  # fmt: skip
        for told_ns, spell in self.stragglers.take(rows):
            self._wait(spell, told_ns, topology, noted)

    def finish(self, newest_ns: int, topology: Topology, noted: Noted) -> None:
        """No row follows; the newest was of this time."""
        for spell in self.stragglers.finish():
            self._wait(spell, newest_ns, topology, noted)

    def _wait(self, spell: Spell, told_ns: int, topology: Topology, noted: Noted) -> None:
        inside = []
        for host in hosts_of(spell):
            # Readings of a minute are certain to be kept still, and those up to the spell's end to have come.
            readings = noted.readings.get(topology.find_device(host), ())
            near = [r for r in readings if told_ns - NOTED_NS <= r.time_ns <= spell.end_ns]
            found = host_evidence.inside(near, spell.start_ns, spell.end_ns)
            layer = found[0].layer if found else "compute" if spell.own_compute else ""
            inside.append((layer, tuple(finding.sentence for finding in found)))
        self._waiting.append(_Waiting(spell, tuple(inside)))

    def explain(self, final: Cascade, topology: Topology) -> None:
        """Takes a final cascade into account."""
        if final.severity not in HARMFUL:
            return
        self._harmed.setdefault(ANYWHERE, []).append((final.start_ns, final.end_ns))
        touched = {root.device for root in final.roots} | {queue.device for queue in final.queues}
        for name in touched:
            device = topology.find_device(name)
            if device >= 0 and topology.is_host[device]:
                self._harmed.setdefault(name, []).append((final.start_ns, final.end_ns))

    def due(
        self, fabric: str, until_ns: int, keep_ns: int, oldest_ns: int, topology: Topology, noted: Noted
    ) -> list[Cascade]:
        """The verdicts on spells that no open cascade can explain any more.

        `until_ns` is how far rows have been acted on; cascades close `keep_ns` after their end; the oldest open one
        began at `oldest_ns` (FOREVER: there is none).
        """
        for told_ns, spell in self.stragglers.silent(until_ns):
            self._wait(spell, told_ns, topology, noted)
        first_ns = oldest_ns if oldest_ns < FOREVER else until_ns
        ripe: list[_Waiting] = []
        waits: list[_Waiting] = []
        for waiting in self._waiting:
            end_ns = waiting.spell.end_ns
            over = end_ns + keep_ns < until_ns and (end_ns < first_ns or end_ns + keep_ns + NOTED_NS < until_ns)
            (ripe if over else waits).append(waiting)
        self._waiting = waits
        told = [_cascade(fabric, *waiting) for waiting in ripe if not self._is_explained(waiting.spell)]
        if self._harmed:
            # Spells of steps that are not told of so far will ask as well, however long a step lasts.
            asked_ns = min((waiting.spell.end_ns for waiting in self._waiting), default=until_ns)
            self._forget(min(asked_ns, until_ns - keep_ns, self.stragglers.asks_since_ns()) - NOTED_NS)
        return sorted(told, key=lambda cascade: (cascade.end_ns, cascade.start_ns, cascade.id))

    def _is_explained(self, spell: Spell) -> bool:
        from_ns = max(spell.start_ns, spell.end_ns - NOTED_NS)
        # A whole step is long for what any cascade did to any of those that the rank exchanges data with.
        places = (spell.device,) if spell.own_compute else (ANYWHERE,)
        return any(
            begin_ns <= spell.end_ns and from_ns <= end_ns <= spell.end_ns + NOTED_NS
            for place in places
            for begin_ns, end_ns in self._harmed.get(place, ())
        )

    def _forget(self, before_ns: int) -> None:
        """Drops what nobody asks for any more, a second of it at a time."""
        before_ns -= before_ns % _SECOND_NS
        if before_ns == self._forgotten_ns:
            return
        self._forgotten_ns = before_ns
        kept = {host: [span for span in spans if span[1] >= before_ns] for host, spans in self._harmed.items()}
        self._harmed = {host: spans for host, spans in kept.items() if spans}

    def state(self) -> list[Any]:
        """Plain lists for a snapshot."""
        waiting = [[list(each.spell), [list(of) for of in each.inside]] for each in self._waiting]
        harmed = [[host, [list(span) for span in spans]] for host, spans in self._harmed.items()]
        return [self.stragglers.state(), waiting, harmed]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        stragglers, waiting, harmed = state
        self.stragglers.load(stragglers)
        self._waiting = [
            _Waiting(
                Spell(*spell)._replace(tied=tuple((device, rank) for device, rank in spell[-1])),
                tuple((layer, tuple(findings)) for layer, findings in inside),
            )
            for spell, inside in waiting
        ]
        self._harmed = {host: [(begin, end) for begin, end in spans] for host, spans in harmed}


def hosts_of(spell: Spell) -> tuple[str, ...]:
    """The hosts that a spell names, each once, the first of its ranks first."""
    return tuple(dict.fromkeys((spell.device, *(device for device, _ in spell.tied))))


def _cascade(fabric: str, spell: Spell, inside: tuple[tuple[str, tuple[str, ...]], ...]) -> Cascade:
    """The verdict: its confidence counts kinds of evidence as cascades do, divided among those that are tied.

    The kinds: the compute times of the other ranks, the rank's own past, its host.
    """
    hosts = hosts_of(spell)
    findings = any(found for _, found in inside)
    kinds_seen = spell.own_compute + (spell.past_ns > 0) + findings
    confidence_ppm = min(PPM, PPM * kinds_seen // EVIDENCE_KINDS) // len(hosts)
    share = min(spell.late_ns / spell.step_ns, 1.0)
    missing = []
    if not spell.own_compute:
        missing.append(f"COMPUTE_TIME of the ranks of job {spell.job:x}, which tells who is late from who waits")
    if not spell.past_ns:
        missing.append(f"steps of {spell.rank} from before it was slow")
    if not findings:
        missing.append(f"what goes on inside {some(sorted(hosts))}: kernel latency, throttling, memory and GPU errors")
    text = "\0".join((fabric, CLASS, f"{spell.job:x}", spell.device, spell.rank, str(spell.start_ns)))
    return Cascade(
        id=f"{xxhash.xxh3_64_intdigest(text.encode()):016x}",
        fabric=fabric,
        revision=FINAL,
        start_ns=max(spell.start_ns, 0),
        end_ns=spell.end_ns,
        mode="exact",
        confidence_ppm=confidence_ppm,
        suspect_set=confidence_ppm < VERDICT_PPM,
        severity="critical" if share >= CRITICAL_SHARE else "warning",
        severity_reason=f"{spell.ranks - 1 - len(spell.tied)} ranks wait for {share:.1%} of each step",
        pause_ns=0,
        pauses=0,
        roots=tuple(
            Root(
                host, "", kinds.NO_PRIORITY, "host", PPM // len(hosts) + (PPM % len(hosts) if not at else 0), 0, CLASS,
                (*_evidence(spell), *found), layer=layer,
            )
            for at, (host, (layer, found)) in enumerate(zip(hosts, inside, strict=True))
        ),
        queues=(),
        edges=(),
        missing_evidence=tuple(missing),
        losses={},
        stall_rank_ns=min(spell.cost_ns, kinds.INT64_MAX),
    )  # fmt: skip


def _evidence(spell: Spell) -> tuple[str, ...]:
    names = some(sorted({spell.rank, *(rank for _, rank in spell.tied)}))
    if spell.own_compute:
        what, unknown = f"{names} of job {spell.job:x} computes for", "it may have more to do than the others"
        why = "and no pause explains that"
    else:
        what, unknown = f"{names} of job {spell.job:x} ended last, after", "that may be its place in the exchange"
        why = "and no pause explains that; whether they compute or exchange for longer is not known"
    usual = f"before, it took {_ms(spell.past_ns)} itself" if spell.past_ns else f"it was never seen faster: {unknown}"
    return (
        f"{what} {_ms(spell.compute_ns)} where the median of {spell.ranks}"
        f" ranks takes {_ms(spell.median_ns)}: {spell.compute_ns / max(spell.median_ns, 1):.2f} times as long,"
        f" in {spell.steps} steps in a row from step {spell.first_step} on",
        usual,
        f"the others wait for it for {_ms(spell.late_ns)} of a step of {_ms(spell.step_ns)}, {why}",
        f"these steps cost {spell.ranks} ranks {spell.cost_ns / 1e9:.1f} rank-seconds",
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"
