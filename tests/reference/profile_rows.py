"""One target's leaves, reading by reading, to rows: the slow twin of collectors.rows for counters, peaks and gauges.

In: readings in the order of their times. Out: rows as text. Nothing here knows of arrays, batches or other targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.reference.counters import PlainCounter

_SECOND_NS = 1_000_000_000
_ORDER = ("RESET", "WRAP", "GAP", "ESTIMATED")


@dataclass
class PlainLeaf:
    """What a leaf means: kind, place and which measure of its row; `alone`: it makes a row without the other one."""

    kind: str
    place: str
    half: int
    semantics: str
    alone: bool
    quality: frozenset[str] = frozenset()
    without_other: str = "null"


@dataclass
class PlainRows:
    """All that a target has told."""

    leaves: dict[str, PlainLeaf]
    period_ns: int
    halves: dict[tuple[str, str, int], dict[int, tuple[int | None, int, set[str]]]] = field(default_factory=dict)
    counters: dict[str, PlainCounter] = field(default_factory=dict)

    def read(self, path: str, time_ns: int, value: int) -> None:
        """One reading."""
        leaf = self.leaves[path]
        bits: set[str] = set(leaf.quality)
        told: int | None = value
        span_ns = 0
        if leaf.semantics != "gauge":
            counter = self.counters.setdefault(path, PlainCounter(64, 10**15, _SECOND_NS, self.period_ns))
            window = counter.read(time_ns, 0 if leaf.semantics == "peak" else value, None)
            if window is None:
                return
            span_ns, counted, quality = window
            bits |= quality
            told = value if leaf.semantics == "peak" else counted
            bits |= {"ESTIMATED"} if leaf.semantics == "peak" else set()
        row = self.halves.setdefault((leaf.kind, leaf.place, time_ns), {})
        row.setdefault(leaf.half, (told, span_ns, bits))

    def rows(self) -> list[str]:
        """All rows, in the order of text."""
        lines = []
        for (kind, place, _), row in self.halves.items():
            of = [leaf for leaf in self.leaves.values() if (leaf.kind, leaf.place) == (kind, place)]
            if 0 not in row and not any(leaf.alone for leaf in of if leaf.half == 1):
                continue
            measures = [str(row[half][0]) if half in row and row[half][0] is not None else "null" for half in (0, 1)]
            span_ns = max(span for _, span, _ in row.values())
            bits = set().union(*(bits for _, _, bits in row.values()))
            quality = [name for name in _ORDER if name in bits]
            lines.append(" ".join([kind, place, *measures, f"{span_ns / _SECOND_NS:g}s", *quality]))
        return sorted(lines)
