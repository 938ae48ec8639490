"""Cascades as a graph for Graphviz: `pausetrace analyze PATH -o dot | dot -Tsvg`.

In: Cascades. Out: text in the DOT language; one cluster a cascade, an arrow "was stopped by" from each stopped queue
to what stopped it, as thick as its share of the pause time. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pausetrace.cascade_tree import place_name
from pausetrace.class_names import class_name
from pausetrace.plain_text import printable
from pausetrace.units import duration_text, share_text
from stream.cascade import Cascade, Contributor, PausedQueue, Root, Victim

PPM = 1_000_000
MIN_PEN, MAX_PEN = 1.0, 6.0
COLOURS = {
    "magenta": "#c026d3", "bright_red": "#dc2626", "yellow": "#ca8a04", "bright_blue": "#2563eb", "cyan": "#0891b2",
    "bright_yellow": "#a16207", "green": "#15803d", "white": "#475569",
}  # fmt: skip
"""The colours that classes have on a terminal, as they can be read on white paper."""

Place = tuple[str, str, int]
"""Device, port ("" for a device as a whole) and priority (-1 for all)."""


def dot_graph(cascades: Sequence[Cascade]) -> str:
    """The graph of all cascades that are not part of another."""
    lines = ["digraph pausetrace {", "  rankdir=LR;", '  node [fontname="Helvetica", shape=ellipse];']
    lines.append('  edge [fontname="Helvetica", fontsize=10];')
    shown = [cascade for cascade in cascades if cascade.merged_into is None]
    for number, cascade in enumerate(shown):
        lines.append(f"  subgraph cluster_{number} {{")
        lines += [f"    {line}" for line in _Graph(cascade, f"c{number}n").lines()]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


@dataclass(slots=True)
class _Graph:
    """One cascade's nodes and arrows; a node's id is a number, so that no name can break the language."""

    cascade: Cascade
    prefix: str
    ids: dict[Place, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        cascade = self.cascade
        certain = "suspects" if cascade.suspect_set else cascade.severity
        told = (f"{cascade.id} ({certain})", f"confidence {cascade.confidence_ppm // 10_000 / 100:.2f}")
        yield f"label={quoted(*told)};"
        hosts = _hosts(cascade)
        roots: dict[Place, Root] = {_root_place(root): root for root in cascade.roots}
        arrows = [(queue, target, share) for queue in cascade.queues for target, share in self._stoppers(queue)]
        places = [*roots, *(_queue_place(queue) for queue in cascade.queues), *(target for _, target, _ in arrows)]
        for place in dict.fromkeys(places):
            yield self._node(place, roots.get(place), hosts)
        largest = max((queue.share_ppm for queue in cascade.queues), default=0)
        for queue, target, share in arrows:
            part = queue.share_ppm * share // PPM
            pen = MIN_PEN + (MAX_PEN - MIN_PEN) * part / max(largest, 1)
            label = (duration_text(queue.pause_ns * share // PPM), f"{queue.pauses:,} stop{'s' * (queue.pauses != 1)}")
            yield (
                f"{self._id(_queue_place(queue))} -> {self._id(target)}"
                f" [label={quoted(*label)}, penwidth={pen:.2f}, weight={1 + part // 10_000}];"
            )

    def _node(self, place: Place, root: Root | None, hosts: set[str]) -> str:
        device, port, priority = place
        said = [f"{place_name(device, port)}{f' priority {priority}' if 0 <= priority <= 7 else ''}"]
        look = ["shape=box"] if device in hosts else []
        if root:
            named = class_name(root.root_class)
            said += [named.title, f"{share_text(root.share_ppm)} of the blame"]
            colour = COLOURS.get(named.colour, COLOURS["white"])
            look += ['style="filled"', f'fillcolor="{colour}"', 'fontcolor="#ffffff"']
        return f"{self._id(place)} [{', '.join([f'label={quoted(*said)}', *look])}];"

    def _id(self, place: Place) -> str:
        return self.ids.setdefault(place, f"{self.prefix}{len(self.ids)}")

    def _stoppers(self, queue: PausedQueue) -> list[tuple[Place, int]]:
        """What stopped a queue, with the share in ppm of its stops: queues and roots on its pauser, else the pauser."""
        pauser = queue.paused_by_device
        causes = [
            _queue_place(other)
            for other in self.cascade.queues
            if (other.device, other.priority) == (pauser, queue.priority) and _is_named(other, queue.caused_by)
        ]
        shares = {
            edge.egress_port: edge.share_ppm
            for edge in self.cascade.edges
            if (edge.device, edge.ingress_port) == (pauser, queue.paused_by_port)
        }
        for root in self.cascade.roots:
            place = _root_place(root)
            if root.device != pauser or place in causes:
                continue
            if not root.port or (root.priority == queue.priority and (shares.get(root.port) or not causes)):
                causes.append(place)
        if not causes:
            return [((pauser or "unknown", "", -1), PPM)]
        known = [shares.get(port, 0) for _, port, _ in causes]
        total = sum(known)
        return [
            (place, part * PPM // total if total else PPM // len(causes))
            for place, part in zip(causes, known, strict=True)
        ]


def _is_named(queue: PausedQueue, names: tuple[str, ...]) -> bool:
    place = place_name(queue.device, queue.port)
    return place in names or f"{place}:{queue.priority}" in names


def _root_place(root: Root) -> Place:
    return (root.device, root.port, root.priority) if root.port else (root.device, "", -1)


def _queue_place(queue: PausedQueue) -> Place:
    return queue.device, queue.port, queue.priority


def _hosts(cascade: Cascade) -> set[str]:
    """Devices that are known to be hosts: roots of that kind, and the ends of flows."""
    hosts = {root.device for root in cascade.roots if root.kind == "host"}
    flows: list[Contributor | Victim] = [flow for root in cascade.roots for flow in root.contributors]
    flows += cascade.victims
    return hosts | {name for flow in flows for name in (flow.src_device, flow.dst_device) if name}


def quoted(*lines: str) -> str:
    """A label of several lines as a quoted string: a label has escapes (backslash) and entities (&) of its own."""
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
