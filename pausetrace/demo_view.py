"""What the demo shows: a live picture on a terminal, a few lines of progress elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pausetrace.cascade_tree import place_name
from pausetrace.class_names import class_name
from pausetrace.demo import Picture
from pausetrace.plain_text import printable
from pausetrace.render import cascade_picture, glyphs_of
from pausetrace.report import cascade_line, worst_first
from stream.cascade import Cascade

BAR_WIDTH = 30
MAX_LINES = 4
"""Further cascades shown below the worst one."""


class LiveShow:
    """The newest revision of the worst cascade, drawn again and again; `with` it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def __enter__(self) -> LiveShow:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, sentence: str) -> None:
        """Prints the sentence, above the picture if there is one."""
        self._console.print(Text(f" {printable(sentence)}", style="dim"))

    def picture(self, picture: Picture) -> None:
        """Draws the picture."""
        drawn = self._drawn(picture)
        if self._live is None:
            self._live = Live(drawn, console=self._console, auto_refresh=False, transient=True)
            self._live.start(refresh=True)
        else:
            self._live.update(drawn, refresh=True)

    def _drawn(self, picture: Picture) -> RenderableType:
        glyphs = glyphs_of(self._console)
        told = f" {picture.share:>4.0%} published, {picture.revisions} revisions so far"
        width = max(min(self._console.width - len(told) - 2, BAR_WIDTH), 0)
        full = int(picture.share * width)
        head = Text.assemble(
            " ", (glyphs.bar * full, "green"), (glyphs.rail * (width - full), "grey27"), told,
            no_wrap=True, overflow="ellipsis",
        )  # fmt: skip
        if not picture.cascades:
            return Group(Text(""), head, Text(""), Text(" No queue has been stopped yet.", style="dim"))
        worst, *others = worst_first(list(picture.cascades.values()))
        lines = [cascade_line(cascade, self._console) for cascade in others[:MAX_LINES]]
        return Group(Text(""), head, Text(""), cascade_picture(worst, self._console), *lines)


class PlainShow:
    """Lines on stderr: stages, every quarter of the trace, and whenever another root leads."""

    def __init__(self) -> None:
        self._quarter = 0
        self._leader = ""

    def __enter__(self) -> PlainShow:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def stage(self, sentence: str) -> None:
        """Prints the sentence."""
        print(f"demo: {printable(sentence)}", file=sys.stderr, flush=True)

    def picture(self, picture: Picture) -> None:
        """Prints what is new."""
        quarter = int(picture.share * 4)
        cascades = worst_first(list(picture.cascades.values()))
        leader = _leader(cascades[0]) if cascades else ""
        if quarter > self._quarter or leader != self._leader:
            self._quarter, self._leader = max(quarter, self._quarter), leader
            self.stage(f"{picture.share:.0%} published; {leader or 'no queue has been stopped yet'}")


def _leader(cascade: Cascade) -> str:
    root = max(cascade.roots, key=lambda root: root.share_ppm, default=None)
    if root is None:
        return ""
    began = "may have begun" if cascade.suspect_set else "began"
    return f"it {began} at {place_name(root.device, root.port)}: {class_name(root.root_class).title}"
