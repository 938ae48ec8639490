"""A cascade in plain sentences: verdict, evidence, way, flows, timeline, and what speaks against it.

In: a Cascade as published. Out: an Explanation, sections of sentences in the order in which they are read. Pure;
explanation_text.py writes it for people.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from analytics.bounds import ACCEPT_PPM, ENOUGH_PERIODS
from analytics.missing import PARTS
from pausetrace.cascade_tree import by_share, place_name
from pausetrace.class_names import MODES, class_name
from pausetrace.doubts import alternatives, changes, missing, verdict_bound
from pausetrace.units import bytes_text, duration_text, part_text, rate_text, share_text, time_text
from pausetrace.way import timeline, way
from stream.cascade import FINAL, Cascade, Contributor, Damage, Victim

MAX_FLOWS = 5
"""Flows named of each root and of those held up; the rest is counted."""
PART_MEANINGS = {
    "time": "how well the times of pauses are known",
    "coverage": "the share of pause time whose pauser reports what its queues held",
    "evidence": "how many independent kinds of evidence there are",
    "margin": "how far the roots stand out from the strongest place that was rejected",
}
OF_POLLS = {
    "time": "how far rules agree that bound what happened inside a poll",
    "margin": "how far the first root leads the next",
}
"""What a part means where devices are polled, if that is another thing."""


class Section(msgspec.Struct, frozen=True):
    """Sentences about one thing; `name` is the same in every version, `title` is for people."""

    name: str
    title: str
    sentences: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True):
    """What is said of one cascade."""

    cascade: str
    fabric: str
    headline: str
    sections: tuple[Section, ...]


def explain(cascade: Cascade, local: bool = False) -> Explanation:
    """The explanation; times in UTC unless local time is asked for."""
    sections = (
        Section("verdict", "The verdict", _verdict(cascade, local)),
        Section("evidence", "Where it began, and why we say so", _evidence(cascade)),
        Section("way", "How it spread", way(cascade)),
        Section("flows", "Who fed it and who suffered", _flows(cascade)),
        Section("timeline", "Timeline", timeline(cascade, local)),
        Section("alternatives", "What else it could be", alternatives(cascade)),
        Section("missing", "What was not seen", missing(cascade)),
        Section("change", "What would change this verdict", changes(cascade)),
    )
    return Explanation(cascade.id, cascade.fabric, headline(cascade), sections)


def headline(cascade: Cascade) -> str:
    """The verdict in one sentence; a suspect set accuses nobody."""
    roots = by_share(cascade.roots)
    if not roots:
        return "No place is known where it began"
    place = place_name(roots[0].device, roots[0].port)
    others = len(roots) - 1
    if cascade.suspect_set:
        also = f" or at {others} other place{'s' if others > 1 else ''}" if others else ""
        return f"It may have begun at {place}{also}: the evidence is too thin for a verdict"
    said = class_name(roots[0].root_class).headline.format(place=place)
    # The name of a place stays as it is spelled.
    return said if said.startswith(place) else f"{said[0].upper()}{said[1:]}"


def _verdict(cascade: Cascade, local: bool) -> tuple[str, ...]:
    queues = _count(len(cascade.queues), "queue")
    times = "once" if cascade.pauses == 1 else f"{cascade.pauses:,} times"
    known = MODES.get(cascade.mode, cascade.mode)
    state = "It is final" if cascade.revision == FINAL else f"This is revision {cascade.revision}, which may change"
    said = [
        f"{headline(cascade)}.",
        f"It began at {time_text(cascade.start_ns, local)} and lasted"
        f" {duration_text(cascade.end_ns - cascade.start_ns)}: {queues} {'was' if len(cascade.queues) == 1 else 'were'}"
        f" stopped {times}, {duration_text(cascade.pause_ns)} in all.",
        f"Severity {cascade.severity}{f': {cascade.severity_reason}' if cascade.severity_reason else ''}.",
        f"Confidence {part_text(cascade.confidence_ppm)} of 1, from {known}; {_bound(cascade)}.",
    ]
    parts = [name for name in PARTS if name in cascade.confidence_parts]
    if parts:
        meanings = PART_MEANINGS if cascade.periods is None else PART_MEANINGS | OF_POLLS
        made_of = "; ".join(f"{name} {part_text(cascade.confidence_parts[name])} ({meanings[name]})" for name in parts)
        said.append(f"The confidence is made of {made_of}.")
    said.append(f"{state}: cascade {cascade.id} of fabric {cascade.fabric}.")
    return tuple(said)


def _bound(cascade: Cascade) -> str:
    least_ppm = verdict_bound(cascade)
    if cascade.suspect_set and cascade.confidence_ppm >= least_ppm:
        if cascade.periods is not None and cascade.periods >= ENOUGH_PERIODS:
            return "but how long most of its stops lasted is a guess, and so these are suspects"
        return f"but of fewer than {ENOUGH_PERIODS} polls nobody is accused, and these are suspects"
    if cascade.suspect_set:
        return f"below {part_text(least_ppm)} nobody is accused, and these are suspects"
    return f"from {part_text(least_ppm)} on it is a verdict"


def _evidence(cascade: Cascade) -> tuple[str, ...]:
    said = []
    for root in by_share(cascade.roots):
        named = class_name(root.root_class).title
        why = f", since {'; '.join(root.evidence)}" if root.evidence else ""
        said.append(
            f"{place_name(root.device, root.port)} has {share_text(root.share_ppm)} of the blame"
            f" ({duration_text(root.pause_ns)} of pause): {named}{why}."
        )
    rest = cascade.pause_ns - sum(root.pause_ns for root in cascade.roots)
    if cascade.roots and rest * 100 > cascade.pause_ns:
        said.append(
            f"{duration_text(rest)} of pause began at places too small to name, or in pauses that caused each other."
        )
    return tuple(said) or ("No root is known.",)


def _flows(cascade: Cascade) -> tuple[str, ...]:
    said: list[str] = []
    asserted = {(root.device, root.port) for root in cascade.roots if root.share_ppm >= ACCEPT_PPM}
    for root in by_share(cascade.roots):
        place = place_name(root.device, root.port)
        for flow in root.contributors[:MAX_FLOWS]:
            how = "is estimated to have fed" if flow.estimated else "fed"
            said.append(
                f"{flow_name(flow)} {how} {place} with {bytes_text(flow.bytes)},"
                f" {share_text(flow.share_ppm)} of what came there."
            )
        if len(root.contributors) > MAX_FLOWS:
            said.append(f"{_count(len(root.contributors) - MAX_FLOWS, 'more flow')} fed {place}.")
    if not said:
        said.append("Which flows fed it is not known: nobody told their paths or counted their bytes.")
    for victim in cascade.victims[:MAX_FLOWS]:
        said.append(_held_up(victim, asserted))
        if victim.damage is not None:
            said.append(_damage(victim.damage))
    if len(cascade.victims) > MAX_FLOWS:
        said.append(f"For less time {_count(len(cascade.victims) - MAX_FLOWS, 'more flow')} had to wait.")
    if not cascade.victims:
        said.append("No flow is known to have been held up by roots that it did not feed.")
    return tuple(said)


def _held_up(victim: Victim, asserted: Set[tuple[str, str]]) -> str:
    """For how long, by which roots; what others held it up for is not in that."""
    held = {True: "", False: ""}
    for part in victim.roots:
        sure = (part.device, part.port) in asserted
        held[sure] += (
            f"{', ' if held[sure] else ''}{place_name(part.device, part.port)} for {duration_text(part.pause_ns)}"
        )
    by, beside = held[True], held[False]
    return (
        f"{flow_name(victim)} was held up for {duration_text(victim.pause_ns)} by roots that it did not feed"
        f"{f': {by}' if by else ''}{f'; beside them by {beside}' if beside else ''}."
    )


def _damage(damage: Damage) -> str:
    """What it cost the flow, against its own past."""
    far = ""
    if damage.deviation_milli is not None:
        side = "below" if damage.deviation_milli >= 0 else "above"
        far = f", {abs(damage.deviation_milli) / 1000:.1f} scaled median absolute deviations {side} it"
    return f"Meanwhile it sent at {rate_text(damage.mbps)}; its median before was {rate_text(damage.usual_mbps)}{far}."


def flow_name(flow: Contributor | Victim) -> str:
    """A flow with its two ends: Flow 3 (h6 to h9)."""
    name = flow.name or flow.flow
    shown = f"F{name[1:]}" if name.startswith("flow") else f"Flow {name}"
    ends = f" ({flow.src_device} to {flow.dst_device})" if flow.src_device or flow.dst_device else ""
    return f"{shown}{ends}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
