"""`pausetrace demo`: one congestion cascade, traced to its root while one watches."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import MINUTE_NS, add_kafka_options, add_verb, duration_ns, end_in_order, kafka_settings
from pausetrace.cli.play import LEAST_NS, VENDORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "demo", "watch a fabric's trouble being traced to its root", run,
        "Operation Slowburn: 2,048 GPUs train, and at step 10 one NIC's PCIe link comes up narrow. A model plays the\n"
        "fabric; Pausetrace gets what its devices tell, as a trace folder, and names the host, draws the cascade,\n"
        "lists who is held up and prices the stall. --scenario has others, of 256 hosts.\n\n"
        "--scenario trace, or any option of it, is the small one: it publishes a trace with a slow receiver through\n"
        "a broker, with detect and correlate as processes, and draws the cascade as it is understood: on an embedded\n"
        "broker, or with --bootstrap-servers on your Kafka, where it makes topics pausetrace-demo.* (another --prefix\n"
        "if you like). Settings of Kafka in variables and in a file count with --bootstrap-servers alone.",
        "docs/slowburn.md tells the story.",
    )  # fmt: skip
    parser.add_argument("--scenario", metavar="NAME", help="what goes wrong (default: slowburn)")
    parser.add_argument("--list", action="store_true", help="tell all scenarios, and do nothing")
    parser.add_argument("--seed", metavar="N", type=int, help="another fabric of the same kind (default: 1)")
    parser.add_argument("--keep", metavar="DIR", help="leave a capture there, for replay and analysis")
    parser.add_argument("--price", metavar="NUMBER", type=float, help="of a rank for an hour (default: 2.50)")
    parser.add_argument(
        "--trace", metavar="DIR", help="a trace folder (docs/trace-format.md; default: one that comes with Pausetrace)"
    )
    parser.add_argument("--seconds", metavar="N", type=float, help="how long to take (default: 20)")
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
    """Runs a demo and prints what was found."""
    from stream.errors import ConfigError

    small = [
        flag
        for flag, given in (
            ("--trace", args.trace), ("--sampled", args.sampled), ("--vendor", args.vendor),
            ("--seconds", args.seconds), ("--bootstrap-servers", args.bootstrap_servers), ("--prefix", args.prefix),
        )
        if given is not None
    ]  # fmt: skip
    if args.list:
        return _list()
    if args.scenario == "trace" or (args.scenario is None and small):
        for flag, given in (("--keep", args.keep), ("--seed", args.seed), ("--price", args.price)):
            if given is not None:
                raise ConfigError(f"{flag} is not for the scenario `trace`", "leave it out, or choose another scenario")
        return _run_trace(args)
    if small:
        raise ConfigError(f"{small[0]} is for the scenario `trace` alone", "leave it out, or leave --scenario out")
    return _run_story(args)


def _list() -> int:
    from pausetrace.story_demo import scenarios
    from pausetrace.terminal import make_console

    console = make_console(sys.stdout)
    told = scenarios()
    width = max(map(len, told))
    for name, about in told.items():
        console.print(f" {name:<{width}}  {about}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _run_story(args: argparse.Namespace) -> int:
    from pausetrace.plain_text import printable
    from pausetrace.story_demo import run_story, scenarios
    from pausetrace.story_text import PRICE, print_findings
    from pausetrace.terminal import make_console
    from stream.errors import ConfigError

    # What is written on the way is gone before this process is.
    end_in_order()
    name = "slowburn" if args.scenario is None else args.scenario
    seed = 1 if args.seed is None else args.seed
    price = PRICE if args.price is None else args.price
    if name not in scenarios():
        raise ConfigError(f"--scenario {name!r} is none of them", "`pausetrace demo --list` tells all")
    if not 0 <= seed < 1 << 31:
        raise ConfigError(f"--seed {seed} is not from 0 to 2147483647", "leave it out for 1")
    if not 0 <= price < float("inf"):
        raise ConfigError(f"--price {price:g} is no price", "give that of a rank for an hour, like 2.50")
    keep = _new_folder(args.keep) if args.keep is not None else None

    def say(sentence: str) -> None:
        print(f"demo: {printable(sentence)}", file=sys.stderr, flush=True)

    found = run_story(name, seed, keep, say)
    print_findings(found, make_console(sys.stdout), price)
    return 0


def _new_folder(text: str) -> Path:
    """The folder to keep a capture in, made before the story is played: what cannot be kept is told at once."""
    from pathlib import Path

    from stream.errors import ConfigError

    next_step = "give a folder that is new or empty"
    if not text:
        raise ConfigError("--keep names no folder", next_step)
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as err:
        raise ConfigError(f"--keep {text}: {err.strerror}", next_step) from err
    if not is_empty:
        raise ConfigError(f"--keep {text} holds something already", next_step)
    return folder


def _run_trace(args: argparse.Namespace) -> int:
    from pathlib import Path

    from pausetrace.demo import DEMO_TRACE, run_demo, run_sampled_demo, with_demo_prefix
    from pausetrace.demo_view import LiveShow, PlainShow
    from pausetrace.report import print_report
    from pausetrace.terminal import make_console
    from stream.errors import ConfigError

    seconds = 20.0 if args.seconds is None else args.seconds
    if not 1 <= seconds <= 3600:
        raise ConfigError(f"--seconds {seconds:g} is not from 1 to 3600", "leave it out for 20")
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
            finals = run_demo(settings, trace, seconds, show)
    print_report(finals, console, pictures=1)
    return 0
