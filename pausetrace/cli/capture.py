"""`pausetrace capture`: topics into files, proof that the files are whole, and traces as captures."""

from __future__ import annotations

import argparse
import re
import sys

from pausetrace.cli.options import add_group, add_kafka_options, add_output_option, add_verb, kafka_settings
from pausetrace.cli.row_options import add_time_options, time_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs
    from stream.capture_manifest import Manifest, OffsetRange, Range
    from stream.capture_verify import Verdict

_OFFSETS = re.compile(r"(?P<topic>[^:\[\]]+)(?:\[(?P<partition>\d+)\])?:(?P<first>\d*)-(?P<end>\d*)")


def register(verbs: Verbs) -> None:
    """Adds the group."""
    group = add_group(
        verbs, "capture", "keep topics in Parquet files",
        "Keeps topics, as they are now, in files that pandas, Polars and DuckDB read as they are, and `replay` and\n"
        "`analyze` take (docs/capture.md). `capture DIR` is short for `capture run DIR`.",
        default="run",
    )  # fmt: skip
    run = add_verb(
        group, "run", "capture topics", run_capture,
        "Captures topics up to their present end into a folder, without touching any consumer group. Facts and the\n"
        "roster are always captured too, from their beginning. If it is stopped in whatever way, the same command\n"
        "goes on; if files of it are damaged or missing, it captures their messages again.",
        "offsets are TOPIC:FIRST-END or TOPIC[PARTITION]:FIRST-END; the end is not included, and both may be left out.",
    )  # fmt: skip
    run.add_argument("folder", metavar="DIR", help="the folder, which must not exist or hold this capture unfinished")
    run.add_argument(
        "--topic", metavar="NAME", action="append", default=[], help="this topic (repeatable; default: all)"
    )
    add_time_options(run)
    run.add_argument("--kafka-time", action="store_true", help="--from and --to are Kafka's times, not those of events")
    run.add_argument("--offsets", metavar="RANGE", action="append", default=[], help="these offsets (repeatable)")
    add_kafka_options(run)
    verify = add_verb(
        group, "verify", "prove that a capture is whole", run_verify,
        "Compares every file with what was written and looks for offsets that are missing. Exit status 1 if anything\n"
        "is wrong; each wrong file and range of offsets is named.",
    )  # fmt: skip
    verify.add_argument("folder", metavar="DIR", help="the capture")
    verify.add_argument("--rows", action="store_true", help="also look whether each event belongs to its message")
    add_output_option(verify, "table", "json")
    trace = add_verb(
        group, "import", "turn a trace folder into a capture", run_import,
        "Writes a trace folder (docs/trace-format.md) as the capture that its publication would give. Needs no Kafka.",
    )  # fmt: skip
    trace.add_argument("path", metavar="TRACE_DIR", help="the trace")
    trace.add_argument("folder", metavar="OUT", help="the folder of the capture")
    trace.add_argument("--time", metavar="WHEN", default="keep", help="when it begins: keep (default), now or a time")
    trace.add_argument("--fabric", metavar="NAME", help="the fabric's name (default: the folder's)")


