"""`pausetrace collect`: telemetry of switches by gNMI, to Kafka or for people; and one look at a single target."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from pausetrace.cli.options import (
    add_group,
    add_kafka_options,
    add_output_option,
    add_parent_option,
    add_verb,
    end_with_parent,
    kafka_settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectors.collect_metrics import CollectExporter
    from collectors.target import Target
    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the group."""
    group = add_group(
        verbs, "collect", "subscribe to switches by gNMI and publish what they tell",
        "Follows the targets of an inventory (docs/collectors.md). `collect FILE` is short for `collect run FILE`.",
        default="run",
    )  # fmt: skip
    run = add_verb(
        group, "run", "collect", run_collect,
        "Subscribes to all targets of the inventory and publishes events, facts and the roster, until SIGTERM or\n"
        "Ctrl-C. The inventory is read again when it changes and on SIGHUP: targets come and go without a restart.",
    )  # fmt: skip
    run.add_argument("inventory", metavar="FILE", help="the inventory, in TOML")
    add_output_option(run, "kafka", "table", "jsonl")
    run.add_argument("--dry-run", action="store_true", help="read the inventory, show what would be done, and stop")
    run.add_argument(
        "--workers", metavar="N", type=int, help="processes (default: one for 250 targets, at most one a core)"
    )
    run.add_argument("--local", action="store_true", help="times of the local zone (table, jsonl)")
    run.add_argument(
        "--metrics-port", metavar="N", type=int, help="serve /metrics for a Prometheus on this port (0: any)"
    )
    run.add_argument(
        "--metrics-host", metavar="HOST", default="127.0.0.1",
        help="and at this address, without any protection (default: 127.0.0.1; 0.0.0.0 is everywhere)",
    )  # fmt: skip
    add_kafka_options(run)
    add_parent_option(run)
    check = add_verb(
        group, "check", "tell what a target supports, and which metrics it can give", run_check,
        "Connects to one target, asks for its capabilities and tries each subscription of its profile by itself.\n"
        "Exit status 1 if it cannot be reached or gives none of the metrics.",
    )  # fmt: skip
    once = add_verb(
        group, "once", "print what targets say now", run_once,
        "Asks targets once (gNMI ONCE) for all that their profile subscribes to, and prints every leaf as it was told.",
    )  # fmt: skip
    for parser in (check, once):
        parser.add_argument("inventory", metavar="FILE", help="the inventory, in TOML")
    check.add_argument("target", metavar="TARGET", help="name of the target, or of its device")
    once.add_argument("target", metavar="TARGET", nargs="*", help="names of targets (default: all)")
    add_output_option(check, "table", "json")
    add_output_option(once, "table", "jsonl")
    add_verb(group, "worker", "one process of several; `run` starts it", run_worker)


def run_collect(args: argparse.Namespace) -> int:
    """Collects until it is told to stop."""
    from pathlib import Path

    from collectors.inventory import load
    from pausetrace.collect_output import LinesOutlet
    from pausetrace.collecting import collect, setup_of, workers_of
    from stream.errors import ConfigError

    end_with_parent(args)
    path = Path(args.inventory)
    inventory = load(path)
    if args.workers is not None and not 1 <= args.workers <= 256:
        raise ConfigError(f"--workers {args.workers} is no number of processes", "give one from 1 to 256")
    if args.output != "kafka" and (args.workers or 1) > 1:
        raise ConfigError(f"-o {args.output} is written by one process", "leave --workers out")
    workers = workers_of(inventory, args.workers, len(os.sched_getaffinity(0)))
    if args.dry_run:
        from pausetrace.collect_text import plan_text

        print(plan_text(inventory, workers))
        return 0
    kafka = kafka_settings(args) if args.output == "kafka" else None
    outlet = None
    if kafka is None:
        source = setup_of(inventory, None).source
        outlet = LinesOutlet(sys.stdout, inventory.fabric, source, table=args.output == "table", local=args.local)
    with _metrics(args) as exporter:
        counters = collect(path, inventory, kafka=kafka, outlet=outlet, workers=workers, exporter=exporter)
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(counters.items()) if count)
    print(f"pausetrace: collect: {told or 'nothing came'}", file=sys.stderr)
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Looks at one target."""
    import asyncio
    from pathlib import Path

    from collectors.examine import examine
    from collectors.inventory import load
    from collectors.profile_choice import choice_of
    from pausetrace.collect_text import examination_json, examination_text

    inventory = load(Path(args.inventory))
    target = inventory.target(args.target)
    _tell_of_trust(target)
    print(f"pausetrace: collect: looking at {target.name}; the first look compiles for some seconds", file=sys.stderr)
    found = asyncio.run(examine(target, choice_of(inventory.profiles)))
    print(examination_json(found) if args.output == "json" else examination_text(found))
    return 0 if found.failure is None and any(answer.result == "data" for answer in found.answers) else 1


def run_once(args: argparse.Namespace) -> int:
    """Prints snapshots."""
    import asyncio
    from pathlib import Path

    from collectors.examine import snapshots
    from collectors.inventory import load
    from collectors.profile_choice import choice_of
    from pausetrace.collect_text import leaf_lines
    from pausetrace.plain_text import printable
    from stream.errors import PausetraceError

    inventory = load(Path(args.inventory))
    targets = [inventory.target(name) for name in args.target] or list(inventory.targets)
    choice = choice_of(inventory.profiles)
    for target in targets:
        _tell_of_trust(target)

    async def look() -> int:
        status = 0
        async for target, leaves in snapshots(targets, choice):
            if isinstance(leaves, PausetraceError):
                print(printable(f"pausetrace: {target.name}: {leaves}"), file=sys.stderr)
                status = 1
                continue
            for line in leaf_lines(target.device, leaves, json_lines=args.output == "jsonl"):
                print(line)
        return status

    return asyncio.run(look())


def _tell_of_trust(target: Target) -> None:
    tls = target.endpoint.tls
    if tls is not None and tls.skip_verify:
        print(
            f"pausetrace: {target.name}: insecure_skip_verify: whoever answers there is trusted",
            file=sys.stderr,
            flush=True,
        )


def run_worker(_args: argparse.Namespace) -> int:
    """A worker of a supervisor."""
    from collectors.worker import work
    from pausetrace.collecting import run_worker as run

    run(work)
    return 0


@contextlib.contextmanager
def _metrics(args: argparse.Namespace) -> Iterator[CollectExporter | None]:
    """Serves /metrics for as long as the block, if that is wanted."""
    if args.metrics_port is None:
        yield None
        return
    from importlib.metadata import version

    from collectors.collect_metrics import CollectExporter
    from stream.metrics_server import MetricsServer

    exporter = CollectExporter(version("pausetrace"))
    with MetricsServer(exporter, args.metrics_port, args.metrics_host) as server:
        print(f"pausetrace: collect: metrics at {server.url}", file=sys.stderr, flush=True)
        yield exporter
