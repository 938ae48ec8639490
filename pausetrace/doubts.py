"""What speaks against a verdict: other roots, other classes, what was not seen, and what would change it.

In: a Cascade. Out: sentences. Pure; the reasons against a class come with the cascade (analytics/alternatives.py).
"""

from __future__ import annotations

from analytics.alternatives import NOT_POLARIZED
from analytics.missing import part_raised
from pausetrace.cascade_tree import place_name
from pausetrace.class_names import class_name
from pausetrace.units import duration_text, share_text
from stream.cascade import Cascade, Root

PPM = 1_000_000
VERDICT_PPM = 500_000
"""From here on a cascade is a verdict (docs/concepts.md)."""


def alternatives(cascade: Cascade) -> tuple[str, ...]:
    """Other places by share, then per asserted root the other classes and what speaks against each."""
    roots = sorted(cascade.roots, key=lambda root: -root.share_ppm)
    said = [
        f"{_place(root)} with {share_text(root.share_ppm)} of the blame: {class_name(root.root_class).title}."
        for root in roots[1:]
    ]
    if len(roots) == 1:
        said.append("No other place has a share of the blame that is worth naming.")
    for root in roots:
        others = [(other.root_class, other.why_not) for other in root.alternatives]
        if root.root_class == "ecmp_collision":
            others.append(("hash_polarization", NOT_POLARIZED))
        said += [f"{_place(root)} is not {_named(name)}: {why}." for name, why in others]
    return tuple(said) or ("Nothing else is known that it could be.",)


def missing(cascade: Cascade) -> tuple[str, ...]:
    """What no source reported, and what was lost on the way."""
    said = [f"Not seen: {sentence}." for sentence in cascade.missing_evidence]
    said += [f"Counted on the way: {count:,} {name.replace('_', ' ')}." for name, count in cascade.losses.items() if count]
    return tuple(said) or ("Nothing that the verdict rests on is missing.",)


def changes(cascade: Cascade) -> tuple[str, ...]:
    """What further evidence would do to the confidence, the roots, the classes and the flows."""
    said = [*_raised(cascade), *_first_root(cascade), *_classes(cascade), *_flows(cascade)]
    return tuple(said) or ("Nothing that could still be seen would change it.",)


def _raised(cascade: Cascade) -> list[str]:
    """By part of the confidence, what would make it whole, and what the confidence would be then."""
    by_part: dict[str, list[str]] = {}
    for sentence in cascade.missing_evidence:
        by_part.setdefault(part_raised(sentence), []).append(sentence)
    said = []
    for part, sentences in by_part.items():
        listed = " and ".join(sentences)
        now, of_part = cascade.confidence_ppm, cascade.confidence_parts.get(part, 0)
        if not of_part or of_part >= PPM:
            said.append(f"If {listed} were seen, the verdict would rest on more than it does.")
            continue
        then = min(PPM, now * PPM // of_part)
        verdict = ", which would make it a verdict" if now < VERDICT_PPM <= then else ""
        said.append(
            f"If {listed} were seen and agreed, {part} would rise from {_figure(of_part)} to at most 1.00, and the"
            f" confidence from {_figure(now)} to at most {_figure(then)}{verdict}."
        )
    if (margin := cascade.confidence_parts.get("margin", PPM)) < PPM:
        said.append(
            f"The margin is {_figure(margin)}: a place just below the share that accepts a root has"
            f" {share_text(PPM - margin)} of what the weakest root has; depths at shorter intervals would part them."
        )
    return said


def _first_root(cascade: Cascade) -> list[str]:
    roots = sorted(cascade.roots, key=lambda root: -root.share_ppm)
    if len(roots) < 2:
        return []
    half = (roots[0].share_ppm - roots[1].share_ppm) // 2
    moved = duration_text(cascade.pause_ns * half // PPM)
    return [
        f"{_place(roots[0])} stays the first root unless {share_text(half)} of the blame ({moved} of pause) turns out to"
        f" be that of {_place(roots[1])}."
    ]


def _classes(cascade: Cascade) -> list[str]:
    """What a host's PCIe state, or bytes and depths of a switch, would decide where nobody reports them."""
    said = []
    for root in cascade.roots:
        unseen = any(sentence.startswith("PCIe state of") and root.device in sentence for sentence in cascade.missing_evidence)
        if root.kind == "host" and unseen:
            said.append(
                f"A PCIe link of {root.device} that is reported below its maximum would make it"
                f" {_named('slow_receiver_pcie')}, one that is whole would rule that out."
            )
        elif root.kind == "unknown":
            said.append(f"Queue depths of {root.device} would say which of its queues held the bytes, or that none did.")
        elif root.root_class == "unclassified":
            said.append(f"Bytes and depths of {_place(root)} and its siblings at shorter intervals may give it a class.")
    return said


def _flows(cascade: Cascade) -> list[str]:
    flows = [flow for root in cascade.roots for flow in root.contributors]
    if not flows:
        return ["Flows with their paths, or their bytes by port, would name who fed it and who was held up."]
    if any(flow.estimated for flow in flows):
        return ["Bytes of flows by port would tell those that fed it from those that only share its path."]
    return []


def _named(root_class: str) -> str:
    title = class_name(root_class).title
    return f"{'an' if title[0] in 'aeioAEIO' else 'a'} {title}"


def _place(root: Root) -> str:
    return place_name(root.device, root.port)


def _figure(ppm: int) -> str:
    return f"{ppm // 10_000 / 100:.2f}"
