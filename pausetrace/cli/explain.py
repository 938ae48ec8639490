"""`pausetrace explain`: one cascade in plain sentences, from a trace, a capture, or a cascade that was published."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pausetrace.cli.options import add_output_option, add_verb
from pausetrace.cli.row_options import chooses_rows
from pausetrace.cli.traces import add_analysis_options, analyze_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pausetrace.cli.options import Verbs
    from stream.cascade import Cascade


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "explain", "tell one cascade in sentences: evidence, timeline, alternatives", run,
        "Tells the worst cascade of a trace folder or a capture, or the one whose id begins with ID: the verdict and\n"
        "its evidence, the way it took, who fed it and who suffered, what else it could be, what was not seen, and\n"
        "what would change the verdict. Needs no Kafka.",
    )  # fmt: skip
    parser.add_argument("path", metavar="PATH", nargs="?", help="the folder; left out with --cascade")
    parser.add_argument("id", metavar="ID", nargs="?", help="how the cascade's id begins (default: the worst)")
    parser.add_argument(
        "--cascade", metavar="FILE", help="cascades as JSON, as analyze and observe print them; - reads stdin"
    )
    add_output_option(parser, "text", "markdown", "json")
    parser.add_argument("--local", action="store_true", help="times of the local zone")
    add_analysis_options(parser)


def run(args: argparse.Namespace) -> int:
    """Explains one cascade."""
    from pausetrace.report import why_no_cascade
    from stream.errors import ConfigError

    if args.cascade is not None:
        if args.id is not None or (args.path is not None and Path(args.path).is_dir()):
            raise ConfigError(f"both {args.path} and --cascade say what to read", "give one of them")
        if args.without or args.workers != 1 or chooses_rows(args):
            raise ConfigError(
                "a published cascade has no rows to choose or withhold", "give the trace or capture itself"
            )
        from pausetrace.cascade_file import read_cascades

        # With --cascade the only word left is the id.
        return _tell(args, read_cascades(args.cascade), args.path, "the file holds none")
    if args.path is None:
        raise ConfigError("nothing to explain", "give a trace's or capture's folder, or --cascade FILE")
    analysis = analyze_path(args)
    for note in analysis.notes:
        print(f"pausetrace: note: {note}", file=sys.stderr)
    return _tell(args, analysis.cascades, args.id, why_no_cascade(analysis.has_pauses))


def _tell(args: argparse.Namespace, cascades: Sequence[Cascade], prefix: str | None, why_none: str) -> int:
    from pausetrace.explanation import explain

    chosen = _choose(cascades, prefix)
    if args.output == "json":
        import msgspec

        explained = explain(chosen, args.local) if chosen else None
        sys.stdout.write(msgspec.json.encode(explained).decode() + "\n")
        return 0
    if chosen is None:
        sys.stdout.write(f"No cascade: {why_none}.\n")
        return 0
    from pausetrace.explanation_text import as_markdown, as_text
    from pausetrace.terminal import make_console

    explanation = explain(chosen, args.local)
    if args.output == "markdown":
        sys.stdout.write(as_markdown(explanation))
        return 0
    text = as_text(explanation, make_console(sys.stdout).width)
    utf = sys.stdout.encoding.lower().startswith("utf")
    sys.stdout.write(text if utf else text.replace("µ", "u"))
    return 0


def _choose(cascades: Sequence[Cascade], prefix: str | None) -> Cascade | None:
    """The worst, or the only one whose id begins so; raises ConfigError."""
    from pausetrace.report import worst_first
    from stream.errors import ConfigError

    ordered = worst_first([cascade for cascade in cascades if cascade.merged_into is None])
    if prefix is None:
        if ordered[1:]:
            print(f"pausetrace: note: the worst of {len(ordered)}; the others are {_ids(ordered[1:])}", file=sys.stderr)
        return next(iter(ordered), None)
    found = [cascade for cascade in ordered if cascade.id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"{len(found)} cascades have ids that begin with {prefix}", f"such as {_ids(found)}: give more of it"
        )
    raise ConfigError(
        f"no cascade's id begins with {prefix}", f"there are {_ids(ordered)}" if ordered else "there is none"
    )


def _ids(cascades: Sequence[Cascade]) -> str:
    listed = ", ".join(cascade.id for cascade in cascades[:5])
    return f"{listed} and {len(cascades) - 5} more" if len(cascades) > 5 else listed
