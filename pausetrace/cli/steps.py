"""`pausetrace detect` and `correlate`: the two steps as processes that work on Kafka until they are told to stop."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_verb, kafka_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading

    from pausetrace.cli.options import Verbs
    from stream.worker import Worker

AT_LEAST_ONCE = (
    "At least once for now: a restarted process reads again from the earliest offset and publishes the same results\n"
    "under the same identities. SIGTERM or Ctrl-C ends it."
)


def register(verbs: Verbs) -> None:
    """Adds the verbs."""
    detect = add_verb(
        verbs, "detect", "turn events into pause intervals (step 1, scales out)", run_detect,
        "Reads what sources publish and publishes pause intervals on the episode topic. Start several for more speed:\n"
        "they share the topics' partitions.",
        AT_LEAST_ONCE,
    )  # fmt: skip
    correlate = add_verb(
        verbs, "correlate", "join pause intervals to cascades (step 2, one a fabric)", run_correlate,
        "Reads pause intervals and facts and publishes cascades: numbered revisions at once, the final one when every\n"
        "stream has passed.",
        AT_LEAST_ONCE,
    )  # fmt: skip
    correlate.add_argument("--final-only", action="store_true", help="publish no provisional revisions")
    for parser in (detect, correlate):
        parser.add_argument("--no-follow", action="store_true", help="stop when everything there has been processed")
        parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
        add_kafka_options(parser)


def run_detect(args: argparse.Namespace) -> int:
    """Works as detect."""
    from analytics.detect import Detect
    from stream.topics import RAW
    from stream.worker import Worker, stop_on_signals

    settings = kafka_settings(args)
    with stop_on_signals() as stop:
        return _work(args, Worker(settings, Detect(), name="detect", topics=RAW, group="detect", stop=stop), stop)


def run_correlate(args: argparse.Namespace) -> int:
    """Works as correlate."""
    from analytics.correlate import Correlate
    from stream.published import read_cascades
    from stream.topics import FACTS
    from stream.worker import Worker, stop_on_signals

    settings = kafka_settings(args)
    step = Correlate(provisional=not args.final_only)
    step.recall(read_cascades(settings))
    print("pausetrace: correlate: run one alone: a second one publishes everything again", file=sys.stderr)
    with stop_on_signals() as stop:
        return _work(args, Worker(settings, step, name="correlate", topics=("episode", *FACTS), stop=stop), stop)


def _work(args: argparse.Namespace, worker: Worker, stop: threading.Event) -> int:
    if args.with_parent:
        _stop_with_parent(stop)
    try:
        worker.run(until_caught_up=args.no_follow)
    finally:
        worker.close()
        told = ", ".join(f"{count:,} {name}" for name, count in worker.counters.items() if count)
        print(f"pausetrace: {args.verb}: {told or 'nothing came'}", file=sys.stderr)
    return 0


def _stop_with_parent(stop: threading.Event) -> None:
    """Sets `stop` when stdin ends, which it does when the parent dies in whatever way."""
    import threading

    def wait() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=wait, daemon=True, name="parent").start()
