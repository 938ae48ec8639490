"""How far one clock is ahead of another, from stamps of the same things: every difference is counted.

The slow twin of analytics.clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def densest(pairs_of_logs: Iterable[tuple[Sequence[int], Sequence[int]]], together_ns: int, most_ns: int) -> int:
    """So many differences of stamps, of two logs of one thing each, lie within `together_ns` where most of them do."""
    differences = [b - a for one, other in pairs_of_logs for a in one for b in other if abs(b - a) <= most_ns]
    return max((sum(0 <= d - least <= together_ns for d in differences) for least in differences), default=0)
