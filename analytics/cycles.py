"""Queues that stop each other in a ring: strongly connected parts of who stopped whom (a circular wait, Coffman 1971).

In: edges from a stopped queue to the queues that caused its stop. Out: the rings, each in order of index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def rings(causes: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Strongly connected components of two queues or more, or of one that causes itself; ordered (Tarjan, 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_path: set[int] = set()
    path: list[int] = []
    found: list[list[int]] = []
    for start in sorted(causes):
        if start in index:
            continue
        work = [(start, iter(sorted(causes[start])))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            queue, left = work[-1]
            step = next((cause for cause in left if cause in causes), None)
            if step is not None:
                if step not in index:
                    index[step] = low[step] = len(index)
                    path.append(step)
                    on_path.add(step)
                    work.append((step, iter(sorted(causes[step]))))
                elif step in on_path:
                    low[queue] = min(low[queue], index[step])
                continue
            work.pop()
            if work:
                before = work[-1][0]
                low[before] = min(low[before], low[queue])
            if low[queue] == index[queue]:
                ring: list[int] = []
                while not ring or ring[-1] != queue:
                    ring.append(path.pop())
                    on_path.discard(ring[-1])
                if len(ring) > 1 or queue in causes[queue]:
                    found.append(sorted(ring))
    return sorted(found)
