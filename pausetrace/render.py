"""A cascade as a picture for people: the verdict, where it began and why, and who stopped whom for how long.

In: Cascades. Out: rich renderables; the same text without colour where the output is no terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.text import Text

from pausetrace.cascade_tree import Node, Tree, build_trees, place_name
from pausetrace.class_names import MODES, SEVERITY_STYLES, ClassName, class_name
from pausetrace.plain_text import printable
from pausetrace.units import bytes_text, duration_text, share_text, time_text
from stream.cascade import FINAL, Cascade, Contributor, Root, Victim

MAX_QUEUES = 60
"""Queues drawn of one cascade, the longest stopped ones; the rest is summed up where it hangs."""
MAX_VICTIMS = 3
MAX_CONTRIBUTORS = 5
MAX_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What trees and bars are made of."""

    root: str
    suspect: str
    trunk: str
    branch: str
    last: str
    rule: str
    arrow: str
    bullet: str
    dot: str
    more: str
    bar: str
    half: str
    rail: str
    micro: str

    def duration(self, duration_ns: int) -> str:
        """The duration as text that these glyphs' terminal can show."""
        return duration_text(duration_ns).replace("µ", self.micro)


LINES = Glyphs("●", "?", "│", "├─ ", "└─ ", "─", "→", "•", "·", "…", "━", "╸", "─", "µ")
ASCII = Glyphs("@", "?", "|", "|- ", "`- ", "-", "->", "*", "-", "...", "#", "", " ", "u")


_SHARE, _PAUSE, _TIMES = 9, 10, 8
"""Widths of the numbers: share, pause time and count."""
_LAYOUTS = ((_SHARE + _PAUSE + _TIMES + 3, 12), (_SHARE + _PAUSE + 1, 8), (_SHARE + _PAUSE, 0), (_SHARE, 0))
"""What is shown right of the tree, from wide terminals to narrow ones: width of the numbers, least width of the bar."""
_BAR_HEAD = "share of the pause time"
_MIN_LABEL, _MAX_BAR = 18, 44


@dataclass(frozen=True, slots=True)
class _Columns:
    """Widths of the tree and of the bar, where there is one, and which numbers there is room for."""

    label: int
    bar: int
    pause: bool
    times: bool

    @staticmethod
    def fit(labels: Sequence[int], width: int) -> _Columns:
        longest = max([*labels, _MIN_LABEL])
        for numbers, least in _LAYOUTS:
            # A wide terminal sets the short trees of several cascades below each other.
            label = max(longest, 22 if least == _LAYOUTS[0][1] else 0) + 2
            if label + least + numbers <= width:
                break
        else:
            label = max(width - numbers, 0)
        bar = min(width - label - numbers, _MAX_BAR) if least else 0
        return _Columns(label, bar, numbers > _SHARE, numbers > _SHARE + _PAUSE + 1)

    def line(self, label: Text, bar: Text, share: str, pause: str, times: str) -> Text:
        """One line of the table; a heading of the bar may run on over an empty share."""
        label, bar = label.copy(), bar.copy()
        label.truncate(max(self.label - 1, 0), overflow="ellipsis")
        label.pad_right(self.label - label.cell_len)
        bar.pad_right(max(self.bar - bar.cell_len, 0))
        line = Text.assemble(
            label, bar, f"{share:>{max(self.label + self.bar + _SHARE - label.cell_len - bar.cell_len, 0)}}"
        )
        if self.pause:
            line.append(f" {pause:>{_PAUSE - 1}}")
        if self.times:
            line.append(f" {times:>{_TIMES - 1}}")
        return line

    def head(self) -> Text:
        """The headings, as long as there is room for."""
        fits = self.bar and len(_BAR_HEAD) <= self.bar + _SHARE
        bar, share = (_BAR_HEAD, "") if fits else ("", "share")
        line = self.line(Text(" who stopped whom"), Text(bar), share, "pause", "times")
        line.stylize("dim")
        return line


def glyphs_of(console: Console) -> Glyphs:
    """What the console's encoding can show."""
    return LINES if console.encoding.lower().startswith("utf") else ASCII


