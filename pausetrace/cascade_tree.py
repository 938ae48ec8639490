"""The tree that a reader sees: from each root of a cascade to the queues that it stopped, and on to those they stopped.

In: a Cascade. Out: one `Tree` a root, every stopped queue in exactly one of them. Pure; drawing is in render.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stream.cascade import Cascade, PausedQueue, Root


@dataclass(slots=True, eq=False)
class Node:
    """A stopped queue and the queues that it stopped in turn, longest pause first.

    `also_by` names further causes of its stops, beside the one that it hangs from.
    """

    queue: PausedQueue
    parent: Node | Tree
    children: list[Node] = field(default_factory=list)
    also_by: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Tree:
    """A root (None for queues that lead to no root of the cascade) and the queues right before it.

    `elsewhere` names queues that the root stopped too and that hang from another cause.
    """

    root: Root | None
    children: list[Node] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


def place_name(device: str, port: str) -> str:
    """A queue or host for people: tor4:p2, or h9."""
    return f"{device}:{port}" if port else device


def build_trees(cascade: Cascade) -> list[Tree]:
    """One tree a root, largest share first; a queue hangs from the cause of the largest share of its stops."""
    trees = [Tree(root) for root in sorted(cascade.roots, key=lambda root: -root.share_ppm)]
    orphans = Tree(None)
    shares = {(edge.device, edge.ingress_port, edge.egress_port): edge.share_ppm for edge in cascade.edges}
    placed: dict[tuple[str, int], list[Node]] = {}
    # A cause lies nearer to the root than what it causes, so a loop of pauses cannot become a loop here.
    for queue in sorted(cascade.queues, key=lambda q: (q.depth, -q.pause_ns, q.device, q.port, q.priority)):
        causes = list(_causes(queue, placed.get((queue.paused_by_device, queue.priority), ()), trees))
        causes.sort(key=lambda cause: -shares.get((queue.paused_by_device, queue.paused_by_port, _port(cause)), 0))
        node = Node(queue, causes[0] if causes else orphans)
        node.parent.children.append(node)
        node.also_by = tuple(_name(cause) for cause in causes[1:] if _name(cause) != _name(causes[0]))
        for cause in causes[1:]:
            if isinstance(cause, Tree):
                cause.elsewhere.append(place_name(queue.device, queue.port))
        placed.setdefault((queue.device, queue.priority), []).append(node)
    return [*trees, orphans] if orphans.children else trees


def _causes(queue: PausedQueue, nodes: Iterable[Node], trees: Iterable[Tree]) -> Iterator[Node | Tree]:
    """The stopped queues and roots, on the device that stopped this one, that may be the reason."""
    named = set(queue.caused_by)
    for node in nodes:
        cause = node.queue
        name = place_name(cause.device, cause.port)
        if cause.depth < queue.depth and not named.isdisjoint({name, f"{name}:{cause.priority}"}):
            yield node
    for tree in trees:
        root = tree.root
        if root and root.device == queue.paused_by_device and (not root.port or root.priority == queue.priority):
            yield tree


def _port(cause: Node | Tree) -> str:
    if isinstance(cause, Node):
        return cause.queue.port
    return cause.root.port if cause.root else ""


def _name(cause: Node | Tree) -> str:
    if isinstance(cause, Node):
        return place_name(cause.queue.device, cause.queue.port)
    return place_name(cause.root.device, cause.root.port) if cause.root else ""
