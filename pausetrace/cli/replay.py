"""`pausetrace replay`: a capture to topics of its own."""

from __future__ import annotations

import argparse
import re
import sys

from pausetrace.cli.options import add_kafka_options, add_output_option, add_verb, kafka_settings
from pausetrace.cli.row_options import add_row_options, row_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs
    from stream.capture_manifest import Manifest
    from stream.replay import Replayed
    from stream.replay_plan import Options, Shift

_DURATION = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "replay", "send a capture to topics of its own", run_replay,
        "Sends a capture (docs/capture.md) to topics under another prefix, at its own pace or another, each message\n"
        "once and with a header that says where it was. If it is stopped in whatever way, the same command goes on;\n"
        "after the end it only compares what Kafka has with what was sent (docs/replay.md).",
        "a duration is a number with ms, s, m, h or d: --shift 1.5h, or --shift=-90m for back.",
    )  # fmt: skip
    parser.add_argument("folder", metavar="CAPTURE", help="the capture")
    parser.add_argument(
        "--to-prefix", metavar="NAME", help="what the target's topics begin with (default: replay. and the captured)"
    )
    parser.add_argument(
        "--any-prefix", action="store_true", help="write even where the prefix does not begin with replay."
    )
    parser.add_argument("--into-source", action="store_true", help="write even to the very topics that were captured")
    parser.add_argument(
        "--topic", metavar="NAME", action="append", default=[],
        help="this topic, beside roster and facts (repeatable; default: events as sources published them)",
    )  # fmt: skip
    parser.add_argument("--speed", metavar="X|max", default="1", help="how many times as fast as it was (default: 1)")
    parser.add_argument(
        "--shift", metavar="now|DURATION|none", default="none",
        help="move all times: the first event to now, or by a duration (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--partitions", metavar="keep|by-key", choices=("keep", "by-key"), default="keep",
        help="as they were (default), or by the messages' keys",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only count what would be sent; needs no Kafka")
    parser.add_argument("--again", action="store_true", help="send everything anew, whatever was sent before")
    parser.add_argument(
        "--beside-others", action="store_true", help="send even where another replay or anything else lies already"
    )
    parser.add_argument("--journal", metavar="FILE", help="where to keep how far it has come (default: beside CAPTURE)")
    add_output_option(parser, "table", "json")
    add_row_options(parser)
    add_kafka_options(parser, prefix=None)


def run_replay(args: argparse.Namespace) -> int:
    """Replays, or counts what a replay would send."""
    from pathlib import Path

    from pausetrace.progress import Bar
    from stream.capture_manifest import load_manifest
    from stream.errors import EXIT_FAILURE, EXIT_INTERRUPTED
    from stream.replay import Done, dry_run, replay
    from stream.replay_journal import journal_path
    from stream.replay_target import default_prefix, guard_prefix
    from stream.worker import stop_on_signals

    path = Path(args.folder)
    manifest = load_manifest(path)
    options = _options(args, manifest)
    prefix = args.prefix = args.to_prefix or default_prefix(manifest)
    stopped = False
    with Bar("replaying", "messages") as bar:

        def progress(done: Done) -> None:
            bar.update(done.messages, done.of_messages, done.bytes)

        if args.dry_run:
            done = dry_run(path, prefix, options, progress=progress)
        else:
            guard_prefix(manifest, prefix, any_prefix=options.any_prefix)  # before it is taken for a --prefix
            settings = kafka_settings(args)
            journal = Path(args.journal) if args.journal else journal_path(path, prefix)
            with stop_on_signals() as stop:
                done = replay(path, settings, options, journal, progress=progress, stop=stop.is_set)
                stopped = stop.is_set()
    for note in done.notes:
        print(f"pausetrace: note: {note}", file=sys.stderr)
    for problem in done.problems:
        print(f"pausetrace: {problem}", file=sys.stderr)
    _tell(args, done, options, f"would replay to {prefix}.*" if args.dry_run else f"replayed to {prefix}.*")
    if not done.problems:
        return 0
    return EXIT_INTERRUPTED if stopped else EXIT_FAILURE


def _options(args: argparse.Namespace, manifest: Manifest) -> Options:
    from stream.errors import ConfigError
    from stream.replay_plan import Options
    from stream.topics import bare_name

    if args.speed == "max":
        speed = 0.0
    else:
        try:
            speed = float(args.speed)
        except ValueError:
            speed = -1.0
        if not 0 < speed < float("inf"):
            raise ConfigError(f"--speed {args.speed} is no speed", "give a number such as 1 or 10, or max")
    topics = tuple(dict.fromkeys(bare_name(manifest.plan.prefix, topic) for topic in args.topic))
    return Options(
        topics, row_filter(args), _shift(args.shift), speed, args.partitions == "by-key", args.any_prefix,
        args.into_source, args.again, args.beside_others,
    )  # fmt: skip


def _shift(text: str) -> Shift:
    from decimal import Decimal

    from stream.errors import ConfigError

    if text == "now":
        return "now"
    if text == "none":
        return 0
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(f"--shift {text} is no duration", "give now, none, or a duration such as 2h or -90m")
    shift_ns = int(Decimal(match["number"]) * _UNITS_NS[match["unit"]])
    if shift_ns % _UNITS_NS["ms"]:
        raise ConfigError(f"--shift {text} is no whole number of ms, in which Kafka counts", "round it")
    return -shift_ns if match["sign"] == "-" else shift_ns


def _tell(args: argparse.Namespace, done: Replayed, options: Options, what: str) -> None:
    from pausetrace.units import bytes_text, duration_text

    seconds = done.lasted_ms / 1000 / options.speed if options.speed else None
    if args.output == "json":
        import msgspec

        told = {**done._asdict(), "takes_s": seconds}
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
        return
    if done.found and done.found >= sum(done.messages.values()):
        print(f"nothing to send: {done.found:,} messages were there already (--again sends them anew)")
        return
    for topic, count in done.messages.items():
        print(f"{topic}: {count:,} messages")
    lasted = duration_text(done.lasted_ms * 10**6)
    pace = "as fast as Kafka takes it" if seconds is None else f"in {duration_text(int(seconds * 10**9))}"
    print(f"{what}: {sum(done.messages.values()):,} messages, {bytes_text(done.bytes)} of {lasted}, {pace}")
    if done.shift_ns:
        print(f"times move by {duration_text(done.shift_ns)}")
    if done.found:
        print(f"{done.found:,} messages were there already")
    if done.untouched:
        print(f"{done.untouched:,} messages that do not decode keep the times that are in them")
