"""`pausetrace status`: how well the fabric is seen now."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_output_option, add_verb, kafka_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pausetrace.cli.options import Verbs


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "status", "say how complete, fresh and wide what is seen is, and who is silent", run,
        "Tells of every source how many of its rows came and how far it is behind, of every fabric which switches\n"
        "report and which are silent, and of hosts whose probes have trouble: what detect, correlate and the agents\n"
        "say on the health topic.",
        "Exit status 1 if something is not as it should be. docs/health.md says what each state means.",
    )  # fmt: skip
    add_output_option(parser, "table", "json")
    add_kafka_options(parser)


def run(args: argparse.Namespace) -> int:
    """Tells the status."""
    import time

    from pausetrace.status import health_values, status_of

    status = status_of(health_values(kafka_settings(args)), time.time_ns())
    if args.output == "json":
        import msgspec

        sys.stdout.write(msgspec.json.encode(status).decode() + "\n")
    else:
        from pausetrace.status_text import print_status
        from pausetrace.terminal import make_console

        print_status(status, make_console(sys.stdout))
    return int(status.troubled)
