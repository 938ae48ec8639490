"""The tree that a reader sees: from each root of a cascade to the queues that it stopped, and on to those they stopped.

In: a Cascade. Out: one `Tree` a root, every stopped queue in exactly one of them. Pure; drawing is in render.py.
"""

from __future__ import annotations

import itertools
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


def by_share(roots: Iterable[Root]) -> list[Root]:
    """Roots, largest share first."""
    return sorted(roots, key=lambda root: -root.share_ppm)


def build_trees(cascade: Cascade) -> list[Tree]:
    """One tree a root, largest share first; a queue hangs from the cause of the largest share of its stops."""
    return _Builder(cascade).build()


class _Builder:
    """Places queue after queue below a root or a queue placed before, so that a loop of pauses is no loop here."""

    def __init__(self, cascade: Cascade) -> None:
        self._queues = sorted(cascade.queues, key=lambda q: (q.depth, -q.pause_ns, q.device, q.port, q.priority))
        self._trees = [Tree(root) for root in sorted(cascade.roots, key=lambda root: -root.share_ppm)]
        self._orphans = Tree(None)
        self._shares = {(edge.device, edge.ingress_port, edge.egress_port): edge.share_ppm for edge in cascade.edges}
        self._placed: dict[tuple[str, int], list[Node]] = {}
        self._waiting: dict[tuple[str, int], list[PausedQueue]] = {}

    def build(self) -> list[Tree]:
        for queue in self._queues:
            if self._is_placed(queue):
                continue
            if self._place(queue):
                self._free(queue)
            else:
                self._waiting.setdefault((queue.paused_by_device, queue.priority), []).append(queue)
        # What is left was stopped by each other in a loop, or by queues that are not listed: the first of a loop hangs
        # from nothing, and the others from it.
        for queue in self._queues:
            if not self._is_placed(queue):
                self._hang(queue, [self._orphans])
                self._free(queue)
        for node in itertools.chain.from_iterable(self._placed.values()):
            node.children.sort(key=lambda child: -child.queue.pause_ns)
        return [*self._trees, self._orphans] if self._orphans.children else self._trees

    def _free(self, queue: PausedQueue) -> None:
        """Places those that waited for this queue, and for those in turn."""
        placed = [queue]
        for cause in placed:
            waiting = self._waiting.get((cause.device, cause.priority), ())
            placed += [other for other in waiting if not self._is_placed(other) and self._place(other)]

    def _place(self, queue: PausedQueue) -> bool:
        """Hangs the queue from its strongest cause among those placed; false if there is none yet."""
        causes = list(self._causes(queue))
        causes.sort(key=lambda c: -self._shares.get((queue.paused_by_device, queue.paused_by_port, _port(c)), 0))
        if causes:
            self._hang(queue, causes)
        return bool(causes)

    def _hang(self, queue: PausedQueue, causes: list[Node | Tree]) -> None:
        node = Node(queue, causes[0])
        node.parent.children.append(node)
        node.also_by = tuple(_name(cause) for cause in causes[1:] if _name(cause) != _name(causes[0]))
        for cause in causes[1:]:
            if isinstance(cause, Tree):
                cause.elsewhere.append(place_name(queue.device, queue.port))
        self._placed.setdefault((queue.device, queue.priority), []).append(node)

    def _is_placed(self, queue: PausedQueue) -> bool:
        return any(node.queue is queue for node in self._placed.get((queue.device, queue.priority), ()))

    def _causes(self, queue: PausedQueue) -> Iterator[Node | Tree]:
        """The stopped queues and roots, on the device that stopped this one, that may be the reason."""
        named = set(queue.caused_by)
        for node in self._placed.get((queue.paused_by_device, queue.priority), ()):
            cause = node.queue
            name = place_name(cause.device, cause.port)
            if not named.isdisjoint({name, f"{name}:{cause.priority}"}):
                yield node
        for tree in self._trees:
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
