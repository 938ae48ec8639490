"""`pausetrace play`: a fabric that plays a trace, to be polled by `pausetrace collect` and `pausetrace probe`."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import MINUTE_NS, add_parent_option, add_verb, duration_ns, end_with_parent, fabric_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs

LEAST_NS = 1_000_000
VENDORS = ("openconfig", "sonic", "sonic-defaults", "eos", "cumulus", "nxos")


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "play", "play a trace as a fabric that can be polled", run,
        "Every switch of the trace is a gNMI target on 127.0.0.1 that tells its counters as the vendor's switches do;\n"
        "every host is a folder. DIR/fabric.toml is the inventory for `pausetrace collect`, DIR/hosts is for\n"
        "`pausetrace probe --hosts`. The trace begins when every switch is polled. Ends by Ctrl-C or SIGTERM.",
    )  # fmt: skip
    parser.add_argument("trace", metavar="TRACE", help="a trace folder (docs/trace-format.md)")
    parser.add_argument("folder", metavar="DIR", help="where the inventory and the hosts are written")
    parser.add_argument(
        "--vendor", metavar="NAME", choices=VENDORS, default="eos",
        help=f"whose words the switches speak: {', '.join(VENDORS)} (default: eos)",
    )  # fmt: skip
    parser.add_argument("--period", metavar="TIME", default="1s", help="how often they are polled (default: 1s)")
    parser.add_argument(
        "--over", metavar="TIME", help="the incident takes so long, slowed down (default: four periods)"
    )
    parser.add_argument("--repeat", action="store_true", help="play it again and again for that time, in its own pace")
    parser.add_argument("--every", metavar="TIME", help="play it again every so often, such as 60s (default: once)")
    parser.add_argument("--fabric", metavar="NAME", default="played", help="what it is called (default: played)")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="the first switch's (default: any)")
    add_parent_option(parser)


def run(args: argparse.Namespace) -> int:
    """Plays until it is told to stop."""
    import asyncio

    end_with_parent(args)
    asyncio.run(_play(args))
    return 0


async def _play(args: argparse.Namespace) -> None:
    import asyncio
    import signal
    from pathlib import Path

    from pausetrace.config import MAX_PORT
    from pausetrace.units import time_text
    from simulation.gnmi_targets.played import pace_over
    from simulation.gnmi_targets.played_fabric import INVENTORY, PlayedFabric
    from simulation.trace import read_trace
    from stream.errors import ConfigError

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    trace = read_trace(Path(args.trace))
    period_ns = duration_ns("--period", args.period, LEAST_NS, MINUTE_NS)
    over_ns = duration_ns("--over", args.over, LEAST_NS) if args.over is not None else 4 * period_ns
    every_ns = duration_ns("--every", args.every, LEAST_NS) if args.every is not None else 0
    pace = pace_over(trace, over_ns, repeated=args.repeat, every_ns=every_ns)
    if not 0 <= args.port <= MAX_PORT + 1 - len(trace.devices):
        raise ConfigError(
            f"--port {args.port}: {len(trace.devices)} devices have no ports from there on",
            f"give one from 1 to {MAX_PORT + 1 - len(trace.devices)}, or 0 for any",
        )
    fabric_name(args.fabric)
    folder = Path(args.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise ConfigError(f"{folder}: {err.strerror}", "choose a folder where files can be written") from err
    fabric = PlayedFabric(trace, pace, args.vendor, period_ns, folder, fabric=args.fabric, port=args.port)
    async with fabric:
        _say(f"ready to be polled: {folder / INVENTORY}, {len(fabric.targets)} switches of {args.vendor}")
        begin = asyncio.create_task(fabric.begin())
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait((begin, ended), return_when=asyncio.FIRST_COMPLETED)
        if begin.done():
            first_ns, last_ns = begin.result()
            _say(f"queues stop from {time_text(first_ns)} to {time_text(last_ns)}")
        begin.cancel()
        await ended


def _say(text: str) -> None:
    print(f"pausetrace: play: {text}", file=sys.stderr, flush=True)
