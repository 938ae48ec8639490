"""A reader of the part of the DOT language that the product writes, after the grammar that Graphviz publishes.

In: text. Out: nodes, edges and clusters with their attributes; a text that is not of the language is a ValueError. It
knows no HTML strings, ports and concatenation, which the product never writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r'\s*(?:(->)|([{}\[\];,=])|("(?:[^"\\]|\\.)*")|([A-Za-z_][A-Za-z_0-9]*|-?(?:\.\d+|\d+(?:\.\d*)?)))')


@dataclass
class Graph:
    """What a graph holds; `clusters` are labels by name of the subgraph."""

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    clusters: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Graph:
    """The graph of a text."""
    reader = _Reader(_tokens(text))
    reader.take("digraph")
    reader.name()
    graph = Graph()
    reader.block(graph, "")
    if reader.left:
        raise ValueError(f"{reader.left[:3]} after the graph")
    return graph


def label_lines(label: str) -> list[str]:
    """The lines of a label as they are drawn: escapes and entities undone."""
    drawn = re.sub(r"\\([nlr])|\\(.)", lambda m: "\n" if m[1] else m[2], label)
    return drawn.replace("&amp;", "&").split("\n")


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"no token: {text[at : at + 40]!r}")
        found.append(token[0].strip())
        at = token.end()
    return found


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def take(self, *wanted: str) -> str:
        token = self.left.pop(0) if self.left else ""
        if wanted and token not in wanted:
            raise ValueError(f"{token!r} where {' or '.join(wanted)} must be")
        return token

    def name(self) -> str:
        token = self.take()
        if not token or token in "{}[];,=->":
            raise ValueError(f"{token!r} is no name")
        # In a quoted string only the quote itself is escaped; what else a backslash means is the label's matter.
        return token[1:-1].replace('\\"', '"') if token.startswith('"') else token

    def block(self, graph: Graph, cluster: str) -> None:
        self.take("{")
        while self.left and self.left[0] != "}":
            self.statement(graph, cluster)
            if self.left and self.left[0] == ";":
                self.take()
        self.take("}")

    def statement(self, graph: Graph, cluster: str) -> None:
        if self.left[0] == "subgraph":
            self.take()
            self.block(graph, self.name())
            return
        first = self.name()
        following = self.left[0] if self.left else ""
        if following == "=":
            self.take()
            value = self.name()
            if first == "label":
                graph.clusters[cluster] = value
        elif following == "->":
            self.take()
            graph.edges.append((first, self.name(), self.attributes()))
        elif first in ("node", "edge", "graph"):
            self.attributes()
        else:
            graph.nodes[first] = self.attributes()

    def attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self.left and self.left[0] == "[":
            self.take()
            while self.left and self.left[0] != "]":
                key = self.name()
                self.take("=")
                found[key] = self.name()
                if self.left and self.left[0] in ",;":
                    self.take()
            self.take("]")
        return found
