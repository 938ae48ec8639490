"""`pausetrace doctor`: whether this host can be watched, what is wrong with it, and what to do."""

from __future__ import annotations

import argparse
import sys

from pausetrace.cli.options import add_kafka_options, add_output_option, add_verb, load_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pausetrace.cli.options import Verbs
    from pausetrace.doctor import Finding

COLOURS = {"ok": "green", "absent": "dim", "warning": "yellow", "missing": "bold red"}


def register(verbs: Verbs) -> None:
    """Adds the verb."""
    parser = add_verb(
        verbs, "doctor", "say what keeps this host from being watched, and what to do", run,
        "Looks at the kernel, the NICs and their counters, PCIe links, the clock, Kafka, and at what a crashed agent\n"
        "left behind. It changes nothing.",
        "ok: as it should be; absent: not here, and no host needs it; warning: not as it should be;\n"
        "missing: needed and not here. Exit status 1 if something is missing.",
    )  # fmt: skip
    parser.add_argument(
        "--interface", metavar="NAME", action="append", default=[],
        help="look at this network interface only; patterns such as 'eth*' (repeatable)",
    )  # fmt: skip
    parser.add_argument("--host-root", metavar="DIR", help="where the host's /sys and /proc are (default: /)")
    add_output_option(parser, "table", "json")
    add_kafka_options(parser)


def run(args: argparse.Namespace) -> int:
    """Examines the host."""
    from pausetrace.doctor import Asked, examine, needs_something
    from pausetrace.kafka_access import settings_of
    from pausetrace.probe_config import agent_settings
    from probes.table import PROBES
    from stream.errors import EXIT_FAILURE, ConfigError

    loaded = load_config(
        args, {"probes.host_root": args.host_root, "probes.interfaces": ",".join(args.interface) or None}
    )
    settings = agent_settings(loaded.config.probes, [kind.name for kind in PROBES])
    if not settings.root.is_dir():
        raise ConfigError(
            f"--host-root {settings.root} is no folder", "give the one that holds the host's sys and proc"
        )
    told = any(s.key == "kafka.bootstrap_servers" and s.origin != "default" for s in loaded.settings)
    findings = examine(Asked(settings, settings_of(loaded.config.kafka) if told else None))
    if args.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(findings)).decode())
    else:
        _show(findings)
    return EXIT_FAILURE if needs_something(findings) else 0


def _show(findings: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pausetrace.plain_text import printable
    from pausetrace.terminal import make_console

    table = Table("", "", "", box=None, pad_edge=False, show_header=False)
    for finding in findings:
        says = Text(printable(finding.says))
        if finding.fix and finding.state != "ok":
            says.append(f"\n-> {printable(finding.fix)}", "dim" if finding.state == "absent" else "")
        table.add_row(Text(finding.state, COLOURS[finding.state]), Text(printable(finding.check)), says)
    make_console(sys.stdout).print(table)
