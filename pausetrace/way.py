"""The way of a cascade in sentences: from each root over the queues that were stopped to the hosts, and in time.

In: a Cascade. Out: sentences. Pure.
"""

from __future__ import annotations

from pausetrace.cascade_tree import Node, Tree, build_trees, place_name
from pausetrace.units import duration_text, time_text
from stream.cascade import FINAL, Cascade, PausedQueue

MAX_HOPS = 24
"""Stops told one by one: a fat-tree has five hops, so a handful of ways; the rest is summed up."""


def way(cascade: Cascade) -> tuple[str, ...]:
    """Each hop before those that it caused, the longest way first."""
    said: list[str] = []
    told = 0
    trees = build_trees(cascade)
    hops = _hops(trees)
    several = len({queue.priority for queue in cascade.queues}) > 1
    for tree in trees:
        if tree.root is None:
            said.append("The following stops lead to no root that is named.")
        elif not tree.children:
            place = place_name(tree.root.device, tree.root.port)
            also = f"; it has a part in the stops of {_some(tree.elsewhere)}" if tree.elsewhere else ""
            said.append(f"{place} stopped no queue that hangs from it alone{also}.")
        stack = tree.children[::-1]
        while stack:
            node = stack.pop()
            stack += node.children[::-1]
            told += 1
            if told <= MAX_HOPS:
                said.append(_hop(node, hops[id(node.queue)], cascade.start_ns, several))
    if told > MAX_HOPS:
        said.append(f"{told - MAX_HOPS:,} more queues were stopped, each for a smaller part.")
    return tuple(said) or ("No queue that was stopped is listed.",)


def _hops(trees: list[Tree]) -> dict[int, int]:
    """How many hops each queue is from its root in the tree, by id: in a ring the shortest way says nothing."""
    found: dict[int, int] = {}
    level, nodes = 1, [node for tree in trees for node in tree.children]
    while nodes:
        found.update((id(node.queue), level) for node in nodes)
        level, nodes = level + 1, [child for node in nodes for child in node.children]
    return found


def _hop(node: Node, hop: int, start_ns: int, several: bool) -> str:
    queue = node.queue
    first = isinstance(node.parent, Tree)
    cause = "" if first else f"since {_parent_name(node)} could not send, "
    times = "once" if queue.pauses == 1 else f"{queue.pauses:,} times"
    pauser = queue.paused_by_device or "an unknown device"
    priority = f" of priority {queue.priority}" if several and queue.priority <= 7 else ""
    also = f" (also because of {_some(list(node.also_by))})" if node.also_by else ""
    span = ""
    if queue.first_ns is not None and queue.last_ns is not None:
        span = f", from {_after(queue.first_ns - start_ns)} to {_after(queue.last_ns - start_ns)}"
    return (
        f"Hop {hop}: {cause}{pauser} stopped {place_name(queue.device, queue.port)}{priority} {times}, for"
        f" {duration_text(queue.pause_ns)}{span}{also}."
    )


def _parent_name(node: Node) -> str:
    assert isinstance(node.parent, Node)
    return place_name(node.parent.queue.device, node.parent.queue.port)


def timeline(cascade: Cascade, local: bool) -> tuple[str, ...]:
    """The first stop, when each hop was reached, the end; without times of queues only beginning and end."""
    said = []
    hops = _hops(build_trees(cascade))
    timed = [(queue.first_ns, queue) for queue in cascade.queues if queue.first_ns is not None]
    by_hop: dict[int, list[tuple[int, PausedQueue]]] = {}
    for first_ns, queue in timed:
        by_hop.setdefault(hops[id(queue)], []).append((first_ns, queue))
    begun = time_text(cascade.start_ns, local)
    if not timed:
        said.append(f"{begun}: the first stop.")
    for hop, reached in sorted(by_hop.items()):
        first_ns, queue = min(reached, key=lambda pair: (pair[0], pair[1].device, pair[1].port, pair[1].priority))
        place = "next to a root" if hop == 1 else f"{hop} hops from a root"
        count = f", the first of {len(reached):,}" if len(reached) > 1 else ""
        said.append(
            f"{time_text(first_ns, local)} ({_after(first_ns - cascade.start_ns)}):"
            f" {place_name(queue.device, queue.port)} is stopped, {place}{count}."
        )
    end = "the last stop ends" if cascade.revision == FINAL else "so far the last that is known"
    said.append(f"{time_text(cascade.end_ns, local)} ({_after(cascade.end_ns - cascade.start_ns)}): {end}.")
    return tuple(said)


def _after(ns: int) -> str:
    return "the start" if ns == 0 else f"{'+' if ns > 0 else ''}{duration_text(ns)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
