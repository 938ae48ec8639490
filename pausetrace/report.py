"""Several cascades for people: the worst one first, each as its picture, and the harmless ones a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pausetrace.cascade_tree import place_name
from pausetrace.class_names import class_name
from pausetrace.plain_text import printable
from pausetrace.render import badge, cascade_picture, glyphs_of
from stream.cascade import Cascade

_RANK = {"critical": 0, "warning": 1}


def worst_first(cascades: Sequence[Cascade]) -> list[Cascade]:
    """By severity, then by pause time."""
    return sorted(cascades, key=lambda c: (_RANK.get(c.severity, 2), -c.pause_ns, c.start_ns, c.id))


def why_no_cascade(has_pauses: bool) -> str:
    """The reason, which depends on whether one could have been made at all."""
    return "no queue was stopped by another" if has_pauses else "there are no exact pause events to make one from"


def print_report(
    cascades: Sequence[Cascade], console: Console, *, whole: bool = False, pictures: int | None = None, hint: str = "",
    has_pauses: bool = True,
) -> None:  # fmt: skip
    """Prints the cascades; `whole` draws the harmless ones too, `pictures` bounds how many are drawn at all.

    `hint` says how to have the others drawn; `has_pauses` is false where no cascade could be made at all.
    """
    ordered = worst_first([cascade for cascade in cascades if cascade.merged_into is None])
    if not ordered:
        console.print(Text(f" No cascade: {why_no_cascade(has_pauses)}."))
        return
    harmful = sum(cascade.severity != "info" for cascade in ordered)
    count = len(ordered) if whole else min(max(harmful, 1), pictures or harmful or 1)
    for cascade in ordered[:count]:
        console.print(cascade_picture(cascade, console))
    if rest := ordered[count:]:
        what = "harmless" if all(cascade.severity == "info" for cascade in rest) else "more"
        console.print(Text(f" and {len(rest)} {what} cascade{'s' if len(rest) > 1 else ''}{hint}:", style="dim"))
        for cascade in rest:
            console.print(cascade_line(cascade, console), no_wrap=True, overflow="ellipsis")
        console.print()


def cascade_line(cascade: Cascade, console: Console) -> Text:
    """A cascade on one line."""
    glyphs = glyphs_of(console)
    root = max(cascade.roots, key=lambda root: root.share_ppm, default=None)
    where = printable(place_name(root.device, root.port)) if root else "no root found"
    name = class_name(root.root_class) if root else class_name("unclassified")
    severity = f"  {printable(cascade.severity)}" if cascade.suspect_set else ""
    return Text.assemble(
        " ", badge(cascade), f" {glyphs.duration(cascade.pause_ns):>8} of pause  ",
        (f"{where}  {name.title}", name.colour), (f"{severity}  {printable(cascade.id)}", "dim"),
        no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
