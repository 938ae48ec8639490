"""`pausetrace detect` and `correlate`: the two steps as processes that work on Kafka until they are told to stop."""

from __future__ import annotations

import argparse
import contextlib
import sys

from pausetrace.cli.options import add_kafka_options, add_verb, kafka_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from pausetrace.cli.options import Verbs
    from stream.exactly_once import Runner
    from stream.kafka_settings import KafkaSettings
    from stream.offset_gaps import PartitionId
    from stream.progress import Status
    from stream.worker import Worker

    OnStatus = Callable[[Status | None], None] | None

EXACTLY_ONCE = (
    "Exactly once on a real Kafka: results, state and offsets are committed together, and a restarted process goes on\n"
    "from there. On the embedded broker at least once: it reads again from the earliest offset and publishes the same\n"
    "results under the same identities. SIGTERM or Ctrl-C ends it."
)


def register(verbs: Verbs) -> None:
    """Adds the verbs."""
    detect = add_verb(
        verbs, "detect", "turn events into pause intervals (step 1, scales out)", run_detect,
        "Reads what sources publish and publishes pause intervals on the episode topic. Start several for more speed:\n"
        "they share the topics' partitions.",
        EXACTLY_ONCE,
    )  # fmt: skip
    correlate = add_verb(
        verbs, "correlate", "join pause intervals to cascades (step 2, one a fabric)", run_correlate,
        "Reads pause intervals and facts and publishes cascades: numbered revisions at once, the final one when every\n"
        "stream has passed.",
        EXACTLY_ONCE,
    )  # fmt: skip
    correlate.add_argument("--final-only", action="store_true", help="publish no provisional revisions")
    correlate.add_argument(
        "--source-deadline", metavar="SECONDS", type=float, default=10.0,
        help="wait for no stream that holds up the others for longer (default: 10; 0: wait for ever)",
    )  # fmt: skip
    for parser in (detect, correlate):
        parser.add_argument("--no-follow", action="store_true", help="stop when everything there has been processed")
        parser.add_argument(
            "--instance", default="", metavar="NAME",
            help="a name that this process alone has: after a restart it goes on at once instead of after 6 s",
        )  # fmt: skip
        parser.add_argument(
            "--metrics-port", metavar="N", type=int, help="serve /metrics for a Prometheus on this port (0: any)"
        )
        parser.add_argument(
            "--metrics-host", metavar="HOST", default="127.0.0.1",
            help="and at this address, without any protection (default: 127.0.0.1; 0.0.0.0 is everywhere)",
        )  # fmt: skip
        parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
        add_kafka_options(parser)


def run_detect(args: argparse.Namespace) -> int:
    """Works as detect."""
    from analytics.detect import Detect
    from stream.allocator import keep_freed_memory
    from stream.health_teller import HealthTeller
    from stream.kafka_settings import connect
    from stream.topics import RAW
    from stream.worker import Worker, stop_on_signals

    keep_freed_memory()
    settings = kafka_settings(args)
    with stop_on_signals() as stop, _metrics(args) as tell:
        if connect(settings).embedded:
            worker = Worker(
                settings, Detect(), name="detect", topics=RAW, group="detect", health=HealthTeller(settings, "detect"),
                stop=stop, on_status=tell,
            )  # fmt: skip
            return _work(args, worker, stop)
        runner = _runner(args, settings, stop, tell)
        return _run(args, runner, lambda: runner.detect(Detect, until_caught_up=args.no_follow), stop)


def run_correlate(args: argparse.Namespace) -> int:
    """Works as correlate."""
    from analytics.correlate import Correlate
    from analytics.warm_up import warm_up
    from stream.allocator import keep_freed_memory
    from stream.cost_limit import CostLimit
    from stream.health_teller import HealthTeller
    from stream.kafka_settings import connect
    from stream.published import read_cascades
    from stream.roster_keeper import RosterKeeper
    from stream.topics import FACTS
    from stream.worker import Worker, stop_on_signals

    keep_freed_memory()
    deadline_s = _source_deadline(args.source_deadline)
    settings = kafka_settings(args)

    def make() -> Correlate:
        return Correlate(provisional=not args.final_only, limit=CostLimit())

    def recall(step: Correlate, since: Mapping[PartitionId, int]) -> None:
        step.recall(read_cascades(settings, since))

    with stop_on_signals() as stop, _metrics(args) as tell:
        # Before it is a member of a group that waits for it.
        warm_up()
        if connect(settings).embedded:
            step = make()
            recall(step, {})
            print("pausetrace: correlate: run one alone: a second one publishes everything again", file=sys.stderr)
            topics = ("episode", *FACTS)
            keeper = RosterKeeper(settings, step, deadline_s, detect_commits=False) if deadline_s else None
            worker = Worker(
                settings, step, name="correlate", topics=topics, keeper=keeper,
                health=HealthTeller(settings, "correlate"), stop=stop, on_status=tell,
            )  # fmt: skip
            return _work(args, worker, stop)
        runner = _runner(args, settings, stop, tell, deadline_s)
        return _run(args, runner, lambda: runner.correlate(make, recall, until_caught_up=args.no_follow), stop)


def _source_deadline(seconds: float) -> float | None:
    from stream.errors import ConfigError

    if not (seconds == 0 or 1 <= seconds < float("inf")):
        raise ConfigError(f"--source-deadline {seconds:g} is no time to wait", "give 1 or more seconds, or 0 for ever")
    return seconds or None


def _runner(
    args: argparse.Namespace,
    settings: KafkaSettings,
    stop: threading.Event,
    tell: OnStatus,
    source_deadline_s: float | None = None,
) -> Runner:
    from stream.exactly_once import Runner

    return Runner(
        settings, instance=args.instance, stop=stop, on_status=tell,
        source_deadline_s=source_deadline_s, tells_health=True,
    )  # fmt: skip


@contextlib.contextmanager
def _metrics(args: argparse.Namespace) -> Iterator[OnStatus]:
    """Serves /metrics for as long as the block, if that is wanted; the value takes the worker's status."""
    if args.metrics_port is None:
        yield None
        return
    from importlib.metadata import version

    from stream.metrics import Exporter
    from stream.metrics_server import MetricsServer

    exporter = Exporter(args.verb, version("pausetrace"))
    with MetricsServer(exporter, args.metrics_port, args.metrics_host) as server:
        print(f"pausetrace: {args.verb}: metrics at {server.url}", file=sys.stderr, flush=True)
        yield exporter.take


def _run(args: argparse.Namespace, runner: Runner, work: Callable[[], None], stop: threading.Event) -> int:
    if args.with_parent:
        _stop_with_parent(stop)
    try:
        work()
    finally:
        _tell(args, runner.counters)
    return 0


def _work(args: argparse.Namespace, worker: Worker, stop: threading.Event) -> int:
    if args.with_parent:
        _stop_with_parent(stop)
    try:
        worker.run(until_caught_up=args.no_follow)
    finally:
        worker.close()
        _tell(args, worker.counters)
    return 0


def _tell(args: argparse.Namespace, counters: dict[str, int]) -> None:
    told = ", ".join(f"{count:,} {name}" for name, count in counters.items() if count)
    print(f"pausetrace: {args.verb}: {told or 'nothing came'}", file=sys.stderr)


def _stop_with_parent(stop: threading.Event) -> None:
    """Sets `stop` when stdin ends, which it does when the parent dies in whatever way."""
    import threading

    def wait() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=wait, daemon=True, name="parent").start()
