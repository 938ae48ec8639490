"""`pausetrace probe`: the probes of this host, published to Kafka or shown here."""

from __future__ import annotations

import argparse
import contextlib
import sys

from pausetrace.cli.options import add_kafka_options, add_parent_option, add_verb, end_with_parent, load_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pausetrace.cli.options import Verbs
    from pausetrace.config import Loaded
    from probes.agent import AgentStatus
    from probes.output import Output
    from probes.promises import Promises
    from probes.settings import AgentSettings

FORMATS = ("table", "jsonl", "kafka")


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "probe", "watch this host: kernel latency, pause frames, NIC, PCIe, ...", run,
        "Runs probes of this host. With a Kafka (--bootstrap-servers, a variable or a file) what they see is\n"
        "published, until SIGTERM or Ctrl-C ends it; SIGHUP reads the configuration again. Without one, or with\n"
        "-o table or jsonl, it is shown here: a live table on a terminal, lines in a pipe.",
        "The first thing to try, as root:  pausetrace probe runqueue -o table\n"
        "Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; what lacks is told by:  pausetrace probe --list",
    )  # fmt: skip
    parser.add_argument(
        "probes",
        nargs="*",
        metavar="NAME",
        help="these probes alone, such as runqueue or 'pcie*' (default: all enabled)",
    )
    parser.add_argument("--list", action="store_true", help="say what runs on this host, and why the rest does not")
    parser.add_argument(
        "-o", "--output", metavar="FORMAT", choices=FORMATS,
        help="table, jsonl: show it here; kafka: publish it (default: kafka where one is named)",
    )  # fmt: skip
    parser.add_argument("--duration", metavar="TIME", help="stop after so long, such as 30s")
    parser.add_argument("--interval", metavar="TIME", help="window of every probe, such as 500ms")
    parser.add_argument("--threshold", metavar="TIME", help="tell latencies from here on one by one, such as 2ms")
    parser.add_argument("--attach", metavar="MODE", help="look at packets by auto, tcx, clsact or xdp-generic")
    parser.add_argument("--per-cpu", action="store_true", default=None, help="one histogram a CPU")
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[],
        help="watch this network interface only; patterns such as 'eth*' (repeatable)",
    )  # fmt: skip
    parser.add_argument("--host-root", metavar="DIR", help="where the host's /sys and /proc are (default: /)")
    parser.add_argument(
        "--hosts", metavar="DIR", help="be the agents of recorded hosts: each folder of DIR is a host of that name"
    )
    parser.add_argument("--device", metavar="NAME", help="what to call this host (default: its host name)")
    parser.add_argument("--fabric", metavar="NAME", help="the fabric that it belongs to (default: fabric)")
    parser.add_argument("--local", action="store_true", help="times of the local zone")
    parser.add_argument(
        "--metrics-port", metavar="N", type=int, help="serve /metrics for a Prometheus on this port (0: any)"
    )
    parser.add_argument(
        "--metrics-host", metavar="HOST", default="127.0.0.1",
        help="and at this address, without any protection (default: 127.0.0.1; 0.0.0.0 is everywhere)",
    )  # fmt: skip
    add_kafka_options(parser)
    add_parent_option(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the probes, or says which there are."""
    end_with_parent(args)
    loaded = _load(args)
    settings = _settings(args, loaded)
    if args.list:
        return _list(args, loaded)
    publish = _publishes(args, loaded)
    if args.hosts:
        return _run_hosts(args, loaded, settings, publish=publish)
    if args.probes:
        _require_available(settings)
    from probes.agent import Agent
    from probes.promises import Promises

    promises = Promises()
    with _signals(reloads=publish) as (stop, reload_asked), _metrics(args) as tell:
        output = _publisher(loaded, settings, promises) if publish else _shown(args, settings, promises)
        agent = Agent(
            settings, output, promises, reload=_reload(args, loaded), reload_asked=reload_asked, on_status=tell,
            give_up=not publish,
        )  # fmt: skip
        try:
            agent.run(stop, _duration_s(args))
        finally:
            if publish:
                _tell(agent.status)
    return 0


def _run_hosts(args: argparse.Namespace, loaded: Loaded, settings: AgentSettings, *, publish: bool) -> int:
    """Runs the agents of recorded hosts."""
    from pathlib import Path

    from pausetrace.kafka_access import settings_of
    from pausetrace.many_hosts import run_hosts
    from stream.errors import ConfigError

    if args.host_root or args.device or not publish:
        raise ConfigError(
            "--hosts takes the roots and names of hosts from its folders, and publishes what they tell",
            "give --bootstrap-servers, and leave --host-root, --device and -o out",
        )
    with _signals(reloads=False) as (stop, _):
        run_hosts(settings, Path(args.hosts), settings_of(loaded.config.kafka), stop, _duration_s(args))
    return 0


def _load(args: argparse.Namespace) -> Loaded:
    """The configuration; every flag of a probe stands for that setting of all probes that have it."""
    from probes.table import PROBES

    flags: dict[str, str | bool | None] = {
        "probes.fabric": args.fabric,
        "probes.device": args.device,
        "probes.interfaces": ",".join(args.interface) or None,
        "probes.host_root": args.host_root,
        "probes.per_cpu": args.per_cpu,
    }
    for kind in PROBES:
        flags[f"probes.{kind.name}.interval"] = args.interval
        if kind.threshold_ns:
            flags[f"probes.{kind.name}.threshold"] = args.threshold
        if kind.attach:
            flags[f"probes.{kind.name}.attach"] = args.attach
    return load_config(args, flags)


def _settings(args: argparse.Namespace, loaded: Loaded) -> AgentSettings:
    from pausetrace.probe_config import agent_settings
    from stream.errors import ConfigError

    settings = agent_settings(loaded.config.probes, args.probes)
    if not settings.root.is_dir():
        raise ConfigError(
            f"--host-root {settings.root} is no folder", "give the one that holds the host's sys and proc"
        )
    if not any((settings.root / name).is_dir() for name in ("sys", "proc")):
        raise ConfigError(
            f"--host-root {settings.root} holds neither sys nor proc", "give the folder that holds the host's"
        )
    if args.threshold and not any(own.threshold_ns for own in settings.probes.values()):
        raise ConfigError("--threshold: none of these probes has one", "leave it out")
    if args.attach and not any(own.attach for own in settings.probes.values()):
        raise ConfigError("--attach: packets alone has it, which is not among these probes", "leave it out")
    return settings


def _publishes(args: argparse.Namespace, loaded: Loaded) -> bool:
    """Whether it goes to Kafka; raises ConfigError where it is to, and nobody said where Kafka is."""
    from stream.errors import ConfigError

    named = any(s.key == "kafka.bootstrap_servers" and s.origin != "default" for s in loaded.settings)
    if args.output == "kafka" and not named:
        raise ConfigError(
            "-o kafka: nobody said where Kafka is",
            f"set bootstrap_servers in [kafka] of {loaded.file or 'a configuration file'}, or give --bootstrap-servers",
        )
    return named and args.output in (None, "kafka")


def _require_available(settings: AgentSettings) -> None:
    """Raises PausetraceError if none of the probes that were asked for by name can run here."""
    from probes.opening import TableOpener, none_runs
    from stream.errors import PausetraceError

    opener = TableOpener()
    reasons = {kind.name: opener.available(kind, settings.options(kind)) for kind in settings.kinds()}
    told = [(name, why) for name, why in reasons.items() if why is not None]
    if told and len(told) == len(reasons):
        if len(told) > 1:
            raise none_runs([(name, "; ".join(filter(None, why))) for name, why in told])
        ((name, why),) = told
        raise PausetraceError(f"probe {name} cannot run here: {why.reason}", why.fix)
    for name, why in told:
        print(f"pausetrace: probe {name} cannot run here: {why.reason}", file=sys.stderr)


def _duration_s(args: argparse.Namespace) -> float | None:
    from pausetrace.units import NS_PER_S, parse_duration
    from stream.errors import ConfigError

    if args.duration is None:
        return None
    try:
        duration_s = parse_duration(args.duration) / NS_PER_S
    except ValueError as err:
        raise ConfigError(f"--duration {args.duration} {err}") from None
    if duration_s <= 0:
        raise ConfigError(f"--duration {args.duration} leaves no time for a read", "give one such as 30s")
    return duration_s


def _list(args: argparse.Namespace, loaded: Loaded) -> int:
    from pausetrace.probe_list import show_json, show_table, standing

    rows = standing(loaded.config.probes, args.probes)
    if args.output == "jsonl":
        show_json(rows, sys.stdout)
    else:
        show_table(rows, sys.stdout)
    return 0


def _publisher(loaded: Loaded, settings: AgentSettings, promises: Promises) -> Output:
    from pausetrace.kafka_access import settings_of
    from probes.output import KafkaOutput

    return KafkaOutput(settings_of(loaded.config.kafka), settings.fabric, settings.device, promises)


def _shown(args: argparse.Namespace, settings: AgentSettings, promises: Promises) -> Output:
    from pausetrace.probe_view import JsonLines, LiveTables, PlainTables

    if args.output == "jsonl" or (args.output is None and not sys.stdout.isatty()):
        return JsonLines(sys.stdout, settings, promises, local=args.local)
    shown = LiveTables if sys.stdout.isatty() else PlainTables
    return shown(sys.stdout, settings, promises, local=args.local)


def _reload(args: argparse.Namespace, loaded: Loaded) -> Callable[[], AgentSettings]:
    """What reads the configuration again; flags hold as ever."""

    def reload() -> AgentSettings:
        again = _load(args)
        if again.config.kafka != loaded.config.kafka:
            print("pausetrace: probe: what changed in [kafka] is in force after a restart", file=sys.stderr, flush=True)
        return _settings(args, again)

    return reload


@contextlib.contextmanager
def _signals(*, reloads: bool) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Events to stop and to read the configuration again: SIGHUP asks for that, or ends where nothing is published."""
    import signal
    import threading

    stop, reload_asked = threading.Event(), threading.Event()

    def take(number: int, _frame: FrameType | None) -> None:
        (reload_asked if number == signal.SIGHUP and reloads else stop).set()

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop, reload_asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _metrics(args: argparse.Namespace) -> Iterator[Callable[[AgentStatus], None] | None]:
    """Serves /metrics for as long as the block, if that is wanted; the value takes the agent's status."""
    if args.metrics_port is None:
        yield None
        return
    from importlib.metadata import version

    from probes.agent_metrics import AgentExporter
    from stream.metrics_server import MetricsServer

    exporter = AgentExporter(version("pausetrace"))
    with MetricsServer(exporter, args.metrics_port, args.metrics_host) as server:
        print(f"pausetrace: probe: metrics at {server.url}", file=sys.stderr, flush=True)
        yield exporter.take


def _tell(status: AgentStatus) -> None:
    """What was done, at the end."""
    names = ("rows", "facts", "late_rows", "lost_rows", "refused_rows")
    told = [f"{status.counters.get(name, 0):,} {name.replace('_', ' ')}" for name in names if status.counters.get(name)]
    reads = sum(probe.reads for probe in status.probes)
    print(f"pausetrace: probe: {', '.join([f'{reads:,} reads', *told])}", file=sys.stderr)
