"""Makes docs/demo.svg and docs/pictures/, and prints the demo's last picture as text for README.md.

All are cascades of recorded traces, as `analyze` draws them. Run it from the root of the repository: python
docs/make_picture.py
"""

import io
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console, ConsoleRenderable

from pausetrace.analysis import analyze_trace
from pausetrace.demo import DEMO_TRACE
from pausetrace.render import cascade_picture
from pausetrace.report import worst_first
from pausetrace.terminal import make_console
from stream.cascade import Cascade

WIDTH = 100
START_NS = 1_796_076_600_000_000_000
DOCS = Path(__file__).parent
FILE = DOCS / "demo.svg"
TRACES = DOCS.parent / "tests/data/ns3"
PICTURES = {"slow-receiver": "ring_slow-ls-s1", "deadlock": "deadlock-hk-s4", "degraded-link": "degraded_link-ls-s1"}
"""Files of docs/pictures by the trace whose worst cascade they show."""

SVG = """\
<svg class="pausetrace" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<!-- Made by docs/make_picture.py: do not edit. -->
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; \
line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's frame of an SVG without its fonts, which would be fetched from elsewhere."""


def demo_cascade() -> Cascade:
    """The cascade that the demo ends with."""
    return replace(worst_first(analyze_trace(DEMO_TRACE, frozenset(), START_NS).cascades)[0], fabric="demo")


def trace_cascade(name: str) -> Cascade:
    """The worst cascade of a trace."""
    return worst_first(analyze_trace(TRACES / name, frozenset(), START_NS).cascades)[0]


def picture_text(cascade: Cascade) -> str:
    """The picture as a pipe gets it."""
    console = make_console(io.StringIO(), WIDTH)
    console.print(cascade_picture(cascade, console))
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().rstrip().splitlines())


def picture_svg(cascade: Cascade, title: str = "pausetrace demo") -> str:
    """The picture as a terminal shows it."""
    console = Console(file=io.StringIO(), width=WIDTH, record=True, force_terminal=True, color_system="truecolor")
    drawn = cascade_picture(cascade, console)
    assert isinstance(drawn, ConsoleRenderable)
    console.print(drawn)
    svg = console.export_svg(title=title, code_format=SVG, unique_id="pausetrace")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


if __name__ == "__main__":
    FILE.write_text(picture_svg(demo_cascade()))
    for name, trace in PICTURES.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(picture_svg(trace_cascade(trace), f"pausetrace analyze {trace}"))
    print(picture_text(demo_cascade()), end="")
