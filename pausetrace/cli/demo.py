"""`pausetrace demo`: one congestion cascade, traced to its root while one watches."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import MINUTE_NS, add_kafka_options, add_verb, duration_ns, end_in_order, kafka_settings
from pausetrace.cli.play import LEAST_NS, VENDORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "demo", "watch one congestion cascade being traced to its root", run,
        "Publishes a trace with a slow receiver through a broker, with detect and correlate as processes, and draws\n"
        "the cascade as it is understood: on an embedded broker, or with --bootstrap-servers on your Kafka, where it\n"
        "makes topics pausetrace-demo.* (another --prefix if you like). Settings of Kafka in variables and in a file\n"
        "count with --bootstrap-servers alone.",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="DIR", help="a trace folder (docs/trace-format.md; default: one that comes with Pausetrace)"
    )
    parser.add_argument("--seconds", metavar="N", type=float, default=20.0, help="how long to take (default: 20)")
    parser.add_argument(
        "--sampled", metavar="PERIOD",
        help="counters that are polled so often, such as 1s, instead of every single pause: the trace is played by\n"
        "switches that speak gNMI and by recorded hosts, in five periods",
    )  # fmt: skip
    parser.add_argument(
        "--vendor", metavar="NAME", choices=VENDORS,
        help=f"with --sampled: whose words the switches speak: {', '.join(VENDORS)} (default: eos)",
    )  # fmt: skip
    add_kafka_options(
        parser,
        servers="an embedded broker of the demo's own",
        prefix="pausetrace-demo; the embedded broker has fabric alone",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the demo and prints the final cascades."""
    from pathlib import Path

    from pausetrace.demo import DEMO_TRACE, run_demo, run_sampled_demo, with_demo_prefix
    from pausetrace.demo_view import LiveShow, PlainShow
    from pausetrace.report import print_report
    from pausetrace.terminal import make_console
    from stream.errors import ConfigError

    if not 1 <= args.seconds <= 3600:
        raise ConfigError(f"--seconds {args.seconds:g} is not from 1 to 3600", "leave it out for 20")
    if args.vendor is not None and args.sampled is None:
        raise ConfigError("--vendor is for --sampled, whose switches are polled", "add --sampled 1s")
    settings = None
    if args.bootstrap_servers:
        settings = kafka_settings(args) if args.prefix else with_demo_prefix(kafka_settings(args))
    # The broker and the child processes end before this one.
    end_in_order()
    console = make_console(sys.stdout)
    with LiveShow(console) if console.is_terminal else PlainShow() as show:
        trace = Path(args.trace) if args.trace else DEMO_TRACE
        if args.sampled is not None:
            finals = run_sampled_demo(
                settings, trace, duration_ns("--sampled", args.sampled, LEAST_NS, MINUTE_NS), args.vendor or "eos", show
            )
        else:
            finals = run_demo(settings, trace, args.seconds, show)
    print_report(finals, console, pictures=1)
    return 0
