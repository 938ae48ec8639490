"""The verdict that a slow job is not the network's doing: a rank's own compute is long, and no cascade explains that.

In: settled rows of steps, what was noted of hosts, the final cascades. Out: cascades of class `not_the_fabric` without
a pause, whose one root is the host of the rank that the others wait for.

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
from stream.record import Events

CLASS = "not_the_fabric"
HARMFUL = ("warning", "critical")
_SECOND_NS = 1_000_000_000


class _Waiting(NamedTuple):
    """A spell, and what its host reported of itself in its time."""

    spell: Spell
    layer: str
    findings: tuple[str, ...]


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
        # Readings of a minute are certain to be kept still, and those up to the spell's end to have come.
        readings = noted.readings.get(topology.find_device(spell.device), ())
        near = [r for r in readings if told_ns - NOTED_NS <= r.time_ns <= spell.end_ns]
        found = host_evidence.inside(near, spell.start_ns, spell.end_ns)
        layer = found[0].layer if found else "compute"
        self._waiting.append(_Waiting(spell, layer, tuple(finding.sentence for finding in found)))

    def explain(self, final: Cascade, topology: Topology) -> None:
        """Takes a final cascade into account."""
        if final.severity not in HARMFUL:
            return
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
        return any(
            begin_ns <= spell.end_ns and from_ns <= end_ns <= spell.end_ns + NOTED_NS
            for begin_ns, end_ns in self._harmed.get(spell.device, ())
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
        waiting = [[list(each.spell), each.layer, list(each.findings)] for each in self._waiting]
        harmed = [[host, [list(span) for span in spans]] for host, spans in self._harmed.items()]
        return [self.stragglers.state(), waiting, harmed]

    def load(self, state: list[Any]) -> None:
        """Continues from `state()`."""
        stragglers, waiting, harmed = state
        self.stragglers.load(stragglers)
        self._waiting = [_Waiting(Spell(*spell), layer, tuple(findings)) for spell, layer, findings in waiting]
        self._harmed = {host: [(begin, end) for begin, end in spans] for host, spans in harmed}


def _cascade(fabric: str, spell: Spell, layer: str, findings: tuple[str, ...]) -> Cascade:
    """The verdict: its confidence counts kinds of evidence (the other ranks, its own past, its host) as cascades do."""
    kinds_seen = 1 + (spell.past_ns > 0) + bool(findings)
    confidence_ppm = min(PPM, PPM * kinds_seen // EVIDENCE_KINDS)
    share = min(spell.late_ns / spell.step_ns, 1.0)
    missing = []
    if not spell.past_ns:
        missing.append(f"steps of {spell.rank} from before it was slow")
    if not findings:
        missing.append(f"what goes on inside {spell.device}: kernel latency, throttling, memory and GPU errors")
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
        severity_reason=f"{spell.ranks - 1} ranks wait for {share:.1%} of each step",
        pause_ns=0,
        pauses=0,
        roots=(
            Root(
                spell.device, "", kinds.NO_PRIORITY, "host", PPM, 0, CLASS, (*_evidence(spell), *findings), layer=layer
            ),
        ),
        queues=(),
        edges=(),
        missing_evidence=tuple(missing),
        losses={},
    )


def _evidence(spell: Spell) -> tuple[str, ...]:
    usual = (
        f"before, it took {_ms(spell.past_ns)} itself"
        if spell.past_ns
        else "it was never seen faster: it may have more to do than the others"
    )
    return (
        f"{spell.rank} of job {spell.job:x} computes for {_ms(spell.compute_ns)} where the median of {spell.ranks}"
        f" ranks takes {_ms(spell.median_ns)}: {spell.compute_ns / max(spell.median_ns, 1):.2f} times as long,"
        f" in {spell.steps} steps in a row from step {spell.first_step} on",
        usual,
        f"the others wait for it for {_ms(spell.late_ns)} of a step of {_ms(spell.step_ns)}, and no pause"
        " explains that",
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"