def cascade_picture(cascade: Cascade, console: Console, local: bool = False) -> RenderableType:
    """The picture of one cascade, as wide as the console."""
    glyphs = glyphs_of(console)
    width = min(console.width, MAX_WIDTH)
    if cascade.merged_into:
        return Text(f" cascade {printable(cascade.id)} is part of {printable(cascade.merged_into)}", style="dim")
    trees = build_trees(cascade)
    lines = [*_head(cascade, trees, glyphs, width), Text("")]
    lines += _body(cascade, trees, glyphs, width)
    lines += _victims(cascade, glyphs, width)
    lines += _foot(cascade, glyphs, width, local)
    return Group(*lines)


def _head(cascade: Cascade, trees: list[Tree], glyphs: Glyphs, width: int) -> Iterator[Text]:
    confidence = Text(confidence_text(cascade.confidence_ppm), style="bold")
    if cascade.suspect_set:
        confidence = Text.assemble((f"{printable(cascade.severity)} {glyphs.dot} ", "dim"), confidence)
    left = Text.assemble(" ", badge(cascade), "  ", (_headline(cascade, trees), "bold"))
    yield from _between(left, confidence, width)
    yield Text(" " + glyphs.rule * (width - 2), style="dim")
    count = len(cascade.queues)
    priorities = sorted({queue.priority for queue in cascade.queues})
    told = (
        f" {count:,} queue{'s were' if count != 1 else ' was'} stopped {_times(cascade.pauses)} for "
        f"{glyphs.duration(cascade.pause_ns)} in all, within {glyphs.duration(cascade.end_ns - cascade.start_ns)}"
        f"{f', priority {priorities[0]}' if len(priorities) == 1 else ''}"
    )
    yield from _wrapped(Text(told), "   ", width)
    if cascade.severity_reason:
        yield from _wrapped(Text(f" {printable(cascade.severity_reason)}"), "   ", width)
    if cascade.suspect_set:
        apart = "" if len(cascade.roots) < 2 else " to tell these suspects apart"
        yield from _wrapped(Text(f" No verdict: the evidence is too thin{apart}.", style="bold"), "   ", width)
        for missing in cascade.missing_evidence:
            yield from _wrapped(Text(f" {glyphs.bullet} missing: {printable(missing)}", style="yellow"), "   ", width)


def _headline(cascade: Cascade, trees: list[Tree]) -> str:
    roots = [tree.root for tree in trees if tree.root]
    if not roots:
        return "no root found"
    first = roots[0]
    place = printable(place_name(first.device, first.port))
    if cascade.suspect_set:
        others = len(roots) - 1
        tail = f", or {others} other place{'s' if others > 1 else ''}" if others else ""
        return f"it may have begun at {place}{tail}"
    return class_name(first.root_class).headline.format(place=place)


def _body(cascade: Cascade, trees: list[Tree], glyphs: Glyphs, width: int) -> Iterator[Text]:
    shown = _shown(trees)
    several = len({queue.priority for queue in cascade.queues}) > 1
    mark = glyphs.suspect if cascade.suspect_set else glyphs.root
    rows = [row for tree in trees for row in _rows(tree, glyphs, shown, mark, several)]
    columns = _Columns.fit([row.label.cell_len for row in rows if row.node], width)
    largest = max((row.node.queue.share_ppm for row in rows if row.node), default=1)
    if rows:
        yield columns.head()
    for row in rows:
        if row.node is None:
            yield from _wrapped(row.label, row.hang, width)
            continue
        queue = row.node.queue
        bar = _bar(queue.share_ppm, largest, columns.bar, glyphs, row.colour)
        share, pause = share_text(queue.share_ppm), glyphs.duration(queue.pause_ns)
        yield columns.line(row.label, bar, share, pause, f"{queue.pauses:,}")


@dataclass(slots=True)
class _Row:
    """One line of the tree: a queue with its bar, or (node None) text; `hang` begins the text's further lines."""

    label: Text
    hang: str
    node: Node | None
    colour: str


