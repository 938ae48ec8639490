"""What speaks against a verdict: other roots, other classes, what was not seen, and what would change it.

In: a Cascade. Out: sentences. Pure; the reasons against a class come with the cascade (analytics/alternatives.py).
"""

from __future__ import annotations

import re

from analytics.bounds import ACCEPT_PPM, ENOUGH_PERIODS, PPM, SURE_PPM, VERDICT_PPM
from analytics.missing import CUT_OFF, LOST, PCIE, SILENT, part_raised
from pausetrace.cascade_tree import by_share, place_name
from pausetrace.class_names import class_name
from pausetrace.units import duration_text, part_text, share_text
from stream.cascade import Cascade, Root

MAX_ROOTS = 3
OTHERWISE: dict[str, str] = {
    "slow_receiver_pcie": "a PCIe link of {place} at its maximum at that time would take its class away",
    "slow_receiver_host": "a PCIe link of {place} below its maximum at that time would be the reason instead",
    "nic_pfc_storm": "bytes that came through the port of {place} meanwhile, or a narrow PCIe link of it, would make it"
    " a slow receiver",
    "incast": "pauses that the host behind {place} sent itself, had they been missed, would make that host the root",
    "oversubscribed_host_link": "a third sender, or pauses that the host behind {place} sent itself, would make it an"
    " incast or that host the root",
    "link_degraded": "a window in which {place} was queued, not stopped and sent at its nominal rate would clear it",
    "ecmp_collision": "siblings of {place} that were down or drained would make it a want of links, not of luck",
    "hash_polarization": "the same flows on other links at one of the tiers would make it two collisions by chance",
    "fabric_overload": "flows that mostly go to one host would make {place} an incast, one hop before it",
    "misconfiguration": "bytes in a queue of {place} when it paused, of whatever priority, would explain its pauses",
    "pfc_deadlock": "bytes that left by {place} or another queue of the ring meanwhile would show that it still moves",
    "cyclic_dependency": "a longer time in which no queue of the ring through {place} sends would make it a deadlock",
    "not_the_fabric": "a cascade that stopped the port of {place} in those steps would make it the fabric after all",
    "unclassified": "bytes and depths of {place} and its siblings at shorter intervals may give it a class",
}
"""By class, what somebody would have to observe for the root to be something else."""


def verdict_bound(cascade: Cascade) -> int:
    """The confidence from which on it is a verdict: polls leave more open than their parts of the confidence say."""
    return VERDICT_PPM if cascade.periods is None else SURE_PPM


def alternatives(cascade: Cascade) -> tuple[str, ...]:
    """Other places by share, then per asserted root the other classes and what speaks against each."""
    roots = by_share(cascade.roots)
    said = [
        f"{_place(root)} with {share_text(root.share_ppm)} of the blame: {class_name(root.root_class).title}."
        for root in roots[1:]
    ]
    if len(roots) == 1:
        said.append("No other place has a share of the blame that is worth naming.")
    for root in roots:
        said += [f"{_place(root)} is not {_named(other.root_class)}: {other.why_not}." for other in root.alternatives]
    return tuple(said) or ("Nothing else is known that it could be.",)


def missing(cascade: Cascade) -> tuple[str, ...]:
    """What no source reported, and what was lost on the way."""
    said = [f"Not seen: {sentence}." for sentence in cascade.missing_evidence]
    said += _silent(cascade)
    said += [
        f"Counted on the way: {count:,} {name.replace('_', ' ')}." for name, count in cascade.losses.items() if count
    ]
    lowered = [f"{part} ({part_text(ppm)})" for part, ppm in cascade.confidence_parts.items() if ppm < PPM]
    if not said and lowered:
        said.append(f"No source is known to be silent; what lowers the confidence is {' and '.join(lowered)}.")
    return tuple(said) or ("Nothing that the verdict rests on is missing.",)


