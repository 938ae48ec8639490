"""The judge: how near the final cascades of one trace come to its truth; docs/evaluation.md defines each measure.

In: cascades and the trace's folder. Out: a `CaseScore`. It works nothing out from the trace itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from simulation.truth import DEADLOCK_CLASS, EdgeKey, PlantedRoot, RootKey, Truth, kept_shares, read_truth
from stream.cascade import FINAL, Cascade

MIN_VERDICT_PPM = 500_000
"""A cascade below this confidence is a suspect set, no verdict."""
MIN_ACCEPTED_SHARE = 0.1
"""A planted root of this share must be named; a flow is accused by being named contributor of a root of this share."""
ALARMS = ("warning", "critical")
NOT_THE_FABRIC = "not_the_fabric"
"""Class of the one root of a cascade without a pause: a host whose rank the others wait for."""
LEFT_OUT_LABELS = ("marginal", "unknown", "deadlock_member")


class RootScore(msgspec.Struct, frozen=True):
    """One root as it was and as it was named; a share of 0 is not there on that side. Classes are "" where unknown."""

    device: str
    port: str
    true_share: float
    predicted_share: float
    planted_class: str
    predicted_class: str


class WindowScore(msgspec.Struct, frozen=True):
    """The roots of one window, which is the whole run but for long runs whose faults change.

    `planted` counts planted roots with a true share of at least .1; `named` and `class_right` those of them found.
    Distance and top-1 are None for negatives, deadlocks and live cycles; `abstained` is None where nothing was planted.
    """

    blame_distance: float | None
    top1: bool | None
    abstained: bool | None
    planted: int
    named: int
    class_right: int
    roots: tuple[RootScore, ...]


class FlowCounts(msgspec.Struct, frozen=True):
    """Flows by what they were and what they were named; pooled over cases before any ratio is made."""

    contributors_found: int
    contributors_missed: int
    contributors_false: int
    innocents_blamed: int
    victims_found: int
    victims_missed: int
    victims_false: int


class SlowHosts(msgspec.Struct, frozen=True):
    """Hosts that held up the job by their own compute (`not_the_fabric`): found, missed, and named without a reason."""

    found: int
    missed: int
    false: int


class CaseScore(msgspec.Struct, frozen=True):
    """All measures of one trace; None where a measure does not apply to it or was not asked for."""

    name: str
    scenario: str
    cascades: int
    verdicts: int
    negative_alarmed: bool | None
    deadlock_missed: bool | None
    deadlock_false: bool | None
    edge_f1: float | None
    flows: FlowCounts | None
    slow_hosts: SlowHosts | None
    windows: tuple[WindowScore, ...]


def score_case(
    folder: Path,
    cascades: Iterable[Cascade],
    *,
    start_ns: int = 0,
    flows_known: bool = True,
    suspects: bool = False,
) -> CaseScore:
    """Judges the final cascades of the trace in `folder`: `score` by the truth that the folder tells."""
    return score(read_truth(folder), cascades, start_ns=start_ns, flows_known=flows_known, suspects=suspects)


def score(
    truth: Truth,
    cascades: Iterable[Cascade],
    *,
    start_ns: int = 0,
    flows_known: bool = True,
    suspects: bool = False,
) -> CaseScore:
    """Judges the final cascades of one trace; provisional revisions and merged ids are passed over.

    `start_ns` is the time at which the trace was made to begin. `flows_known` is False where the flows were withheld:
    what measures flows is then None. With `suspects`, a suspect set counts as if it were a verdict, but alarms nobody.
    """
    finals = final_of(cascades)
    sure = [c for c in finals if c.confidence_ppm >= MIN_VERDICT_PPM and not c.suspect_set]
    # What is not the fabric's says nothing about pauses, and wakes nobody who looks after the fabric.
    alarming = verdicts = [c for c in sure if not is_not_the_fabric(c)]
    if suspects:
        verdicts = [c for c in finals if c.roots and not is_not_the_fabric(c)]
    if truth.windows:
        spans = [(window.start_ns + start_ns, window.end_ns + start_ns) for window in truth.windows]
        blames = [_Blame(truth, verdicts, span) for span in spans]
        windows = tuple(
            _score_window(truth, blame, truth.shares(window.packet_level_roots), truth.planted_in(window))
            for window, blame in zip(truth.windows, blames, strict=True)
        )
    else:
        blames = [_Blame(truth, verdicts, None)]
        windows = (_score_window(truth, blames[0], truth.roots, truth.planted),)
    says_deadlock = any(root.root_class == DEADLOCK_CLASS for cascade in verdicts for root in cascade.roots)
    return CaseScore(
        name=truth.name,
        scenario=truth.scenario,
        cascades=sum(not is_not_the_fabric(cascade) for cascade in finals),
        verdicts=len(verdicts),
        negative_alarmed=None if truth.planted else any(cascade.severity in ALARMS for cascade in alarming),
        deadlock_missed=not says_deadlock if truth.has_deadlock else None,
        deadlock_false=says_deadlock if not truth.has_deadlock else None,
        edge_f1=_edge_f1(truth.edges, verdicts) if truth.edges and not _is_cyclic(truth) else None,
        flows=_flow_counts(truth, blames) if flows_known and truth.planted else None,
        slow_hosts=_slow_hosts(truth, sure),
        windows=windows,
    )


def final_of(cascades: Iterable[Cascade]) -> list[Cascade]:
    """The cascades without provisional revisions and merged ids."""
    return [cascade for cascade in cascades if cascade.revision == FINAL and cascade.merged_into is None]


def is_not_the_fabric(cascade: Cascade) -> bool:
    """Whether it says that a host holds up its job by itself: nothing about pauses, which is scored apart."""
    return not cascade.pauses and any(root.root_class == NOT_THE_FABRIC for root in cascade.roots)


def _slow_hosts(truth: Truth, sure: Sequence[Cascade]) -> SlowHosts | None:
    if truth.slow_hosts is None:
        return None
    named = {root.device for cascade in sure if is_not_the_fabric(cascade) for root in cascade.roots}
    return SlowHosts(
        found=len(named & truth.slow_hosts), missed=len(truth.slow_hosts - named), false=len(named - truth.slow_hosts)
    )


def _is_cyclic(truth: Truth) -> bool:
    return truth.has_deadlock or truth.has_live_cycle


class _Blame:
    """What the verdicts say of one span of time: shares of roots, their classes and the flows that they accuse."""

    def __init__(self, truth: Truth, verdicts: Sequence[Cascade], span: tuple[int, int] | None) -> None:
        weights = [(cascade, _pause_within(cascade, span)) for cascade in verdicts]
        weights = [(cascade, weight) for cascade, weight in weights if weight > 0]
        total = sum(weight for _, weight in weights)
        self.verdicts = len(weights)
        summed: dict[RootKey, float] = {}
        heaviest: dict[RootKey, tuple[float, str]] = {}
        for cascade, weight in weights:
            for root in cascade.roots:
                key = truth.key(root.device, root.port)
                share = weight / total * root.share_ppm / 1e6
                summed[key] = summed.get(key, 0.0) + share
                heaviest[key] = max(heaviest.get(key, (0.0, "")), (share, root.root_class))
        self.shares = kept_shares(summed)
        self.classes = {key: root_class for key, (_, root_class) in heaviest.items()}
        self.victims = {flow.name for cascade, _ in weights for flow in cascade.victims}
        self.accused = {
            flow.name
            for cascade, _ in weights
            for root in cascade.roots
            if self.shares.get(truth.key(root.device, root.port), 0.0) >= MIN_ACCEPTED_SHARE
            for flow in root.contributors
        }


def _pause_within(cascade: Cascade, span: tuple[int, int] | None) -> float:
    """The cascade's pause time within the span, as if it were spread evenly over the cascade."""
    if span is None:
        return float(cascade.pause_ns)
    length_ns = cascade.end_ns - cascade.start_ns
    overlap_ns = min(cascade.end_ns, span[1]) - max(cascade.start_ns, span[0])
    if length_ns <= 0:
        return float(cascade.pause_ns) if overlap_ns >= 0 else 0.0
    return cascade.pause_ns * max(overlap_ns, 0) / length_ns