def _rows(tree: Tree, glyphs: Glyphs, shown: set[int], mark: str, several: bool) -> Iterator[_Row]:
    """The lines of one tree; `several` says whether priorities must be told apart."""
    named = class_name(tree.root.root_class) if tree.root else class_name("unclassified")
    colour = named.colour
    trunk = f" {glyphs.trunk} " if tree.children else "   "
    yield _Row(_root_label(tree.root, named, glyphs, mark, several), "   ", None, colour)
    if tree.root:
        for text, style in _reasons(tree, tree.root, glyphs):
            label = Text.assemble((trunk, colour), (text, style))
            yield _Row(label, trunk + "  ", None, colour)
    stack = _branches(tree.children, " ", glyphs, shown)
    while stack:
        node, indent, start, rest = stack.pop()
        label = Text.assemble((indent + start, colour))
        if node is None:
            yield _Row(label.append(rest, style="dim"), indent + "   ", None, colour)
            continue
        queue = node.queue
        label.append(printable(place_name(queue.device, queue.port)), style="bold" if node.children else "")
        if several:
            label.append(_priority(queue.priority), style="dim")
        if isinstance(node.parent, Tree) and node.parent.root is None:
            label.append(f" (by {printable(queue.paused_by_device)})", style="dim")
        if node.also_by:
            label.append(f" (also by {printable(', '.join(node.also_by[:2]))})", style="dim")
        yield _Row(label, "", node, colour)
        deeper = indent + (glyphs.trunk if start == glyphs.branch else " ") + "  "
        stack += _branches(node.children, deeper, glyphs, shown)
    yield _Row(Text(""), "", None, colour)


_Branch = tuple[Node | None, str, str, str]


def _branches(children: list[Node], indent: str, glyphs: Glyphs, shown: set[int]) -> list[_Branch]:
    """The children to draw, last first, so that a stack gives them in order; those left out become one line."""
    drawn = [child for child in children if id(child) in shown]
    left = [child for child in children if id(child) not in shown]
    branches: list[_Branch] = [(child, indent, glyphs.branch, "") for child in drawn]
    if left:
        pause_ns = sum(child.queue.pause_ns for child in left)
        plural = "s" if len(left) > 1 else ""
        rest = f"{glyphs.more} {len(left):,} more queue{plural} stopped for {glyphs.duration(pause_ns)}"
        branches.append((None, indent, glyphs.branch, rest))
    if branches:
        node, _, _, rest = branches[-1]
        branches[-1] = (node, indent, glyphs.last, rest)
    return branches[::-1]


def _shown(trees: list[Tree]) -> set[int]:
    """The nodes to draw: the longest stopped, with everything that they hang from."""
    nodes: list[Node] = []
    stack = [child for tree in trees for child in tree.children]
    while stack:
        node = stack.pop()
        nodes.append(node)
        stack += node.children
    shown: set[int] = set()
    for node in sorted(nodes, key=lambda node: -node.queue.pause_ns):
        if len(shown) >= MAX_QUEUES:
            break
        above: Node | Tree = node
        while isinstance(above, Node):
            shown.add(id(above))
            above = above.parent
    return shown


def _root_label(root: Root | None, named: ClassName, glyphs: Glyphs, mark: str, several: bool) -> Text:
    if root is None:
        return Text(f" {mark} stopped by queues that lead to no root", style="dim")
    label = Text.assemble(
        " ", (f"{mark} {printable(place_name(root.device, root.port))}", f"bold {named.colour}"),
        (_priority(root.priority) if several and root.port else "", "dim"), "  ", (named.title, named.colour),
    )  # fmt: skip
    label.append(f"  {share_text(root.share_ppm)} of the blame, {glyphs.duration(root.pause_ns)}")
    return label


def _reasons(tree: Tree, root: Root, glyphs: Glyphs) -> Iterator[tuple[str, str]]:
    for sentence in root.evidence:
        yield f"{glyphs.bullet} {printable(sentence)}", ""
    for contributor in root.contributors[:MAX_CONTRIBUTORS]:
        yield f"{glyphs.bullet} fed by {_contributor(contributor, glyphs)}", "italic"
    left = len(root.contributors) - MAX_CONTRIBUTORS
    if left > 0:
        yield f"{glyphs.more} and {left} more flow{'s' if left > 1 else ''}", "dim"
    if tree.elsewhere and not tree.children:
        yield f"{glyphs.bullet} it stopped {printable(', '.join(tree.elsewhere[:6]))}, drawn elsewhere", "dim"


def _contributor(flow: Contributor, glyphs: Glyphs) -> str:
    ends = f"{printable(flow.src_device)} {glyphs.arrow} {printable(flow.dst_device)}"
    estimated = ", estimated" if flow.estimated else ""
    return f"{_flow_name(flow)}  {ends}  {bytes_text(flow.bytes)}, {share_text(flow.share_ppm)}{estimated}"