def run_capture(args: argparse.Namespace) -> int:
    """Captures topics."""
    from pathlib import Path

    from pausetrace.progress import Bar
    from stream.capture import Done, capture
    from stream.capture_message import PRELUDE
    from stream.capture_source import KafkaSource
    from stream.topics import TOPICS, bare_name

    settings = kafka_settings(args)
    named = {bare_name(settings.prefix, topic) for topic in args.topic}
    # In the order of the table, so that the same names in another order are the same capture.
    topics = [topic.name for topic in TOPICS if not named or topic.name in named or topic.name in PRELUDE]
    wanted = _range(args, settings.prefix, topics)
    with KafkaSource(settings) as source, Bar("capturing", "messages") as bar:

        def progress(done: Done) -> None:
            bar.update(done.offsets, done.of_offsets, done.bytes)

        manifest = capture(source, Path(args.folder), topics, settings.prefix, wanted, progress=progress, tell=bar.tell)
    _tell(manifest, args.folder)
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Proves a capture whole."""
    from pathlib import Path

    from pausetrace.plain_text import printable
    from pausetrace.progress import Bar
    from stream.capture_verify import verify
    from stream.errors import EXIT_FAILURE

    with Bar("verifying", "bytes") as bar:
        verdict = verify(Path(args.folder), rows=args.rows, progress=bar.update)
    if args.output == "json":
        import msgspec

        sys.stdout.write(msgspec.json.encode({"whole": verdict.whole, **verdict._asdict()}).decode() + "\n")
    else:
        for problem in verdict.problems:
            print(printable(problem))
        print(_verdict_text(verdict))
        if verdict.undecodable:
            print(f"{verdict.undecodable:,} values do not decode, and are kept: column error of the messages says why")
        for gap in verdict.gaps:
            print(f"missing on Kafka already: {printable(gap)}")
    return 0 if verdict.whole else EXIT_FAILURE


def run_import(args: argparse.Namespace) -> int:
    """Turns a trace into a capture."""
    import time
    from pathlib import Path

    from pausetrace.capture_import import capture_trace
    from pausetrace.cli.traces import start_time
    from pausetrace.progress import Bar
    from simulation.trace import read_trace

    start_ns = start_time(args.time)
    trace = read_trace(Path(args.path), frozenset())
    for note in trace.notes:
        print(f"pausetrace: note: {note}", file=sys.stderr)
    with Bar("importing", "messages") as bar:
        manifest = capture_trace(
            trace, Path(args.folder), args.fabric or trace.name, time.time_ns() if start_ns is None else start_ns,
            lambda done: bar.update(done.offsets, done.of_offsets, done.bytes),
        )  # fmt: skip
    _tell(manifest, args.folder)
    return 0


def _range(args: argparse.Namespace, prefix: str, topics: list[str]) -> Range:
    from stream.capture_manifest import Range
    from stream.errors import ConfigError

    timed = args.from_time is not None or args.to_time is not None
    if args.offsets and (timed or args.kafka_time):
        raise ConfigError("--offsets and times cannot both choose", "give one of them")
    if args.offsets:
        return Range("offset", offsets=tuple(_offsets(text, prefix, topics) for text in args.offsets))
    if args.kafka_time and not timed:
        raise ConfigError("--kafka-time says what --from and --to mean", "give one of them, or leave it out")
    return Range("kafka" if args.kafka_time else "event", *time_range(args))


def _offsets(text: str, prefix: str, topics: list[str]) -> OffsetRange:
    from stream.capture_manifest import OffsetRange
    from stream.errors import ConfigError
    from stream.topics import bare_name

    topic = bare_name(prefix, text.partition(":")[0].partition("[")[0])
    match = _OFFSETS.fullmatch(text)
    if match is None:
        raise ConfigError(f"--offsets {text} is no range", "write it like pfc:1000-2000 or pfc[3]:1000-")
    if topic not in topics:
        raise ConfigError(f"--offsets {text} is of a topic that is not captured", f"add --topic {topic}")
    first, end = int(match["first"] or 0), int(match["end"]) if match["end"] else -1
    if 0 <= end <= first:
        raise ConfigError(f"--offsets {text} holds nothing", "the end is not included")
    return OffsetRange(topic, int(match["partition"]) if match["partition"] else -1, first, end)


def _tell(manifest: Manifest, folder: str) -> None:
    from pausetrace.units import bytes_text

    per_event = f", {manifest.bytes / manifest.events:.1f} bytes an event" if manifest.events else ""
    print(
        f"pausetrace: {folder} holds {manifest.messages:,} messages with {manifest.events:,} events in "
        f"{bytes_text(manifest.bytes)}{per_event}",
        file=sys.stderr,
    )
    if manifest.gaps:
        print(f"pausetrace: {manifest.gaps:,} messages were gone before they could be read", file=sys.stderr)


def _verdict_text(verdict: Verdict) -> str:
    from pausetrace.units import bytes_text

    what = (
        f"{verdict.messages:,} messages, {verdict.events:,} events, {bytes_text(verdict.bytes)} "
        f"in {verdict.files:,} files"
    )
    return f"whole: {what}" if verdict.whole else f"not whole: {len(verdict.problems):,} problems among {what}"
