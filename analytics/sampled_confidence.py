"""How sure a verdict is that rests on polls, and how much its pauses cost.

In: a closed cascade with what sampling adds. Out: confidence, severity and mode. Several rules of blame bound what a
poll cannot tell: where they agree on one root far ahead of the next, its order inside the poll does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import exp

import numpy as np

from analytics import layout
from analytics.announced import Announced
from analytics.bounds import CRITICAL_SHARE, ENOUGH_PERIODS, PPM, WARNING_SHARE
from analytics.classes import UNCLASSIFIED
from analytics.closed import Closed
from analytics.confidence import Confidence, by_place, evidence_of, hosts_seen, sentences_of, what_was_seen
from analytics.engine import Engine
from analytics.host_evidence import Finding
from analytics.missing import DURATIONS, ENDS, GAPS, LATE, MASKED, NAMES, PERIODS, SILENT, SILENT_DEVICE, UNTOLD
from analytics.pause_graph import HEDGE, MAIN, RULES
from analytics.sampled_cascade import Part
from analytics.severity import HARMLESS_NS, active_ns
from analytics.topology import PRIORITIES
from stream.cascade import Root

AT_NOTHING, BY_LEAD, BY_SPREAD = 0.83, 3.80, -6.28
"""Logistic regression of "the first root is right" on the lead of the largest root and the spread of the rules: 624
statements on 256 cases made from ten NS-3 traces (SAMPLED study), checked by leaving traces out."""
BY_GUESS = 0.36
"""What stops without durations take off the coverage for each part of the blame by which the largest root does not
lead: a guess of how long they were decides between roots that are close to each other (decision 0020)."""
NO_CLASS = 0.2
"""How often a root is right that has no class since polls could not show one: 27 of 138 such statements, 0 to .27 with
any one trace left out (decision 0015)."""
NOT_SEEN = 0.9
"""Where a watchdog hid stops, or nobody waited for what a device told; as of logged pauses."""


def sampled_confidence_of(
    engine: Engine, closed: Closed, announced: Announced, part: Part, shares: dict[int, int], roots: list[Root],
    inside: Mapping[int, Sequence[Finding]], one_cause: Set[int],
) -> Confidence:  # fmt: skip
    """Margin * time * coverage * evidence: the lead of the first root, how far rules agree, and what was seen.

    `inside`: by root, what the hosts among them reported of themselves; `one_cause`: roots in a ring that moves no
    more, or of switches that hash alike. They are one root: where among them the first stop was makes no difference to
    what has to be done.
    """
    lead, spread = lead_of(engine, shares, one_cause), _spread(part, one_cause)
    seen = what_was_seen(engine, closed, announced, shares)
    by_lead = _logistic(AT_NOTHING + BY_LEAD * lead)
    time = _logistic(AT_NOTHING + BY_LEAD * lead + BY_SPREAD * spread) / by_lead
    pause_ns = sum(tally.pause_ns for tally in closed.ledger.queues.values())
    covered_ns, silent, kinds_seen = 0, set(), 0
    topology = engine.topology
    for tally in closed.ledger.queues.values():
        if tally.pauser < 0:
            continue
        device = int(topology.port_device[tally.pauser])
        bits = part.evidence.get(device, 0)
        if topology.is_host[device]:
            covered_ns += tally.pause_ns
        elif bits:
            covered_ns += tally.pause_ns
            kinds_seen |= bits
        else:
            silent.add(topology.devices[device])
    unplaced = sum(ppm for root, ppm in shares.items() if root & 3 == layout.ROOT_UNKNOWN)
    coverage = min(1.0, covered_ns / pause_ns) * (1 - min(unplaced, PPM) / PPM) if pause_ns else 0.0
    _, host_known, found_inside = hosts_seen(engine, closed, shares, inside)
    evidence = evidence_of(kinds_seen, host_known or found_inside)
    if roots:
        evidence *= _by_class(roots[0].root_class, part)
    coverage *= left_by_guesses(part.durations, lead)
    if seen.late or seen.masked:
        time *= NOT_SEEN
    missing = (
        (f"{PERIODS} {part.periods:.1f} of {part.length_ns / 1e9:g} s", part.periods < ENOUGH_PERIODS),
        (f"{1 - part.durations:.0%} {DURATIONS}", part.durations < 0.995),
        (f"{part.repaired:.0%} {SILENT_DEVICE}", part.repaired > 0.005),
        (UNTOLD, {topology.devices[device] for device in part.untold}),
        (SILENT, silent | seen.silent),
        (LATE, seen.late),
        (MASKED, seen.masked),
        (GAPS, seen.gaps),
        (ENDS, seen.ends),
        (NAMES, seen.names),
    )
    parts = {"time": time, "coverage": coverage, "evidence": evidence, "margin": by_lead}
    return Confidence(
        round(PPM * time * coverage * evidence * by_lead),
        sentences_of(missing),
        {name: round(PPM * value) for name, value in parts.items()},
    )


def left_by_guesses(durations: float, lead: float) -> float:
    """What is left of the coverage where stops without durations, or of silent devices, are weighed by guesses."""
    return 1.0 - BY_GUESS * (1.0 - durations) * (1.0 - lead)


def _by_class(root_class: str, part: Part) -> float:
    """What a class leaves of the evidence: polls hide rates, the length of stops, and whether a ring still moves."""
    if root_class == "cyclic_dependency":
        return 0.1
    if root_class == UNCLASSIFIED:
        return NO_CLASS if part.hedged else NO_CLASS + (0.9 - NO_CLASS) * part.durations
    return 1.0


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + exp(-x))


def lead_of(engine: Engine, shares: dict[int, int], one_cause: Set[int]) -> float:
    """By how much the place with the most blame leads the next, as a share; roots of one cause are one place."""
    apart = {root: ppm for root, ppm in shares.items() if root & 3 != layout.ROOT_SPECIAL and root not in one_cause}
    of_cause = sum(ppm for root, ppm in shares.items() if root in one_cause)
    first, second = sorted([*by_place(engine, apart), of_cause, 0], reverse=True)[:2]
    return (first - second) / PPM


def _spread(part: Part, one_cause: Set[int]) -> float:
    """Mean blame distance of the rules from what is reported."""
    masses = np.array([part.members[root] for root in sorted(part.members.keys() - one_cause)]).reshape(-1, RULES)
    of_cause = np.array([part.members[root] for root in sorted(part.members.keys() & one_cause)]).reshape(-1, RULES)
    masses = np.concatenate((masses, of_cause.sum(axis=0, keepdims=True)))
    total = masses.sum(axis=0)
    rules = masses / np.where(total > 0, total, 1.0)
    reported = rules[:, list(HEDGE)].mean(axis=1) if part.hedged else rules[:, MAIN]
    return float(np.abs(rules - reported[:, None]).sum(axis=0).mean() / 2)


def sampled_severity_of(engine: Engine, closed: Closed, part: Part, pause_ns: int) -> tuple[str, str]:
    """The largest share of its active time that a queue was stopped, beyond what is usual for it."""
    if pause_ns < HARMLESS_NS:
        return "info", f"all stops together lasted {pause_ns / 1000:.1f} us"
    topology = engine.topology
    lasted = {queue: active_ns(engine, closed, queue) for queue in part.excess}
    worst = max(
        part.excess,
        key=lambda queue: (part.excess[queue] / lasted[queue], -int(topology.port_rank[queue // PRIORITIES]), -queue),
    )
    lasted_ns = lasted[worst]
    share = min(1.0, part.excess[worst] / lasted_ns)
    device, port, _ = topology.queue_name(worst)
    reason = f"{device}:{port} was stopped for {share:.1%} of {lasted_ns / 1e6:.2f} ms"
    stopped_ns = closed.ledger.queues[worst].pause_ns
    if stopped_ns - part.excess[worst] > 0.001 * lasted_ns:
        reason += f", beyond {(stopped_ns - part.excess[worst]) / lasted_ns:.1%} that are usual for it"
    if share >= CRITICAL_SHARE:
        return "critical", reason
    return ("warning" if share >= WARNING_SHARE else "info"), reason


def mode_of(closed: Closed) -> str:
    """ "exact" where all devices log their pauses, "sampled" where none does, else "mixed"."""
    if closed.sampled is None:
        return "exact"
    return "mixed" if closed.sampled.exact else "sampled"


def modes_of(engine: Engine, closed: Closed) -> dict[str, str]:
    """The mode of each device that stopped another or was stopped; none where all are exact."""
    if closed.sampled is None:
        return {}
    names = engine.topology.devices
    by_device = [(names[device], "exact") for device in closed.sampled.exact]
    by_device += [(names[device], "sampled") for device in closed.sampled.sampled]
    return dict(sorted(by_device))
