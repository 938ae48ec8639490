"""Pools the scores of several traces into the figures that a claim is made with.

In: `CaseScore`s. Out: a `Summary`; a figure is None where no case measures it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from simulation.judge import CaseScore


class Summary(msgspec.Struct, frozen=True):
    """Means over cases (a long run counts once a window), ratios of pooled counts, and counts of failures."""

    cases: int
    blame_distance_mean: float | None
    blame_distance_max: float | None
    top1: float | None
    planted_named: float | None
    class_accuracy: float | None
    edge_f1: float | None
    contributor_f1: float | None
    victim_precision: float | None
    victim_recall: float | None
    innocents_blamed: int | None
    abstained: int
    negatives_alarmed: int
    deadlock_missed: int | None
    deadlock_false: int | None
    slow_hosts_missed: int | None
    slow_hosts_false: int | None


def summarise(scores: Sequence[CaseScore]) -> Summary:
    """The figures of all cases together."""
    windows = [window for score in scores for window in score.windows]
    distances = [window.blame_distance for window in windows if window.blame_distance is not None]
    planted = sum(window.planted for window in windows)
    flows = [score.flows for score in scores if score.flows is not None]
    found = sum(counts.contributors_found for counts in flows)
    wrong = sum(counts.contributors_missed + counts.contributors_false for counts in flows)
    victims_found = sum(counts.victims_found for counts in flows)
    victims_false = sum(counts.victims_false for counts in flows)
    victims_missed = sum(counts.victims_missed for counts in flows)
    slow_hosts = [score.slow_hosts for score in scores if score.slow_hosts is not None]
    return Summary(
        cases=len(scores),
        blame_distance_mean=_mean(distances),
        blame_distance_max=max(distances, default=None),
        top1=_mean([float(window.top1) for window in windows if window.top1 is not None]),
        planted_named=_ratio(sum(window.named for window in windows), planted),
        class_accuracy=_ratio(sum(window.class_right for window in windows), planted),
        edge_f1=_mean([score.edge_f1 for score in scores if score.edge_f1 is not None]),
        contributor_f1=_ratio(2 * found, 2 * found + wrong),
        victim_precision=_ratio(victims_found, victims_found + victims_false),
        victim_recall=_ratio(victims_found, victims_found + victims_missed),
        innocents_blamed=sum(counts.innocents_blamed for counts in flows) if flows else None,
        abstained=sum(window.abstained is True for window in windows),
        negatives_alarmed=sum(score.negative_alarmed is True for score in scores),
        deadlock_missed=_count([score.deadlock_missed for score in scores]),
        deadlock_false=_count([score.deadlock_false for score in scores]),
        slow_hosts_missed=sum(counts.missed for counts in slow_hosts) if slow_hosts else None,
        slow_hosts_false=sum(counts.false for counts in slow_hosts) if slow_hosts else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _count(flags: Sequence[bool | None]) -> int | None:
    measured = [flag for flag in flags if flag is not None]
    return sum(measured) if measured else None
