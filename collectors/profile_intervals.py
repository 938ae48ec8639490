"""Intervals of an operator's own: how often a switch really reads what its profile takes to be read as by default.

In: a profile, and intervals by metric as the inventory tells them. Out: the profile with these, and what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from collectors.profile import Profile, Row, Subscription

Intervals = tuple[tuple[str, int], ...]
"""By metric, ms."""

_TIMED: dict[tuple[int, Intervals], tuple[Profile, Profile]] = {}
"""By the identity of a profile and the intervals: that profile, which keeps its identity its own, and the one made."""


def with_intervals(profile: Profile, intervals: Intervals) -> Profile:
    """The profile with these intervals, and the windows of peaks that follow from them; the same one each time."""
    if not intervals:
        return profile
    key = id(profile), intervals
    if key not in _TIMED:
        _TIMED.setdefault(key, (profile, _timed(profile, dict(intervals))))
    return _TIMED[key][1]


def metrics(profiles: Iterable[Profile]) -> dict[str, int]:
    """The metrics that are sampled, each with the shortest interval in ms that all of these profiles' switches take."""
    least: dict[str, int] = {}
    for each in (each for profile in profiles for each in profile.subscribe):
        if each.metric and each.mode == "SAMPLE":
            least[each.metric] = max(each.min_interval_ms, least.get(each.metric, 0))
    return least


def _timed(profile: Profile, intervals: dict[str, int]) -> Profile:
    def asked(each: Subscription) -> Subscription:
        if each.mode != "SAMPLE" or each.metric not in intervals:
            return each
        return msgspec.structs.replace(each, interval_ms=intervals[each.metric])

    def told(row: Row) -> Row:
        return msgspec.structs.replace(row, window_ms=intervals.get(row.window_of, row.window_ms))

    kept = (each for each in profile.subscribe if not (each.by_default and each.metric in intervals))
    return msgspec.structs.replace(profile, subscribe=tuple(map(asked, kept)), row=tuple(map(told, profile.row)))
