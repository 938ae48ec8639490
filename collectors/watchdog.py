"""What PFC watchdogs say becomes rows: a storm found (1), a queue given back (0), and what was dropped meanwhile.

In: news of states and counts, which are rare. Out: rows in the order of time. Where a storm was found and over within
one window, its row stands 1 ns before that of its end, so that readers see the queue as given back.
"""

from __future__ import annotations

from typing import NamedTuple

from collectors.fleet import Fleet
from collectors.path_map import COUNTER, FOUND, RESTORED, STATE
from collectors.readings import WatchdogNews
from stream.kinds import UNKNOWN


class WatchdogRow(NamedTuple):
    """One row; `storm` is UNKNOWN where drops were counted and nobody said whether the storm goes on."""

    slot: int
    group: int
    storm: int
    dropped_packets: int
    span_ns: int
    time_ns: int
    seen_ns: int
    quality: int


def rows_of(fleet: Fleet, news: WatchdogNews) -> list[WatchdogRow]:
    """The rows of one batch; what each queue's watchdog said last stays with the fleet."""
    if not len(news.slot):
        return []
    told: dict[tuple[int, int, int], list[tuple[int, int, int, int, int]]] = {}
    columns = (column.tolist() for column in news)
    for slot, group, semantics, value, span_ns, time_ns, seen_ns, quality in zip(*columns, strict=True):
        told.setdefault((time_ns, slot, group), []).append((semantics, value, span_ns, seen_ns, quality))
    rows = []
    for (time_ns, slot, group), entries in sorted(told.items()):
        before = int(fleet.storm[slot, group])
        dropped, state, span_ns, seen_ns, quality = UNKNOWN, UNKNOWN, 0, 0, 0
        rose = set()
        for semantics, value, window_ns, seen, bits in entries:
            span_ns, seen_ns, quality = max(span_ns, window_ns), max(seen_ns, seen), quality | bits
            if semantics == COUNTER:
                dropped = value
            elif semantics == STATE:
                state = min(value, 1)
            else:
                rose.add(semantics)
        # In a storm the queue is given back before the next one is found.
        order = ((RESTORED, 0), (FOUND, 1)) if before == 1 else ((FOUND, 1), (RESTORED, 0))
        storms = [storm for semantics, storm in order if semantics in rose]
        if state not in (UNKNOWN, storms[-1] if storms else before):
            storms.append(state)
        if storms:
            fleet.storm[slot, group] = storms[-1]
        elif dropped != UNKNOWN:
            storms = [before if before >= 0 else UNKNOWN]
        for number, storm in enumerate(storms):
            last = number == len(storms) - 1
            at_ns = time_ns if last else max(time_ns - 1, 0)
            dropped_then = dropped if last else UNKNOWN
            rows.append(WatchdogRow(slot, group, storm, dropped_then, min(span_ns, at_ns), at_ns, seen_ns, quality))
    return rows