def _score_window(
    truth: Truth, blame: _Blame, true_shares: dict[RootKey, float], planted: Sequence[PlantedRoot]
) -> WindowScore:
    planted_classes = {truth.key(root.device, root.port): root.root_class for root in planted if root.device}
    wanted = [] if truth.has_deadlock else [
        key for key in planted_classes if true_shares.get(key, 0.0) >= MIN_ACCEPTED_SHARE
    ]  # fmt: skip
    named = [key for key in wanted if key in blame.shares]
    shares_apply = bool(planted) and bool(true_shares) and not _is_cyclic(truth)
    return WindowScore(
        blame_distance=_distance(true_shares, blame.shares) if shares_apply else None,
        top1=_is_top1(true_shares, blame.shares) if shares_apply else None,
        abstained=not blame.verdicts if planted else None,
        planted=len(wanted),
        named=len(named),
        class_right=sum(blame.classes[key] == planted_classes[key] for key in named),
        roots=tuple(
            RootScore(
                *key,
                round(true_shares.get(key, 0.0), 4),
                round(blame.shares.get(key, 0.0), 4),
                planted_classes.get(key, ""),
                blame.classes.get(key, ""),
            )
            for key in sorted(true_shares | blame.shares, key=lambda key: (-true_shares.get(key, 0.0), key))
        ),
    )