def _victims(cascade: Cascade, glyphs: Glyphs, width: int) -> Iterator[Text]:
    """The flows that were held up for longest, one a line."""
    if not cascade.victims:
        return
    count = len(cascade.victims)
    head = f" held up by roots that they did not feed: {count:,} flow{'s' if count > 1 else ''}"
    yield from _wrapped(Text(head, style="dim"), "   ", width)
    for victim in cascade.victims[:MAX_VICTIMS]:
        ends = f"{printable(victim.src_device)} {glyphs.arrow} {printable(victim.dst_device)}"
        told = f" {glyphs.bullet} {_flow_name(victim)}  {ends}  {glyphs.duration(victim.pause_ns)}"
        yield from _wrapped(Text(told), "   ", width)
    if count > MAX_VICTIMS:
        yield Text(f" {glyphs.more} and {count - MAX_VICTIMS:,} more", style="dim")


def _flow_name(flow: Contributor | Victim) -> str:
    name = printable(flow.name or flow.flow)
    return name if name.startswith("flow") else f"flow {name}"


def _foot(cascade: Cascade, glyphs: Glyphs, width: int, local: bool) -> Iterator[Text]:
    losses = ", ".join(f"{count:,} {printable(what)}" for what, count in cascade.losses.items() if count)
    if losses:
        yield from _wrapped(Text(f" Counted on the way: {losses}", style="yellow"), "   ", width)
    if not cascade.suspect_set and cascade.missing_evidence:
        unseen = f" Not seen: {printable('; '.join(cascade.missing_evidence))}"
        yield from _wrapped(Text(unseen, style="dim"), "   ", width)
    for advice in cascade.advice:
        yield from _wrapped(Text(f" Advice {printable(advice)}"), "   ", width)
    revision = "final" if cascade.revision == FINAL else f"revision {cascade.revision}, not final"
    parts = (
        f"cascade {printable(cascade.id)}", revision, MODES.get(cascade.mode, printable(cascade.mode)),
        f"fabric {printable(cascade.fabric)}", time_text(cascade.start_ns, local),
    )  # fmt: skip
    line = f" {parts[0]}"
    for part in parts[1:]:
        if len(line) + len(part) + 3 > width:
            yield from _wrapped(Text(line, style="dim"), "  ", width)
            line = f" {part}"
        else:
            line += f" {glyphs.dot} {part}"
    yield from _wrapped(Text(line, style="dim"), "  ", width)
    yield Text("")


def _bar(share: int, largest: int, width: int, glyphs: Glyphs, colour: str) -> Text:
    if not width:
        return Text("")
    full, half = divmod(max(share * width * 2 // max(largest, 1), 2 if share else 0), 2)
    drawn = glyphs.bar * full + glyphs.half * half
    return Text.assemble((drawn, colour), (glyphs.rail * (width - len(drawn)), "grey27"))


def _wrapped(text: Text, hang: str, width: int) -> Iterator[Text]:
    """The text in as many lines as it needs, the further ones begun by `hang`."""
    if text.cell_len <= width:
        yield text
        return
    console = Console(width=width)
    lines = text.wrap(console, max(width - len(hang), 10))
    for line in lines:
        line.rstrip()
    yield lines[0]
    for line in lines[1:]:
        yield Text.assemble((hang, text.spans[0].style if text.spans else ""), line)


def _between(left: Text, right: Text, width: int) -> Iterator[Text]:
    """Two texts at the two ends of a line, or on lines of their own where they do not fit."""
    gap = width - left.cell_len - right.cell_len - 1
    if gap >= 2:
        yield Text.assemble(left, " " * gap, right)
        return
    yield from _wrapped(left, "   ", width)
    yield Text.assemble("   ", right)


def badge(cascade: Cascade) -> Text:
    """The severity in its colour; a suspect set is none of them, since nobody is accused."""
    if cascade.suspect_set:
        return Text(" SUSPECTS ", style="black on white")
    return Text(f" {printable(cascade.severity.upper())} ", style=SEVERITY_STYLES.get(cascade.severity, "reverse"))


def confidence_text(confidence_ppm: int) -> str:
    """A confidence: a figure of a formula, not a probability in percent; rounded down, so that .5 stays a bound."""
    return f"confidence {confidence_ppm // 10_000 / 100:.2f}"


def _priority(priority: int) -> str:
    return f" prio {priority}" if priority <= 7 else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
