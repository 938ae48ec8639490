"""`pausetrace tails`: which ports and ranks stand out from their like, and what slow steps cost."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_output_option, add_verb, duration_ns, kafka_settings
from pausetrace.cli.row_options import add_time_options, time_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "tails", "tell which ports and ranks stand out, and what slow steps cost", run,
        "Compares every port, NIC and queue with its peers and its own past, and finds the steps of jobs that lasted\n"
        "longer than usual: the rank that all waited for, the cost, and the cascade behind it or that it is not the\n"
        "fabric. Beside each stands what the mean of all said. Tells as well what is full first as load grows.\n"
        "Reads a trace folder, a capture, or Kafka up to now.",
        "docs/tails.md says how it is measured, and what makes it wrong.",
    )  # fmt: skip
    parser.add_argument("path", metavar="PATH", nargs="?", help="a trace's or capture's folder, instead of Kafka")
    parser.add_argument(
        "--period", metavar="DURATION", default="1s",
        help="what counters are added up over before they are compared (default: 1s); no shorter than their polls",
    )  # fmt: skip
    parser.add_argument(
        "--price", metavar="NUMBER", type=float, help="of a rank for an hour, to tell the cost of stalls"
    )
    add_time_options(parser)
    parser.add_argument("--local", action="store_true", help="times of the local zone")
    add_output_option(parser, "table", "json", "jsonl")
    add_kafka_options(parser)


def run(args: argparse.Namespace) -> int:
    """Tells the tails."""
    from pathlib import Path

    from pausetrace.tails_view import fabric_tails, items_of_capture, items_of_trace, items_on_kafka
    from stream.capture_manifest import looks_like_capture
    from stream.errors import ConfigError

    period_ns = duration_ns("--period", args.period)
    if args.price is not None and not 0 <= args.price < float("inf"):
        raise ConfigError(f"--price {args.price:g} is no price", "give that of a rank for an hour, like 2.50")
    from_ns, to_ns = time_range(args)
    if args.path is None:
        items = items_on_kafka(kafka_settings(args))
    elif looks_like_capture(path := Path(args.path)):
        items = items_of_capture(path, from_ns, to_ns)
    else:
        items = items_of_trace(path)
    found = fabric_tails(items, period_ns, from_ns, to_ns)
    if args.output == "table":
        from pausetrace.tails_text import print_tails
        from pausetrace.terminal import make_console

        print_tails(found, make_console(sys.stdout), args.price, args.local)
        return 0
    import msgspec

    if args.output == "json":
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    for of in found:
        for what, entries in (("stall", of.stalls), ("tail", of.tails), ("period", of.periods), ("limit", of.limits)):
            for entry in entries:
                line = {"what": what, "fabric": of.fabric, **msgspec.to_builtins(entry)}
                sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    return 0
