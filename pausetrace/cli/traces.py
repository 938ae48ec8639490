"""`pausetrace analyze`, `evaluate` and `import`: traces in folders, explained, scored or published."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli import inventory
from pausetrace.cli.options import (
    MINUTE_NS,
    add_group,
    add_kafka_options,
    add_output_option,
    add_verb,
    duration_ns,
    end_in_order,
    fabric_name,
    kafka_settings,
)
from pausetrace.cli.row_options import add_row_options, chooses_rows, parse_event_time, row_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pausetrace.analysis import Analysis
    from pausetrace.cli.options import Verbs

DEFAULT_SEEDS = 20
WITHOUT_HELP = "evidence to withhold: flows, queues or both (flows,queues)"


def register(verbs: Verbs) -> None:
    """Adds the verbs."""
    analyze = add_verb(
        verbs, "analyze", "say what happened in a trace or a capture", run_analyze,
        "Reads a trace folder (docs/trace-format.md) or a capture (docs/capture.md) and says who paused whom, where\n"
        "it began and why. Needs no Kafka.",
    )  # fmt: skip
    analyze.add_argument("path", metavar="PATH", help="the folder")
    add_output_option(analyze, "table", "json", "jsonl", "dot")
    analyze.add_argument("--all", action="store_true", help="draw harmless cascades too")
    add_analysis_options(analyze)
    evaluate = add_verb(
        verbs, "evaluate", "score the analysis against traces of known truth", run_evaluate,
        "Analyzes traces whose truth is known (docs/evaluation.md) and scores what was said.",
    )  # fmt: skip
    evaluate.add_argument("paths", metavar="DIR", nargs="+", help="a trace folder with truth.json, or a folder of such")
    add_output_option(evaluate, "table", "json")
    evaluate.add_argument("--without", metavar="EVIDENCE", help=WITHOUT_HELP)
    evaluate.add_argument(
        "--suspects", action="store_true", help="score the roots of suspect sets as if they were verdicts"
    )
    evaluate.add_argument(
        "--degrade", metavar="HOW", action="append", default=[],
        help="spoil the traces and say what it costs: skew=1ms,loss=.1,missing=root,drop=FILE,period=1s...; may be "
        "given again",
    )  # fmt: skip
    evaluate.add_argument(
        "--seeds", metavar="N", type=int, help=f"with --degrade: runs of what is random (default: {DEFAULT_SEEDS})"
    )
    evaluate.add_argument("--workers", metavar="N", type=int, help="with --degrade: so many processes (default: 1)")
    evaluate.add_argument(
        "--reliability", action="store_true", help="with --degrade: say how often each confidence is right"
    )
    group = add_group(verbs, "import", "publish what a trace or a topology file holds")
    csv = add_verb(
        group, "csv", "publish a trace folder to Kafka", run_import_csv,
        "Publishes a trace folder (docs/trace-format.md) as the probes and collectors of its fabric would have.",
    )  # fmt: skip
    csv.add_argument("path", metavar="DIR", help="the folder")
    csv.add_argument(
        "--time", metavar="WHEN", default="now",
        help="when the trace begins: now (default), keep (its own times), or a time like 2026-11-30T22:10:00Z",
    )  # fmt: skip
    csv.add_argument("--fabric", metavar="NAME", help="the fabric's name (default: the folder's)")
    csv.add_argument("--pace", metavar="SECONDS", type=float, default=0.0, help="spread it over so many seconds")
    csv.add_argument("--every", metavar="SECONDS", type=float, help="publish it again and again, so often")
    csv.add_argument("--without", metavar="EVIDENCE", help=WITHOUT_HELP)
    add_kafka_options(csv)
    inventory.register_import(group)


def add_analysis_options(parser: argparse.ArgumentParser) -> None:
    """What `analyze_path` takes, beside the path."""
    parser.add_argument("--without", metavar="EVIDENCE", help=WITHOUT_HELP)
    parser.add_argument(
        "--polled", metavar="TIME", help="a trace as polls of its devices, so often, would have shown it"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, default=1, help="read a capture in so many processes (default: 1)"
    )
    add_row_options(parser)


def analyze_path(args: argparse.Namespace) -> Analysis:
    """The cascades of the trace folder or capture that the arguments name."""
    from pathlib import Path

    from stream.capture_manifest import looks_like_capture

    path = Path(args.path)
    return _analyze_capture(args, path) if looks_like_capture(path) else _analyze_trace(args, path)


def run_analyze(args: argparse.Namespace) -> int:
    """Analyzes one folder."""
    analysis = analyze_path(args)
    for note in analysis.notes:
        print(f"pausetrace: note: {note}", file=sys.stderr)
    if args.output == "table":
        from pausetrace.report import print_report
        from pausetrace.terminal import make_console

        print_report(
            analysis.cascades, make_console(sys.stdout), whole=args.all, hint=" (--all draws them)",
            has_pauses=analysis.has_pauses,
        )  # fmt: skip
        return 0
    from pausetrace.report import worst_first
    from stream.messages import encode

    if args.output == "dot":
        from pausetrace.dot import dot_graph

        sys.stdout.write(dot_graph(worst_first(analysis.cascades)))
        return 0
    values = [encode(cascade).value.decode() for cascade in worst_first(analysis.cascades)]
    if args.output == "jsonl":
        sys.stdout.writelines(f"{value}\n" for value in values)
    else:
        sys.stdout.write(f"[{','.join(values)}]\n")
    return 0


def _analyze_trace(args: argparse.Namespace, path: Path) -> Analysis:
    from pausetrace.analysis import analyze_trace
    from stream.errors import ConfigError

    if args.workers != 1 or chooses_rows(args):
        raise ConfigError(
            f"{path} is no capture, whose rows could be chosen or spread over processes",
            "turn it into one: pausetrace capture import",
        )
    polled_ns = duration_ns("--polled", args.polled, most_ns=MINUTE_NS) if args.polled is not None else 0
    return analyze_trace(path, _without(args.without), polled_ns=polled_ns)


def _analyze_capture(args: argparse.Namespace, path: Path) -> Analysis:
    from stream.allocator import keep_freed_memory

    keep_freed_memory()
    from pausetrace.analysis import Analysis
    from pausetrace.capture_analysis import analyze_capture
    from pausetrace.progress import Bar
    from stream.errors import ConfigError

    if args.without:
        raise ConfigError("--without is for traces", "choose a capture's rows by --kind, or leave a topic out")
    if args.polled is not None:
        raise ConfigError("--polled is for traces", "a capture holds what was polled")
    with Bar("analyzing", "messages") as bar:
        analysis = analyze_capture(path, row_filter(args), workers=args.workers, progress=bar.update)
    return Analysis((*analysis.cascades, *analysis.unfinished), analysis.notes, has_pauses=True)


def run_evaluate(args: argparse.Namespace) -> int:
    """Scores the analysis."""
    from pathlib import Path

    from stream.errors import ConfigError

    if args.degrade:
        return _run_degraded(args)
    if args.seeds is not None or args.workers is not None or args.reliability:
        raise ConfigError("--seeds, --workers and --reliability are for spoilt traces", "say how: --degrade loss=.1")
    from analytics.offline import final_cascades
    from pausetrace.evaluate import evaluate
    from pausetrace.evaluation_table import print_evaluation
    from pausetrace.terminal import make_console

    paths = [Path(path) for path in args.paths]
    report = evaluate(paths, _without(args.without), final_cascades, suspects=args.suspects, progress=_tell_progress)
    if args.output == "json":
        _write_json(report)
    else:
        print_evaluation(report, make_console(sys.stdout))
    return 0


def _run_degraded(args: argparse.Namespace) -> int:
    """Scores the analysis of spoilt traces."""
    from pathlib import Path

    from analytics.offline import final_cascades
    from pausetrace.degradation_table import print_degradations, print_reliability
    from pausetrace.degradations import evaluate_degraded
    from pausetrace.degrade_spec import parse_degradation
    from pausetrace.terminal import make_console

    report = evaluate_degraded(
        [Path(path) for path in args.paths],
        _without(args.without),
        [parse_degradation(text) for text in args.degrade],
        final_cascades,
        seeds=_at_least_one("--seeds", args.seeds, DEFAULT_SEEDS),
        workers=_at_least_one("--workers", args.workers, 1),
        suspects=args.suspects,
        progress=_tell_progress,
    )
    if args.output == "json":
        _write_json(report)
        return 0
    console = make_console(sys.stdout)
    print_degradations(report, console)
    if args.reliability:
        console.print()
        print_reliability(report.reliability, console)
    return 0


def _at_least_one(option: str, number: int | None, default: int) -> int:
    from stream.errors import ConfigError

    if number is not None and number < 1:
        raise ConfigError(f"{option} {number} leaves nothing to do", "give 1 or more")
    return default if number is None else number


def _tell_progress(text: str) -> None:
    print(f"evaluate: {text}", file=sys.stderr)


def _write_json(report: object) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")


def run_import_csv(args: argparse.Namespace) -> int:
    """Publishes one folder, once or again and again."""
    import time
    from pathlib import Path

    from pausetrace.importer import import_trace
    from simulation.trace import read_trace
    from stream.errors import ConfigError

    if not 0 <= args.pace < float("inf"):
        raise ConfigError(f"--pace {args.pace:g} is no number of seconds", "leave it out to publish at full speed")
    if args.every is not None and (args.time != "now" or not 1 <= args.every < float("inf")):
        raise ConfigError(
            f"--every {args.every:g} --time {args.time} does not go", "give --every a second or more, and no --time"
        )
    fabric = fabric_name(args.fabric)
    settings = kafka_settings(args)
    trace = read_trace(Path(args.path), _without(args.without))
    for note in trace.notes:
        print(f"pausetrace: note: {note}", file=sys.stderr)
    # However it ends, the roster is told that its streams have.
    end_in_order()
    start_ns = start_time(args.time)
    while True:
        begun_s = time.monotonic()
        from_ns = time.time_ns() if start_ns is None else start_ns
        done = import_trace(trace, settings, fabric or trace.name, from_ns, args.pace)
        print(
            f"pausetrace: published {done.rows:,} rows and {done.facts:,} facts of {done.streams:,} streams, "
            f"fabric {done.fabric}, epoch {done.epoch}",
            file=sys.stderr,
        )
        if args.every is None:
            return 0
        time.sleep(max(0.0, begun_s + args.every - time.monotonic()))


def start_time(text: str) -> int | None:
    """The time of --time in ns, None for now; raises ConfigError."""
    if text in ("now", "keep"):
        return None if text == "now" else 0
    return parse_event_time("--time", text, "give now, keep or a time like 2026-11-30T22:10:00Z")


def _without(text: str | None) -> frozenset[str]:
    from stream.errors import ConfigError

    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if "" in parts:
        raise ConfigError(f"--without {text!r} names nothing in a place", "give flows, queues or flows,queues")
    return frozenset(parts)
