"""`pausetrace observe`: what comes on a topic, decoded."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_verb, kafka_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs
    from pausetrace.columns import Selection


EVENT_TOPICS = ("pfc", "ecn", "queue", "flowbytes", "pcie", "kernel", "host", "episode")
JSON_TOPICS = ("device", "link", "flow", "cascade", "health", "control", "deadletter")


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "observe", "watch what comes on a topic", run,
        "Shows what comes on a topic: a table on a terminal, JSON lines in a pipe. Times are UTC.",
        f"topics: {' '.join(EVENT_TOPICS)} (events);\n{' '.join(JSON_TOPICS)} (JSON as published).",
    )  # fmt: skip
    parser.add_argument("topic", metavar="TOPIC", help="name of the topic, with or without its prefix")
    parser.add_argument("--device", metavar="NAME", action="append", default=[], help="this device only (repeatable)")
    parser.add_argument("--port", metavar="NAME", action="append", default=[], help="this port only (repeatable)")
    parser.add_argument(
        "--priority", metavar="0-7", action="append", type=int, choices=range(8), default=[],
        help="this priority only (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--kind", metavar="KIND", action="append", default=[], help="this kind only, such as PFC_XOFF (repeatable)"
    )
    parser.add_argument(
        "--from", dest="start", metavar="WHERE", choices=("earliest", "latest"), default="latest",
        help="begin at the earliest event kept, or at the latest (default)",
    )  # fmt: skip
    parser.add_argument("--limit", metavar="N", type=int, help="stop after so many")
    parser.add_argument("--no-follow", action="store_true", help="stop at the present end of the topic")
    parser.add_argument("--local", action="store_true", help="times of the local zone")
    add_kafka_options(parser)


def run(args: argparse.Namespace) -> int:
    """Shows the topic until it is enough."""
    from pausetrace.observe import JsonLines, LiveTable, Tally, Wanted, observe
    from pausetrace.reader import Reader
    from pausetrace.terminal import make_console
    from stream.errors import ConfigError
    from stream.topics import bare_name

    settings = kafka_settings(args)
    if args.topic.removeprefix(f"{settings.prefix}.") == "state":
        raise ConfigError("topic 'state' holds snapshots of steps, which only they can read", "observe another topic")
    topic = bare_name(settings.prefix, args.topic, (*EVENT_TOPICS, *JSON_TOPICS))
    if topic not in EVENT_TOPICS and (args.port or args.priority or args.kind):
        raise ConfigError(f"topic {topic!r} has no port, priority or kind to choose by", "use --device alone")
    if args.limit is not None and args.limit < 1:
        raise ConfigError(f"--limit {args.limit} shows nothing", "give a number from 1")
    wanted = Wanted(_selection(args), args.limit, args.local)
    tally = Tally()
    with Reader(settings, [topic], args.start) as reader:
        try:
            if sys.stdout.isatty():
                with LiveTable(make_console(sys.stdout), topic, reader, args.local) as table:
                    observe(reader, table, wanted, not args.no_follow, tally)
            else:
                observe(reader, JsonLines(sys.stdout, args.local), wanted, not args.no_follow, tally)
        finally:
            _report(reader.counters)
            if tally.passed_over and not tally.shown:
                what = "rows" if topic in EVENT_TOPICS else "values"
                print(
                    f"pausetrace: no {what[:-1]} was chosen, {tally.passed_over:,} {what} were passed over",
                    file=sys.stderr,
                )
    return 0


def _selection(args: argparse.Namespace) -> Selection:
    from difflib import get_close_matches

    from pausetrace.columns import Selection
    from stream.errors import ConfigError
    from stream.kinds import BY_NAME

    for name in args.kind:
        if name.upper() not in BY_NAME:
            near = get_close_matches(name.upper(), BY_NAME, 1)
            raise ConfigError(
                f"no kind {name!r}", f"did you mean {near[0]}?" if near else "`pausetrace schema docs` lists them"
            )
    return Selection(
        frozenset(args.device),
        frozenset(args.port),
        frozenset(args.priority),
        frozenset(BY_NAME[name.upper()].code for name in args.kind),
    )


def _report(counters: dict[str, int]) -> None:
    told = (("bad_values", "values did not decode and were skipped"), ("missing_offsets", "messages were missing"))
    for name, what in told:
        if counters[name]:
            print(f"pausetrace: {counters[name]:,} {what}", file=sys.stderr)