def _distance(true_shares: dict[RootKey, float], predicted: dict[RootKey, float]) -> float:
    """Half the L1 distance of two sets of shares that each sum to 1; 1 where nothing was predicted."""
    if not predicted:
        return 1.0
    return sum(abs(true_shares.get(key, 0.0) - predicted.get(key, 0.0)) for key in true_shares | predicted) / 2


def _is_top1(true_shares: dict[RootKey, float], predicted: dict[RootKey, float]) -> bool:
    if not predicted:
        return False
    largest = max(predicted, key=lambda key: (predicted[key], key))
    return true_shares.get(largest, 0.0) == max(true_shares.values())


def _edge_f1(true_edges: dict[EdgeKey, float], verdicts: Sequence[Cascade]) -> float:
    """Overlap of the edges' shares, each side summing to 1.

    Edges weigh by the bytes held where all cascades tell them; else by XOFFs, of which hosts send some: those have no
    edge, and so do not count for the weight of a cascade.
    """
    predicted: dict[EdgeKey, float] = {}
    in_bytes = all(any(edge.held_bytes for edge in cascade.edges) for cascade in verdicts if cascade.edges)
    for cascade in verdicts:
        pausers = {edge.device for edge in cascade.edges}
        pauses = sum(queue.pauses for queue in cascade.queues if queue.paused_by_device in pausers)
        for edge in cascade.edges:
            key = (edge.device, edge.ingress_port, edge.egress_port)
            weight = edge.held_bytes if in_bytes else (pauses or cascade.pauses) * edge.share_ppm
            predicted[key] = predicted.get(key, 0.0) + weight
    total = sum(predicted.values())
    if not total:
        return 0.0
    return sum(min(share, predicted.get(key, 0.0) / total) for key, share in true_edges.items())


def _flow_counts(truth: Truth, blames: Sequence[_Blame]) -> FlowCounts:
    """A flow is known by the name that its Flow fact took from the trace; one that the truth does not know is false."""
    labels = truth.label_of_flow
    accused = {flow for blame in blames for flow in blame.accused if labels.get(flow) not in LEFT_OUT_LABELS}
    contributors = {flow for flow, label in labels.items() if label == "contributor"}
    victims = {flow for flow, label in labels.items() if label == "victim"}
    # A flow that feeds one root and is held up by another is no victim.
    all_accused = {flow for blame in blames for flow in blame.accused}
    held_up = {flow for blame in blames for flow in blame.victims if labels.get(flow) not in LEFT_OUT_LABELS}
    held_up -= all_accused
    return FlowCounts(
        contributors_found=len(accused & contributors),
        contributors_missed=len(contributors - accused),
        contributors_false=len(accused - contributors),
        innocents_blamed=sum(labels.get(flow) == "unaffected" for flow in accused),
        victims_found=len(held_up & victims),
        victims_missed=len(victims - held_up),
        victims_false=len(held_up - victims),
    )