def _silent(cascade: Cascade) -> list[str]:
    """Of each switch that told nothing of its queues: what it stopped, and so what it would have told."""
    silent = {
        name
        for sentence in cascade.missing_evidence
        if sentence.startswith(SILENT)
        for name in re.split(r", | and \d+ more$", sentence.removeprefix(SILENT).strip())
    }
    said = []
    for name in sorted({queue.paused_by_device for queue in cascade.queues} & silent):
        stopped = [queue for queue in cascade.queues if queue.paused_by_device == name]
        longest = max(stopped, key=lambda queue: (queue.pause_ns, queue.device, queue.port))
        others = f" and {len(stopped) - 1} other queue{'s' * (len(stopped) > 2)}" if stopped[1:] else ""
        pause_ns = sum(queue.pause_ns for queue in stopped)
        share = share_text(PPM * pause_ns // cascade.pause_ns) if cascade.pause_ns else "none"
        ports = ", ".join(sorted({queue.paused_by_port for queue in stopped if queue.paused_by_port})) or "its ports"
        said.append(
            f"{name} was silent. It stopped {place_name(longest.device, longest.port)}{others} for"
            f" {duration_text(pause_ns)}, {share} of the pause; its depths, marks or bytes would have told which of its"
            f" queues held what came in by {ports}, and so where the blame for that goes on."
        )
    return said


def changes(cascade: Cascade) -> tuple[str, ...]:
    """What further evidence would do to the confidence, the roots, the classes and the flows."""
    return (*_raised(cascade), *_first_root(cascade), *_classes(cascade), *_flows(cascade))


def _raised(cascade: Cascade) -> list[str]:
    """By part of the confidence, what would make it whole, and what the confidence would be then."""
    by_part: dict[str, list[str]] = {}
    for sentence in cascade.missing_evidence:
        by_part.setdefault(part_raised(sentence), []).append(sentence)
    said = []
    for part, sentences in by_part.items():
        # What was lost is named as what there is, all else as what there is not.
        listed = " and ".join(
            f"without {what}" if what.endswith((LOST, CUT_OFF)) else f"with {what}" for what in sentences
        )
        listed = f"{listed[0].upper()}{listed[1:]}"
        now, of_part = cascade.confidence_ppm, cascade.confidence_parts.get(part, 0)
        if not of_part or of_part >= PPM:
            already = f"; {part} is 1.00 already" if of_part else ""
            said.append(f"{listed}, the verdict would rest on more than it does{already}.")
            continue
        then = min(PPM, now * PPM // of_part)
        enough = cascade.periods is None or cascade.periods >= ENOUGH_PERIODS
        verdict = ", which would make it a verdict" if enough and now < verdict_bound(cascade) <= then else ""
        said.append(
            f"{listed}, {part} would rise from {part_text(of_part)} to at most 1.00, and the confidence from"
            f" {part_text(now)} to at most {part_text(then)}{verdict}."
        )
    if (kinds := cascade.confidence_parts.get("evidence", PPM)) < PPM and "evidence" not in by_part:
        then = min(PPM, cascade.confidence_ppm * PPM // max(kinds, 1))
        said.append(
            f"Further kinds of evidence (queue depths, ECN marks, bytes, the state of hosts) would raise evidence from"
            f" {part_text(kinds)}, and the confidence from {part_text(cascade.confidence_ppm)} to at most"
            f" {part_text(then)}."
        )
    if (margin := cascade.confidence_parts.get("margin", PPM)) < PPM:
        why = (
            f"the strongest place below the share that accepts a root has {share_text(PPM - margin)} of what all roots"
            " have; depths at shorter intervals would part them"
        )
        if cascade.periods is not None:
            why = "the first root leads the next by no more than that; shorter polls would part them"
        said.append(f"The margin is {part_text(margin)}: {why}.")
    return said


def _first_root(cascade: Cascade) -> list[str]:
    roots = by_share(cascade.roots)
    if len(roots) < 2:
        return []
    half = (roots[0].share_ppm - roots[1].share_ppm) // 2
    moved = duration_text(cascade.pause_ns * half // PPM)
    return [
        f"{_place(roots[0])} stays the first root unless {share_text(half)} of the blame ({moved} of pause)"
        f" turns out to be that of {_place(roots[1])}."
    ]


def _classes(cascade: Cascade) -> list[str]:
    """Of each asserted root, an observation that would give it another class."""
    asserted = [root for root in cascade.roots if root.share_ppm >= ACCEPT_PPM]
    said = []
    for root in by_share(asserted)[:MAX_ROOTS]:
        by = OTHERWISE.get(root.root_class, OTHERWISE["unclassified"])
        if root.kind == "host" and _lacks_pcie(cascade, root.device):
            by = (
                f"a PCIe link of {{place}} reported below its maximum would say"
                f" {class_name('slow_receiver_pcie').title}, one reported whole would rule that out"
            )
        if root.kind == "unknown" and root.root_class == "unclassified":
            by = "queue depths of {place} would say which of its queues held the bytes, or that none did"
        told = by.format(place=_place(root))
        said.append(f"{told[0].upper()}{told[1:]}.")
    return said


def _flows(cascade: Cascade) -> list[str]:
    flows = [flow for root in cascade.roots for flow in root.contributors]
    if not flows:
        return ["Flows with their paths, or their bytes by port, would name who fed it and who was held up."]
    if any(flow.estimated for flow in flows):
        return ["Bytes of flows by port would tell those that fed it from those that only share its path."]
    return []


def _lacks_pcie(cascade: Cascade, host: str) -> bool:
    named = re.compile(rf"{re.escape(PCIE)} (.*, )?{re.escape(host)}(,| and|$)")
    return any(named.match(sentence) for sentence in cascade.missing_evidence)


def _named(root_class: str) -> str:
    title = class_name(root_class).title
    return f"{'an' if title[0] in 'aeioAEIO' else 'a'} {title}"


def _place(root: Root) -> str:
    return place_name(root.device, root.port)
