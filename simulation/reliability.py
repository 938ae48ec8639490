"""How often a stated confidence is right: every final cascade is a statement, also one that is only a suspect set.

In: truths and cascades. Out: `Statement`s, and of many of them the share right in each decile of confidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from simulation.judge import ALARMS, final_of, is_not_the_fabric
from simulation.truth import DEADLOCK_CLASS, MIN_ROOT_SHARE, RootKey, Truth
from stream.cascade import Cascade, Root

DECILES = 10
_PPM = 1_000_000


class Statement(msgspec.Struct, frozen=True):
    """One cascade: its confidence, whether it is a suspect set, and whether largest root and class are right."""

    confidence_ppm: int
    suspect_set: bool
    right: bool


class Decile(msgspec.Struct, frozen=True):
    """Statements of a confidence from `from_ppm` to below `to_ppm` (the last one up to certainty)."""

    from_ppm: int
    to_ppm: int
    statements: int
    suspect_sets: int
    right: int
    share_right: float | None


def statements(truth: Truth, cascades: Iterable[Cascade], start_ns: int) -> tuple[Statement, ...]:
    """What the final cascades of one trace state, each judged by itself.

    Right is a cascade whose largest root is the largest true one among those that it names and those that no other
    cascade of the run names: one of several roots kept apart is as right as all of them in one. Who names a silent
    switch has named its queues for the others, not for itself. If a fault was planted at the root, its class must be
    named too. An alarm in a run without a fault is wrong. In a run that comes near a
    deadlock, right is what says no `pfc_deadlock`; where there is one, the cascade of most pause time must say so.

    Not judged is what the truth does not tell: a cascade whose largest root has less than `MIN_ROOT_SHARE` of the run's
    pause time by all cascades together, one outside the windows of a long run, what else a deadlock has held up, and a
    host that is slow by itself.
    """
    finals = [cascade for cascade in final_of(cascades) if cascade.roots and not is_not_the_fabric(cascade)]
    if truth.has_deadlock:
        finals = sorted(finals, key=lambda cascade: (-cascade.pause_ns, cascade.start_ns, cascade.id))[:1]
    if truth.has_deadlock or truth.has_live_cycle:
        return tuple(_stated(cascade, _says_deadlock(cascade) == truth.has_deadlock) for cascade in finals)
    named = [{truth.key(root.device, root.port) for root in cascade.roots} for cascade in finals]
    shares = _shares(truth, finals)
    made = []
    for number, cascade in enumerate(finals):
        others = set().union(*(keys for other, keys in enumerate(named) if other != number)) - named[number]
        largest = max(cascade.roots, key=lambda root: (root.share_ppm, root.device, root.port))
        if shares[truth.key(largest.device, largest.port)] < MIN_ROOT_SHARE:
            continue
        right = _is_right(truth, cascade, largest, others, start_ns)
        if right is not None:
            made.append(_stated(cascade, right))
    return tuple(made)


def _stated(cascade: Cascade, right: bool) -> Statement:
    return Statement(cascade.confidence_ppm, cascade.suspect_set, right)


def _says_deadlock(cascade: Cascade) -> bool:
    return any(root.root_class == DEADLOCK_CLASS for root in cascade.roots)


def _shares(truth: Truth, finals: Sequence[Cascade]) -> dict[RootKey, float]:
    """Each root's part of all pause time, by what the cascades say; 1 where none says how long it paused."""
    total_ns = sum(cascade.pause_ns for cascade in finals)
    shares: dict[RootKey, float] = {}
    for cascade in finals:
        weight = cascade.pause_ns / total_ns if total_ns else 1.0
        for root in cascade.roots:
            key = truth.key(root.device, root.port)
            shares[key] = shares.get(key, 0.0) + weight * root.share_ppm / _PPM
    return shares


def _is_right(truth: Truth, cascade: Cascade, largest: Root, others: set[RootKey], start_ns: int) -> bool | None:
    shares, planted = truth.roots, truth.planted
    if truth.windows:
        middle_ns = (cascade.start_ns + cascade.end_ns) // 2 - start_ns
        window = next((window for window in truth.windows if window.start_ns <= middle_ns < window.end_ns), None)
        if window is None:
            return None
        shares, planted = truth.shares(window.packet_level_roots), truth.planted_in(window)
    if not planted and cascade.severity in ALARMS:
        return False
    key = truth.key(largest.device, largest.port)
    # Of a switch that says nothing, no more can be named than the switch.
    candidates = {root: share for root, share in shares.items() if root not in others and (root[0], "") not in others}
    if candidates.get(key, 0.0) < max(candidates.values(), default=1.0):
        return False
    classes = {truth.key(root.device, root.port): root.root_class for root in planted if root.device}
    return classes.get(key, largest.root_class) == largest.root_class


def deciles(made: Sequence[Statement]) -> tuple[Decile, ...]:
    """The statements by tenths of confidence, from none to certain."""
    width = _PPM // DECILES
    found = []
    for number in range(DECILES):
        inside = [one for one in made if min(one.confidence_ppm // width, DECILES - 1) == number]
        right = sum(one.right for one in inside)
        found.append(
            Decile(
                from_ppm=number * width,
                to_ppm=(number + 1) * width,
                statements=len(inside),
                suspect_sets=sum(one.suspect_set for one in inside),
                right=right,
                share_right=right / len(inside) if inside else None,
            )
        )
    return tuple(found)
